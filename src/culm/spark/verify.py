"""Verifying entries with Spark: the verdicts of a node's store, for more logs than one machine can hold.

The verdict on an entry depends on its whole log: the entry needs a path of links down to entry 1, and no fork may lie
below it. The simple way is to bring each log to one worker, which walks it from entry 1. That fails as soon as one log
is large: a log with half of all entries keeps one worker busy while the others wait, and may not fit into its memory.
Joining entries with the entries they link to has no such limit, but shuffles every entry twice.

So a log is cut into *blocks* of 4,096 sequence numbers (``culm.spark.pack``), which are verified apart from each
other. That works because links never cross (``culm.bamboo.lipmaa``): few links leave a block, however many entries it
has. Of the entries 4096 to 8191, for example, all links that lead out of the block go to the five entries 3280, 4008,
4088, 4092 and 4095. What the block expects of these, and what it offers to the blocks above, is its *summary*: a few
kilobytes at most. Only the summaries of a log meet in one task.

Four steps, each a function from rows to rows::

    packed      bytes -> packs of entries of one block of a log, and rejects    culm.spark.gather
    segments    each entry once; hashes, signatures, links within the block     shuffle by block; culm.spark.segment
    outcomes    paths and forks between the segments of a log                   shuffle of summaries; culm.spark.merge
    judged      verdicts, a row for each entry                                  small join; culm.spark.verdicts

Two steps use what ``segments`` gives. It must not be computed twice, because that would check every signature twice:
``verify`` keeps it on the executors' disks, ``culm.spark.job`` in a Parquet table, which outlives an executor.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark.gather import PACKS, gather
from culm.spark.output import kept_from_workers
from culm.spark.reading import FOUND, from_splits
from culm.spark.segment import Signatures
from culm.spark.steps import (
    OUTCOMES,
    SEGMENTS,
    SUMMARIES,
    VERDICTS,
    is_unsure,
    merged,
    pronounced,
    segmented,
    vouched,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from culm.spark.inputs import Split

REJECTS = "source STRING, offset BIGINT, reason STRING"
"""The columns of ``rejects``."""


def verify(entries: DataFrame, *, signatures: str = "all") -> DataFrame:
    """The verdict on every distinct entry.

    ``entries`` is what ``read_entries`` or ``spark.read.format("culm")`` gives, or any DataFrame with a binary column
    ``encoded``; the other columns may be missing. Rows that are not entries are left out: see ``rejects``.
    ``signatures`` is ``all`` or ``heads`` (``culm.spark.segment``). ``ConfigError`` if the column is missing or
    ``signatures`` is something else.

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
    certified     BOOLEAN        whether all of the entry's certificate pool is verified, as far as the log reaches
    reason        STRING         why not verified; null if it is
    copies        BIGINT         how many rows held this entry
    ============  =============  ==================================================================================

    Lazy, as DataFrames are. The first action keeps the segments on disk until the session ends or its cache is
    cleared, so that later actions check no signature again.
    """
    from pyspark import StorageLevel

    ways = chosen(signatures)
    kept = segments(packed(entries), ways).persist(StorageLevel.DISK_ONLY)
    found = settled(kept, ways)
    return judged(found, outcomes(found))


def rejects(entries: DataFrame) -> DataFrame:
    """What ``verify`` leaves out: ``source``, ``offset`` and ``reason`` of everything that could not be read."""
    return rejected(packed(entries))


def chosen(signatures: str) -> Signatures:
    """The way of checking signatures that ``all`` or ``heads`` names; ``ConfigError`` for any other name."""
    try:
        return Signatures(signatures)
    except ValueError:
        names = " or ".join(way.value for way in Signatures)
        raise ConfigError(f"signatures must be {names}, not {signatures!r}") from None


# -- the steps ---------------------------------------------------------------------------------------------------


def packed(entries: DataFrame) -> DataFrame:
    """The entries of each block that a task has seen, as packs; and rejects, each with its reason.

    ``ConfigError`` if the DataFrame has no column ``encoded``.
    """
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
    """``packed`` for splits of inputs. Rows do not pass through Spark between reading and packing.

    With a ``folder`` the bytes of the packs are written there, and the rows say where (``culm.spark.slices``).
    """
    return from_splits(spark, splits, partial(gather, folder=folder), PACKS)


def rejected(table: DataFrame) -> DataFrame:
    """The rejects among packs or segments."""
    return table.where("reason IS NOT NULL").select("source", "offset", "reason")


def by_block(packs: DataFrame, tasks: int | None = None) -> DataFrame:
    """The packs of each block together: what ``culm.spark.steps.segmented`` takes.

    ``tasks``: how many tasks share the work. None leaves that to Spark, which goes by the size of the rows. Name a
    number where the packs lie in files, because their rows are then small and say nothing about the work.
    """
    block = ("author", "log", "block")
    spread = packs.repartition(*block) if tasks is None else packs.repartition(tasks, *block)
    return spread.sortWithinPartitions(*block)


def segments(packs: DataFrame, signatures: Signatures, *, keep: bool = False) -> DataFrame:
    """The segments that the packs make; rejects pass through. ``keep``: with the entries themselves, for proofs."""
    return by_block(packs).mapInArrow(segmented(signatures, keep=keep), SEGMENTS.ddl)


def settled(segments: DataFrame, signatures: Signatures, folder: Path | None = None) -> DataFrame:
    """The segments, with those judged again whose entries a higher segment of the log vouches for. For ``HEADS`` only.

    Reads ``segments`` twice, so they have to be kept somewhere. What is judged again is kept in ``folder``, else on the
    executors' disks.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions

    if signatures is Signatures.STRICT:
        return segments
    log = ["author", "log"]
    unsure = functions.broadcast(segments.where(unsure_column()).select(log).distinct())
    rest = segments.join(unsure, log, "left_anti").select(*SEGMENTS.names)
    some = from_the_top(segments.join(unsure, log, "left_semi"))
    if folder is not None:
        return rest.unionByName(kept_from_workers(some, vouched(), SEGMENTS, folder))
    return rest.unionByName(some.mapInArrow(vouched(), SEGMENTS.ddl).persist(StorageLevel.DISK_ONLY))


def unsure_column() -> Column:
    """Whether a row has a summary with which ``culm.spark.steps.is_unsure`` says yes."""
    from pyspark.sql import functions

    return functions.udf(lambda data: data is not None and is_unsure(bytes(data)), "BOOLEAN")("summary")


def from_the_top(segments: DataFrame) -> DataFrame:
    """The segments of each log together, from the highest down: what ``culm.spark.steps.vouched`` takes."""
    from pyspark.sql import functions

    together = segments.select(*SEGMENTS.names).repartition("author", "log")
    return together.sortWithinPartitions("author", "log", functions.desc("low"))


def by_log(segments: DataFrame, tasks: int | None = None) -> DataFrame:
    """The summaries of the segments of each log together, in order: what ``culm.spark.steps.merged`` takes."""
    found = segments.where("summary IS NOT NULL").select(*SUMMARIES.names)
    spread = found.repartition("author", "log") if tasks is None else found.repartition(tasks, "author", "log")
    return spread.sortWithinPartitions("author", "log", "low")


def outcomes(segments: DataFrame) -> DataFrame:
    """The outcome of each segment: what of it has a path to entry 1, and from where on its log is invalid."""
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
