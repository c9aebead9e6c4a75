"""Folders of results that are complete or not there at all, and the Parquet tables in them.

A job fills a folder under another name beside the final one, and renames it when it is complete. A reader therefore
never sees half a result. A process that is killed leaves a hidden folder ``.NAME.partial-*`` behind, which nobody takes
for a result and which can be deleted.

Tables can be written in two ways. Spark's own way (``write_table``) sends every row from the Python worker to Java and
on to the file. ``write_from_workers`` lets the Python workers write the files, and Spark only learns their names. It is
quicker for tables that Python makes, but then Spark no longer sorts out what failed tasks left. So the files are
written into a folder aside, and those that Spark's successful tasks name are moved to the table.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError
from culm.spark.columns import Columns
from culm.spark.storage import Location, located
from culm.spark.storage.publishing import check_target, published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyarrow import parquet
    from pyspark.sql import DataFrame, SparkSession

    Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    Counted = Callable[[Iterator[pa.RecordBatch]], Iterator[tuple[pa.RecordBatch, tuple[Any, ...]]]]

# Bytes (uncompressed) that are collected before they are written as one row group. Until then they are in the worker's
# memory; smaller row groups compress worse, and readers have more of them to open.
_ROW_GROUP_BYTES = 64 * 1024 * 1024

_NAMES = Columns(table="BIGINT", name="STRING")  # which of a job's tables a file belongs to, and its name
SUMMARY = "summary.json"
"""The file that every complete folder of results has."""


def check_output(output: Path | Location, *, overwrite: bool) -> None:
    """Raise ``ConfigError`` if results cannot be written to this folder.

    Even with ``overwrite`` a folder is replaced only if it is empty or holds earlier results (``SUMMARY`` is in it), so
    that a wrong path does not delete somebody's data.
    """
    if isinstance(output, Location):
        check_target(output, overwrite=overwrite)
        return
    if not output.parent.is_dir():
        raise ConfigError(f"{output}: there is no folder {output.parent}")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{output}: no permission to write to {output.parent}")
    if not (output.exists() or output.is_symlink()):
        return
    if not overwrite:
        raise ConfigError(f"{output}: is there already; name another folder, or use --overwrite to replace it")
    if output.is_symlink() or not output.is_dir() or not ((output / SUMMARY).is_file() or not any(output.iterdir())):
        raise ConfigError(f"{output}: holds something else than earlier results, so it is not overwritten")


def check_not_inside(source: str | Path, output: Path | Location, *, overwrite: bool) -> None:
    """Raise ``ConfigError`` if the output cannot be written, or if replacing it would delete the source."""
    check_output(output.absolute(), overwrite=overwrite)
    if overwrite and is_inside(source, output):
        raise ConfigError(f"{source}: is inside the output {output}, which would be replaced; name another output")


def is_inside(source: str | Path, output: Path | Location) -> bool:
    """Whether a file or folder is in another one, or that itself."""
    (place,) = located([re.sub(r"^([a-z0-9+.-]{2,}):/(?!/)", r"\1://", str(source))])  # Path makes one slash of two
    if place.is_local or isinstance(output, Path):
        return (
            isinstance(output, Path) and place.is_local and Path(place.uri).resolve().is_relative_to(output.resolve())
        )
    return f"{_spelled(place)}/".startswith(f"{_spelled(output)}/")


def _spelled(location: Location) -> str:
    """The URI without what schemes that mean the same differ in."""
    return re.sub(r"^(s3|gs|abfs)[acns]*://", r"\1://", location.uri)


def write_table(table: DataFrame, folder: Path) -> None:
    """Write a DataFrame as Parquet files into a new folder. On a cluster all machines must see it at this path."""
    table.write.parquet(f"file://{folder.absolute()}")


def kept(table: DataFrame, folder: Path, schema: str) -> DataFrame:
    """Compute the rows now and write them into a folder; a DataFrame that reads them there. ``schema`` is in SQL.

    Unlike a persisted DataFrame, the table outlives the executor that made it.
    """
    write_table(table, folder)
    return read_table(table.sparkSession, folder, schema)


def write_from_workers(
    table: DataFrame, step: Counted, columns: Columns, result: Columns, folder: Path, results: Path
) -> None:
    """Write a step's batches as Parquet files into ``folder``, and the row that comes with each batch into ``results``.

    The workers write the files themselves, because rows that only pass through Spark cost it as much as everything else
    that is done with them. Files of tasks that failed, or ran twice, are not among the names that Spark returns; they
    are removed. ``ConfigError`` if a worker's file is not here, so if the machines do not share the folder.
    """
    made, counted = _aside(folder), _aside(results)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = new_file(made), new_file(counted)
        rows = write_file(step(batches), columns, files[0])
        write_file(((batch, ()) for batch in result.batches(rows)), result, files[1])
        yield from _NAMES.batches((at, file.name) for at, file in enumerate(files) if file.exists())

    _collect(table.mapInArrow(write, _NAMES.ddl), [(folder, columns), (results, result)])


def kept_from_workers(table: DataFrame, step: Step, columns: Columns, folder: Path) -> DataFrame:
    """``kept`` for the batches that a step makes of a DataFrame's batches, written by the workers themselves."""
    made = _aside(folder)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = new_file(made)
        write_file(((batch, ()) for batch in step(batches)), columns, file)
        if file.exists():
            yield from _NAMES.batches([(0, file.name)])

    _collect(table.mapInArrow(write, _NAMES.ddl), [(folder, columns)])
    return read_table(table.sparkSession, folder, columns.ddl)


