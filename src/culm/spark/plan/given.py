"""The planner's inputs: tables whose columns are checked by name and type, and the terms of the peers.

Wrong columns are an error before anything is planned, because they are the user's mistake. A single row that cannot be
read is not: it becomes a reject (``culm.spark.plan.rows``), because tables of millions of rows often have some.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession, functions

from culm.errors import ConfigError
from culm.spark.plan.balance import PeerTerms
from culm.spark.plan.rows import HAVE, SIZES, WANT, Given
from culm.spark.runtime.columns import types
from culm.spark.runtime.onspark import fitted
from culm.spark.runtime.output import place_of

N = TypeVar("N", int, float)
_NUMBER = ("string", "tinyint", "smallint", "int", "bigint", "decimal")
_BYTES = ("binary", "string")
_LOG = {"author": _BYTES, "log_id": _NUMBER}
_RANGES = {"peer": ("string",), **_LOG, "ranges": _BYTES}
_COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    HAVE: _RANGES,
    WANT: _RANGES,
    SIZES: {**_LOG, "metadata_bytes": _NUMBER, "payload_bytes": _NUMBER},
}
"""The columns of each table, with the types that they may have (a decimal of any size)."""


def read_rows(spark: SparkSession, path: Path) -> DataFrame:
    """A table from Parquet (a folder, or ``.parquet``), ``.csv``, ``.json`` or ``.jsonl``.

    Columns of CSV and JSON are strings, so that no guess of Spark's makes a float of a large number. ``ConfigError``
    for other names.
    """
    place = place_of(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return spark.read.option("header", "true").csv(place)
    if suffix in (".json", ".jsonl"):
        return spark.read.option("primitivesAsString", "true").json(place)
    if path.is_dir() or suffix == ".parquet":
        return spark.read.parquet(place)
    raise ConfigError(f"{path}: not a table; expected a folder of Parquet files, .parquet, .csv, .json or .jsonl")


def given(table: DataFrame, name: str) -> DataFrame:
    """The rows of the table ``name`` (``have``, ``want`` or ``sizes``) as ``Given``.

    ``ConfigError`` if a column is missing or of a wrong type.
    """
    kinds, forms = dict(table.dtypes), dict[str, str | None].fromkeys(Given._fields)
    for column, accepted in _COLUMNS[name].items():
        kind = kinds.get(column)
        if kind is None:
            raise ConfigError(f"the table {name!r} has no column {column!r}; it needs {', '.join(_COLUMNS[name])}")
        if kind.partition("(")[0] not in accepted:
            raise ConfigError(f"the column {column!r} of the table {name!r} cannot be of the type {kind.upper()}")
        forms[f"{column}_text" if accepted is _BYTES and kind == "string" else column] = column
    return fitted(table, types(Given), **forms).withColumn("given", functions.lit(name))


def read_terms(peers: DataFrame) -> dict[str, PeerTerms]:
    """Capacity and cost of each peer in the table; ``ConfigError`` for a missing column and a row that makes no sense.

    All rows come to the driver, which needs them to share out: one for each peer, not for each log.
    """
    if missing := {"peer", "capacity"} - set(peers.columns):
        raise ConfigError(f"the table 'peers' has no column {min(missing)!r}; it needs peer and capacity")
    terms: dict[str, PeerTerms] = {}
    for row in peers.collect():
        peer, cost = row.peer, row.cost if "cost" in peers.columns else 0
        if not isinstance(peer, str):
            raise ConfigError(f"the table 'peers': {peer!r} has the capacity {row.capacity!r}, and is no peer's name")
        if peer in terms:
            raise ConfigError(f"the table 'peers' has {peer!r} twice; give each peer one row")
        capacity = _number(int, row.capacity, f"{peer!r} has the capacity", "a whole number of bytes")
        terms[peer] = PeerTerms(capacity, _number(float, cost, f"{peer!r} has the cost", "a number, 0 or more"))
    return terms


def _number(kind: type[N], value: object, what: str, expected: str) -> N:
    with suppress(ValueError):
        number = kind(str(value))
        if 0 <= number < 1e30:
            return number
    raise ConfigError(f"the table 'peers': {what} {value!r}; expected {expected}")
