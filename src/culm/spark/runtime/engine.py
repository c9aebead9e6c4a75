"""The two places where the pipeline runs, behind one interface: this process (``here``), and Spark (``onspark``).

Spark takes ten seconds to start and some seconds for each table. A store of a few thousand entries, or a day's worth on
top of a large state, is verified in less time than that. Spark is needed where the inputs do not fit into one process.
So there are two engines, and the size of the inputs decides (``reading.inputs.is_small``).

Two engines must not give two answers, so the pipeline is written once. It consists of *steps*, plain functions from
rows to rows, and says how rows get from step to step: ``verification.verify`` for verdicts, ``verification.forks`` for
proofs, and so on. The engines only know tables::

    packs, rejects = engine.read(splits, gather, PackRow, Reject)
    (segments,) = packs.spread(BLOCK).keep(judge, SegmentRow)

A step may make rows of several tables: the class of each row says which table it belongs to. Here a table is batches
of Arrow, and a step is called once with all rows. On Spark a table is a DataFrame, and a step is called in every task
with the rows of that task. What ``keep`` makes is made once: in memory here, in Parquet files on Spark, which outlive
an executor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from culm.spark.reading.inputs import Split
from culm.spark.runtime.columns import Batch, R, Row, names, rows, schema

Step = Callable[[Iterator[Any]], Iterable[Row]]
Read = Callable[[Iterator[pa.RecordBatch]], Iterable[Row]]

To = TypeVar("To", bound="Row")

Overlap = tuple[str, str, str, str] | None

NOWHERE: Mapping[type[Row], Path] = {}


class Table(Protocol[R]):
    """Rows of one class, ``table``, somewhere."""

    table: type[R]

    def map(self, step: Step, into: type[To], *, columnar: bool = False) -> Table[To]:
        """What a step makes of the rows, when it is asked for; rows of other tables than ``into`` are dropped.

        ``columnar``: the step takes Arrow batches instead of rows.
        """
        return self.mapped(step if columnar else partial(_by_rows, step, self.table), into)

    def keep(
        self, step: Step, *into: type[Row], at: Mapping[type[Row], Path] = NOWHERE, columnar: bool = False
    ) -> Sequence[Table[Any]]:
        """The tables that a step makes of the rows, made once, in the order of ``into``.

        ``at`` names new folders for those that are to stay as Parquet files.
        """
        return self.made(step if columnar else partial(_by_rows, step, self.table), into, at)

    def mapped(self, work: Read, into: type[To]) -> Table[To]:
        """``map`` for a step that takes Arrow batches."""

    def made(self, work: Read, into: Sequence[type[Row]], at: Mapping[type[Row], Path]) -> Sequence[Table[Any]]:
        """``keep`` for such a step."""

    def spread(self, by: Sequence[str], order: Sequence[str] = (), tasks: int | None = None) -> Table[R]:
        """The rows sorted by ``by``, then ``order``, nulls first; rows that are equal in ``by`` meet in one task.

        A name in ``order`` that begins with a minus is that of a column of numbers that descends.
        ``tasks``: how many tasks share the rows. None leaves that to Spark, which goes by the size of the rows. Name a
        number where cells lie in files (``batches.slices``), because such rows say nothing about the work.
        """

    def join(
        self, other: Table[Any], on: Sequence[str], into: type[To], *, outer: bool = False, overlap: Overlap = None
    ) -> Table[To]:
        """Each pair of rows that are equal in ``on``, with the columns of another class, which are found by name.

        A column that both have is taken from this table; one that neither has is null. ``outer``: with the rows of this
        table that equal none of the other. ``overlap`` names a first and a last column of this table, and then of the
        other one: only pairs whose spans overlap. The other class needs these columns, too.
        """

    def among(self, other: Table[Any], on: Sequence[str]) -> Table[R]:
        """The rows that equal some row of another table in ``on``."""

    def without(self, other: Table[Any], on: Sequence[str]) -> Table[R]:
        """The rows that equal none of another table in ``on``."""

    def total(self, by: Sequence[str], into: type[To], *, least: Collection[str] = ()) -> Table[To]:
        """One row for all rows that are equal in ``by``: with the sum, or the least, of each other column of ``into``.

        Nulls do not count. A sum of nulls alone is null.
        """

    def union(self, other: Table[R]) -> Table[R]:
        """The rows of both."""

    def select(self, into: type[To], **given: str | int | None) -> Table[To]:
        """The rows with the columns of another class. ``given`` says where a column does not come from its namesake.

        ``given`` has the name of another column, a number that all rows get, or None for null. A column that is neither
        here nor given is null.
        """

    def where(self, column: str) -> Table[R]:
        """The rows that have a value in this column."""

    def first(self, into: type[To], most: int, *order: str) -> list[To]:
        """The first rows by some columns, in this process, as rows of another class with some of the columns.

        A column whose name begins with a minus descends. Null comes last.
        """

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        """Some columns of a kept table, in this process."""

    @property
    def is_empty(self) -> bool:
        """Whether the table has no rows; False if that is not known before the rows are asked for."""

    def dealt(self, among: Table[Any], on: Sequence[str], by: str, into: type[To], amount: str, most: int) -> Table[To]:  # noqa: ARG002 - for engines with tasks
        """The rows dealt out to several tasks, where too many equal in ``on``, with the columns of another class.

        The column ``amount`` of ``among`` says how much work there is, and ``most`` how much is for one task; few rows
        have more. The column ``share`` becomes the number of the task, the same for all rows that have one value of
        ``by``; 0 where one task is enough.
        """
        return self.select(into, share=0)

    def kept(self, at: Path | None = None) -> Table[R]:
        """The rows, made once; ``at`` names a new folder if they are to stay as Parquet files."""
        places: Mapping[type[Row], Path] = {} if at is None else {self.table: at}
        (made,) = self.keep(partial(_as_they_are, self.table), self.table, at=places, columnar=True)
        return made

    def count(self) -> int:
        """How many rows a kept table has."""
        return sum(batch.num_rows for batch in self.batches(names(self.table)[0]))


def _by_rows(step: Step, table: type[Row], found: Iterator[pa.RecordBatch]) -> Iterable[Row]:
    return step(rows(table, found))


def _as_they_are(table: type[Row], found: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    return (Batch(table, batch.cast(schema(table))) for batch in found)


class Engine(Protocol):
    """Makes tables, of inputs and of folders."""

    def read(
        self, splits: Sequence[Split], step: Read, *into: type[Row], at: Mapping[type[Row], Path] = NOWHERE
    ) -> Sequence[Table[Any]]:
        """``Table.keep`` for the rows of some inputs, which come as batches (``reading.found.EntryRow``)."""

    def stored(self, folder: Path, table: type[R]) -> Table[R]:
        """The rows in a folder of Parquet files. Columns that the class does not have are not read."""

    def load(self, folders: Sequence[tuple[int, Path]], table: type[R], number: str) -> Table[R]:
        """The rows in several folders of Parquet files.

        Each folder has a number, which stands in the column ``number`` of its rows. A column that a file lacks is null.
        If rows are chosen of the table (``among``, ``where``), little more than these is read.
        """

    def shelf(self, name: str) -> Path | None:  # noqa: ARG002 - for engines with workers
        """A folder where workers may leave the bytes of their rows (``batches.slices``); None if there is none."""
        return None

    def free(self, name: str) -> None:  # noqa: ARG002 - for engines with workers
        """Remove what lies on a shelf, and the tables that have its name."""
        return
