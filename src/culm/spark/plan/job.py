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

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from culm.errors import ConfigError
from culm.spark.plan.given import read_rows
from culm.spark.plan.planning import plan
from culm.spark.plan.tables import TABLES, PlanSummary
from culm.spark.runtime.onspark import OnSpark, SparkTable, frame_of
from culm.spark.runtime.shell import job


def run_plan(
    have: str,
    want: str,
    output: Path,
    *,
    sizes: str | None = None,
    peers: str | None = None,
    master: str = "local[*]",
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
    **settings: Any,  # noqa: ANN401 - as ``plan`` takes them
) -> PlanSummary:
    """Plan, and write the folder ``output``: all of it or, on failure, none.

    ``settings`` and the tables are those of ``culm.spark.plan.plan``. ``master``, ``overwrite``, ``progress`` and the
    errors are those of ``verification.job.run``.
    """
    given = {"have": have, "want": want, "sizes": sizes, "peers": peers}
    inputs = {name: Path(path).absolute() for name, path in given.items() if path is not None}
    for path in inputs.values():
        if not path.exists():
            raise ConfigError(f"{path}: there is no such file or folder")
    reads = inputs.values()
    with (
        job("plan", output, reads, mode=settings, overwrite=overwrite, progress=progress) as run,
        run.spark(master) as spark,
    ):
        tables: dict[str, Any] = {name: read_rows(spark, path) for name, path in inputs.items()}
        run.say("comparing what is held and what is wanted")
        planned = plan(spark, **tables, **settings)
        run.say("writing the plan")
        engine = OnSpark(spark, run.folder / "work")
        written: dict[str, Any] = {
            name: frame_of(SparkTable(engine, table, getattr(planned, name)).kept(run.folder / name))
            for name, table in TABLES.items()
        }
        return run.done(replace(planned, **written).summary())
