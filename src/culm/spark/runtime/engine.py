"""The two places where the pipeline runs, behind one interface: this process, and Spark (``onspark``).

Spark takes ten seconds to start and some seconds for each table. A store of a few thousand entries, or a day's worth on
top of a large state, is verified in less time than that. Spark is needed where the inputs do not fit into one process.
So there are two engines, and the size of the inputs decides (``shell.is_small``).

Two engines must not give two answers, so the pipeline is written once. It consists of *steps*, plain functions from
rows to rows, and says how rows get from step to step: ``verification.verify`` for verdicts, ``verification.forks`` for
proofs, and so on. The engines only know tables::

    packs, rejects = engine.read(splits, gather, PackRow, Reject)
    (segments,) = packs.spread(BLOCK).keep(judge, SegmentRow)

A step may make rows of several tables: the class of each row says which table it belongs to. Here a table is batches
of Arrow, and a step is called once with all rows. On Spark a table is a DataFrame, and a step is called in every task
with the rows of that task. What ``keep`` makes is made once: in memory here, in Parquet files on Spark, which outlive
an executor.

``Table`` and ``Engine`` say what each operation means, and do it in this process. Those of ``onspark`` replace all that
Spark does otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from shutil import rmtree
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import compute, dataset, fs

from culm.spark.batches.fields import Flags
from culm.spark.reading.entries import split_batches
from culm.spark.reading.inputs import Split
from culm.spark.runtime.columns import Batch, R, Row, batched, batches, fitted, in_order, names, rows, schema
from culm.spark.runtime.output import Read, read_batches, write_here

Step = Callable[[Iterator[Any]], Iterable[Row]]
Chosen = Callable[[pa.Table], Flags]
By = tuple[Sequence[str], Chosen]
Overlap = tuple[str, str, str, str] | None

To = TypeVar("To", bound="Row")

Places = Mapping[type[Row], Path]
NOWHERE: Places = {}


class Table(Generic[R]):
    """Rows of one class, ``table``: batches that ``make`` gives, of a list, or made each time when they are asked for.

    So what a step makes need not be in memory as a whole.
    """

    def __init__(self, table: type[R], make: Callable[[], Iterable[pa.RecordBatch]]) -> None:
        self.table, self._make = table, make

    def map(self, step: Step, into: type[To], *, columnar: bool = False) -> Table[To]:
        """What a step makes of the rows, when it is asked for; rows of other tables than ``into`` are dropped.

        ``columnar``: the step takes Arrow batches instead of rows.
        """
        work = work_of(step, self.table, columnar=columnar)
        return Table(into, lambda: batches(into, work(iter(self._make()))))

    def keep(self, step: Step, *into: type[Row], at: Places = NOWHERE, columnar: bool = False) -> Sequence[Table[Any]]:
        """The tables that a step makes of the rows, made once, in the order of ``into``.

        ``at`` names new folders for those that are to stay as Parquet files.
        """
        return _kept(work_of(step, self.table, columnar=columnar)(iter(self._make())), into, at)

    def spread(self, by: Sequence[str], order: Sequence[str] = (), tasks: int | None = None) -> Table[R]:  # noqa: ARG002 - for engines with tasks
        """The rows sorted by ``by``, then ``order``, nulls first; rows that are equal in ``by`` meet in one task.

        A name in ``order`` that begins with a minus is that of a column of numbers that descends.
        ``tasks``: how many tasks share the rows. None leaves that to Spark, which goes by the size of the rows. Name a
        number where cells lie in files (``batches.slices``), because such rows say nothing about the work.
        """
        return Table(self.table, lambda: in_order(self.whole(), map(_key, (*by, *order))))

    def join(self, other: Table[Any], on: Sequence[str], into: type[To], overlap: Overlap = None) -> Table[To]:
        """Each pair of rows that are equal in ``on``, with the columns of another class, which are found by name.

        A column that both have is taken from this table; one that neither has is null. ``overlap`` names a first and a
        last column of this table, and then of the other one: only pairs whose spans overlap, but also the rows of this
        table that equal none of the other. The other class needs these columns, too.
        """
        theirs = [*on, *(name for name in names(into) if name in {*names(other.table)} - {*names(self.table)})]

        def joined() -> pa.Table:
            kind = "left outer" if overlap else "inner"
            found = _numbered(self.whole()).join(other.whole().select(theirs), [*on], join_type=kind)
            if overlap:
                first, last, low, high = map(compute.field, overlap)
                found = found.filter(low.is_null() | ((first <= high) & (low <= last)))
            return fitted(found.sort_by("#"), into)

        return _whole(into, joined)

    def among(self, other: Table[Any], on: Sequence[str], kind: str = "semi") -> Table[R]:
        """The rows that equal some row of another table in ``on``; with the kind ``anti`` all others."""
        others = cache(lambda: other.whole().select([*on]))

        def chosen(found: pa.Table) -> Flags:
            met = _numbered(found).join(others(), [*on], join_type=f"left {kind}")
            return np.isin(np.arange(len(found)), met.column("#"))

        return self._filtered(on, chosen)

    def where(self, column: str) -> Table[R]:
        """The rows that have a value in this column."""
        return self._filtered([column], lambda found: np.asarray(found.column(column).is_valid()))

    def _filtered(self, columns: Sequence[str], chosen: Chosen) -> Table[R]:
        """The rows that ``chosen`` marks when it sees these columns."""
        return _whole(self.table, lambda: (whole := self.whole()).filter(chosen(whole.select([*columns]))))

    def total(self, by: Sequence[str], into: type[To], *, least: Collection[str] = ()) -> Table[To]:
        """One row for all rows that are equal in ``by``: with the sum, or the least, of each other column of ``into``.

        Nulls do not count. A sum of nulls alone is null.
        """
        others = [(name, "min" if name in least else "sum") for name in names(into)[len(by) :]]
        kinds = schema(into)
        return _whole(
            into, lambda: self.whole().group_by([*by]).aggregate(others).rename_columns(kinds.names).cast(kinds)
        )

    def union(self, other: Table[R]) -> Table[R]:
        """The rows of both."""
        return Table(self.table, lambda: chain(self._make(), other.batches(*names(self.table))))

    def select(self, into: type[To], **given: str | int | None) -> Table[To]:
        """The rows with the columns of another class. ``given`` says where a column does not come from its namesake.

        ``given`` has the name of another column, a number that all rows get, or None for null. A column that is neither
        here nor given is null.
        """
        return _whole(into, lambda: fitted(self.whole(), into, given))

    def first(self, into: type[To], most: int, *order: str) -> list[To]:
        """The first rows by some columns, in this process, as rows of another class with some of the columns.

        A column whose name begins with a minus descends. Null comes last.
        """
        found = self.whole().sort_by([*map(_key, order)]) if order else self.whole()
        return list(rows(into, found.slice(0, most).to_batches()))

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        """Some columns of a kept table, in this process."""
        return (batch.select([*columns]) for batch in self._make())

    def whole(self) -> pa.Table:
        """The table as one of Arrow."""
        return pa.Table.from_batches(self.batches(*names(self.table)), schema(self.table))

    @property
    def is_empty(self) -> bool:
        """Whether the table has no rows; False if that is not known before the rows are asked for."""
        return not self.count()

    def dealt(self, among: Table[Any], on: Sequence[str], by: str, into: type[To], amount: str, most: int) -> Table[To]:  # noqa: ARG002 - for engines with tasks
        """The rows dealt out to several tasks, where too many equal in ``on``, with the columns of another class.

        The column ``amount`` of ``among`` says how much work there is, and ``most`` how much is for one task; few rows
        have more. The column ``share`` becomes the number of the task, the same for all rows that have one value of
        ``by``; 0 where one task is enough.
        """
        return self.select(into, share=0)

    def kept(self, at: Path | None = None) -> Table[R]:
        """The rows, made once; ``at`` names a new folder if they are to stay as Parquet files."""
        places: Places = {} if at is None else {self.table: at}
        return self.keep(partial(_as_they_are, self.table), self.table, at=places, columnar=True)[0]

    def count(self) -> int:
        """How many rows a kept table has."""
        return sum(batch.num_rows for batch in self.batches(names(self.table)[0]))


class _Files(Table[R]):
    """Rows in row groups of Parquet files. Little more is read than the rows that are chosen.

    A day's worth of entries on top of a large state concerns few logs, and the entries are most of a state. So the
    columns by which rows are chosen are read first, and the others only of those row groups that have a chosen row.
    """

    def __init__(self, table: type[R], files: Sequence[dataset.ParquetFileFragment], *by: By) -> None:
        super().__init__(table, self._read)
        self._files, self._by = files, by

    def _filtered(self, columns: Sequence[str], chosen: Chosen) -> Table[R]:
        return _Files(self.table, self._files, *self._by, (columns, chosen))

    def _read(self) -> Iterator[pa.RecordBatch]:
        kinds = schema(self.table)  # with it, a column that a file lacks is null
        for group in chain.from_iterable(file.split_by_row_group() for file in self._files):
            masks = [chosen(group.to_table(kinds, [*columns])) for columns, chosen in self._by]
            if all(mask.any() for mask in masks):
                found = group.to_table(kinds)
                yield from (found.filter(np.logical_and.reduce(masks)) if masks else found).to_batches()


class Engine:
    """Makes tables, of inputs and of folders.

    ``work``: a folder for tables and bytes that are kept for a while, where there is one.
    """

    work: Path | None = None

    def read(self, splits: Sequence[Split], step: Read, *into: type[Row], at: Places = NOWHERE) -> Sequence[Table[Any]]:
        """``Table.keep`` for the rows of some inputs, which come as batches (``reading.found.EntryRow``)."""
        return _kept(step(chain.from_iterable(map(split_batches, splits))), into, at)

    def stored(self, folder: Path, table: type[R]) -> Table[R]:
        """The rows in a folder of Parquet files. Columns that the class does not have are not read."""
        return Table(table, lambda: read_batches(folder, names(table)))

    def load(self, folders: Sequence[tuple[int, Path]], table: type[R], number: str) -> Table[R]:
        """The rows in several folders of Parquet files.

        Each folder has a number, which stands in the column ``number`` of its rows. A column that a file lacks is null.
        If rows are chosen of the table (``among``, ``where``), little more than these is read.
        """
        form, here = dataset.ParquetFileFormat(), fs.LocalFileSystem()
        files = [
            form.make_fragment(str(path), here, dataset.field(number) == value)
            for value, folder in folders
            for path in sorted(folder.glob("*.parquet"))
        ]
        return _Files(table, files)

    def shelf(self, name: str) -> Path | None:
        """A folder where workers may leave the bytes of their rows (``batches.slices``); None if there is none."""
        return None if self.work is None else self.work / name

    def free(self, name: str) -> None:
        """Remove what lies on a shelf."""
        if self.work is not None:
            rmtree(self.work / name, ignore_errors=True)


def work_of(step: Step, table: type[Row], *, columnar: bool) -> Read:
    """A step as it is done with Arrow batches of a table."""
    return step if columnar else lambda found: step(rows(table, found))


def _as_they_are(table: type[Row], found: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    return (Batch(table, batch.cast(schema(table))) for batch in found)


def _whole(into: type[To], make: Callable[[], pa.Table]) -> Table[To]:
    """A table of Arrow with the columns of ``into``, made when it is asked for."""
    return Table(into, lambda: make().to_batches())


def _numbered(found: pa.Table) -> pa.Table:
    """With the number of each row, because a join changes their order."""
    return found.append_column("#", [np.arange(len(found))])


def _key(column: str) -> tuple[str, str]:
    """A column to sort by, as Arrow takes it; one with a minus before its name descends."""
    return column.removeprefix("-"), "descending" if column.startswith("-") else "ascending"


def _kept(made: Iterable[Row], into: Sequence[type[Row]], at: Places) -> list[Table[Any]]:
    """The tables of what a step made: in memory, or in folders from which they are read when they are asked for."""
    found: dict[type[Row], list[pa.RecordBatch]] = {table: [] for table in into}

    def passing() -> Iterator[Batch]:
        for batch in batched(made, {*into, *at}):
            if batch.table in at:
                yield batch
            elif batch.data.num_rows:
                found[batch.table].append(batch.data)

    write_here(passing(), at)
    return [Engine().stored(at[table], table) if table in at else Table(table, found[table].copy) for table in into]
