"""Verifying entries with Spark: the verdicts of a node's store, for more logs than one machine takes.

Four steps, each a function from rows to rows::

    packed      bytes -> packs of entries of one block of a log, and rejects    culm.spark.gather
    segments    each entry once; hashes, signatures, links within the block     shuffle by block; culm.spark.segment
    outcomes    what the segments of a log make of each other: paths, forks     shuffle of summaries; culm.spark.merge
    judged      verdicts, a row for each entry                                  small join; culm.spark.verdicts

No step needs a whole log in one place. Blocks have a bounded number of entries, so that one log that holds half of
all entries is spread as evenly as many small ones; of a log only summaries meet in one task.

What ``segments`` gives is used twice, so it must not be computed twice: ``verify`` keeps it on the executors' disks,
``culm.spark.job`` in a Parquet table, which outlives an executor.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark.gather import PACKS, gather
from culm.spark.read import FOUND, from_splits
from culm.spark.segment import Signatures
from culm.spark.steps import OUTCOMES, SEGMENTS, SUMMARIES, VERDICTS, merged, pronounced, segmented

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.inputs import Split

REJECTS = "source STRING, offset BIGINT, reason STRING"
"""The columns of ``rejects``."""


def verify(spark: SparkSession, entries: DataFrame, *, signatures: str = "all") -> DataFrame:  # noqa: ARG001 - what every step here is given
    """The verdict on every distinct entry.

    ``entries`` is what ``read_entries`` or ``spark.read.format("culm")`` gives, or any DataFrame with a binary column
    ``encoded``; the other columns may be missing. What is no entry is left out: ``rejects`` has it. ``signatures`` is
    ``all`` or ``heads`` (``culm.spark.segment``).

    ============  =============  ==================================================================================
    author        BINARY         32 bytes
    log_id        DECIMAL(20,0)
    seqnum        DECIMAL(20,0)
    entry_hash    BINARY         YAMF-hash, 66 bytes
    size          DECIMAL(20,0)  of the payload, as the entry claims
    payload_hash  BINARY         66 bytes
    is_end        BOOLEAN        whether the entry ends its log
    payload       STRING         what is known of the payload from all copies (``culm.spark.payload.STATES``)
    verdict       STRING         ``verified``, ``unverified`` or ``invalid``
    reason        STRING         why not verified; null if it is
    copies        BIGINT         how many rows held this entry
    ============  =============  ==================================================================================

    Lazy, as DataFrames are; with the first action the segments are kept on disk until the session ends or its cache
    is cleared, so that signatures are checked once.
    """
    from pyspark import StorageLevel

    kept = segments(packed(entries), chosen(signatures)).persist(StorageLevel.DISK_ONLY)
    return judged(kept, outcomes(kept))


def rejects(entries: DataFrame) -> DataFrame:
    """What ``verify`` leaves out: ``source``, ``offset`` and ``reason`` of everything that could not be read."""
    return rejected(packed(entries))


def chosen(signatures: str) -> Signatures:
    """The way of checking signatures of that name; ``ConfigError`` if there is none."""
    try:
        return Signatures(signatures)
    except ValueError:
        names = " or ".join(way.value for way in Signatures)
        raise ConfigError(f"signatures can be {names}, not {signatures!r}") from None


# -- the steps ---------------------------------------------------------------------------------------------------


def packed(entries: DataFrame) -> DataFrame:
    """The entries of each block that a task has seen, as packs; and what is no entry, with the reason."""
    from pyspark.sql import functions

    given = set(entries.columns)
    if "encoded" not in given:
        raise ConfigError("a DataFrame of entries needs a binary column 'encoded'")
    columns = [
        functions.col(name) if name in given else functions.lit(None).cast(kind).alias(name)
        for name, kind in FOUND.types.items()
    ]
    return entries.select(columns).mapInArrow(gather, PACKS.ddl)


def packed_splits(spark: SparkSession, splits: list[Split], folder: Path | None = None) -> DataFrame:
    """``packed`` for inputs that were looked at before; rows do not pass through Spark between reading and packing.

    The packs lie in files in ``folder``, if there is one (``culm.spark.slices``).
    """
    return from_splits(spark, splits, partial(gather, folder=folder), PACKS)


def rejected(table: DataFrame) -> DataFrame:
    """The rejects among packs or segments."""
    return table.where("reason IS NOT NULL").select("source", "offset", "reason")


def by_block(packs: DataFrame, tasks: int | None = None) -> DataFrame:
    """The packs of each block together: what ``culm.spark.steps.segmented`` takes.

    ``tasks`` says how many tasks there are; Spark cannot know how much work there is in packs that lie in files.
    """
    block = ("author", "log", "block")
    spread = packs.repartition(*block) if tasks is None else packs.repartition(tasks, *block)
    return spread.sortWithinPartitions(*block)


def segments(packs: DataFrame, signatures: Signatures, *, keep: bool = False) -> DataFrame:
    """The segments that the packs make, with the entries themselves if they are to be kept; rejects pass through."""
    return by_block(packs).mapInArrow(segmented(signatures, keep=keep), SEGMENTS.ddl)


def by_log(segments: DataFrame, tasks: int | None = None) -> DataFrame:
    """The summaries of the segments of each log together, in order: what ``culm.spark.steps.merged`` takes."""
    found = segments.where("summary IS NOT NULL").select(*SUMMARIES.names)
    spread = found.repartition("author", "log") if tasks is None else found.repartition(tasks, "author", "log")
    return spread.sortWithinPartitions("author", "log", "low")


def outcomes(segments: DataFrame) -> DataFrame:
    """What the rest of its log makes of each segment."""
    return by_log(segments).mapInArrow(merged(), OUTCOMES.ddl)


def joined(segments: DataFrame, outcomes: DataFrame) -> DataFrame:
    """The segments with their outcomes: what ``culm.spark.steps.pronounced`` takes."""
    from pyspark.sql import functions

    previous = functions.lit(None).cast("BINARY").alias("previous")
    found = segments.select("author", "log", "low", "summary", "findings").join(outcomes, ["author", "log", "low"])
    return found.select("author", "log", "low", "summary", "findings", "outcome", previous)


def judged(segments: DataFrame, outcomes: DataFrame) -> DataFrame:
    """The verdicts on the entries of all segments."""
    return joined(segments, outcomes).mapInArrow(pronounced, VERDICTS.ddl)
