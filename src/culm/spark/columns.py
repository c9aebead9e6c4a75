"""Tables: one class each, from which its columns are derived for SQL, for Arrow and for Python.

A table is a ``NamedTuple``. Its annotations are its columns, so that a type checker sees every use of one::

    class Outcome(NamedTuple):
        author: bytes               # BINARY
        low: int                    # BIGINT
        size: Unsigned              # DECIMAL(20,0)
        forked_at: int | None       # BIGINT

    ddl(Outcome)                    # "author BINARY, low BIGINT, size DECIMAL(20,0), forked_at BIGINT"

Log ids, sequence numbers and sizes go up to 2^64 - 1. Spark has no unsigned 64-bit type; its decimals hold them, but
are slow to sort and to join by. Between the steps these numbers are therefore signed longs, 2^63 lower, which keep
their order (``culm.store.schema.to_sql``, ``from_sql``): 1 becomes -2^63 + 1. Only tables for users have decimals
(``unsigned``).
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from itertools import islice
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import Column

UNSIGNED = "DECIMAL(20,0)"
"""The SQL type of an unsigned 64-bit number in tables for users."""

SUM = "DECIMAL(38,0)"
"""The SQL type of a sum of such numbers."""

Unsigned = Annotated[int, UNSIGNED]
"""The type of a column of unsigned 64-bit numbers, in tables for users. Arrow gives its values as decimals."""

Sum = Annotated[int, SUM]
"""The type of a column of sums of such numbers."""

Tiny = Annotated[int, "TINYINT"]
"""The type of a column of numbers from -128 to 127."""

# Rows in one Arrow batch, and bytes of their binary cells. Larger batches hold more in a worker at once; smaller ones
# cost more for each row, because Arrow and Spark do some work for each batch.
BATCH_ROWS = 2000
BATCH_BYTES = 16 * 1024 * 1024

_SQL = {bytes: "BINARY", int: "BIGINT", str: "STRING", bool: "BOOLEAN", float: "DOUBLE"}


class Row(Protocol):
    """A row of any table: what all classes of ``NamedTuple`` have."""

    def _asdict(self) -> dict[str, Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


R = TypeVar("R", bound=Row)


class Batch(NamedTuple):
    """Rows of a table as an Arrow batch, for steps that make whole columns."""

    table: type[Row]
    data: pa.RecordBatch


def names(table: type[Row]) -> tuple[str, ...]:
    """The names of a table's columns, in order."""
    found: tuple[str, ...] = cast("Any", table)._fields
    return found


def maker(table: type[R]) -> Callable[[Iterable[Any]], R]:
    """A function that makes a row of its cells."""
    found: Callable[[Iterable[Any]], R] = cast("Any", table)._make
    return found


@cache
def types(table: type[Row]) -> dict[str, str]:
    """The SQL types of a table's columns, by name, in order. ``KeyError`` for an annotation without an SQL type."""
    return {name: _sql(kind) for name, kind in get_type_hints(table, include_extras=True).items()}


def _sql(kind: object) -> str:
    for part in get_args(kind):
        if part is not NoneType and NoneType in get_args(kind):
            return _sql(part)
    if get_origin(kind) is Annotated:
        return str(get_args(kind)[1])
    return _SQL[cast("type", kind)]


def ddl(table: type[Row]) -> str:
    """The columns as a schema in SQL: ``author BINARY, log BIGINT``."""
    return ", ".join(f"{name} {kind}" for name, kind in types(table).items())


@cache
def schema(table: type[Row]) -> pa.Schema:
    """The columns as a schema of Arrow. ``KeyError`` for an SQL type that no step uses so far."""
    import pyarrow as pa

    return pa.schema([(name, _arrow(kind)) for name, kind in types(table).items()])


def _arrow(kind: str) -> pa.DataType:
    import pyarrow as pa

    kinds = {
        "BINARY": pa.binary(),
        "BIGINT": pa.int64(),
        "TINYINT": pa.int8(),
        "INT": pa.int32(),
        "BOOLEAN": pa.bool_(),
        "STRING": pa.string(),
        "DOUBLE": pa.float64(),
        UNSIGNED: pa.decimal128(20, 0),
        SUM: pa.decimal128(38, 0),
    }
    return kinds[kind]


def rows(table: type[R], batches: Iterable[pa.RecordBatch]) -> Iterator[R]:
    """The rows of Arrow batches. The batches may have further columns, in any order."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in names(table))
        yield from map(maker(table), zip(*columns, strict=True))


def batch_of(table: type[Row], some: Iterable[Row]) -> pa.RecordBatch:
    """Rows, at least one, as one Arrow batch."""
    import pyarrow as pa

    columns = zip(zip(*some, strict=True), schema(table), strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in columns], schema=schema(table))


def batches(table: type[Row], made: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Arrow batches of a table's rows among what a step makes, each as soon as its rows are there."""
    page: list[Row] = []
    size = 0
    for item in made:
        if isinstance(item, Batch):
            if item.table is table:
                yield item.data
        elif type(item) is table:
            page.append(item)
            size += weight(item)
        if len(page) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch_of(table, page)
            page, size = [], 0
    if page:
        yield batch_of(table, page)


def weight(row: Row) -> int:
    """How many bytes the binary cells of a row have."""
    return sum(len(cell) for cell in row if type(cell) is bytes)


class Columns:
    """The columns of one kind of rows: names and SQL types, in order. Rows are tuples in that order."""

    def __init__(self, **types: str) -> None:
        self.names = tuple(types)
        self.types = types

    @classmethod
    def of(cls, table: type) -> Columns:
        """The columns of a table's class, or of a dataclass."""
        return cls(**types(table))

    @classmethod
    def in_sql(cls, ddl: str) -> Columns:
        """The columns of a schema in SQL, written as ``ddl`` is."""
        return cls(**dict(column.split() for column in ddl.split(", ")))

    @property
    def ddl(self) -> str:
        """The columns as a schema in SQL: ``author BINARY, log BIGINT``."""
        return ", ".join(f"{name} {kind}" for name, kind in self.types.items())

    @property
    def arrow(self) -> dict[str, pa.DataType]:
        """The columns' Arrow types by name. ``KeyError`` for an SQL type that no step uses so far."""
        return {name: _arrow(kind) for name, kind in self.types.items()}

    @property
    def schema(self) -> pa.Schema:
        """The columns as a schema of Arrow."""
        import pyarrow as pa

        return pa.schema(list(self.arrow.items()))

    def table(self, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
        """The rows as one table of Arrow."""
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(rows), self.schema)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
        """The rows of Arrow batches. The batches may have further columns, in any order."""
        for batch in batches:
            yield from zip(*(batch.column(name).to_pylist() for name in self.names), strict=True)

    def batches(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
        """Arrow batches of the rows, each as soon as its rows are there."""
        import pyarrow as pa

        schema = self.schema
        rows = iter(rows)
        while page := list(islice(rows, BATCH_ROWS)):
            arrays = [
                pa.array(column, field.type) for column, field in zip(zip(*page, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def mapped(
    columns: Columns, step: Callable[[Iterable[tuple[Any, ...]]], Iterator[tuple[Any, ...]]], result: Columns
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``mapInArrow`` that reads rows of ``columns``, applies a step, and writes rows of ``result``."""
    return lambda found: result.batches(step(columns.rows(found)))


def unsigned(column: Column) -> Column:
    """The unsigned number (``DECIMAL(20,0)``) of a column that has it as a signed long."""
    from pyspark.sql import functions

    return (column.cast(UNSIGNED) + functions.lit(Decimal(2**63))).cast(UNSIGNED)
