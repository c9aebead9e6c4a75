"""Tables of verdicts that were written before, and which of their rows are records of a view.

A *view* is the set that negentropy compares: all verified entries, or those whose payload is held. A *record* stands
for one entry in it: a timestamp (the sequence number less one) and an id (the first 32 bytes of the entry's digest).
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from culm.errors import ConfigError
from culm.spark.batches.payload import HELD
from culm.spark.runtime.output import place_of
from culm.store import View

VIEWS = (View.ENTRIES.value, View.PAYLOADS.value)

# A row has a record if its number is from 1 to 2^64 - 1 and its hash is a YAMF-hash.
_IS_ENTRY = (
    "CAST(seqnum AS DECIMAL(20,0)) BETWEEN 1 AND 18446744073709551615"
    " AND length(entry_hash) = 66 AND substring(entry_hash, 1, 2) = X'0040'"
)
_NO_ENTRY = "a row is not an entry: seqnum must be 1 to 2^64 - 1, and entry_hash a YAMF-hash of 66 bytes"

RECORD_ID = (
    f"CASE WHEN {_IS_ENTRY} THEN substring(entry_hash, 3, 32) ELSE CAST(raise_error('{_NO_ENTRY}') AS BINARY) END"
)
"""SQL: the record's id (32 bytes). An error if the row is no entry."""

RECORD_AT = f"CASE WHEN {_IS_ENTRY} THEN CAST(CAST(seqnum AS DECIMAL(20,0)) - 9223372036854775809 AS BIGINT) END"
"""SQL: the record's timestamp, the sequence number less one, as a signed long 2^63 lower."""


_FIRST = "; verify stores and export files first, with culm spark verify, and name its results"
"""What to do with an input that is no table. Culm's other commands take stores and files, so they are often named."""


def table_folder(name: str | Path) -> Path:
    """The folder with the Parquet files: ``verdicts`` in the results of ``culm spark verify``, else the folder itself.

    ``ConfigError`` if there is no such folder, or no Parquet file in it.
    """
    path = Path(name).absolute()
    if not path.is_dir():
        if path.exists():
            raise ConfigError(f"{path}: not a folder of Parquet files{_FIRST}")
        raise ConfigError(f"{path}: there is no such folder")
    if (path / "verdicts").is_dir():
        path /= "verdicts"
    if not any(path.glob("**/*.parquet")):
        raise ConfigError(f"{path}: no Parquet files are in it{_FIRST}")
    return path


def read_folder(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of a folder of Parquet files, with the columns that they have."""
    return spark.read.parquet(place_of(folder))


def view_of(name: str) -> View:
    """The view of that name; ``ConfigError`` if a table has no such view."""
    if name not in VIEWS:
        raise ConfigError(f"the view of a table must be {' or '.join(VIEWS)}, not {name!r}")
    return View(name)


def counted(table: DataFrame, view: View) -> DataFrame:
    """The rows of a view: the verified ones, if the table has verdicts; for payloads those whose payload is held.

    ``ConfigError`` if the table lacks a column that this needs.
    """
    lacking = {"seqnum", "entry_hash", *(["payload"] if view is View.PAYLOADS else [])} - set(table.columns)
    if lacking:
        raise ConfigError(f"the view {view.value} needs a table with the columns {', '.join(sorted(lacking))}")
    if "verdict" in table.columns:
        table = table.where("verdict = 'verified'")
    return table.where(f"payload = '{HELD}'") if view is View.PAYLOADS else table
