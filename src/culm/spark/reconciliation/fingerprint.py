"""Fingerprints of a table of entries with Spark: a record index, written once (docs/spark-fingerprint.md).

An index has all records sorted by timestamp (the sequence number less one) and id. Dividing the rows by log would give
one task half of the work if one log has half of the entries; dividing them by number would give one task all the
entries 1. So the rows are divided by ranges of (timestamp, id) that Spark chooses by a sample. Each task sorts its
range and writes it as one file of the index, with the sums of the ids.

Spark may run a task twice, or again after it failed. Every attempt writes a file of its own, and the manifest, written
last by the driver, names the files of the attempts that counted; the others are deleted.

On a cluster, the folder must be under the same path on every machine.

A *view* is the set that is compared: all verified entries, or those whose payload is held. A *record* stands for one
entry in it: a timestamp (the sequence number less one) and an id (the first 32 bytes of the entry's digest).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from culm.errors import ConfigError
from culm.spark.batches.arrays import unsigned
from culm.spark.batches.payload import HELD
from culm.spark.runtime.folders import check_output
from culm.spark.runtime.output import place_of
from culm.spark.runtime.session import running, silent
from culm.spark.runtime.shell import Result, job, local_input
from culm.spark.storage import Location, target
from culm.store import View
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.manifest import BLOCK_RECORDS, MAX_FILES, IndexFile, checked_block_records, write_manifest
from culm.store.recordindex.writer import FileWriter

VIEWS = (View.ENTRIES.value, View.PAYLOADS.value)

# A row has a record if its number is from 1 to 2^64 - 1 and its hash is a YAMF-hash.
_NO_ENTRY = "a row is not an entry: seqnum must be 1 to 2^64 - 1, and entry_hash a YAMF-hash of 66 bytes"
_CHECKED = (
    "CASE WHEN CAST(seqnum AS DECIMAL(20,0)) BETWEEN 1 AND 18446744073709551615 AND length(entry_hash) = 66"
    f" AND substring(entry_hash, 1, 2) = X'0040' THEN entry_hash ELSE CAST(raise_error('{_NO_ENTRY}') AS BINARY) END"
)

RECORD_ID = f"substring({_CHECKED}, 3, 32)"
"""SQL: the record's id (32 bytes). An error if the row is no entry."""

RECORD_AT = "TRY_CAST(CAST(seqnum AS DECIMAL(20,0)) - 9223372036854775809 AS BIGINT)"
"""SQL: the record's timestamp, the sequence number less one, as a signed long 2^63 lower; for rows that have an id."""

_FIRST = "; verify stores and export files first, with culm spark verify, and name its results"
"""What to do with an input that is no table. Culm's other commands take stores and files, so they are often named."""


def table_folder(path: Path) -> Path:
    """The folder with the Parquet files: ``verdicts`` in the results of ``culm spark verify``, else the folder itself.

    ``ConfigError`` if there is no Parquet file in it.
    """
    path = path / "verdicts" if (path / "verdicts").is_dir() else path
    if not any(path.glob("**/*.parquet")):
        raise ConfigError(f"{path}: not a folder with Parquet files{_FIRST}")
    return path


def view_of(name: str) -> View:
    """The view of that name; ``ConfigError`` if a table has no such view."""
    if name not in VIEWS:
        raise ConfigError(f"the view of a table must be {' or '.join(VIEWS)}, not {name!r}")
    return View(name)


def counted(table: DataFrame, view: View, *columns: str) -> DataFrame:
    """The rows of a view: the verified ones, if the table has verdicts; for payloads those whose payload is held.

    ``ConfigError`` if the table lacks a column that this needs, or one of ``columns``.
    """
    needed = {"seqnum", "entry_hash", *columns, *(["payload"] if view is View.PAYLOADS else [])}
    if lacking := needed - set(table.columns):
        raise ConfigError(f"the view {view.value} needs a table with the columns {', '.join(sorted(lacking))}")
    if "verdict" in table.columns:
        table = table.where("verdict = 'verified'")
    return table.where(f"payload = '{HELD}'") if view is View.PAYLOADS else table


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint(Result):
    """A fingerprint, and the size of its index. Equal fingerprints mean equal sets.

    ``fingerprint`` is negentropy's, of all records, in hex. ``records`` counts entries, each once; ``files`` and
    ``bytes`` are those of the index. ``seconds`` does not include Spark's start.
    """

    view: str
    records: int
    fingerprint: str
    files: int
    bytes: int


