"""A sweep of simulations, from parameters to a folder of results: what ``culm spark simulate`` runs.

::

    OUTPUT/rounds/         Parquet: a row for each round (``culm.spark.simulate.ROUNDS``)
    OUTPUT/convergence/    Parquet: a row for each scenario (``culm.spark.simulate.CONVERGENCE``)
    OUTPUT/*.svg           charts: spread, coverage; rounds, bytes and seconds by nodes if there are several
    OUTPUT/summary.json    the scenarios and what they led to
"""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError
from culm.spark.output import SUMMARY, check_output, read_table, whole_folder, write_table
from culm.spark.running import running
from culm.spark.simulate.model import Scenario
from culm.spark.simulate.plots import charts
from culm.spark.simulate.scenarios import CONVERGENCE, ROUNDS, convergence, rounds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

MOST_SCENARIOS = 100_000
"""Scenarios of a sweep. Each is a task of Spark and a row on the driver; a few more values for each option multiply to
far more than anybody wants to wait for, so the mistake is caught here."""


def sweep_of(parameters: Mapping[str, Sequence[Any]]) -> list[Scenario]:
    """A scenario for every combination of the values.

    ``ConfigError`` if there are more than ``MOST_SCENARIOS``, or if one of them makes no sense.
    """
    count = 1
    for values in parameters.values():
        count *= len(values)
    if count > MOST_SCENARIOS:
        raise ConfigError(f"the options combine to {count} scenarios; accepted: at most {MOST_SCENARIOS}")
    return [Scenario(**dict(zip(parameters, values, strict=True))) for values in product(*parameters.values())]


def run_simulations(
    scenarios: Sequence[Scenario],
    output: Path,
    *,
    master: str = "local[*]",
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Run scenarios and write the folder ``output``: all of it or, on failure, none. Returns ``convergence``'s rows.

    ``master``, ``overwrite``, ``progress`` and the errors are those of ``culm.spark.job.run``.
    """
    say = progress or (lambda _line: None)
    output = output.absolute()
    if not scenarios:
        raise ConfigError("nothing to simulate: no scenario was given")
    check_output(output, overwrite=overwrite)
    with running(master, say) as spark, whole_folder(output) as folder:
        say("measuring what sessions cost")
        planned = rounds_of(spark, scenarios)
        say(f"simulating ({len(scenarios)} {'scenario' if len(scenarios) == 1 else 'scenarios'})")
        write_table(planned, folder / "rounds")
        rounds = read_table(spark, folder / "rounds", ROUNDS)
        write_table(convergence(spark, scenarios, rounds).coalesce(1), folder / "convergence")
        found = [row.asDict() for row in read_table(spark, folder / "convergence", CONVERGENCE).collect()]
        found.sort(key=lambda row: int(row["scenario"]))
        say("drawing the charts")
        for name, svg in charts((row.asDict() for row in rounds.collect()), found).items():
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        (folder / SUMMARY).write_text(json.dumps({"scenarios": found}, indent=2) + "\n", encoding="utf-8")
        return found
