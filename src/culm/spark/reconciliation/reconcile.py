"""Comparing two tables of entries, or tables with record indexes: what either has and the other lacks.

Two tables are compared whole, with one shuffle of both: a group of equal rows that come from one side only is a
difference. That reads everything, even if a single entry differs.

Record indexes (``fingerprint``) know the sums of the ids in a range. Where two sums are equal, none of
the range is read, so a comparison reads little more than what differs. It gives ids, not entries. The tables, if they
are at hand, are then read once to tell which entries the ids stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from culm.errors import ConfigError
from culm.spark.reconciliation.tables import RECORD_ID, counted, view_of
from culm.spark.runtime.columns import Unsigned, batches, schema
from culm.store import View
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.compare import compare


class Difference(NamedTuple):
    """An entry that only one of two tables has: a row of ``reconcile``. What an index does not know is null.

    ==============  =============  ================================================================================
    author          BINARY         32 bytes
    log_id, seqnum  DECIMAL(20,0)
    id              BINARY         of the record: the first 32 bytes of the entry's hash, without the YAMF prefix
    entry_hash      BINARY         66 bytes
    side            STRING         ``a`` or ``b``: which table has the entry
    ==============  =============  ================================================================================
    """

    author: bytes | None
    log_id: Unsigned | None
    seqnum: Unsigned | None
    id: bytes
    entry_hash: bytes | None
    side: str


_FIELDS = ("author", "log_id", "seqnum", "id", "entry_hash")

# Up to this many differences are sent to every task, so that the tables, which are larger, need no shuffle to meet
# them. More differences may not fit beside a task's other memory.
_BROADCAST = 1_000_000


class Found(NamedTuple):
    """A record that only one side has. ``side`` is ``a`` or ``b``, the side that has it.

    ``seqnum`` is None if a session with a peer told the id only.
    """

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
    ``payload``, with the meaning they have for ``fingerprint``. The result has rows of ``Difference``.

    With the ``indexes`` of both tables these are compared instead, at once and not lazily. The tables only tell which
    entries the ids stand for; columns of entries that they do not have are null. The differences, not the sets, must
    then fit into this machine's memory.

    ``ConfigError`` if a table lacks a column.
    """
    if indexes is not None:
        return named(spark, differing(*indexes), a, b, view=view)
    of_view = view_of(view)
    entries = _entries(a, of_view, "a").unionByName(_entries(b, of_view, "b"))
    low, high = functions.expr("min(side) AS side"), functions.expr("max(side) AS other")
    return entries.groupBy(*_FIELDS).agg(low, high).where("side = other").drop("other")


def differing(a: IndexStorage, b: IndexStorage) -> Iterator[Found]:
    """The records that only one of two indexes has, found while the iterator is read; ``StoreError`` for damage."""
    return (Found(side, timestamp + 1, identity) for side, timestamp, identity in compare(a, b))


def named(
    spark: SparkSession, found: Iterable[Found], a: DataFrame | None, b: DataFrame | None, *, view: str = "entries"
) -> DataFrame:
    """The records found as a table, with the columns of their entries as far as ``a`` and ``b`` have these.

    ``None`` for a side without a table. Collects all that was found in this process's memory.
    """
    rows = pa.Table.from_batches(batches(Difference, differences(found)), schema=schema(Difference))
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


def differences(found: Iterable[Found]) -> Iterator[Difference]:
    """The records found as rows of ``reconcile``."""
    return (Difference(None, None, one.seqnum, one.id, None, one.side) for one in found)
