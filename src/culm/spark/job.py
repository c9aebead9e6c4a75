"""The whole verification, from paths to a folder of results: what ``culm spark verify`` runs.

::

    OUTPUT/verdicts/       Parquet: a row for each distinct entry (columns: ``culm.spark.verify``)
    OUTPUT/rejects/        Parquet: source, offset, reason of what could not be read
    OUTPUT/summary.json    the counts

Two Parquet tables stand between the stages, in a folder ``work`` that is removed at the end. The first holds what was
read: rejects and verdicts both come from it, so that inputs are read once, even those that change meanwhile. The
second holds the findings on the logs, which are needed twice (see ``culm.spark.verify``). Writing them costs little
beside the signatures; in exchange nothing is ever computed again, even if an executor dies.

On a cluster, inputs and output must be under the same paths on every machine.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark import steps
from culm.spark.failures import one_line_failures
from culm.spark.inputs import plan
from culm.spark.output import SUMMARY, check_output, local_url, whole_folder
from culm.spark.payload import MISMATCH, SIZE_MISMATCH
from culm.spark.read import read_splits
from culm.spark.summary import Summary
from culm.spark.verify import checked, decoded, judged, limits, rejected, unique, walked
from culm.spark.walk import INVALID, UNVERIFIED, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.columns import Columns
    from culm.spark.inputs import Split


def run(
    inputs: Sequence[str],
    output: Path,
    *,
    master: str = "local[*]",
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Summary:
    """Verify the entries of stores and export files, and write the folder ``output``: all of it or, on failure, none.

    ``master`` is Spark's (``local[4]``, ``spark://host:7077``); a session that is active already is used instead and
    left running. ``overwrite`` lets earlier results at ``output`` be replaced. ``progress`` is called with one line for
    each stage.

    ``ConfigError`` or ``StoreError``, before Spark is started, for inputs that cannot be read and an output that cannot
    be written; ``ConfigError`` if Spark or Java is not there, or not the master; ``CulmError`` if Spark fails on the way.
    """
    started = time.monotonic()
    say = progress or _silent
    output = output.absolute()
    splits = plan(inputs)
    check_output(output, overwrite=overwrite)
    for path in inputs if overwrite else ():
        if Path(path).resolve().is_relative_to(output.resolve()):
            raise ConfigError(f"{path}: an input inside the output {output}, which is to be replaced")
    say(f"starting Spark ({master})")
    with one_line_failures(), session_for(master) as spark, whole_folder(output) as folder:
        summary = _verify(spark, splits, folder, say, started)
    return summary


def _silent(_line: str) -> None:
    pass


def _verify(
    spark: SparkSession, splits: list[Split], folder: Path, say: Callable[[str], None], started: float
) -> Summary:
    work = folder / "work"
    say(f"reading the inputs ({len(splits)} {'task' if len(splits) == 1 else 'tasks'})")
    records = _kept(spark, decoded(read_splits(spark, splits)), work / "records", steps.DECODED)
    _write(rejected(records).orderBy("source", "offset", "reason"), folder / "rejects")
    say("checking signatures, then paths and forks log by log")
    findings = _kept(spark, walked(checked(unique(records))), work / "findings", steps.FINDINGS)
    say("writing the verdicts")
    _write(judged(findings), folder / "verdicts")
    say("counting")
    counted = _counted(spark, folder, findings)
    summary = Summary(**counted, seconds=round(time.monotonic() - started, 3))
    text = json.dumps(summary.as_dict(), indent=2)
    (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
    rmtree(work)
    return summary


def _counted(spark: SparkSession, folder: Path, findings: DataFrame) -> dict[str, int]:
    verdicts = spark.read.parquet(local_url(folder / "verdicts"))
    entries: dict[str, int] = {}
    mismatches = 0
    for verdict, payload, count in verdicts.groupBy("verdict", "payload").count().collect():
        entries[verdict] = entries.get(verdict, 0) + count
        mismatches += count if payload in (MISMATCH, SIZE_MISMATCH) else 0
    return {
        "entries": sum(entries.values()),
        "verified": entries.get(VERIFIED, 0),
        "unverified": entries.get(UNVERIFIED, 0),
        "invalid": entries.get(INVALID, 0),
        "forks": limits(findings).where("forked").count(),
        "payload_mismatches": mismatches,
        "rejects": spark.read.parquet(local_url(folder / "rejects")).count(),
    }


def _write(table: DataFrame, folder: Path) -> None:
    table.write.parquet(local_url(folder))


def _kept(spark: SparkSession, table: DataFrame, folder: Path, columns: Columns) -> DataFrame:
    """The same rows, computed now, from the disk."""
    _write(table, folder)
    return spark.read.schema(columns.ddl).parquet(local_url(folder))
