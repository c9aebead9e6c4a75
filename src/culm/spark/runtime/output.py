"""The Parquet tables in folders of results.

Spark's own way to write a table sends every row from the Python worker to Java and on to the file. Here the Python
workers write the files (``write_by_workers``), and Spark only learns their names. That is quicker for tables that
Python makes, but then Spark no longer sorts out what failed tasks left. So the files are written into a folder aside,
and those that Spark's successful tasks name are moved to the table.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame

from culm.errors import ConfigError
from culm.spark.runtime.columns import Row, batched, schema
from culm.spark.runtime.provenance import KEY, stated

Step = Callable[[Iterator[pa.RecordBatch]], Iterable[Row]]

# Bytes (uncompressed) that are collected before they are written as one row group. Until then they are in the worker's
# memory; smaller row groups compress worse, and readers have more of them to open.
_ROW_GROUP_BYTES = 64 * 1024 * 1024


def write_made(made: Iterable[Row], folders: Mapping[type[Row], Path], facts: str) -> list[Path]:
    """Write what a step makes, rows and ``Batch``es of several tables, as one Parquet file each into their folders.

    Tables that have no folder are dropped. ``facts`` is what stands in the metadata (``provenance``). Returns
    the files; a table without rows has none.
    """
    waiting: dict[type[Row], list[pa.RecordBatch]] = {table: [] for table in folders}
    sizes, writers = dict.fromkeys(folders, 0), dict[type[Row], parquet.ParquetWriter]()
    with ExitStack() as files:

        def flush(table: type[Row]) -> None:
            """Write what waits to become a row group. The first one makes the file."""
            if table not in writers:
                writer = _writer(new_file(folders[table]), schema(table), facts)
                writers[table] = files.enter_context(writer)
            writers[table].write_table(pa.Table.from_batches(waiting[table]))
            waiting[table], sizes[table] = [], 0

        for table, data in batched(made, folders):
            if data.num_rows:
                waiting[table].append(data)
                sizes[table] += data.nbytes
            if sizes[table] >= _ROW_GROUP_BYTES:
                flush(table)
        for table in filter(waiting.get, folders):
            flush(table)
    return [Path(writer.where) for writer in writers.values()]


def write_here(made: Iterable[Row], folders: Mapping[type[Row], Path]) -> None:
    """Write what a step makes as tables into new folders, in this process."""
    for folder in folders.values():
        folder.mkdir(parents=True)
    write_made(made, folders, stated())
    for table, folder in folders.items():
        whole_table(table, folder)


def write_by_workers(frame: DataFrame, step: Step, folders: Mapping[type[Row], Path]) -> None:
    """Write what a step makes of a DataFrame's batches as tables into new folders.

    The workers write the files themselves, because rows that only pass through Spark cost it as much as everything else
    that is done with them. Files of tasks that failed, or ran twice, are not among the names that Spark returns; they
    are removed. ``ConfigError`` if a worker's file is not here, so if the machines do not share the folder.

    The files are written into a folder ``.parts`` in the table's folder and moved out of it, because a task that Spark
    has given up may go on writing for a while, and readers take every file in the folder for a part of the table.
    """
    aside = {table: folder / ".parts" for table, folder in folders.items()}
    facts = stated()  # here, because the workers are other processes

    def write(made: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(map(str, write_made(step(made), aside, facts)), pa.string())], ["path"])

    for place in aside.values():
        place.mkdir(parents=True)
    for (written,) in frame.mapInArrow(write, "path STRING").collect():
        part = Path(written)
        folder = part.parents[1]
        try:
            part.rename(folder / part.name)
        except FileNotFoundError:
            raise ConfigError(
                f"{folder}: a worker wrote a file that is not here; all machines must see this folder at the same path"
            ) from None
    for table, folder in folders.items():
        shutil.rmtree(aside[table], ignore_errors=True)
        whole_table(table, folder)


def read_batches(folder: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a table of Parquet files, read without Spark, whose jobs take longer for small tables."""
    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=list(names)):
                yield batch.select(list(names))


def count_rows(folder: Path) -> int:
    """How many rows a table of Parquet files has. Only the ends of the files are read."""
    return sum(parquet.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def write_table(table: pa.Table, folder: Path) -> None:
    """Write a table of Arrow as a Parquet table into a new folder."""
    folder.mkdir(parents=True)
    with _writer(new_file(folder), table.schema) as writer:
        writer.write_table(table)


def whole_table(table: type[Row], folder: Path) -> None:
    """Write a file without rows if a table has no file, so that readers find its columns all the same."""
    if not any(folder.glob("*.parquet")):
        _writer(new_file(folder), schema(table), stated()).close()


def new_file(folder: Path) -> Path:
    """A path in a folder that no other task uses, by a random name."""
    return folder / f"part-{secrets.token_hex(8)}.parquet"


def _writer(path: Path, columns: pa.Schema, facts: str = "") -> parquet.ParquetWriter:
    few = ("author", "log_id", "copies")  # values that repeat
    # Hashes are random: compressing them saves nothing, and their least and greatest values help no query.
    hashes = [name for name in columns.names if name.endswith("_hash")]
    return parquet.ParquetWriter(
        path,
        columns.with_metadata({KEY: facts} if facts else columns.metadata),
        use_dictionary=[field.name for field in columns if str(field.type) == "string" or field.name in few],
        compression={name: "none" if name in hashes else "snappy" for name in columns.names},
        write_statistics=[name for name in columns.names if name not in hashes],
    )


def place_of(path: Path) -> str:
    """A local path as Spark takes it. Characters that Spark would read as a pattern (``*``, ``[`` ...) are escaped."""
    escaped = re.sub(r"([\\\[\]{}*?,])", r"\\\1", str(path.absolute()))
    return f"file://{escaped}"
