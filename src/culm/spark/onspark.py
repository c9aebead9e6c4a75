"""The engine on Spark: tables are DataFrames (see ``culm.spark.engine``)."""

from __future__ import annotations

from functools import reduce
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from culm.spark.columns import R, batches, ddl, names, rows, types
from culm.spark.engine import NOWHERE, Engine, Table
from culm.spark.output import count_rows, read_batches, read_table, write_by_workers
from culm.spark.reading import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from culm.spark.columns import Row
    from culm.spark.engine import Read, Step, To
    from culm.spark.inputs import Split

    Work = Callable[[Iterator[pa.RecordBatch]], Iterable[Row]]


class SparkTable(Table[R]):
    """A DataFrame, which has the columns of ``table`` and may have others."""

    def __init__(self, engine: OnSpark, table: type[R], frame: DataFrame, place: Path | None = None) -> None:
        self._engine = engine
        self.table = table
        self.frame = frame
        self._place = place

    def map(self, step: Step, into: type[To], *, columnar: bool = False) -> SparkTable[To]:
        return self._engine.made(self._given(), step if columnar else self._work(step), into)

    def keep(
        self, step: Step, *into: type[Row], at: Mapping[type[Row], Path] = NOWHERE, columnar: bool = False
    ) -> Sequence[SparkTable[Any]]:
        return self._engine.kept(self._given(), step if columnar else self._work(step), into, at)

    def _given(self) -> DataFrame:
        return self.frame.select(*names(self.table))

    def _work(self, step: Step) -> Work:
        table = self.table
        return lambda found: step(rows(table, found))

    def spread(self, by: Sequence[str], order: Sequence[str] = (), tasks: int | None = None) -> SparkTable[R]:
        given = self._given()
        apart = given.repartition(*by) if tasks is None else given.repartition(tasks, *by)
        names = [name.removeprefix("-") for name in order]
        ascending = [True] * len(by) + [not name.startswith("-") for name in order]
        return self._of(apart.sortWithinPartitions(*by, *names, ascending=ascending))

    def _of(self, frame: DataFrame) -> SparkTable[R]:
        return SparkTable(self._engine, self.table, frame)

    def join(self, other: Table[Any], on: Sequence[str], into: type[To], *, outer: bool = False) -> SparkTable[To]:
        theirs = [name for name in names(into) if name in names(other.table) and name not in names(self.table)]
        how = "left" if outer else "inner"
        joined = self._given().join(frame_of(other).select(*on, *theirs), list(on), how)
        return SparkTable(self._engine, into, _filled(joined, into))

    def among(self, other: Table[Any], on: Sequence[str]) -> SparkTable[R]:
        return self._of(self._given().join(frame_of(other).select(*on), list(on), "left_semi"))

    def without(self, other: Table[Any], on: Sequence[str]) -> SparkTable[R]:
        return self._of(self._given().join(frame_of(other).select(*on), list(on), "left_anti"))

    def total(self, by: Sequence[str], into: type[To]) -> SparkTable[To]:
        from pyspark.sql import functions

        sums = [functions.sum(name).alias(name) for name in names(into)[len(by) :]]
        return SparkTable(self._engine, into, self.frame.groupBy(*by).agg(*sums))

    def dealt(self, among: Table[Any], on: Sequence[str], by: str, into: type[To]) -> SparkTable[To]:
        from pyspark.sql import functions

        # Few rows are dealt out, so that the table of their shares can go to every task.
        joined = self._given().join(functions.broadcast(frame_of(among)), list(on), "left")
        share = functions.expr(f"coalesce(pmod(xxhash64({by}), shares), 0)")
        return SparkTable(self._engine, into, joined.withColumn("share", share).select(*names(into)))

    def union(self, other: Table[R]) -> SparkTable[R]:
        return self._of(self._given().unionByName(frame_of(other).select(*names(self.table))))

    def select(self, into: type[To], **given: str | int | None) -> SparkTable[To]:
        from pyspark.sql import functions

        def column(name: str, kind: str) -> Column:
            source = given.get(name, name if name in names(self.table) else None)
            found = functions.col(source) if isinstance(source, str) else functions.lit(source)
            return found.cast(kind).alias(name)

        return SparkTable(
            self._engine, into, self.frame.select(*(column(name, kind) for name, kind in types(into).items()))
        )

    def where(self, column: str) -> SparkTable[R]:
        return self._of(self.frame.where(f"{column} IS NOT NULL"))

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        # Spark would start a job, which takes longer than reading the columns here.
        if self._place is not None:
            return read_batches(self._place, columns)
        return iter(self.frame.select(*columns).toArrow().to_batches())

    @property
    def is_empty(self) -> bool:
        return self._place is not None and not count_rows(self._place)


