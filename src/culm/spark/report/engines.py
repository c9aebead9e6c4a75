"""The two ways to run the queries of a report: in this process, on tables of Arrow, or on Spark, on DataFrames.

A query (``culm.spark.report.queries``) is put together of a few operations on tables, and of *steps*: functions from a
table of Arrow to another one. The steps do the work, and are the same on both sides. Spark only brings them the rows.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import compute

from culm.spark.columns import Columns
from culm.spark.output import kept, write_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt
    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.report.source import Source

    Table = Any  # of Arrow, or a DataFrame
    Step = Callable[[pa.Table], pa.Table]

Row = TypeVar("Row", bound=tuple[Any, ...])
_STEP_ROWS = 2**16  # that a step gets at once: each call costs some milliseconds, each row some 200 bytes of memory


class Engine(Protocol):
    """The operations. Where a step's order of rows matters, its query sorts."""

    def read(self, name: str) -> Table | None:
        """A table of the report's subject; None if it has no such table."""

    def map(self, table: Table, step: Step, columns: Columns) -> Table:
        """A step applied to portions of a table, in any order."""

    def map_logs(self, table: Table, step: Step, columns: Columns) -> Table:
        """A step applied to portions that have whole logs, sorted by log (columns ``author`` and ``log``)."""

    def held(self, table: Table, columns: Columns) -> Table:
        """The table, computed once, because several queries need it."""

    def union(self, table: Table, other: Table) -> Table:
        """The rows of two tables with the same columns."""

    def group(self, table: Table, columns: Columns, *keys: str, least: Collection[str] = ()) -> Table:
        """The rows of each combination of keys as one, with the sum, or the least, of each other column."""

    def keep(self, table: Table, columns: Columns, folder: Path) -> Table:
        """The table, computed once and written into a folder."""

    def rows(self, table: Table, of: type[Row], most: int, *order: str) -> list[Row]:
        """The first rows by these columns; those with a minus before their name descend. Null comes last.

        ``of`` is the class of the rows. It may have fewer columns than the table.
        """


def in_process(source: Source) -> Engine:
    """The engine for tables of Arrow. The subject is mapped as it is read; its stretches must fit into memory."""
    return _InProcess(source)


def on_spark(spark: SparkSession, source: Source, work: Path) -> Engine:
    """The engine for DataFrames. ``work`` is a folder for what several queries need."""
    return _OnSpark(spark, source, work)


class _InProcess:
    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, name: str) -> Iterator[pa.RecordBatch] | None:
        return self._source.batches(name)

    def map(self, table: pa.Table | Iterator[pa.RecordBatch], step: Step, columns: Columns) -> pa.Table:
        batches = table.to_batches() if isinstance(table, pa.Table) else table
        return pa.Table.from_batches(_mapped(_portions(batches), step, columns), columns.schema)

    def map_logs(self, table: pa.Table, step: Step, columns: Columns) -> pa.Table:
        ordered = table.sort_by([("author", "ascending"), ("log", "ascending")])
        return pa.Table.from_batches(_mapped(ordered.combine_chunks().to_batches(), step, columns), columns.schema)

    def held(self, table: pa.Table, columns: Columns) -> pa.Table:  # noqa: ARG002 - it is in memory
        return table

    def union(self, table: pa.Table, other: pa.Table) -> pa.Table:
        return pa.concat_tables([table, other])

    def group(self, table: pa.Table, columns: Columns, *keys: str, least: Collection[str] = ()) -> pa.Table:
        others = [(name, "min" if name in least else "sum") for name in columns.names if name not in keys]
        return table.group_by([*keys]).aggregate(others).rename_columns([*keys, *(name for name, _ in others)])

    def keep(self, table: pa.Table | Iterator[pa.RecordBatch], columns: Columns, folder: Path) -> pa.Table:
        whole = self.map(table, lambda rows: rows, columns)
        write_batches(whole.to_batches(), columns, folder)
        return whole

    def rows(self, table: pa.Table, of: type[Row], most: int, *order: str) -> list[Row]:
        keys = [(name.lstrip("-"), "descending" if name.startswith("-") else "ascending") for name in order]
        first = (table.sort_by(keys) if keys else table).slice(0, most)
        return typed(first.to_pylist(), of)


