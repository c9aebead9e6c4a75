"""Tables: one class each, from which its columns are derived for Spark, for Arrow and for Python.

A table is a ``NamedTuple``. Its annotations are its columns, so that a type checker sees every use of one::

    class Outcome(NamedTuple):
        author: bytes               # BINARY
        low: int                    # BIGINT
        size: Unsigned              # DECIMAL(20,0)
        forked_at: int | None       # BIGINT

    schema(Outcome)                 # author: binary, low: int64, size: decimal128(20, 0), forked_at: int64

Log ids, sequence numbers and sizes go up to 2^64 - 1. Spark has no unsigned 64-bit type; its decimals hold them, but
are slow to sort and to join by. Between the steps these numbers are therefore signed longs, 2^63 lower, which keep
their order (``culm.store.schema.to_sql``, ``from_sql``): 1 becomes -2^63 + 1. Only tables for users have decimals.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType, NoneType
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar, cast, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

UNSIGNED = pa.decimal128(20, 0)
"""The type of a column of unsigned 64-bit numbers, in tables for users."""

Unsigned = Annotated[int, UNSIGNED]
Sum = Annotated[int, pa.decimal128(38, 0)]  # a sum of such numbers
Tiny = Annotated[int, pa.int8()]
Short = Annotated[int, pa.int32()]

# Rows in one Arrow batch, and bytes of their binary cells. Larger batches hold more in a worker at once; smaller ones
# cost more for each row, because Arrow and Spark do some work for each batch.
BATCH_ROWS = 2000
BATCH_BYTES = 16 * 1024 * 1024

_ARROW = {bytes: pa.binary(), int: pa.int64(), str: pa.string(), bool: pa.bool_(), float: pa.float64()}


class Row(Protocol):
    """A row of any table: what all classes of ``NamedTuple`` have."""

    def _asdict(self) -> dict[str, Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


R = TypeVar("R", bound=Row)
A = TypeVar("A", pa.RecordBatch, pa.Table)


class Batch(NamedTuple):
    """Rows of a table as an Arrow batch, for steps that make whole columns."""

    table: type[Row]
    data: pa.RecordBatch


def names(table: type[Row]) -> tuple[str, ...]:
    """The names of a table's columns, in order."""
    return cast("tuple[str, ...]", cast("Any", table)._fields)


def combined(name: str, module: str, *tables: type[Row], only: Sequence[str] = ()) -> type[Row]:
    """A table with the columns of several tables, each column once: what a join of them has, for columnar steps.

    ``name`` and ``module`` are those of the variable, by which workers find the class. ``only``: with these columns.
    """
    columns = {name: kind for table in tables for name, kind in get_type_hints(table, include_extras=True).items()}
    found: type[Row] = cast("Any", NamedTuple)(name, [(column, columns[column]) for column in only or columns])
    found.__module__ = module
    return found


@cache
def schema(table: type[Row]) -> pa.Schema:
    """The columns as a schema of Arrow. ``KeyError`` for an annotation that no table has so far."""
    return pa.schema([(name, _arrow(kind)) for name, kind in get_type_hints(table, include_extras=True).items()])


def _arrow(kind: Any) -> pa.DataType:  # noqa: ANN401 - an annotation
    if NoneType in get_args(kind):
        (kind,) = set(get_args(kind)) - {NoneType}
    return get_args(kind)[1] if get_origin(kind) is Annotated else _ARROW[kind]


def struct(table: type[Row]) -> StructType:
    """The columns as a schema of Spark."""
    return from_arrow_schema(schema(table))


def rows(table: type[R], batches: Iterable[pa.RecordBatch]) -> Iterator[R]:
    """The rows of Arrow batches. The batches may have further columns, in any order."""
    make: Callable[[Iterable[Any]], R] = cast("Any", table)._make
    for batch in batches:
        yield from map(make, zip(*(_cells(batch.column(name)) for name in names(table)), strict=True))


def _cells(column: pa.Array) -> list[Any]:
    """The values of a column. All decimals of tables are whole numbers, so they become ``int``."""
    values: list[Any] = column.to_pylist()
    if str(column.type).startswith("decimal"):
        return [None if value is None else int(value) for value in values]
    return values


def batch_of(table: type[Row], some: Iterable[Row]) -> pa.RecordBatch:
    """Rows, at least one, as one Arrow batch. Further cells of a row are left out."""
    return pa.RecordBatch.from_pydict(dict(zip(names(table), zip(*some, strict=True), strict=False)), schema(table))


def table_of(table: type[Row], some: Iterable[Row]) -> pa.Table:
    """Rows, or none, as one table of Arrow."""
    return pa.Table.from_batches(batches(table, some), schema(table))


def fitted(found: A, into: type[Row], given: Mapping[str, Any] = MappingProxyType({})) -> A:
    """The columns of a class, with its types, in a table or batch: of the same name, else null, or what is ``given``.

    That is the name of another column, one value for all rows, or the values.
    """
    columns = []
    for field in schema(into):
        source = given.get(field.name, field.name if field.name in found.schema.names else None)
        if isinstance(source, str):
            columns.append(found.column(source).cast(field.type))
        else:
            columns.append(pa.array(source if np.iterable(source) else [source] * len(found), field.type))
    return type(found).from_arrays(columns, schema=schema(into))


def in_order(table: pa.Table, keys: Iterable[tuple[str, str]]) -> Iterator[pa.RecordBatch]:
    """The rows, sorted by columns that are ``ascending`` or ``descending``, nulls first."""
    marked, order_by = table, []
    for name, way in keys:  # Arrow has nulls at the end, so whether there is a value is sorted by first.
        marked = marked.append_column(f"{name} is there", table.column(name).is_valid())
        order_by += [(f"{name} is there", "ascending"), (name, way)]
    order = compute.sort_indices(marked, order_by)
    # Arrow can take rows from one array only, and the cells of one array of ``binary`` are below 2 GiB together.
    large = pa.schema([(one.name, pa.large_binary() if one.type == pa.binary() else one.type) for one in table.schema])
    one_piece = table.cast(large).combine_chunks()
    for at in range(0, len(order), BATCH_ROWS):
        yield from one_piece.take(order.slice(at, BATCH_ROWS)).cast(table.schema).to_batches()


def batches(table: type[Row], made: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Arrow batches of a table's rows among what a step makes, each as soon as its rows are there."""
    return (batch.data for batch in batched(made, [table]))


def batched(made: Iterable[Row], tables: Iterable[type[Row]]) -> Iterator[Batch]:
    """What a step makes of some tables, rows and ``Batch``es, as batches only, each as soon as its rows are there."""
    pages: dict[type[Row], list[Row]] = {table: [] for table in tables}
    sizes = dict.fromkeys(pages, 0)
    for item in made:
        if isinstance(item, Batch):
            if item.table in pages:
                yield item
        elif (page := pages.get(table := type(item))) is not None:
            page.append(item)
            sizes[table] += sum(len(cell) for cell in item if type(cell) is bytes)
            if len(page) >= BATCH_ROWS or sizes[table] >= BATCH_BYTES:
                yield Batch(table, batch_of(table, page))
                pages[table], sizes[table] = [], 0
    yield from (Batch(table, batch_of(table, page)) for table, page in pages.items() if page)
