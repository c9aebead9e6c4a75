"""Comparing two tables of entries, or tables with record indexes: what either has and the other lacks.

Two tables are compared whole, with one shuffle of both: a group of equal rows that come from one side only is a
difference. That reads everything, even if a single entry differs.

Record indexes (``fingerprint``) know the sums of the ids in a range. Where two sums are equal, none of
the range is read, so a comparison reads little more than what differs. It gives ids, not entries. The tables, if they
are at hand, are then read once to tell which entries the ids stand for.

A *view* is the set that is compared: all verified entries, or those whose payload is held. A *record* stands for one
entry in it: a timestamp (the sequence number less one) and an id (the first 32 bytes of the entry's digest).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from pathlib import Path
from typing import NamedTuple, Self

from pyspark.sql import DataFrame, SparkSession, functions

from culm.errors import ConfigError
from culm.spark.batches.payload import HELD
from culm.spark.runtime.columns import Unsigned, table_of
from culm.spark.runtime.output import place_of
from culm.store import View
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.compare import compare

VIEWS = (View.ENTRIES.value, View.PAYLOADS.value)

# A row has a record if its number is from 1 to 2^64 - 1 and its hash is a YAMF-hash.
_IS_ENTRY = (
    "CAST(seqnum AS DECIMAL(20,0)) BETWEEN 1 AND 18446744073709551615"
    " AND length(entry_hash) = 66 AND substring(entry_hash, 1, 2) = X'0040'"
)
_NO_ENTRY = "a row is not an entry: seqnum must be 1 to 2^64 - 1, and entry_hash a YAMF-hash of 66 bytes"

RECORD_ID = (
    f"CASE WHEN {_IS_ENTRY} THEN substring(entry_hash, 3, 32) ELSE CAST(raise_error('{_NO_ENTRY}') AS BINARY) END"
)
"""SQL: the record's id (32 bytes). An error if the row is no entry."""

RECORD_AT = f"CASE WHEN {_IS_ENTRY} THEN CAST(CAST(seqnum AS DECIMAL(20,0)) - 9223372036854775809 AS BIGINT) END"
"""SQL: the record's timestamp, the sequence number less one, as a signed long 2^63 lower."""


_FIRST = "; verify stores and export files first, with culm spark verify, and name its results"
"""What to do with an input that is no table. Culm's other commands take stores and files, so they are often named."""


def table_folder(name: str | Path) -> Path:
    """The folder with the Parquet files: ``verdicts`` in the results of ``culm spark verify``, else the folder itself.

    ``ConfigError`` if there is no such folder, or no Parquet file in it.
    """
    path = Path(name).absolute()
    if not path.is_dir():
        if path.exists():
            raise ConfigError(f"{path}: not a folder of Parquet files{_FIRST}")
        raise ConfigError(f"{path}: there is no such folder")
    if (path / "verdicts").is_dir():
        path /= "verdicts"
    if not any(path.glob("**/*.parquet")):
        raise ConfigError(f"{path}: no Parquet files are in it{_FIRST}")
    return path


def read_folder(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of a folder of Parquet files, with the columns that they have."""
    return spark.read.parquet(place_of(folder))


def view_of(name: str) -> View:
    """The view of that name; ``ConfigError`` if a table has no such view."""
    if name not in VIEWS:
        raise ConfigError(f"the view of a table must be {' or '.join(VIEWS)}, not {name!r}")
    return View(name)


def counted(table: DataFrame, view: View) -> DataFrame:
    """The rows of a view: the verified ones, if the table has verdicts; for payloads those whose payload is held.

    ``ConfigError`` if the table lacks a column that this needs.
    """
    lacking = {"seqnum", "entry_hash", *(["payload"] if view is View.PAYLOADS else [])} - set(table.columns)
    if lacking:
        raise ConfigError(f"the view {view.value} needs a table with the columns {', '.join(sorted(lacking))}")
    if "verdict" in table.columns:
        table = table.where("verdict = 'verified'")
    return table.where(f"payload = '{HELD}'") if view is View.PAYLOADS else table


class Difference(NamedTuple):
    """An entry that only one of two tables has: a row of ``reconcile``.

    An index knows the number and the id only, and a session with a peer only the id; the rest is null then.

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

    @classmethod
    def found(cls, side: str, identity: bytes, seqnum: int | None = None) -> Self:
        """A record that only one side has."""
        return cls(None, None, seqnum, identity, None, side)


_FIELDS = ("author", "log_id", "seqnum", "id", "entry_hash")

# Up to this many differences are sent to every task, so that the tables, which are larger, need no shuffle to meet
# them. More differences may not fit beside a task's other memory.
_BROADCAST = 1_000_000


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


def differing(a: IndexStorage, b: IndexStorage) -> Iterator[Difference]:
    """The records that only one of two indexes has, found while the iterator is read; ``StoreError`` for damage."""
    return (Difference.found(side, identity, timestamp + 1) for side, timestamp, identity in compare(a, b))


def named(
    spark: SparkSession, found: Iterable[Difference], a: DataFrame | None, b: DataFrame | None, *, view: str = "entries"
) -> DataFrame:
    """The records found as a table, with the columns of their entries as far as ``a`` and ``b`` have these.

    ``None`` for a side without a table. Collects all that was found in this process's memory.
    """
    rows = table_of(Difference, found)
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
