"""What is in a folder of results: Parquet tables, and how they were made.

Spark's own way to write a table sends every row from the Python worker to Java and on to the file. Here the Python
workers write the files (``write_by_workers``), and Spark only learns their names. That is quicker for tables that
Python makes, but then Spark no longer sorts out what failed tasks left. So the files are written into a folder aside,
and those that Spark's successful tasks name are moved to the table.

A verdict is only as good as what one knows of its origin: which files were read, by which version, and whether every
signature was checked. So a job writes that into ``summary.json``, as ``made``, and a short form of it into the metadata
of each Parquet file, as ``culm``, since files are copied without their folder.
"""

import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame

import culm
from culm.errors import ConfigError
from culm.spark.runtime.columns import Row, batched, schema
from culm.spark.storage import Location, located

Read = Callable[[Iterator[pa.RecordBatch]], Iterable[Row]]

# Bytes (uncompressed) that are collected before they are written as one row group. Until then they are in the worker's
# memory; smaller row groups compress worse, and readers have more of them to open.
_ROW_GROUP_BYTES = 64 * 1024 * 1024

# What a Parquet file that is written now states in its metadata; empty outside of a job.
_stated: ContextVar[str] = ContextVar("stated", default="")

FORMAT = 1
"""The number of the format of results. It grows when the meaning of a table or of one of its columns changes."""

# Inputs are told apart by a digest of their content up to this many bytes a file, and of all files together. Reading
# more would cost as much as the work itself; of larger ones size and time of change stand for the content.
_FILE_BYTES, _ALL_BYTES = 1024 * 1024, 64 * 1024 * 1024


def write_made(made: Iterable[Row], folders: Mapping[type[Row], Path], facts: str) -> list[Path]:
    """Write what a step makes, rows and ``Batch``es of several tables, as one Parquet file each into their folders.

    Tables that have no folder are dropped. ``facts`` is what stands in the metadata (``stating``). Returns
    the files; a table without rows has none.
    """
    waiting: dict[type[Row], list[pa.RecordBatch]] = {table: [] for table in folders}
    sizes, writers = dict.fromkeys(folders, 0), dict[type[Row], parquet.ParquetWriter]()
    with ExitStack() as files:

        def flush(table: type[Row]) -> None:
            """Write what waits to become a row group. The first one makes the file."""
            if table not in writers:
                writers[table] = files.enter_context(_writer(_part(folders[table]), schema(table), facts))
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
    write_made(made, folders, _stated.get())
    for table, folder in folders.items():
        whole_table(table, folder)


def write_by_workers(frame: DataFrame, step: Read, folders: Mapping[type[Row], Path]) -> None:
    """Write what a step makes of a DataFrame's batches as tables into new folders.

    The workers write the files themselves, because rows that only pass through Spark cost it as much as everything else
    that is done with them. Files of tasks that failed, or ran twice, are not among the names that Spark returns; they
    are removed. ``ConfigError`` if a worker's file is not here, so if the machines do not share the folder.

    The files are written into a folder ``.parts`` in the table's folder and moved out of it, because a task that Spark
    has given up may go on writing for a while, and readers take every file in the folder for a part of the table.
    """
    aside = {table: folder / ".parts" for table, folder in folders.items()}
    facts = _stated.get()  # here, because the workers are other processes

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


def write_file(table: pa.Table, path: Path) -> None:
    """Write a table of Arrow as one Parquet file."""
    with _writer(path, table.schema, _stated.get()) as writer:
        writer.write_table(table)


def whole_table(table: type[Row], folder: Path) -> None:
    """Write a file without rows if a table has no file, so that readers find its columns all the same."""
    if not any(folder.glob("*.parquet")):
        write_file(schema(table).empty_table(), _part(folder))


def _part(folder: Path) -> Path:
    """A new file in a folder, by a random name that no other task uses."""
    return folder / f"part-{secrets.token_hex(8)}.parquet"


def _writer(path: Path, columns: pa.Schema, facts: str) -> parquet.ParquetWriter:
    few = ("author", "log_id", "copies")  # values that repeat
    # Hashes are random: compressing them saves nothing, and their least and greatest values help no query.
    hashes = [name for name in columns.names if name.endswith("_hash")]
    return parquet.ParquetWriter(
        path,
        columns.with_metadata({"culm": facts} if facts else columns.metadata),
        use_dictionary=[field.name for field in columns if str(field.type) == "string" or field.name in few],
        compression={name: "none" if name in hashes else "snappy" for name in columns.names},
        write_statistics=[name for name in columns.names if name not in hashes],
    )


def place_of(path: Path) -> str:
    """A local path as Spark takes it. Characters that Spark would read as a pattern (``*``, ``[`` ...) are escaped."""
    escaped = re.sub(r"([\\\[\]{}*?,])", r"\\\1", str(path.absolute()))
    return f"file://{escaped}"


# -- how they were made ------------------------------------------------------------------------------------------


def now() -> str:
    """The time, as provenance has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def provenance(command: str, inputs: Iterable[str | Path], mode: Mapping[str, object]) -> dict[str, Any]:
    """How a job that begins now makes its results, found without reading more than some megabytes of its inputs.

    ``mode`` has what decides about the results, such as which signatures are checked. Of each input, as it is now,
    there is how many files and bytes it has, and a digest. ``digest_of`` says of what: the ``content`` of a small file,
    or the ``listing`` of name, size and time of change of each file; of files on other machines only name and size. It
    does not prove anything about the content.
    """
    facts = {"command": command, "mode": dict(mode), "inputs": list(_looked_at(inputs))}
    return {**facts, "version": culm.__version__, "format": FORMAT, "started": now()}


@contextmanager
def stating(made: Mapping[str, Any]) -> Iterator[None]:
    """Have the Parquet files that are written in this block state how they were made.

    Instead of the inputs they state how many there are, and a digest of the list.
    """
    inputs = {"count": len(made["inputs"]), "digest": _digest(json.dumps(made["inputs"]).encode())}
    token = _stated.set(json.dumps({**made, "inputs": inputs}))
    try:
        yield
    finally:
        _stated.reset(token)


def other_version(said: Mapping[str, object]) -> str | None:
    """A sentence about results of another version of Culm, from their summary; None if this version made them."""
    by = made.get("version") if isinstance(made := said.get("made"), dict) else None
    if by == culm.__version__:
        return None
    whose = f"version {by} of Culm" if isinstance(by, str) else "a version of Culm that did not say which it is"
    return f"the results were made by {whose}; this is version {culm.__version__}"


def _looked_at(places: Iterable[str | Path]) -> Iterator[dict[str, Any]]:
    left = _ALL_BYTES
    for place in located(places):
        with suppress(ConfigError):  # It is not there if it is still to be made, as a new state is.
            files = list(place.listed())
            size = sum(file.size or 0 for file in files)
            if place.is_local and [file.location for file in files] == [place] and size <= min(left, _FILE_BYTES):
                left -= size
                of, data = "content", Path(place.uri).read_bytes()
            else:
                listed = [(file.location.uri, file.size, _changed(file.location)) for file in files]
                of, data = "listing", json.dumps(listed).encode()
            yield {"path": place.uri, "files": len(files), "bytes": size, "digest_of": of, "digest": _digest(data)}


def _changed(place: Location) -> int | None:
    return Path(place.uri).stat().st_mtime_ns if place.is_local else None


def _digest(data: bytes) -> str:
    return "blake2b:" + blake2b(data, digest_size=32).hexdigest()
