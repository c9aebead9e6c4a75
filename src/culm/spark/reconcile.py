"""Comparing two tables of entries with Spark, or tables with record indexes: what either has and the other lacks.

Two tables are compared whole: one shuffle of both. With indexes (``culm.spark.fingerprint``) only what differs is read
of those, which gives ids; the tables, if they are at hand, are then passed over once to tell which entries these are.
"""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from culm.errors import ConfigError
from culm.spark.tables import RECORD_ID, counted, view_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from culm.store import View
    from culm.store.recordindex import IndexStorage

DIFFERENCES = "author BINARY, log_id DECIMAL(20,0), seqnum DECIMAL(20,0), id BINARY, entry_hash BINARY, side STRING"
"""The columns of ``reconcile``."""

_FIELDS = ("author", "log_id", "seqnum", "id", "entry_hash")
_BROADCAST = 1_000_000  # so many differences go to every task, rather than the tables through a shuffle
_BATCH = 10_000


class Found(NamedTuple):
    """A record of one side only, ``a`` or ``b``; the number of its entry if it is known."""

    side: str
    seqnum: int | None
    id: bytes


def reconcile(
    spark: SparkSession,
    a: DataFrame,
    b: DataFrame,
    *,
    view: str = "entries",
    indexes: tuple[IndexStorage, IndexStorage] | None = None,
) -> DataFrame:
    """The entries that only one of two tables has.

    The tables have the columns ``author``, ``log_id``, ``seqnum`` and ``entry_hash``, and may have ``verdict`` and
    ``payload``, with the meaning they have for ``culm.spark.fingerprint``. The result:

    ==============  =============  ================================================================================
    author          BINARY         32 bytes
    log_id, seqnum  DECIMAL(20,0)
    id              BINARY         of the record: the first 32 bytes of the entry's hash, without the YAMF prefix
    entry_hash      BINARY         66 bytes
    side            STRING         ``a`` or ``b``: which table has the entry
    ==============  =============  ================================================================================

    Given the ``indexes`` of both tables, they are compared in their place, now and not lazily; the tables only tell
    which entries the ids stand for, and what they do not have stays null. The differences, not the sets, must then fit
    into this machine's memory.
    """
    if indexes is not None:
        return named(spark, differing(*indexes), a, b, view=view)
    from pyspark.sql import functions

    of_view = view_of(view)
    entries = _entries(a, of_view, "a").unionByName(_entries(b, of_view, "b"))
    low, high = functions.expr("min(side) AS side"), functions.expr("max(side) AS other")
    return entries.groupBy(*_FIELDS).agg(low, high).where("side = other").drop("other")


def differing(a: IndexStorage, b: IndexStorage) -> Iterator[Found]:
    """What only one of two indexes has."""
    from culm.store.recordindex.compare import compare

    return (Found(side, timestamp + 1, identity) for side, timestamp, identity in compare(a, b))


def named(
    spark: SparkSession, found: Iterable[Found], a: DataFrame | None, b: DataFrame | None, *, view: str = "entries"
) -> DataFrame:
    """The table of what was found, with the entries as far as the tables have them."""
    import pyarrow as pa
    from pyspark.sql import DataFrame, functions

    rows = pa.Table.from_batches(found_batches(found), schema=found_schema())
    ids = spark.createDataFrame(rows)
    tables = [_entries(table, view_of(view), side) for side, table in (("a", a), ("b", b)) if table is not None]
    if not tables:
        return ids
    ids = ids.select("seqnum", "id", "side")
    asked = functions.broadcast(ids) if rows.num_rows <= _BROADCAST else ids
    known = reduce(DataFrame.unionByName, tables).join(asked.drop("seqnum"), ["id", "side"], "left_semi").distinct()
    return ids.join(known.withColumnRenamed("seqnum", "known"), ["id", "side"], "left").selectExpr(
        "author", "log_id", "coalesce(seqnum, known) AS seqnum", "id", "entry_hash", "side"
    )


def _entries(table: DataFrame, view: View, side: str) -> DataFrame:
    """The rows of a view, with the columns of the result."""
    from pyspark.sql import functions

    lacking = {"author", "log_id", "seqnum", "entry_hash"} - set(table.columns)
    if lacking:
        raise ConfigError(f"a table to compare needs the columns {', '.join(sorted(lacking))}")
    return (
        counted(table, view)
        .selectExpr(
            "author",
            "CAST(log_id AS DECIMAL(20,0)) AS log_id",
            "CAST(seqnum AS DECIMAL(20,0)) AS seqnum",
            f"{RECORD_ID} AS id",
            "entry_hash",
        )
        .withColumn("side", functions.lit(side))
    )


def found_schema() -> pa.Schema:
    """The columns of ``reconcile`` as Arrow has them."""
    import pyarrow as pa

    kinds = {"BINARY": pa.binary(), "DECIMAL(20,0)": pa.decimal128(20, 0), "STRING": pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in (column.split() for column in DIFFERENCES.split(", "))])


def found_batches(found: Iterable[Found]) -> Iterator[pa.RecordBatch]:
    """What was found as rows of ``reconcile``, made as it comes; what is not known is null."""
    import pyarrow as pa

    schema, rest = found_schema(), iter(found)
    while page := list(islice(rest, _BATCH)):
        numbers = [None if one.seqnum is None else Decimal(one.seqnum) for one in page]
        columns = {"seqnum": numbers, "id": [one.id for one in page], "side": [one.side for one in page]}
        nothing = [None] * len(page)
        arrays = [pa.array(columns.get(field.name, nothing), field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
