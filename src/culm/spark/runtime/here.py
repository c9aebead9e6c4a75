"""The engine in this process: tables are lists of Arrow's batches, which are small here (see ``engine``)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute, parquet

from culm.spark.reading.entries import split_batches
from culm.spark.reading.inputs import Split
from culm.spark.runtime.columns import BATCH_ROWS, Batch, R, Row, batched, batches, names, rows, schema, table_of
from culm.spark.runtime.engine import NOWHERE, Engine, Overlap, Read, Table, To
from culm.spark.runtime.output import read_batches, write_here

Mask = npt.NDArray[np.bool_]
Chosen = Callable[[pa.Table], Mask]


class Lazy(Iterable[Row]):
    """Rows that are made each time somebody goes through them, so that they need not be in memory together."""

    def __init__(self, make: Callable[[], Iterable[Row]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Row]:
        return iter(self._make())


class HereTable(Table[R]):
    """What steps made: rows and ``Batch``es, in a list, or made when they are asked for, as on Spark."""

    def __init__(self, table: type[R], items: Iterable[Row]) -> None:
        self.table = table
        self.items = items

    def mapped(self, work: Read, into: type[To]) -> HereTable[To]:
        return HereTable(into, Lazy(lambda: work(batches(self.table, self.items))))

    def made(self, work: Read, into: Sequence[type[Row]], at: Mapping[type[Row], Path]) -> Sequence[HereTable[Any]]:
        return _kept(work(batches(self.table, self.items)), into, at)

    def _made(self, into: type[To], make: Callable[[], pa.Table]) -> HereTable[To]:
        """A table of Arrow with the columns of ``into``, made when it is asked for."""
        return HereTable(into, Lazy(lambda: (Batch(into, batch) for batch in make().to_batches())))

    def spread(self, by: Sequence[str], order: Sequence[str] = (), tasks: int | None = None) -> HereTable[R]:  # noqa: ARG002 - for Spark
        return HereTable(self.table, Lazy(lambda: _sorted(self.table, whole_of(self), _keys((*by, *order)))))

    def join(
        self, other: Table[Any], on: Sequence[str], into: type[To], *, outer: bool = False, overlap: Overlap = None
    ) -> HereTable[To]:
        theirs = [name for name in names(into) if name in names(other.table) and name not in names(self.table)]

        def joined() -> pa.Table:
            mine, kind = whole_of(self), "left outer" if outer else "inner"
            numbered = mine.append_column("#", [np.arange(len(mine))])
            found = numbered.join(whole_of(other).select([*on, *theirs]), [*on], join_type=kind)
            if overlap is not None:
                first, last, low, high = map(compute.field, overlap)
                found = found.filter(low.is_null() | ((first <= high) & (low <= last)))
            return _fitted(found.sort_by("#"), into)

        return self._made(into, joined)

    def among(self, other: Table[Any], on: Sequence[str]) -> HereTable[R]:
        others = cache(lambda: whole_of(other).select([*on]))
        return self.filtered(on, lambda found: _is_among(found, others(), on))

    def without(self, other: Table[Any], on: Sequence[str]) -> HereTable[R]:
        return self.filtered(on, lambda found: ~_is_among(found, whole_of(other), on))

    def where(self, column: str) -> HereTable[R]:
        return self.filtered([column], lambda found: np.asarray(found.column(column).is_valid()))

    def filtered(self, columns: Sequence[str], chosen: Chosen) -> HereTable[R]:
        """The rows that ``chosen`` marks when it sees these columns."""
        return self._made(self.table, lambda: (whole := whole_of(self)).filter(chosen(whole.select([*columns]))))

    def total(self, by: Sequence[str], into: type[To], *, least: Collection[str] = ()) -> HereTable[To]:
        others = [(name, "min" if name in least else "sum") for name in names(into)[len(by) :]]

        def summed() -> pa.Table:
            found = whole_of(self).group_by(list(by)).aggregate(others).rename_columns(list(names(into)))
            return found.cast(schema(into))

        return self._made(into, summed)

    def union(self, other: Table[R]) -> HereTable[R]:
        return HereTable(self.table, Lazy(lambda: chain(self.items, items_of(other))))

    def select(self, into: type[To], **given: str | int | None) -> HereTable[To]:
        return self._made(into, lambda: _fitted(whole_of(self), into, given))

    def first(self, into: type[To], most: int, *order: str) -> list[To]:
        found = whole_of(self).sort_by(_keys(order)) if order else whole_of(self)
        return list(rows(into, found.slice(0, most).to_batches()))

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        return (batch.select(list(columns)) for batch in batches(self.table, self.items))

    @property
    def is_empty(self) -> bool:
        return self.items == []


class FilesTable(HereTable[R]):
    """Rows in files, each with the number of its folder. Little more is read than the rows that are chosen.

    A day's worth of entries on top of a large state concerns few logs, and the entries are most of a state. So the
    columns by which rows are chosen are read first, and the others only of those row groups that have a chosen row.
    """

    def __init__(
        self,
        table: type[R],
        folders: Sequence[tuple[int, Path]],
        number: str,
        chosen: Sequence[tuple[Sequence[str], Chosen]] = (),
    ) -> None:
        super().__init__(table, Lazy(self._read))
        self._files = folders, number
        self._chosen = chosen

    def filtered(self, columns: Sequence[str], chosen: Chosen) -> HereTable[R]:
        return FilesTable(self.table, *self._files, [*self._chosen, (columns, chosen)])

    def _read(self) -> Iterator[Batch]:
        folders, number = self._files
        for value, folder in folders:
            for path in sorted(folder.glob("*.parquet")):
                with parquet.ParquetFile(path) as file:
                    for group in range(file.num_row_groups):
                        found = self._read_group(file, group, {number: value})
                        yield from (Batch(self.table, batch) for batch in found.to_batches())

    def _read_group(self, file: parquet.ParquetFile, group: int, given: Mapping[str, int]) -> pa.Table:
        def read(columns: Iterable[str]) -> pa.Table:
            there = [name for name in columns if name in file.schema_arrow.names and name not in given]
            return _fitted(file.read_row_group(group, there), self.table, given)

        mask = np.ones(file.metadata.row_group(group).num_rows, np.bool_)
        for columns, chosen in self._chosen:
            if mask.any():
                mask &= chosen(read(columns))
        return read(names(self.table)).filter(mask) if mask.any() else schema(self.table).empty_table()


class Here(Engine):
    """This process."""

    def read(
        self, splits: Sequence[Split], step: Read, *into: type[Row], at: Mapping[type[Row], Path] = NOWHERE
    ) -> Sequence[HereTable[Any]]:
        return _kept(step(chain.from_iterable(map(split_batches, splits))), into, at)

    def stored(self, folder: Path, table: type[R]) -> HereTable[R]:
        return HereTable(table, Lazy(lambda: (Batch(table, batch) for batch in read_batches(folder, names(table)))))

    def load(self, folders: Sequence[tuple[int, Path]], table: type[R], number: str) -> HereTable[R]:
        return FilesTable(table, folders, number)


def items_of(table: Table[Any]) -> Iterable[Row]:
    """What a table of this engine has: rows and batches."""
    assert isinstance(table, HereTable)  # noqa: S101 - tables of two engines never meet
    return table.items


def whole_of(table: Table[Any]) -> pa.Table:
    """A table of this engine as one of Arrow."""
    return table_of(table.table, items_of(table))


def rows_of(table: Table[R]) -> Iterator[R]:
    """The rows that a table of this engine has."""
    return rows(table.table, batches(table.table, items_of(table)))


def _fitted(found: pa.Table, into: type[Row], given: Mapping[str, str | int | None] | None = None) -> pa.Table:
    """The columns of a class: of this name, or as ``given`` says (``Table.select``), or null."""
    columns = []
    for field in schema(into):
        source = (given or {}).get(field.name, field.name if field.name in found.column_names else None)
        is_column = isinstance(source, str)
        columns.append(found.column(source) if is_column else pa.array([source] * len(found), field.type))
    return pa.table(columns, schema=schema(into))


def _is_among(found: pa.Table, others: pa.Table, on: Sequence[str]) -> Mask:
    """Which rows equal a row of another table in some columns."""
    numbered = found.select([*on]).append_column("#", [np.arange(len(found))])
    mask = np.zeros(len(found), np.bool_)
    mask[np.asarray(numbered.join(others.select([*on]), [*on], join_type="left semi").column("#"))] = True
    return mask


def _keys(columns: Iterable[str]) -> list[tuple[str, str]]:
    """Columns to sort by, as Arrow takes them; those with a minus before their name descend."""
    return [(name.removeprefix("-"), "descending" if name.startswith("-") else "ascending") for name in columns]


def _sorted(table: type[Row], whole: pa.Table, keys: list[tuple[str, str]]) -> Iterator[Batch]:
    marked, order_by = whole, []
    for name, way in keys:  # Arrow has nulls at the end, so whether there is a value is sorted by first.
        marked = marked.append_column(f"{name} is there", whole.column(name).is_valid())
        order_by += [(f"{name} is there", "ascending"), (name, way)]
    order = compute.sort_indices(marked, order_by)
    # Arrow can take rows from one array only, and the cells of one array of ``binary`` are below 2 GiB together.
    large = pa.schema([(one.name, pa.large_binary() if one.type == pa.binary() else one.type) for one in whole.schema])
    one_piece = whole.cast(large).combine_chunks()
    for at in range(0, len(order), BATCH_ROWS):
        for batch in one_piece.take(order.slice(at, BATCH_ROWS)).cast(whole.schema).to_batches():
            yield Batch(table, batch)


def _kept(made: Iterable[Row], into: Sequence[type[Row]], at: Mapping[type[Row], Path]) -> list[HereTable[Any]]:
    """The tables of what a step made: in memory, or in folders from which they are read when they are asked for."""
    found: dict[type[Row], list[Row]] = {table: [] for table in into}

    def passing() -> Iterator[Batch]:
        for batch in batched(made, {*into, *at}):
            if batch.table in at:
                yield batch
            elif batch.data.num_rows:
                found[batch.table].append(batch)

    write_here(passing(), at)
    return [Here().stored(at[table], table) if table in at else HereTable(table, found[table]) for table in into]
