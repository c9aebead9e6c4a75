"""Comparing two tables of entries, or tables with record indexes: what either has and the other lacks.

``culm spark reconcile`` writes::

    OUTPUT/differences/    Parquet, rows of ``Difference``
    OUTPUT/summary.json    the counts

Two tables are compared whole, with one shuffle of both: a group of equal rows that come from one side only is a
difference. That reads everything, even if a single entry differs.

Record indexes (``fingerprint``) know the sums of the ids in a range. Where two sums are equal, none of
the range is read, so a comparison reads little more than what differs. It gives ids, not entries. The tables, if they
are at hand, are then read once to tell which entries the ids stand for.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import NamedTuple, Self

from pyspark.sql import DataFrame, SparkSession, functions

from culm.errors import ConfigError
from culm.spark.reconciliation.fingerprint import RECORD_ID, counted, fingerprint, table_folder, view_of
from culm.spark.runtime.columns import Unsigned, batches, table_of
from culm.spark.runtime.engine import Table
from culm.spark.runtime.onspark import OnSpark, SparkTable, fitted
from culm.spark.runtime.output import place_of
from culm.spark.runtime.shell import Result, job, local_input
from culm.store import View
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.compare import compare
from culm.store.recordindex.manifest import is_index


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


# Up to this many differences are sent to every task, so that the tables, which are larger, need no shuffle to meet
# them. More differences may not fit beside a task's other memory.
_BROADCAST = 1_000_000


def reconcile(
    spark: SparkSession,  # noqa: ARG001 - the tables have it, too
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
    of_view = view_of(view)
    if indexes is not None:
        return named(differing(*indexes), {"a": a, "b": b}, of_view)
    entries = _entries(a, of_view, "a").unionByName(_entries(b, of_view, "b"))
    low, high = functions.expr("min(side) AS side"), functions.expr("max(side) AS other")
    return entries.groupBy(*Difference._fields[:-1]).agg(low, high).where("side = other").drop("other")


def differing(a: IndexStorage, b: IndexStorage) -> Iterator[Difference]:
    """The records that only one of two indexes has, found while the iterator is read; ``StoreError`` for damage."""
    return (Difference.found(side, identity, timestamp + 1) for side, timestamp, identity in compare(a, b))


def named(found: Iterable[Difference], tables: Mapping[str, DataFrame], view: View) -> DataFrame:
    """The records found as a table, with the columns of their entries as far as the tables have these.

    ``tables``: that of each side, or of one. Collects all that was found in this process's memory.
    """
    rows = table_of(Difference, found)
    entries = reduce(DataFrame.unionByName, (_entries(table, view, side) for side, table in tables.items()))
    ids = entries.sparkSession.createDataFrame(rows).selectExpr("seqnum AS told", "id", "side")
    asked = functions.broadcast(ids) if rows.num_rows <= _BROADCAST else ids
    known = entries.join(asked, ["id", "side"], "left_semi").distinct()
    named = ids.join(known, ["id", "side"], "left").withColumn("seqnum", functions.expr("coalesce(told, seqnum)"))
    return named.select(*Difference._fields)


def _entries(table: DataFrame, view: View, side: str) -> DataFrame:
    found = counted(table, view, "author", "log_id")
    keyed = found.withColumns({"id": functions.expr(RECORD_ID), "side": functions.lit(side)})
    return fitted(keyed, Difference)


# -- the command ----------------------------------------------------------------------------------------------------

Ask = Callable[[IndexStorage], Iterable[Difference]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Result):
    """The summary: how many records either side lacks.

    ``bytes`` is the size of the indexes, ``bytes_read`` how much of it was read; both are 0 if there are none.
    """

    view: str
    a_lacks: int
    b_lacks: int
    bytes_read: int
    bytes: int


def run(
    a: str,
    b: str | Ask,
    output: Path,
    *,
    view: str | None = None,
    master: str = "local[*]",
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Compare two sides and write ``output``: ``differences/``, Parquet with rows of ``Difference``.

    A side is the path or URI of a folder: of a table, of the results of ``culm spark verify``, or a record index. ``b``
    may also be a function that takes an index and finds its differences with something else, for instance with a peer.
    Two tables are compared whole. Beside an index or such a function, a table gets an index of its own first. Without
    any table Spark is not started, and only ids and numbers are known. ``view`` None: that of the indexes,
    else ``entries``.

    ``ConfigError`` or ``StoreError``, before Spark is started, if a side cannot be read, the indexes are of different
    views, or the output cannot be written.
    """
    with ExitStack() as stack:
        places = (a, b) if isinstance(b, str) else (a,)
        paths = {side: stack.enter_context(local_input(place)) for side, place in zip("ab", places, strict=False)}
        folders = {side: path if is_index(path) else table_folder(path) for side, path in paths.items()}
        known = {side: stack.enter_context(IndexStorage(path)) for side, path in folders.items() if is_index(path)}
        of_view = _view(known.values(), view)
        mode = {"view": of_view.value}
        run = stack.enter_context(job("reconcile", output, places, mode=mode, overwrite=overwrite, progress=progress))
        tables: dict[str, DataFrame] = {}
        if whole := [side for side in folders if side not in known]:
            spark = stack.enter_context(run.spark(master))
            tables = {side: spark.read.parquet(place_of(folders[side])) for side in whole}

        def on_spark(frame: DataFrame) -> Table[Difference]:
            return SparkTable(OnSpark(frame.sparkSession, run.folder / "work"), Difference, frame)

        if isinstance(b, str) and not known:
            run.say("comparing the tables")
            one, other = tables.values()
            made = on_spark(reconcile(one.sparkSession, one, other, view=of_view.value))
        else:
            for side, table in tables.items():
                run.say(f"writing the index of {folders[side].name}")
                place = run.folder / "work" / f"index-{side}"
                place.parent.mkdir(exist_ok=True)
                fingerprint(table.sparkSession, table, place, view=of_view.value)
                known[side] = stack.enter_context(IndexStorage(place))
            run.say("looking for differences")
            found = differing(known["a"], known["b"]) if isinstance(b, str) else b(known["a"])
            here = Table(Difference, lambda: batches(Difference, found))
            made = on_spark(named(found, tables, of_view)) if tables else here
        kept = made.kept(run.folder / "differences")
        having = [side for batch in kept.batches("side") for side in batch.column(0).to_pylist()]
        read = sum(index.bytes_read for index in known.values())
        size = sum(file.size for index in known.values() for file in index.manifest.files)
        lacks = {"a_lacks": having.count("b"), "b_lacks": having.count("a")}
        return run.done(Comparison(view=of_view.value, **lacks, bytes_read=read, bytes=size))


def _view(indexes: Collection[IndexStorage], name: str | None) -> View:
    chosen = view_of(name or next((index.view.value for index in indexes), "entries"))
    for one in indexes:
        if one.view is not chosen:
            raise ConfigError(f"{one.path}: an index of the {one.view.value}, not the {chosen.value} that are compared")
    return chosen
