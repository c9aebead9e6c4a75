"""The planner's inputs: tables whose columns are checked by name and type, and the terms of the peers.

Wrong columns are an error before anything is planned, because they are the user's mistake. A single row that cannot be
read is not: it becomes a reject (``culm.spark.plan.rows``), because tables of millions of rows often have some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark.output import place_of
from culm.spark.plan.balance import PeerTerms
from culm.spark.plan.rows import GIVEN, HAVE, SIZES, WANT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

_COLUMNS = {
    HAVE: ("peer", "author", "log_id", "ranges"),
    WANT: ("peer", "author", "log_id", "ranges"),
    SIZES: ("author", "log_id", "metadata_bytes", "payload_bytes"),
}
_TEXT_OR_BYTES = ("author", "ranges")


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
    """The rows of the table ``name`` (``have``, ``want`` or ``sizes``) as ``GIVEN``.

    ``ConfigError`` if a column is missing or of a wrong type.
    """
    from pyspark.sql import functions as sql

    types = dict(table.dtypes)
    columns: dict[str, Column] = {"given": sql.lit(name)}
    for column in _COLUMNS[name]:
        kind = types.get(column)
        if kind is None:
            raise ConfigError(f"the table {name!r} has no column {column!r}; it needs {', '.join(_COLUMNS[name])}")
        _check_type(name, column, kind)
        as_text = column in _TEXT_OR_BYTES and kind == "string"
        value = sql.col(column) if kind == "binary" else sql.col(column).cast("string")
        columns[f"{column}_text" if as_text else column] = value
    return table.select(
        [columns.get(column, sql.lit(None)).cast(kind.lower()).alias(column) for column, kind in GIVEN.types.items()]
    )


def _check_type(table: str, column: str, kind: str) -> None:
    is_number = kind in ("tinyint", "smallint", "int", "bigint") or kind.startswith("decimal")
    fits = {
        "peer": kind == "string",
        "author": kind in ("binary", "string"),
        "ranges": kind in ("binary", "string"),
        "log_id": kind == "string" or is_number,
        "metadata_bytes": kind == "string" or is_number,
        "payload_bytes": kind == "string" or is_number,
    }
    if not fits[column]:
        raise ConfigError(f"the column {column!r} of the table {table!r} cannot be of the type {kind.upper()}")


def read_terms(peers: DataFrame) -> dict[str, PeerTerms]:
    """Capacity and cost of each peer in the table; ``ConfigError`` for a missing column and a row that makes no sense.

    All rows come to the driver, which needs them to share out: one for each peer, not for each log.
    """
    missing = {"peer", "capacity"} - set(peers.columns)
    if missing:
        raise ConfigError(f"the table 'peers' has no column {min(missing)!r}; it needs peer and capacity")
    columns = ["peer", "capacity", *(["cost"] if "cost" in peers.columns else [])]
    terms: dict[str, PeerTerms] = {}
    for peer, capacity, *cost in (tuple(row) for row in peers.select(columns).collect()):
        if peer in terms:
            raise ConfigError(f"the table 'peers' has {peer!r} twice; give each peer one row")
        terms[peer] = PeerTerms(_capacity(peer, capacity), _cost(peer, cost[0]) if cost else 0.0)
    return terms


def _capacity(peer: object, value: object) -> int:
    try:
        capacity = int(str(value))
    except ValueError:
        capacity = -1
    if not isinstance(peer, str) or not 0 <= capacity < 10**30:
        raise ConfigError(f"the table 'peers': {peer!r} has the capacity {value!r}; expected a whole number of bytes")
    return capacity


def _cost(peer: str, value: object) -> float:
    try:
        cost = float(str(value))
    except ValueError:
        cost = -1.0
    if not 0 <= cost < 1e30:
        raise ConfigError(f"the table 'peers': {peer!r} has the cost {value!r}; expected a number, 0 or more")
    return cost
