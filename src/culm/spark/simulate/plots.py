"""Charts of simulations. Runs that differ only in their seed are one line, their mean.

Rows are dictionaries with the columns of ``culm.spark.simulate.ROUNDS`` and ``CONVERGENCE``.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

from culm.charts import Series, Strip, line_chart, strip_chart
from culm.spark.simulate.model import NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Row = Mapping[str, Any]

_WORDS = {"leave": "churn", "log_entries": "entries a log"}  # parameters whose names on the command line are clearer
MOST_LINES = 24  # in one chart, which has 8 colours and 4 kinds of dashes; of more scenarios the first are shown


def charts(rounds: Iterable[Row], convergence: Sequence[Row]) -> dict[str, str]:
    """All charts as SVG, by the names of their files without ``.svg``.

    Those by the number of nodes are made only if the scenarios have several.
    """
    named = {row["scenario"]: row for row in convergence}
    of_scenario: defaultdict[int, list[Row]] = defaultdict(list)
    for row in sorted(rounds, key=lambda row: (row["scenario"], row["round"])):
        of_scenario[row["scenario"]].append(row)
    found = {
        "spread": spread_chart(named, of_scenario),
        "coverage": coverage_chart(named, of_scenario),
    }
    if len({row["nodes"] for row in convergence}) > 1:
        found["rounds"] = by_nodes(convergence, "Rounds until every node knows everything", "rounds", _rounds)
        found["bytes"] = by_nodes(
            convergence, "Bytes a node sends and receives", "bytes a node", lambda row: 2 * row["bytes"] / row["nodes"]
        )
        found["seconds"] = by_nodes(
            convergence, "Time until every node knows everything", "seconds", lambda row: row["seconds_all"]
        )
    return found


def varied(convergence: Iterable[Row]) -> list[str]:
    """The parameters in which scenarios differ, the seed aside."""
    rows = list(convergence)
    return [name for name in NAMES if name != "seed" and len({row[name] for row in rows}) > 1]


def label(row: Row, names: Iterable[str]) -> str:
    """The name of a scenario in a legend: its values of these parameters; the protocol if there are none."""
    return ", ".join(_said(name, row[name]) for name in names) or str(row["protocol"])


def _said(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,} nodes" if name == "nodes" else f"{_WORDS.get(name, name)} {value:g}"


def spread_chart(named: Mapping[int, Row], of_scenario: Mapping[int, Sequence[Row]]) -> str:
    """A line chart: the share of nodes that know everything, by round."""
    lines = _means(named, of_scenario, lambda scenario, row: row["informed"] / scenario["nodes"])
    series = [Series(name, list(enumerate(values))) for name, values in lines.items()]
    return line_chart("Nodes that know everything", series[:MOST_LINES], x_label="round", y_label="share of all nodes")


def coverage_chart(named: Mapping[int, Row], of_scenario: Mapping[int, Sequence[Row]]) -> str:
    """A strip chart: the mean share of the new entries that nodes know, by round."""
    lines = _means(named, of_scenario, lambda _scenario, row: row["coverage"])
    longest = max(map(len, lines.values()))
    strips = [
        Strip(name, values + [values[-1]] * (longest - len(values)))
        for name, values in list(lines.items())[:MOST_LINES]
    ]
    step = next(
        step for power in range(9) for step in (10**power, 2 * 10**power, 5 * 10**power) if longest <= 10 * step
    )
    ticks = [(at, str(at)) for at in range(0, longest, step)]
    return strip_chart("Share of the new entries that nodes know", strips, x_label="round", x_ticks=ticks)


def by_nodes(convergence: Sequence[Row], title: str, y_label: str, value: Callable[[Row], float | None]) -> str:
    """A line chart of a value of each scenario, by the number of nodes; scenarios whose value is None are left out."""
    names = [name for name in varied(convergence) if name not in ("nodes", "degree")]
    found: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in convergence:
        number = value(row)
        if number is not None:
            found[label(row, names)][row["nodes"]].append(number)
    series = [
        Series(name, [(nodes, fmean(values)) for nodes, values in sorted(points.items())])
        for name, points in found.items()
    ]
    return line_chart(title, series[:MOST_LINES], x_label="nodes", y_label=y_label, x_log=True)


def _rounds(row: Row) -> float | None:
    value: float | None = row["rounds_all"]
    return value


def _means(
    named: Mapping[int, Row], of_scenario: Mapping[int, Sequence[Row]], value: Callable[[Row, Row], float]
) -> dict[str, list[float]]:
    """The mean of the runs that differ in their seed only, by round. A run that has ended keeps its last value."""
    names = varied(named.values())
    runs: defaultdict[str, list[list[float]]] = defaultdict(list)
    for number, rows in of_scenario.items():
        scenario = named[number]
        runs[label(scenario, names)].append([value(scenario, row) for row in rows])
    means = {}
    for name, of_name in runs.items():
        longest = max(map(len, of_name))
        padded = [run + [run[-1]] * (longest - len(run)) for run in of_name]
        means[name] = [fmean(at) for at in zip(*padded, strict=True)]
    return means
