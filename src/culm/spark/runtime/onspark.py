"""The engine on Spark: tables are DataFrames (see ``engine``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, partial, reduce
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema

from culm.spark.reading.entries import least_tasks, reading, tasks
from culm.spark.reading.inputs import Split, shared
from culm.spark.runtime.columns import R, Row, batched, batches, names, rows, schema, struct
from culm.spark.runtime.engine import NOWHERE, Engine, Overlap, Places, Step, Table, To, work_of
from culm.spark.runtime.output import Read, count_rows, place_of, read_batches, write_by_workers

_numbers = count()  # Of tables that Spark keeps.
_SMALL_ROWS = 50_000  # A table up to this size goes to every task of a join: some megabytes.


class SparkTable(Table[R]):
    """A DataFrame whose columns are those of ``table``, in any order: each ``select`` would cost Spark a new plan."""

    def __init__(self, engine: OnSpark, table: type[R], found: DataFrame | Path) -> None:
        self._engine, self.table, self._found = engine, table, found

    @cached_property
    def frame(self) -> DataFrame:
        """The table, which is looked for in its folder only when it is asked for: some are read without Spark."""
        if isinstance(self._found, Path):  # With a schema Spark opens no file to find the columns.
            return self._engine.spark.read.schema(struct(self.table)).parquet(place_of(self._found))
        return self._found

    def map(self, step: Step, into: type[To], *, columnar: bool = False) -> SparkTable[To]:
        return self._engine.made(self.frame, work_of(step, self.table, columnar=columnar), into)

    def keep(self, step: Step, *into: type[Row], at: Places = NOWHERE, columnar: bool = False) -> Tables:
        return self._engine.kept(self.frame, work_of(step, self.table, columnar=columnar), into, at)

    def spread(self, by: Sequence[str], order: Sequence[str] = (), tasks: int | None = None) -> SparkTable[R]:
        apart = self.frame.repartition(*by) if tasks is None else self.frame.repartition(tasks, *by)
        keys = [functions.desc(name[1:]) if name.startswith("-") else functions.asc(name) for name in (*by, *order)]
        return self._of(apart.sortWithinPartitions(*keys))

    def _of(self, frame: DataFrame) -> SparkTable[R]:
        return SparkTable(self._engine, self.table, frame)

    def join(self, other: Table[Any], on: Sequence[str], into: type[To], overlap: Overlap = None) -> SparkTable[To]:
        theirs = [name for name in names(into) if name in names(other.table) and name not in names(self.table)]
        # A join goes on in the tasks of the table that is not sent around. Left to itself, Spark sends that with the
        # smaller files. Outcomes lie log by log, so one task could get all of a large log; segments are spread evenly.
        is_small = not overlap and isinstance(self._found, Path) and count_rows(self._found) <= _SMALL_ROWS
        own = functions.broadcast(self.frame) if is_small else self.frame
        joined = own.join(frame_of(other).select(*on, *theirs), list(on), "left" if overlap else "inner")
        if overlap:
            first, last, low, high = overlap
            joined = joined.where(f"{low} IS NULL OR ({first} <= {high} AND {low} <= {last})")
        return SparkTable(self._engine, into, fitted(joined, into))

    def among(self, other: Table[Any], on: Sequence[str], kind: str = "semi") -> SparkTable[R]:
        return self._of(self.frame.join(frame_of(other).select(*on), list(on), f"left_{kind}"))

    def total(self, by: Sequence[str], into: type[To], *, least: Collection[str] = ()) -> SparkTable[To]:
        others = [(functions.min if name in least else functions.sum, name) for name in names(into)[len(by) :]]
        found = self.frame.groupBy(*by).agg(*(aggregate(name).alias(name) for aggregate, name in others))
        return SparkTable(self._engine, into, fitted(found, into))

    def dealt(self, among: Table[Any], on: Sequence[str], by: str, into: type[To], amount: str, most: int) -> Table[To]:
        # Few rows are dealt out, so that the table of their amounts can go to every task.
        shares = frame_of(among).selectExpr(*on, f"ceil({amount} / {most}) AS shares").where("shares > 1")
        joined = self.frame.join(functions.broadcast(shares), list(on), "left")
        joined = joined.withColumn("share", functions.expr(f"coalesce(pmod(xxhash64({by}), shares), 0)"))
        return SparkTable(self._engine, into, fitted(joined, into))

    def union(self, other: Table[R]) -> SparkTable[R]:
        return self._of(self.frame.unionByName(frame_of(other)))

    def select(self, into: type[To], **given: str | int | None) -> SparkTable[To]:
        return SparkTable(self._engine, into, fitted(self.frame, into, **given))

    def where(self, column: str) -> SparkTable[R]:
        return self._of(self.frame.where(f"{column} IS NOT NULL"))

    def first(self, into: type[To], most: int, *order: str) -> list[To]:
        keys = [functions.desc_nulls_last(one[1:]) if one[0] == "-" else functions.asc_nulls_last(one) for one in order]
        found = self.frame.orderBy(*keys) if keys else self.frame
        return list(rows(into, found.select(*names(into)).limit(most).toArrow().to_batches()))

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        # Spark would start a job, which takes longer than reading the columns here.
        if isinstance(self._found, Path):
            return read_batches(self._found, columns)
        return iter(self.frame.select(*columns).toArrow().to_batches())

    @property
    def is_empty(self) -> bool:
        return isinstance(self._found, Path) and not self.count()


Tables = Sequence[SparkTable[Any]]


def fitted(frame: DataFrame, into: type[Row], **given: str | int | None) -> DataFrame:
    """The columns of a class; one that is neither there nor given is null. ``given``: see ``Table.select``."""
    sources = {name: name for name in frame.columns} | given
    values = {name: f"`{one}`" if isinstance(one, str) else one for name, one in sources.items() if one is not None}
    # As SQL: a Column for each of them would take several calls to Java.
    kinds = ((field.name, field.dataType.simpleString()) for field in struct(into))
    return frame.selectExpr(*(f"CAST({values.get(name, 'NULL')} AS {kind}) AS {name}" for name, kind in kinds))


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
        self.spark, self.work = spark, work

    def read(self, splits: Sequence[Split], step: Read, *into: type[Row], at: Places = NOWHERE) -> Tables:
        splits = shared(splits, least_tasks(self.spark))
        return self.kept(tasks(self.spark, splits), lambda found: step(reading(splits, found)), into, at)

    def made(self, frame: DataFrame, work: Read, into: type[To]) -> SparkTable[To]:
        """What some work in the tasks makes of a DataFrame, when it is asked for."""
        return SparkTable(self, into, frame.mapInArrow(lambda found: batches(into, work(found)), struct(into)))

    def kept(self, frame: DataFrame, work: Read, into: Sequence[type[Row]], at: Places) -> Tables:
        """What some work in the tasks makes of a DataFrame, made once."""
        if self.work is None:
            return self._kept_by_spark(frame, work, into)
        self.work.mkdir(exist_ok=True)
        places = {table: at.get(table) or self.work / f"{table.__name__.lower()}-{next(_numbers)}" for table in into}
        write_by_workers(frame, work, places)
        return [self.stored(place, table) for table, place in places.items()]

    def _kept_by_spark(self, frame: DataFrame, work: Read, into: Sequence[type[Row]]) -> Tables:
        """The same without a folder. The tables are columns side by side, so that the work is done once.

        Spark takes a kept table for every plan that equals its plan, and plans are equal that read the same paths, even
        if other files are there by now. So no two kept tables have equal plans: the work carries a number of its own.
        """
        work = partial(lambda _, work, found: work(found), next(_numbers), work)

        kinds = pa.schema([(f"t{at}", pa.struct(list(schema(table)))) for at, table in enumerate(into)])

        def run(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for table, data in batched(work(found), into):
                own = {f"t{into.index(table)}": data.to_struct_array()}
                yield pa.record_batch([own.get(kind.name, pa.nulls(len(data), kind.type)) for kind in kinds], kinds)

        made = frame.mapInArrow(run, from_arrow_schema(kinds)).persist(StorageLevel.DISK_ONLY)
        tables = ((table, made.where(f"t{at} IS NOT NULL").select(f"t{at}.*")) for at, table in enumerate(into))
        return [SparkTable(self, table, of_table) for table, of_table in tables]

    def stored(self, folder: Path, table: type[R]) -> SparkTable[R]:
        return SparkTable(self, table, folder)

    def load(self, folders: Sequence[tuple[int, Path]], table: type[R], number: str) -> SparkTable[R]:
        none = SparkTable(self, table, self.spark.createDataFrame([], struct(table)))
        tables = (self.stored(folder, table).select(table, **{number: value}) for value, folder in folders)
        return reduce(SparkTable.union, tables, none)