class _OnSpark:
    def __init__(self, spark: SparkSession, source: Source, work: Path) -> None:
        self._spark = spark
        self._source = source
        self._work = work

    def read(self, name: str) -> DataFrame | None:
        return self._source.table(name, self._spark, self._work)

    def map(self, table: DataFrame, step: Step, columns: Columns) -> DataFrame:
        return table.mapInArrow(lambda batches: _mapped(_portions(batches), step, columns), columns.ddl)

    def map_logs(self, table: DataFrame, step: Step, columns: Columns) -> DataFrame:
        log = "author", "log"
        ordered = table.repartition(*log).sortWithinPartitions(*log)
        return ordered.mapInArrow(lambda batches: _mapped(_whole_logs(batches), step, columns), columns.ddl)

    def held(self, table: DataFrame, columns: Columns) -> DataFrame:
        return kept(table, self._work / "held", columns.ddl)

    def union(self, table: DataFrame, other: DataFrame) -> DataFrame:
        return table.unionByName(other)

    def group(self, table: DataFrame, columns: Columns, *keys: str, least: Collection[str] = ()) -> DataFrame:
        from pyspark.sql import functions

        others = [
            (name, functions.min if name in least else functions.sum) for name in columns.names if name not in keys
        ]
        return table.groupBy(*keys).agg(*(aggregate(name).alias(name) for name, aggregate in others))

    def keep(self, table: DataFrame, columns: Columns, folder: Path) -> DataFrame:
        typed = table.selectExpr(*(f"CAST({name} AS {kind}) AS {name}" for name, kind in columns.types.items()))
        return kept(typed, folder, columns.ddl)

    def rows(self, table: DataFrame, of: type[Row], most: int, *order: str) -> list[Row]:
        from pyspark.sql import functions

        keys = [functions.col(name.lstrip("-")) for name in order]
        sorts = [
            key.desc_nulls_last() if name.startswith("-") else key.asc_nulls_last()
            for key, name in zip(keys, order, strict=True)
        ]
        return typed((table.orderBy(*sorts) if sorts else table).limit(most).collect(), of)


def _mapped(batches: Iterable[pa.RecordBatch], step: Step, columns: Columns) -> Iterator[pa.RecordBatch]:
    """The results of a step on each batch, with exactly these columns."""
    for batch in batches:
        if len(batch):
            made = step(pa.Table.from_batches([batch])).select(columns.names).cast(columns.schema)
            yield from made.combine_chunks().to_batches()


def _portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least ``_STEP_ROWS``, but for the last one."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        if rows >= _STEP_ROWS:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.concat_batches(waiting)


def _whole_logs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``_portions`` of rows that are sorted by log, each with whole logs. One log's rows must fit into memory."""
    waiting: list[pa.RecordBatch] = []
    for batch in _portions(batches):
        is_last = _is_of(batch, batch, len(batch) - 1)
        first_of_last = int(is_last.argmax())
        if waiting and not _is_of(batch.slice(0, 1), waiting[0], 0)[0]:
            yield pa.concat_batches(waiting)
            waiting = []
        if first_of_last:
            yield pa.concat_batches([*waiting, batch.slice(0, first_of_last)])
            waiting = []
        waiting.append(batch.slice(first_of_last))
    if waiting:
        yield pa.concat_batches(waiting)


def _is_of(rows: pa.RecordBatch, other: pa.RecordBatch, at: int) -> npt.NDArray[np.bool_]:
    """Which rows are of the log of a row of another batch."""
    author, log = (compute.equal(rows.column(name), other.column(name)[at]) for name in ("author", "log"))
    return np.asarray(compute.and_(author, log))


def typed(rows: Iterable[Any], of: type[Row]) -> list[Row]:
    """Rows by name as rows of a class, with ``int`` for decimals and ``bytes`` for bytearrays, which Spark has."""

    def plain(value: object) -> object:
        if isinstance(value, Decimal):
            return int(value)
        return bytes(value) if isinstance(value, bytearray) else value

    names = Columns.of(of).names
    make: Callable[..., Row] = of
    return [make(*(plain(row[name]) for name in names)) for row in rows]
