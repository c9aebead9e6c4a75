"""A sweep of simulations, from scenarios to a folder of results: what ``culm simulate`` runs.

::

    OUTPUT/rounds/         Parquet: a row for each round (``culm.simulation.Simulation``)
    OUTPUT/convergence/    Parquet: a row for each scenario
    OUTPUT/*.svg           charts: spread, coverage; rounds, bytes and seconds by nodes if there are several
    OUTPUT/summary.json    the scenarios and what they led to
"""

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from culm.errors import ConfigError
from culm.results import SUMMARY, check_output, whole_folder
from culm.simulation.scenario import Scenario
from culm.simulation.sweep import run_scenarios

_KINDS = {
    "string": "protocol direction",
    "double": "seconds coverage loss leave rejoin bandwidth latency interval seconds_99 seconds_all share",
    "int32": "round degree fanout origins max_rounds rounds rounds_half rounds_99 rounds_all",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}  # All other columns are int64.


def run_simulations(
    scenarios: Sequence[Scenario],
    output: Path,
    *,
    processes: int | None = None,
    overwrite: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Run scenarios and write the folder ``output``: all of it or, on failure, none. Returns the convergence's rows.

    ``progress`` is called with a line when a part of the work begins; if it has a method ``tasks``, that is called with
    the number of scenarios that were run, and of all. ``ConfigError`` if there is nothing to simulate, if ``output``
    cannot be written, or is there and ``overwrite`` is false, and if a package is missing that writes or draws.
    """
    output = output.absolute()
    if not scenarios:
        raise ConfigError("nothing to simulate: no scenario was given")
    check_output(output, overwrite=overwrite)
    for package in ("pyarrow", "matplotlib"):
        if find_spec(package) is None:
            raise ConfigError(f'tables and charts need {package}, which is not installed: pip install "culm[spark]"')
    import pyarrow as pa  # noqa: PLC0415 - only now is it known that the packages are there
    from pyarrow import parquet  # noqa: PLC0415

    from culm.simulation.plots import charts  # noqa: PLC0415

    with whole_folder(output) as folder:
        progress(f"simulating ({len(scenarios)} {'scenario' if len(scenarios) == 1 else 'scenarios'})")
        ran = getattr(progress, "tasks", lambda *_: None)
        found = run_scenarios(scenarios, processes=processes, ran=ran)
        ran(0, 0)
        for name, rows in (("rounds", found.rounds), ("convergence", found.convergence)):
            columns = pa.schema([(column, _KIND_OF.get(column, "int64")) for column in rows[0]])
            (folder / name).mkdir()
            parquet.write_table(pa.Table.from_pylist(rows, columns), folder / name / "part-0.parquet")
        progress("drawing the charts")
        for name, svg in charts(found).items():
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        (folder / SUMMARY).write_text(json.dumps({"scenarios": found.convergence}, indent=2) + "\n", encoding="utf-8")
    return found.convergence
