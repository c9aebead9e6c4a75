"""The operations of tables: the same rows come out of both engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq
import pytest

from culm.spark.runtime import columns
from culm.spark.runtime.columns import Batch, batch_of
from culm.spark.runtime.engine import Engine
from culm.spark.runtime.onspark import OnSpark, SparkTable, frame_of
from culm.spark.runtime.output import write_here
from tests.spark import local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from culm.spark.runtime.columns import R, Row
    from culm.spark.runtime.engine import Table


class Left(NamedTuple):
    """A row of one table."""

    key: int
    name: str | None
    amount: int


class Right(NamedTuple):
    """A row of the other."""

    key: int
    value: bytes
    shares: int


class Both(NamedTuple):
    """A pair of them, and a column that neither has."""

    key: int
    name: str | None
    value: bytes | None
    nothing: int | None


class Sum(NamedTuple):
    """A sum for each key."""

    key: int
    amount: int


class Dealt(NamedTuple):
    """A row that was dealt out."""

    key: int
    name: str | None
    share: int


class Span(NamedTuple):
    """A row with a span of numbers."""

    key: int
    first: int
    last: int


class Part(NamedTuple):
    """Another one."""

    key: int
    low: int
    high: int


class Met(NamedTuple):
    """Two of them that overlap."""

    key: int
    first: int
    last: int
    low: int | None
    high: int | None


class Numbered(NamedTuple):
    """A row of a folder with a number."""

    key: int
    name: str | None
    number: int


LEFT = [Left(1, "b", 10), Left(2, None, 20), Left(1, "a", 30), Left(3, "c", 40)]
RIGHT = [Right(1, b"x", 2), Right(3, b"y", 1), Right(3, b"z", 1), Right(4, b"w", 1)]


class TestTables:
    """What each engine makes of the same rows."""

    @pytest.fixture(params=["here", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])])
    def engine(self, request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
        """One engine after the other."""
        if request.param == "here":
            return Engine()
        spark: SparkSession = request.getfixturevalue("spark")
        return OnSpark(spark, tmp_path / "work")

    def test_operations(self, engine: Engine) -> None:
        """Joins, selections, sums and unions are what their definitions say."""
        left, right = table(engine, Left, LEFT), table(engine, Right, RIGHT)
        joined = [
            Both(1, "a", b"x", None),
            Both(1, "b", b"x", None),
            Both(3, "c", b"y", None),
            Both(3, "c", b"z", None),
        ]
        assert joined == found(left.join(right, ["key"], Both))
        assert [row for row in sorted(LEFT, key=repr) if row.key != 2] == found(left.among(right, ["key"]))
        assert [LEFT[1]] == found(left.among(right, ["key"], "anti"))
        assert [row for row in sorted(LEFT, key=repr) if row.name] == found(left.where("name"))
        assert sorted(LEFT * 2, key=repr) == found(left.union(left))
        assert [Sum(1, 40), Sum(2, 20), Sum(3, 40)] == found(left.total(["key"], Sum))
        chosen = left.select(Both, name=None, nothing="amount", key=7)
        assert [Both(7, None, None, amount) for amount in (10, 20, 30, 40)] == found(chosen)
        dealt = found(left.dealt(table(engine, Right, RIGHT[:2]), ["key"], "name", Dealt, "shares", 1))
        assert {(1, "a"), (1, "b"), (2, None), (3, "c")} == {(row.key, row.name) for row in dealt}
        assert all(row.share < (2 if row.key == 1 else 1) for row in dealt)

    def test_spans_that_overlap(self, engine: Engine) -> None:
        """A join can be for rows whose spans overlap; rows that have nobody to overlap with are kept."""
        spans = table(engine, Span, [Span(1, 5, 9), Span(1, 20, 30), Span(2, 1, 1)])
        parts = table(engine, Part, [Part(1, 0, 4), Part(1, 5, 7), Part(1, 9, 20)])
        overlap = ("first", "last", "low", "high")
        expected = [Met(1, 5, 9, 5, 7), Met(1, 5, 9, 9, 20), Met(1, 20, 30, 9, 20), Met(2, 1, 1, None, None)]
        assert sorted(expected, key=repr) == found(spans.join(parts, ["key"], Met, overlap))

    def test_steps(self, engine: Engine, tmp_path: Path) -> None:
        """A step gets sorted rows, or batches, and makes tables of several kinds, in memory and in folders."""

        def step(rows: Iterable[Left]) -> Iterator[Row]:
            for row in rows:
                yield Sum(row.key, row.amount)
                yield Batch(Left, batch_of(Left, [row]))

        def whole(batches: Iterable[pa.RecordBatch]) -> Iterator[Sum]:
            for batch in batches:
                yield from (Sum(key, len(batch.schema)) for key in batch.column("key").to_pylist())

        left = table(engine, Left, LEFT)
        sums, _, none = left.keep(step, Sum, Left, Right, at={Left: tmp_path / "out"})
        assert sorted((Sum(row.key, row.amount) for row in LEFT), key=repr) == found(sums)
        assert sorted(LEFT, key=repr) == sorted(
            (Left(**row) for row in pq.read_table(tmp_path / "out").to_pylist()), key=repr
        )
        assert (4, 0) == (sums.count(), none.count())
        assert none.is_empty
        assert not sums.is_empty
        assert [30, 10, 20, 40] == amounts(left.spread(["key"], ["name"]).map(in_order, Sum))
        assert [30, 10, 20, 40] == amounts(left.spread(["key"], ["-amount"]).map(in_order, Sum))
        assert {3} == {row.amount for row in found(left.map(whole, Sum, columnar=True))}
        assert sum(batch.num_rows for batch in sums.batches("amount")) == 4

    def test_folders(self, engine: Engine, tmp_path: Path) -> None:
        """Of several folders the wanted rows are read, each with the number of its folder; lacking columns are null."""
        write_here(LEFT[:2], {Left: tmp_path / "1"})
        write_here([Sum(row.key, row.amount) for row in LEFT[2:]], {Sum: tmp_path / "2"})
        folders = [(1, tmp_path / "1"), (2, tmp_path / "2")]
        every = [Numbered(1, "b", 1), Numbered(1, None, 2), Numbered(2, None, 1), Numbered(3, None, 2)]
        assert every == found(engine.load(folders, Numbered, "number"))
        among = table(engine, Numbered, [Numbered(1, None, 2), Numbered(3, None, 1)])
        assert [every[1]] == found(engine.load(folders, Numbered, "number").among(among, ["key", "number"]))
        assert [every[0]] == found(engine.load(folders[:1], Numbered, "number").where("name"))
        assert [] == found(engine.load([], Numbered, "number"))

    def test_a_folder_that_is_freed(self, engine: Engine) -> None:
        """A table that is kept after a folder was freed takes the place of no other table."""
        if (shelf := engine.shelf("packs")) is not None:
            shelf.mkdir(parents=True)
        one, other = [Left(1, "one", 1)], [Left(2, "other", 2)]
        first = table(engine, Left, one).kept()
        engine.free("packs")
        second = table(engine, Left, other).kept()
        assert (one, other) == (found(first), found(second))


def in_order(rows: Iterable[Left]) -> Iterator[Sum]:
    """The amounts in the order in which the rows of a task come, numbered; those of a key are in one task."""
    return (Sum(row.key, row.amount) for row in rows)


def amounts(made: Table[Sum]) -> list[int]:
    """The amounts by key, those of a key in the order in which they came."""
    return [row.amount for row in sorted(as_they_come(made), key=lambda row: row.key)]


def table(engine: Engine, kind: type[R], rows: list[R]) -> Table[R]:
    """Rows as a table of an engine."""
    if isinstance(engine, OnSpark):
        return SparkTable(
            engine, kind, engine.spark.createDataFrame([tuple(row) for row in rows], columns.struct(kind))
        )
    return local.table_of(kind, rows)


def as_they_come(made: Table[R]) -> list[R]:
    """The rows of a table."""
    if isinstance(made, SparkTable):
        names = columns.names(made.table)
        rows = frame_of(made).select(*names).collect()
        return [made.table(*(bytes(cell) if isinstance(cell, bytearray) else cell for cell in row)) for row in rows]
    return list(local.rows_of(made))


def found(made: Table[R]) -> list[R]:
    """The rows of a table, in an order of their own."""
    return sorted(as_they_come(made), key=repr)
