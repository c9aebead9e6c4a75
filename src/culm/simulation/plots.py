"""Charts of simulations. Runs that differ only in their seed are one line, their mean."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import fmean
from typing import Any

from culm.charts import Series, Strip, line_chart, strip_chart
from culm.simulation.scenario import PARAMETERS
from culm.simulation.sweep import Simulation

Row = Mapping[str, Any]
Value = Callable[[Row], float | None]

_WORDS = {"leave": "churn", "log_entries": "entries a log"}  # parameters whose names on the command line are clearer
MOST_LINES = 24  # in one chart, which has 8 colours and 4 kinds of dashes; of more scenarios the first are shown

_BY_NODES: dict[str, tuple[str, str, Value]] = {
    "rounds": ("Rounds until every node knows everything", "rounds", lambda row: row["rounds_all"]),
    "bytes": ("Bytes a node sends and receives", "bytes a node", lambda row: 2 * row["bytes"] / row["nodes"]),
    "seconds": ("Time until every node knows everything", "seconds", lambda row: row["seconds_all"]),
}
"""Charts by the number of nodes: title, label of the axis, value of a scenario (None: it is left out)."""


def charts(found: Simulation) -> dict[str, str]:
    """All charts as SVG, by the names of their files without ``.svg``.

    Those by the number of nodes are made only if the scenarios have several.
    """
    scenarios = found.convergence
    names = varied(scenarios)
    runs: defaultdict[str, list[list[Row]]] = defaultdict(list)
    for number, rows in groupby(found.rounds, itemgetter("scenario")):
        runs[label(scenarios[number], names)].append(list(rows))
    shown = list(runs.items())[:MOST_LINES]
    spread = [
        Series(name, list(enumerate(_mean(of_name, lambda row: row["informed"] / scenarios[row["scenario"]]["nodes"]))))
        for name, of_name in shown
    ]
    longest = max(len(run) for of_name in runs.values() for run in of_name)
    coverage = [Strip(name, _mean(of_name, lambda row: row["coverage"], longest)) for name, of_name in shown]
    step = next(
        step for power in range(9) for step in (10**power, 2 * 10**power, 5 * 10**power) if longest <= 10 * step
    )
    ticks = [(at, str(at)) for at in range(0, longest, step)]
    made = {
        "spread": line_chart("Nodes that know everything", spread, x_label="round", y_label="share of all nodes"),
        "coverage": strip_chart("Share of the new entries that nodes know", coverage, x_label="round", x_ticks=ticks),
    }
    if "nodes" in names:
        made |= {name: _by_nodes(scenarios, *chart) for name, chart in _BY_NODES.items()}
    return made


def varied(scenarios: Iterable[Row]) -> list[str]:
    """The parameters in which scenarios differ, the seed aside."""
    rows = list(scenarios)
    return [name for name in PARAMETERS if name != "seed" and len({row[name] for row in rows}) > 1]


def label(row: Row, names: Iterable[str]) -> str:
    """The name of a scenario in a legend: its values of these parameters; the protocol if there are none."""
    return ", ".join(_said(name, row[name]) for name in names) or str(row["protocol"])


def _said(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,} nodes" if name == "nodes" else f"{_WORDS.get(name, name)} {value:g}"


def _mean(runs: Sequence[Sequence[Row]], value: Callable[[Row], float], length: int = 0) -> list[float]:
    """The mean of runs, by round. A run that has ended keeps its last value, also up to ``length``."""
    length = max(length, *map(len, runs))
    return [fmean(value(run[min(at, len(run) - 1)]) for run in runs) for at in range(length)]


def _by_nodes(scenarios: Sequence[Row], title: str, y_label: str, value: Value) -> str:
    names = [name for name in varied(scenarios) if name not in ("nodes", "degree")]
    found: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in scenarios:
        if (number := value(row)) is not None:
            found[label(row, names)][row["nodes"]].append(number)
    series = [Series(name, [(at, fmean(found[name][at])) for at in sorted(found[name])]) for name in found]
    return line_chart(title, series[:MOST_LINES], x_label="nodes", y_label=y_label, x_log=True)
