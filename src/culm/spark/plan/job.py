"""A whole plan, from paths to a folder of results: what ``culm spark plan`` runs.

::

    OUTPUT/transfers/      Parquet: who fetches what from whom (columns: ``culm.spark.plan.Plan``)
    OUTPUT/unserved/       Parquet: what is wanted and nobody can give
    OUTPUT/loads/          Parquet: what each peer gives and gets
    OUTPUT/rejects/        Parquet: rows that could not be read, and why
    OUTPUT/summary.json    the numbers of ``culm.spark.plan.PlanSummary``

Inputs are folders of Parquet files, or files of comma-separated values (with a first line of names) or JSON lines; the
end of a file's name tells which. As text, authors are base62 or hex, and ranges are written as for ``culm ranges``,
with ``;`` between several.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark.output import SUMMARY, check_not_inside, kept, whole_folder
from culm.spark.plan.given import read_rows
from culm.spark.plan.planning import BUCKETS, plan
from culm.spark.plan.tables import TABLES
from culm.spark.running import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.spark.plan.tables import PlanSummary


def run_plan(
    have: str,
    want: str,
    output: Path,
    *,
    sizes: str | None = None,
    peers: str | None = None,
    capacity: int | None = None,
    rounds: int = 1,
    buckets: int = BUCKETS,
    master: str = "local[*]",
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> PlanSummary:
    """Plan, and write the folder ``output``: all of it or, on failure, none. See ``culm.spark.plan.plan``.

    ``master``, ``overwrite``, ``progress`` and the errors are those of ``culm.spark.job.run``.
    """
    say = progress or (lambda _line: None)
    output = output.absolute()
    inputs = {path: _existing(path) for path in (have, want, sizes, peers) if path is not None}
    for found in inputs.values():
        check_not_inside(found, output, overwrite=overwrite)
    with running(master, say) as spark, whole_folder(output) as folder:
        tables = {path: read_rows(spark, found) for path, found in inputs.items()}
        say("comparing what is held and what is wanted")
        planned = plan(
            spark,
            tables[have],
            tables[want],
            sizes=None if sizes is None else tables[sizes],
            peers=None if peers is None else tables[peers],
            capacity=capacity,
            rounds=rounds,
            buckets=buckets,
        )
        say("writing the plan")
        written = {name: kept(getattr(planned, name), folder / name, schema) for name, schema in TABLES.items()}
        summary = replace(
            planned,
            transfers=written["transfers"],
            unserved=written["unserved"],
            loads=written["loads"],
            rejects=written["rejects"],
        ).summary()
        text = json.dumps(summary.as_dict(), indent=2)
        (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
        return summary


def _existing(path: str) -> Path:
    found = Path(path).absolute()
    if not found.exists():
        raise ConfigError(f"{path}: there is no such file or folder")
    return found
