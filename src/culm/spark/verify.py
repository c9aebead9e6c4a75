"""Verifying entries with Spark: the verdicts of a node's store, for more logs than one machine takes.

Five steps, each a function from rows to rows::

    decoded     bytes -> records with their hash, and rejects                         mapInArrow
    unique      one row for each record, before anything costly is done to it         shuffle by hash
    checked     signatures, by libsodium as everywhere in Culm                        mapInArrow
    walked      each log in ascending order: paths, forks, payloads of a lying size   shuffle by log, mapInArrow
    judged      each log's limit joined back to its entries                           join with a small table

Signatures are most of the work. They are spread by hash, evenly, however large a log is; only the walk needs a log in
one place, as a sorted stream. What ``walked`` gives is used twice, for the limits and for the entries below and above
them, so it must not be computed twice: ``verify`` keeps it on the executors' disks, ``culm.spark.job`` in a Parquet
table, which outlives an executor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark.columns import unsigned
from culm.spark.read import FOUND
from culm.spark.steps import DECODED, FACTS, FINDINGS, UNIQUE, check, decode, mapped, walk_logs
from culm.spark.walk import INVALID

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REJECTS = "source STRING, offset BIGINT, reason STRING"
"""The columns of ``rejects``."""

VERDICTS = (
    "author BINARY, log_id DECIMAL(20,0), seq DECIMAL(20,0), entry_hash BINARY, size DECIMAL(20,0),"
    " payload_hash BINARY, is_end BOOLEAN, payload STRING, verdict STRING, reason STRING, copies BIGINT"
)
"""The columns of ``verify``."""


def verify(spark: SparkSession, entries: DataFrame) -> DataFrame:  # noqa: ARG001 - what every step here is given
    """The verdict on every distinct entry.

    ``entries`` is what ``read_entries`` gives, or any DataFrame with a binary column ``encoded``; the other columns of
    ``read_entries`` may be missing. What is no entry is left out: ``rejects`` has it.

    ============  =============  ==================================================================================
    author        BINARY         32 bytes
    log_id, seq   DECIMAL(20,0)
    entry_hash    BINARY         YAMF-hash, 66 bytes
    size          DECIMAL(20,0)  of the payload, as the entry claims
    payload_hash  BINARY         66 bytes
    is_end        BOOLEAN        whether the entry ends its log
    payload       STRING         what is known of the payload from all copies (``culm.spark.payload.STATES``)
    verdict       STRING         ``verified``, ``unverified`` or ``invalid``
    reason        STRING         why not verified; null if it is
    copies        BIGINT         how many rows held this entry
    ============  =============  ==================================================================================

    Lazy, as DataFrames are; with the first action the findings are kept on disk until the session ends or its cache
    is cleared, so that signatures are checked once.
    """
    from pyspark import StorageLevel

    return judged(walked(checked(unique(decoded(entries)))).persist(StorageLevel.DISK_ONLY))


def rejects(entries: DataFrame) -> DataFrame:
    """What ``verify`` leaves out: ``source``, ``offset`` and ``reason`` of everything that could not be read."""
    return rejected(decoded(entries))


# -- the steps ---------------------------------------------------------------------------------------------------


def decoded(entries: DataFrame) -> DataFrame:
    """Each row's record with its hash, or the reason why it has none."""
    from pyspark.sql import functions

    given = set(entries.columns)
    if "encoded" not in given:
        raise ConfigError("a DataFrame of entries needs a binary column 'encoded'")
    columns = [
        functions.col(name) if name in given else functions.lit(None).cast(kind).alias(name)
        for name, kind in FOUND.types.items()
    ]
    return entries.select(columns).mapInArrow(mapped(FOUND, decode, DECODED), DECODED.ddl)


def rejected(records: DataFrame) -> DataFrame:
    """The rejects among decoded records."""
    return records.where("reason IS NOT NULL").select("source", "offset", "reason")


def unique(records: DataFrame) -> DataFrame:
    """One row for each record: the copies counted, the best of their payload states."""
    from pyspark.sql import functions

    # Spark would leave out this shuffle where all rows come in one partition, as from one file: the signatures, which
    # are checked behind it, would then all be checked by one task.
    return (
        records.where("reason IS NULL")
        .repartition("key")
        .groupBy("key")
        .agg(
            functions.first("record").alias("record"),
            functions.max("payload").alias("payload"),
            functions.count("*").alias("copies"),
        )
    )


def checked(records: DataFrame) -> DataFrame:
    """The fields of unique records, and whether the signature of each entry is good."""
    return records.mapInArrow(mapped(UNIQUE, check, FACTS), FACTS.ddl)


def walked(facts: DataFrame) -> DataFrame:
    """The findings on each log's entries and, as rows of their own, the limits of the logs that have one."""
    # All of a log goes through one task, as a stream. A log far larger than the rest makes a task longer than the rest.
    return (
        facts.repartition("author", "log")
        .sortWithinPartitions("author", "log", "seq", "payload_hash", "is_entry", "entry_hash")
        .mapInArrow(mapped(FACTS, walk_logs, FINDINGS), FINDINGS.ddl)
    )


def limits(findings: DataFrame) -> DataFrame:
    """The limit of each log that has one: ``author``, ``log``, ``limit_at``, ``cause``, ``forked``."""
    from pyspark.sql import functions

    return findings.where("NOT is_entry").select(
        "author", "log", functions.col("seq").alias("limit_at"), functions.col("reason").alias("cause"), "forked"
    )


def judged(findings: DataFrame) -> DataFrame:
    """The verdicts: what was found of each entry, but invalid from its log's limit on. ``findings`` is read twice."""
    from pyspark.sql import functions

    entries = findings.where("is_entry").drop("forked")
    found = entries.join(limits(findings), ["author", "log"], "left")
    beyond = functions.expr(f"limit_at IS NOT NULL AND seq >= limit_at AND verdict <> '{INVALID}'")
    return found.select(
        "author",
        unsigned(functions.col("log")).alias("log_id"),
        unsigned(functions.col("seq")).alias("seq"),
        "entry_hash",
        unsigned(functions.col("size")).alias("size"),
        "payload_hash",
        "is_end",
        "payload",
        functions.when(beyond, INVALID).otherwise(functions.col("verdict")).alias("verdict"),
        functions.when(beyond, functions.col("cause")).otherwise(functions.col("reason")).alias("reason"),
        "copies",
    )