def _filled(frame: DataFrame, table: type[Row]) -> DataFrame:
    """The columns of a table; those that the DataFrame lacks are null."""
    from pyspark.sql import functions

    there = set(frame.columns)
    return frame.select(
        [
            functions.col(name) if name in there else functions.lit(None).cast(kind).alias(name)
            for name, kind in types(table).items()
        ]
    )


def frame_of(table: Table[Any]) -> DataFrame:
    """The DataFrame that a table is."""
    assert isinstance(table, SparkTable)  # noqa: S101 - tables of two engines never meet
    return table.frame


class OnSpark(Engine):
    """A Spark session.

    ``work``: a folder for tables that are kept, which all machines see at the same path. None keeps them on the
    executors' disks, until the session ends or its cache is cleared; then nothing is computed before it is asked for.
    """

    def __init__(self, spark: SparkSession, work: Path | None = None) -> None:
        self.spark = spark
        self._work = work

    def read(
        self, splits: Sequence[Split], step: Read, *into: type[Row], at: Mapping[type[Row], Path] = NOWHERE
    ) -> Sequence[SparkTable[Any]]:
        # A range has exactly as many partitions as it is told to have, with one number each, so every split becomes a
        # task. Spark would put the rows of a small DataFrame into partitions by chance, several splits into one task.
        count = max(len(splits), 1)
        read = reading(splits)
        return self.kept(self.spark.range(0, len(splits), 1, count), lambda found: step(read(found)), into, at)

    def made(self, frame: DataFrame, work: Work, into: type[To]) -> SparkTable[To]:
        """What some work in the tasks makes of a DataFrame, when it is asked for."""

        def run(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return batches(into, work(found))

        return SparkTable(self, into, frame.mapInArrow(run, ddl(into)))

    def kept(
        self, frame: DataFrame, work: Work, into: Sequence[type[Row]], at: Mapping[type[Row], Path]
    ) -> Sequence[SparkTable[Any]]:
        """What some work in the tasks makes of a DataFrame, made once."""
        if self._work is None:
            from pyspark import StorageLevel

            made = [self.made(frame, work, table) for table in into]
            return [SparkTable(self, one.table, one.frame.persist(StorageLevel.DISK_ONLY)) for one in made]
        places = {table: at.get(table) or self._place(table) for table in into}
        write_by_workers(frame, work, places)
        return [
            SparkTable(self, table, read_table(self.spark, place, ddl(table)), place) for table, place in places.items()
        ]

    def _place(self, table: type[Row]) -> Path:
        assert self._work is not None  # noqa: S101 - the caller has looked
        self._work.mkdir(exist_ok=True)
        return self._work / f"{table.__name__.lower()}-{len(list(self._work.iterdir()))}"

    def load(
        self,
        folders: Sequence[tuple[int, Path]],
        table: type[R],
        number: str,
        among: Table[Any] | None = None,
        on: Sequence[str] = (),
        having: str | None = None,
    ) -> SparkTable[R]:
        from pyspark.sql import DataFrame, functions

        def one(value: int, folder: Path) -> DataFrame:
            found = read_table(self.spark, folder, ddl(table))
            return found.withColumn(number, functions.lit(value).cast("BIGINT"))

        if not folders:
            return SparkTable(self, table, self.spark.createDataFrame([], ddl(table)))
        every = reduce(DataFrame.unionByName, (one(*folder) for folder in folders))
        if having is not None:
            every = every.where(f"{having} IS NOT NULL")
        if among is not None:
            every = every.join(frame_of(among).select(*on).distinct(), list(on), "left_semi")
        return SparkTable(self, table, every)

    def shelf(self, name: str) -> Path | None:
        return None if self._work is None else self._work / name

    def free(self, name: str) -> None:
        if self._work is not None:
            rmtree(self._work / name, ignore_errors=True)
