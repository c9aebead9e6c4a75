"""The engine in this process: tables are lists of rows (see ``culm.spark.engine``)."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic

from culm.spark.columns import Batch, R, batches, maker, names, rows
from culm.spark.engine import NOWHERE, Engine, Table
from culm.spark.output import write_here
from culm.spark.reading import split_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from culm.spark.columns import Row
    from culm.spark.engine import Read, Step, To
    from culm.spark.inputs import Split

    Key = Sequence[Any]  # some cells of a row, as a tuple


class Lazy(Generic[R]):
    """Rows that are made each time somebody goes through them, so that they need not be in memory together."""

    def __init__(self, make: Callable[[], Iterator[R]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[R]:
        return self._make()


class HereTable(Table[R]):
    """Rows: in a list, or made when they are asked for, as on Spark."""

    def __init__(self, table: type[R], rows: Iterable[R]) -> None:
        self.table = table
        self.rows = rows

    def map(self, step: Step, into: type[To], *, columnar: bool = False) -> HereTable[To]:
        def made() -> Iterator[To]:
            return rows_among(into, step(self._given(columnar=columnar)))

        return HereTable(into, Lazy(made))

    def keep(
        self, step: Step, *into: type[Row], at: Mapping[type[Row], Path] = NOWHERE, columnar: bool = False
    ) -> Sequence[HereTable[Any]]:
        return _kept(step(self._given(columnar=columnar)), into, at)

    def _given(self, *, columnar: bool) -> Iterator[Any]:
        return batches(self.table, self.rows) if columnar else iter(self.rows)

    def spread(self, by: Sequence[str], order: Sequence[str] = (), tasks: int | None = None) -> HereTable[R]:  # noqa: ARG002 - for Spark
        cells = _cells([name.removeprefix("-") for name in (*by, *order)])
        falling = [name.startswith("-") for name in (*by, *order)]

        def key(row: R) -> list[tuple[bool, Any]]:
            pairs = zip(cells(row), falling, strict=True)
            return [(cell is not None, -cell if falls and cell is not None else cell) for cell, falls in pairs]

        return HereTable(self.table, Lazy(lambda: iter(sorted(self.rows, key=key))))

    def join(self, other: Table[Any], on: Sequence[str], into: type[To], *, outer: bool = False) -> HereTable[To]:
        key, mine = _cells(on), [name in names(self.table) for name in names(into)]

        def joined() -> Iterator[To]:
            found: dict[Key, list[Row]] = {}
            for row in rows_of(other):
                found.setdefault(key(row), []).append(row)
            for row in self.rows:
                for match in found.get(key(row), [None] if outer else []):
                    sides = zip((row if own else match for own in mine), names(into), strict=True)
                    yield maker(into)(getattr(side, name, None) for side, name in sides)

        return HereTable(into, Lazy(joined))

    def among(self, other: Table[Any], on: Sequence[str]) -> HereTable[R]:
        return self._where(lambda key, found: key in found, other, on)

    def without(self, other: Table[Any], on: Sequence[str]) -> HereTable[R]:
        return self._where(lambda key, found: key not in found, other, on)

    def _where(self, wanted: Callable[[Key, set[Key]], bool], other: Table[Any], on: Sequence[str]) -> HereTable[R]:
        key = _cells(on)

        def chosen() -> Iterator[R]:
            found = set(map(key, rows_of(other)))
            return (row for row in self.rows if wanted(key(row), found))

        return HereTable(self.table, Lazy(chosen))

    def total(self, by: Sequence[str], into: type[To]) -> HereTable[To]:
        key, value = _cells(by), _cells(names(into)[len(by) :])

        def summed() -> Iterator[To]:
            sums: dict[Key, list[int]] = {}
            for row in self.rows:
                before = sums.get(key(row), [0] * len(value(row)))
                sums[key(row)] = [sum(pair) for pair in zip(before, value(row), strict=True)]
            return (maker(into)((*keys, *values)) for keys, values in sums.items())

        return HereTable(into, Lazy(summed))

    def dealt(self, among: Table[Any], on: Sequence[str], by: str, into: type[To]) -> HereTable[To]:
        key = _cells(on)

        def dealt() -> Iterator[To]:
            shares = {key(row): row.shares for row in rows_of(among)}
            for row in self.rows:
                share = hash(getattr(row, by)) % shares.get(key(row), 1)
                yield maker(into)(share if name == "share" else getattr(row, name) for name in names(into))

        return HereTable(into, Lazy(dealt))

    def union(self, other: Table[R]) -> HereTable[R]:
        return HereTable(self.table, Lazy(lambda: chain(self.rows, rows_of(other))))

    def select(self, into: type[To], **given: str | int | None) -> HereTable[To]:
        sources = [given.get(name, name if name in names(self.table) else None) for name in names(into)]

        def selected() -> Iterator[To]:
            for row in self.rows:
                yield maker(into)(getattr(row, source) if isinstance(source, str) else source for source in sources)

        return HereTable(into, Lazy(selected))

    def where(self, column: str) -> HereTable[R]:
        return HereTable(self.table, Lazy(lambda: (row for row in self.rows if getattr(row, column) is not None)))

    def batches(self, *columns: str) -> Iterator[pa.RecordBatch]:
        for batch in batches(self.table, self.rows):
            yield batch.select(list(columns))

    @property
    def is_empty(self) -> bool:
        return self.rows == []


class Here(Engine):
    """This process."""

    def read(
        self, splits: Sequence[Split], step: Read, *into: type[Row], at: Mapping[type[Row], Path] = NOWHERE
    ) -> Sequence[HereTable[Any]]:
        return _kept(step(chain.from_iterable(map(split_batches, splits))), into, at)

    def load(
        self,
        folders: Sequence[tuple[int, Path]],
        table: type[R],
        number: str,
        among: Table[Any] | None = None,
        on: Sequence[str] = (),
        having: str | None = None,
    ) -> HereTable[R]:
        def loaded() -> Iterator[R]:
            wanted = None if among is None else set(map(_cells(on), rows_of(among)))
            for value, folder in folders:
                for path in sorted(folder.glob("*.parquet")):
                    yield from _loaded(path, table, {number: value}, wanted, on, having)

        return HereTable(table, Lazy(loaded))

    def shelf(self, name: str) -> None:  # noqa: ARG002 - for Spark
        return None

    def free(self, name: str) -> None:
        pass


def _cells(columns: Sequence[str]) -> Callable[[Row], Key]:
    """A function that gives some columns of a row."""
    return attrgetter(*columns) if len(columns) > 1 else lambda row: (getattr(row, columns[0]),)


def rows_of(table: Table[R]) -> Iterable[R]:
    """The rows that a table of this engine has."""
    assert isinstance(table, HereTable)  # noqa: S101 - tables of two engines never meet
    return table.rows


def rows_among(table: type[R], made: Iterable[Row]) -> Iterator[R]:
    """The rows of one table among what a step makes."""
    for item in made:
        if isinstance(item, Batch):
            if item.table is table:
                yield from rows(table, [item.data])
        elif isinstance(item, table):
            yield item


def _kept(made: Iterable[Row], into: Sequence[type[Row]], at: Mapping[type[Row], Path]) -> list[HereTable[Any]]:
    """The tables of what a step made. Whole batches that go to a folder are not kept in memory, too."""
    found: dict[type[Row], list[Row]] = {table: [] for table in into}

    def passing() -> Iterator[Row]:
        for item in made:
            if isinstance(item, Batch):
                if item.table in found and item.table not in at:
                    found[item.table] += rows(item.table, [item.data])
            elif type(item) in found:
                found[type(item)].append(item)
            yield item

    write_here(passing(), at)
    return [HereTable(table, found[table]) for table in into]


def _loaded(
    path: Path,
    table: type[R],
    given: dict[str, int],
    wanted: set[Key] | None,
    on: Sequence[str],
    having: str | None,
) -> Iterator[R]:
    """The wanted rows of a file. Keys are read first, and the other columns of those row groups that have a wanted key.

    A day's worth of entries on top of a large state concerns few logs, and the entries are most of a state.
    """
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        stored = [name for name in names(table) if name in file.schema_arrow.names and name not in given]
        for group in range(file.num_row_groups):
            places = list(range(file.metadata.row_group(group).num_rows))
            if having is not None:
                valid = file.read_row_group(group, [having]).column(having).is_valid().to_pylist()
                places = [at for at in places if valid[at]]
            if wanted is not None and places:
                read = file.read_row_group(group, [name for name in on if name not in given])
                keys = list(zip(*_columns(read, on, given), strict=True))
                places = [at for at in places if keys[at] in wanted]
            if places:
                found = file.read_row_group(group, stored).take(places)
                yield from map(maker(table), zip(*_columns(found, names(table), given), strict=True))


def _columns(found: pa.Table, columns: Sequence[str], given: Mapping[str, int]) -> Iterator[list[Any]]:
    """The cells of some columns: from a table, or one value for all rows, or null."""
    for name in columns:
        if name in found.column_names:
            yield found.column(name).to_pylist()
        else:
            yield [given.get(name)] * len(found)
