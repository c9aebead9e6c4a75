"""Rows on their way between Spark and Python: their columns, and how they become Arrow batches and rows again.

Log ids, sequence numbers and sizes go up to 2^64 - 1. Spark has no unsigned 64-bit type; its decimals hold them, but
are slow to sort and to join by. Between the steps these numbers are therefore signed longs, 2^63 lower, which keep
their order (``culm.store.schema.to_sql``, ``from_sql``): 1 becomes -2^63 + 1. Only tables for users have decimals
(``unsigned``).
"""

from __future__ import annotations

from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import Column

UNSIGNED = "DECIMAL(20,0)"
"""The SQL type of an unsigned 64-bit number in tables for users."""

SUM = "DECIMAL(38,0)"
"""The SQL type of a sum of such numbers."""

Unsigned = Annotated[int, UNSIGNED]
Sum = Annotated[int, SUM]
_KINDS: dict[object, str] = {bytes: "BINARY", str: "STRING", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}

# Rows in one Arrow batch. Larger batches hold more rows in a worker at once; smaller ones cost more for each row,
# because Arrow and Spark do some work for each batch.
_BATCH_ROWS = 2000


class Columns:
    """The columns of one kind of rows: names and SQL types, in order. Rows are tuples in that order."""

    def __init__(self, **types: str) -> None:
        self.names = tuple(types)
        self.types = types

    @classmethod
    def of(cls, row: type) -> Columns:
        """The columns of a class of rows, by the types of its fields: an ``int`` is a ``BIGINT``."""
        return cls(**{name: _kind(hint) for name, hint in get_type_hints(row, include_extras=True).items()})

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
        return {name: kinds[kind] for name, kind in self.types.items()}

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
        while page := list(islice(rows, _BATCH_ROWS)):
            arrays = [
                pa.array(column, field.type) for column, field in zip(zip(*page, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _kind(hint: object) -> str:
    """The SQL type of a field's type. What may be None has the type that it otherwise has."""
    parts = (hint, *get_args(hint))
    named = [part.__metadata__[0] for part in parts if hasattr(part, "__metadata__")]
    return str(named[0]) if named else next(_KINDS[part] for part in parts if part in _KINDS)


def unsigned(column: Column) -> Column:
    """The unsigned number (``DECIMAL(20,0)``) of a column that has it as a signed long."""
    from pyspark.sql import functions

    return (column.cast(UNSIGNED) + functions.lit(Decimal(2**63))).cast(UNSIGNED)