def _collect(names: DataFrame, tables: Sequence[tuple[Path, Columns]]) -> None:
    """Run the job, and make tables of the files that its tasks name.

    The files are written beside a table's folder and moved into it, because a task that Spark has given up may go on
    writing for a while, and readers take every file in the folder for a part of the table.
    """
    for folder, _ in tables:
        folder.mkdir(parents=True)
        _aside(folder).mkdir()
    for at, name in names.collect():
        folder, _ = tables[at]
        try:
            (_aside(folder) / name).rename(folder / name)
        except FileNotFoundError:
            raise ConfigError(
                f"{folder}: a worker wrote a file that is not here; all machines must see this folder at the same path"
            ) from None
    for folder, columns in tables:
        shutil.rmtree(_aside(folder), ignore_errors=True)
        whole_table(columns, folder)


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.parts")


def write_file(
    made: Iterable[tuple[pa.RecordBatch, tuple[Any, ...]]], columns: Columns, path: Path
) -> list[tuple[Any, ...]]:
    """Write batches as one Parquet file, unless they have no rows at all. Returns the rows beside the batches."""
    import pyarrow as pa

    writer, size = None, 0
    waiting: list[pa.RecordBatch] = []
    rows = []
    for batch, row in made:
        rows.append(row)
        if not batch.num_rows:
            continue
        writer = writer or _writer(path, columns)
        waiting.append(batch)
        size += batch.nbytes
        if size >= _ROW_GROUP_BYTES:
            writer.write_table(pa.Table.from_batches(waiting))
            waiting, size = [], 0
    if writer is not None:
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
        writer.close()
    return rows


def read_batches(folder: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a table of Parquet files, read without Spark, whose jobs take longer for small tables."""
    from pyarrow import parquet

    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=list(names)):
                yield batch.select(list(names))


def count_rows(folder: Path) -> int:
    """How many rows a table of Parquet files has. Only the ends of the files are read."""
    from pyarrow import parquet

    return sum(parquet.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def write_rows(rows: Iterable[tuple[Any, ...]], columns: Columns, folder: Path) -> None:
    """Write rows as a Parquet table into a new folder, without Spark."""
    write_batches(columns.batches(rows), columns, folder)


def write_batches(batches: Iterable[pa.RecordBatch], columns: Columns, folder: Path) -> None:
    """Write batches as a Parquet table into a new folder, without Spark."""
    folder.mkdir(parents=True)
    write_file(((batch, ()) for batch in batches), columns, new_file(folder))
    whole_table(columns, folder)


def whole_table(columns: Columns, folder: Path) -> None:
    """Write a file without rows if a table has no file, so that readers find its columns all the same."""
    if not any(folder.iterdir()):
        _writer(new_file(folder), columns).close()


def new_file(folder: Path) -> Path:
    """A path in a folder that no other task uses, by a random name."""
    return folder / f"part-{secrets.token_hex(8)}.parquet"


def _writer(path: Path, columns: Columns) -> parquet.ParquetWriter:
    import pyarrow as pa
    from pyarrow import parquet

    repeated = [
        name for name, kind in columns.types.items() if kind == "STRING" or name in ("author", "log_id", "copies")
    ]
    # Hashes are random: compressing them saves nothing, and their least and greatest values help no query.
    hashes = [name for name in columns.names if name.endswith("_hash")]
    return parquet.ParquetWriter(
        path,
        pa.schema(list(columns.arrow.items())),
        use_dictionary=repeated,
        compression={name: "none" if name in hashes else "snappy" for name in columns.names},
        write_statistics=[name for name in columns.names if name not in hashes],
    )


def read_table(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """The rows of a folder of Parquet files. ``schema`` is in SQL; with it Spark opens no file to find the columns."""
    return spark.read.schema(schema).parquet(place_of(folder))


def place_of(path: Path) -> str:
    """A local path as Spark takes it. Characters that Spark would read as a pattern (``*``, ``[`` ...) are escaped."""
    escaped = re.sub(r"([\\\[\]{}*?,])", r"\\\1", str(path.absolute()))
    return f"file://{escaped}"


@contextmanager
def whole_folder(output: Path | Location) -> Iterator[Path]:
    """A new folder to fill, which takes the place of ``output`` at the end of the block. It is removed on an exception.

    Earlier results at ``output`` stay until then. They are moved aside first, because a folder cannot be renamed onto
    one that is not empty, and moved back if renaming fails. Of a location elsewhere, ``culm.spark.storage.publishing``
    tells the rules.
    """
    if isinstance(output, Location):
        with published(output) as made:
            yield made
        return
    token = secrets.token_hex(4)
    folder = output.with_name(f".{output.name}.partial-{token}")
    folder.mkdir()
    try:
        yield folder
        _put(folder, output, output.with_name(f".{output.name}.old-{token}"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _put(folder: Path, output: Path, aside: Path) -> None:
    replaces = output.exists()
    if replaces:
        output.rename(aside)
    try:
        folder.rename(output)
    except OSError:
        if replaces:
            aside.rename(output)
        raise
    if replaces:
        shutil.rmtree(aside, ignore_errors=True)