def fingerprint(
    spark: SparkSession,
    entries: DataFrame,
    folder: str | Path | Location,
    *,
    view: str = "entries",
    block_records: int = BLOCK_RECORDS,
    overwrite: bool = False,
    reads: Sequence[str] = (),
) -> Fingerprint:
    """Write the record index of a table into a new folder: all of it or, on failure, none.

    ``entries`` has the columns ``seqnum`` (a number from 1 to 2^64 - 1) and ``entry_hash`` (66 bytes); if it has a
    column ``verdict``, only verified rows count. The view ``payloads`` takes only rows whose ``payload`` is ``held``.
    An entry that is there several times counts once. ``block_records`` is how many records a block has on average, a
    power of two. Fewer records in a block make a comparison read less, and the index larger.
    ``reads``: the folders that the table comes from, to be stated with the index (``runtime.output``).

    ``ConfigError`` if the table lacks a column or the folder cannot be written. Spark's own error if a row is not an
    entry, because rows are checked in the workers.
    """
    of_view = view_of(view)
    keys = counted(entries, of_view).selectExpr(f"{RECORD_AT} AS at", f"{RECORD_ID} AS id")
    mode = {"view": view, "block_records": checked_block_records(block_records)}
    output = folder if isinstance(folder, Location) else target(folder)
    with job("fingerprint", output, reads, mode=mode, overwrite=overwrite, progress=None) as run:
        files = _write_files(spark, keys, run.folder, block_records)
        for path in {*run.folder.iterdir()} - {run.folder / file.name for file in files}:
            path.unlink(missing_ok=True)  # of an attempt that did not count
        write_manifest(run.folder, files, of_view, block_records)
        size = sum(path.stat().st_size for path in run.folder.iterdir())
        with IndexStorage(run.folder) as index:
            of_all, records = index.fingerprint(0, len(index)).hex(), len(index)
        return run.done(Fingerprint(view=view, records=records, fingerprint=of_all, files=len(files), bytes=size))


def run(
    table: str,
    output: Path | Location,
    *,
    view: str = "entries",
    master: str = "local[*]",
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Fingerprint:
    """Write the index of a table of Parquet files, or of the results of ``culm spark verify``.

    ``master``, ``overwrite`` and ``progress`` are those of ``culm.spark.run``. ``ConfigError``, before Spark is
    started, if there is no such table or the output cannot be written.
    """
    say = progress or silent
    view_of(view)
    check_output(output, overwrite=overwrite, reads=[table])
    with local_input(table) as given:
        found = table_folder(given)
        with running(master, say) as spark:
            say("sorting the records and writing their index")
            entries = spark.read.parquet(place_of(found))
            return fingerprint(spark, entries, output, view=view, overwrite=overwrite, reads=[table])


# -- on Spark -------------------------------------------------------------------------------------------------------


def _write_files(spark: SparkSession, keys: DataFrame, folder: Path, block_records: int) -> list[IndexFile]:
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or MAX_FILES)
    # Name a number of parts only where Spark would make more than an index may have files: without one, it makes fewer
    # parts if there are few rows.
    parts: list[Any] = [MAX_FILES] if tasks > MAX_FILES else []
    spread = keys.repartitionByRange(*parts, "at", "id").sortWithinPartitions("at", "id")
    step = partial(_written, folder=folder, block_records=block_records)
    return [IndexFile.of(json.loads(one)) for (one,) in spread.mapInArrow(step, "file STRING").collect()]


def _written(found: Iterator[pa.RecordBatch], folder: Path, block_records: int) -> Iterator[pa.RecordBatch]:
    """Write one task's sorted records as a file; yields its entry in the manifest, or nothing if there are none."""
    writer = FileWriter(folder, block_records=block_records)
    try:
        for batch in found:
            writer.add(_keys_of(batch))
        file = writer.finish()
    finally:
        writer.discard()
    if file is not None:
        yield pa.record_batch({"file": [json.dumps(asdict(file))]})


def _keys_of(batch: pa.RecordBatch) -> npt.NDArray[np.uint8]:
    numbers = unsigned(batch.column("at").to_numpy()).astype(">u8").view(np.uint8).reshape(-1, 8)
    ids = batch.column("id").cast(pa.binary(32))
    whole = np.frombuffer(ids.buffers()[1], np.uint8).reshape(-1, 32)
    return np.hstack([numbers, whole[ids.offset : ids.offset + len(ids)]])
