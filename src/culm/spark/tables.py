"""Tables of verdicts that were written before, and which of their rows count as records of a view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark.output import place_of
from culm.spark.payload import HELD
from culm.store import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEWS = (View.ENTRIES.value, View.PAYLOADS.value)

# A row that has a record: the number from 1 to 2^64 - 1, and the hash a YAMF-hash.
_IS_ENTRY = (
    "CAST(seqnum AS DECIMAL(20,0)) BETWEEN 1 AND 18446744073709551615"
    " AND length(entry_hash) = 66 AND substring(entry_hash, 1, 2) = X'0040'"
)
_NO_ENTRY = "a row is no entry: its seqnum is not from 1 to 2^64 - 1, or its entry_hash no YAMF-hash"

RECORD_ID = (
    f"CASE WHEN {_IS_ENTRY} THEN substring(entry_hash, 3, 32) ELSE CAST(raise_error('{_NO_ENTRY}') AS BINARY) END"
)
"""SQL: the record's id (32 bytes). An error if the row is no entry."""

RECORD_AT = f"CASE WHEN {_IS_ENTRY} THEN CAST(CAST(seqnum AS DECIMAL(20,0)) - 9223372036854775809 AS BIGINT) END"
"""SQL: the record's timestamp, the sequence number less one, as a signed long 2^63 lower."""


def table_folder(name: str | Path) -> Path:
    """Where the Parquet files are: the folder ``verdicts`` in what ``culm spark verify`` wrote, else the folder itself.

    ``ConfigError`` if there are none.
    """
    path = Path(name).absolute()
    if not path.is_dir():
        raise ConfigError(f"{path}: there is no folder of a table")
    if (path / "verdicts").is_dir():
        path /= "verdicts"
    if not any(path.glob("**/*.parquet")):
        raise ConfigError(f"{path}: no Parquet files, nor the results of culm spark verify")
    return path


def read_folder(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of a folder of Parquet files, with the columns that they have."""
    return spark.read.parquet(place_of(folder))


def view_of(name: str) -> View:
    """The view of that name; ``ConfigError`` if a table has no such view."""
    if name not in VIEWS:
        raise ConfigError(f"a table's view can be {' or '.join(VIEWS)}, not {name!r}")
    return View(name)


def counted(table: DataFrame, view: View) -> DataFrame:
    """The rows of a view: those that are verified, if the table has verdicts; of payloads, those that are held.

    ``ConfigError`` if the table lacks a column that this needs.
    """
    lacking = {"seqnum", "entry_hash", *(["payload"] if view is View.PAYLOADS else [])} - set(table.columns)
    if lacking:
        raise ConfigError(f"the view {view.value} needs a table with the columns {', '.join(sorted(lacking))}")
    if "verdict" in table.columns:
        table = table.where("verdict = 'verified'")
    return table.where(f"payload = '{HELD}'") if view is View.PAYLOADS else table
