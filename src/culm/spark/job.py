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
from culm.spark.inputs import plan
from culm.spark.output import SUMMARY, check_output, read_table, whole_folder, write_from_workers, write_table
from culm.spark.payload import MISMATCH, SIZE_MISMATCH
from culm.spark.running import running, silent
from culm.spark.steps import OUTCOMES, SEGMENTS, VERDICTS, pronounced
from culm.spark.summary import Summary
from culm.spark.verdicts import INVALID, UNVERIFIED, VERIFIED
from culm.spark.verify import REJECTS, chosen, forked_logs, joined, outcomes, packed_splits, rejected, segments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.inputs import Split
    from culm.spark.segment import Signatures


def run(
    inputs: Sequence[str],
    output: Path,
    *,
    master: str = "local[*]",
    overwrite: bool = False,
    signatures: str = "all",
    progress: Callable[[str], None] | None = None,
) -> Summary:
    """Verify the entries of stores and export files, and write the folder ``output``: all of it or, on failure, none.

    ``master`` is Spark's (``local[4]``, ``spark://host:7077``); a session that is active already is used instead and
    left running. ``overwrite`` lets earlier results at ``output`` be replaced. ``signatures`` is ``all`` or ``heads``
    (``culm.spark.segment``). ``progress`` is called with one line for each stage.

    ``ConfigError`` or ``StoreError``, before Spark is started, for inputs that cannot be read and an output that
    cannot be written; ``ConfigError`` if Spark, Java or the master is not there; ``CulmError`` if Spark fails.
    """
    started = time.monotonic()
    say = progress or silent
    way = chosen(signatures)
    output = output.absolute()
    splits = plan(inputs)
    check_output(output, overwrite=overwrite)
    for path in inputs if overwrite else ():
        if Path(path).resolve().is_relative_to(output.resolve()):
            raise ConfigError(f"{path}: an input inside the output {output}, which is to be replaced")
    with running(master, say) as spark, whole_folder(output) as folder:
        return _verify(spark, splits, way, folder, say, started)


def _verify(
    spark: SparkSession,
    splits: list[Split],
    signatures: Signatures,
    folder: Path,
    say: Callable[[str], None],
    started: float,
) -> Summary:
    work = folder / "work"
    say(f"reading the inputs ({len(splits)} {'task' if len(splits) == 1 else 'tasks'}), checking signatures")
    found = _kept(spark, segments(packed_splits(spark, splits), signatures), work / "segments", SEGMENTS.ddl)
    refused = rejected(found).orderBy("source", "offset", "reason")
    refused = _kept(spark, refused, folder / "rejects", REJECTS)
    say("looking for paths and forks, log by log")
    reached = _kept(spark, outcomes(found), work / "outcomes", OUTCOMES.ddl)
    say("writing the verdicts")
    write_from_workers(joined(found, reached), pronounced, VERDICTS, folder / "verdicts")
    verdicts = read_table(spark, folder / "verdicts", VERDICTS.ddl)
    say("counting")
    counts = _counted(verdicts, reached, refused)
    summary = Summary(**counts, seconds=round(time.monotonic() - started, 3))
    text = json.dumps(summary.as_dict(), indent=2)
    (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
    rmtree(work)
    return summary


def _counted(verdicts: DataFrame, outcomes: DataFrame, refused: DataFrame) -> dict[str, int]:
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
        "forks": forked_logs(outcomes).count(),
        "payload_mismatches": mismatches,
        "rejects": refused.count(),
    }


def _kept(spark: SparkSession, table: DataFrame, folder: Path, schema: str) -> DataFrame:
    """The same rows, computed now, from the disk."""
    write_table(table, folder)
    return read_table(spark, folder, schema)
