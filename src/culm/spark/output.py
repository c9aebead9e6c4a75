"""A folder of results that is either wholly there or not there.

It is filled under another name beside its own, and renamed when it is complete. What a killed process leaves behind is
a hidden folder ``.NAME.partial-*``, which nobody takes for a result.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError
from culm.spark.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyarrow import parquet
    from pyspark.sql import DataFrame, SparkSession

    Step = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    Counted = Callable[[Iterator[pa.RecordBatch]], Iterator[tuple[pa.RecordBatch, tuple[Any, ...]]]]

_ROW_GROUP_BYTES = 64 * 1024 * 1024
_NAMES = Columns(table="BIGINT", name="STRING")
SUMMARY = "summary.json"
"""The file that every complete folder of results has."""


def check_output(output: Path, *, overwrite: bool) -> None:
    """Raise ``ConfigError`` if results cannot be written to this folder.

    One that is there may be overwritten only if it holds earlier results, or nothing.
    """
    if not output.parent.is_dir():
        raise ConfigError(f"{output}: there is no folder {output.parent}")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{output}: no permission to write to {output.parent}")
    if not (output.exists() or output.is_symlink()):
        return
    if not overwrite:
        raise ConfigError(f"{output}: is there already (results are overwritten only if asked for)")
    if output.is_symlink() or not output.is_dir() or not ((output / SUMMARY).is_file() or not any(output.iterdir())):
        raise ConfigError(f"{output}: holds something else than earlier results: not overwritten")


def check_not_inside(source: Path, output: Path, *, overwrite: bool) -> None:
    """Raise ``ConfigError`` if the output cannot be written, or would replace what is to be read."""
    check_output(output.absolute(), overwrite=overwrite)
    if overwrite and source.resolve().is_relative_to(output.resolve()):
        raise ConfigError(f"{source}: an input inside the output {output}, which is to be replaced")


def write_table(table: DataFrame, folder: Path) -> None:
    """Write a DataFrame as Parquet files into a new folder of this machine's file system."""
    table.write.parquet(f"file://{folder.absolute()}")


def kept(table: DataFrame, folder: Path, schema: str) -> DataFrame:
    """The same rows, computed now, from the disk; ``schema`` in SQL."""
    write_table(table, folder)
    return read_table(table.sparkSession, folder, schema)


def write_from_workers(
    table: DataFrame, step: Counted, columns: Columns, result: Columns, folder: Path, results: Path
) -> None:
    """Write what a step makes of a DataFrame's batches as Parquet files into ``folder``, and its rows into ``results``.

    The workers write the files themselves: rows that only pass through Spark cost it as much as everything else that
    is done with them. What a task wrote that failed, or was run twice, is not among what Spark returns, and removed.
    """
    made, counted = _aside(folder), _aside(results)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = new_file(made), new_file(counted)
        rows = write_file(step(batches), columns, files[0])
        write_file(((batch, ()) for batch in result.batches(rows)), result, files[1])
        yield from _NAMES.batches((at, file.name) for at, file in enumerate(files) if file.exists())

    _collect(table.mapInArrow(write, _NAMES.ddl), [(folder, columns), (results, result)])


def kept_from_workers(table: DataFrame, step: Step, columns: Columns, folder: Path) -> DataFrame:
    """What a step makes of a DataFrame's batches, computed now and written by the workers; read from the disk."""
    made = _aside(folder)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = new_file(made)
        write_file(((batch, ()) for batch in step(batches)), columns, file)
        if file.exists():
            yield from _NAMES.batches([(0, file.name)])

    _collect(table.mapInArrow(write, _NAMES.ddl), [(folder, columns)])
    return read_table(table.sparkSession, folder, columns.ddl)


def _collect(names: DataFrame, tables: Sequence[tuple[Path, Columns]]) -> None:
    """Make tables of the files that the tasks of a job name.

    They are written beside a table's folder: a task that Spark has given up may write on for a while. ``ConfigError``
    if a file that was written is not there.
    """
    for folder, _ in tables:
        folder.mkdir(parents=True)
        _aside(folder).mkdir()
    for at, name in names.collect():
        folder, _ = tables[at]
        try:
            (_aside(folder) / name).rename(folder / name)
        except FileNotFoundError:
            raise ConfigError(f"{folder}: is not the same folder on the machine of a worker") from None
    for folder, columns in tables:
        shutil.rmtree(_aside(folder), ignore_errors=True)
        whole_table(columns, folder)


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.parts")


def write_file(
    made: Iterable[tuple[pa.RecordBatch, tuple[Any, ...]]], columns: Columns, path: Path
) -> list[tuple[Any, ...]]:
    """Write batches as one Parquet file, unless there is nothing in them; the rows that came with them."""
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
    """Some columns of a table of Parquet files, read without Spark: for tables that have few rows."""
    from pyarrow import parquet

    for path in sorted(folder.glob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=list(names)):
                yield batch.select(list(names))


def count_rows(folder: Path) -> int:
    """How many rows a table of Parquet files has, by what the files say of themselves."""
    from pyarrow import parquet

    return sum(parquet.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


def write_rows(rows: Iterable[tuple[Any, ...]], columns: Columns, folder: Path) -> None:
    """Write rows as a Parquet table into a new folder, without Spark."""
    write_batches(columns.batches(rows), columns, folder)


def write_batches(batches: Iterable[pa.RecordBatch], columns: Columns, folder: Path) -> None:
    """The same for batches."""
    folder.mkdir(parents=True)
    write_file(((batch, ()) for batch in batches), columns, new_file(folder))
    whole_table(columns, folder)


def whole_table(columns: Columns, folder: Path) -> None:
    """See to it that a table of no rows has its columns all the same."""
    if not any(folder.iterdir()):
        _writer(new_file(folder), columns).close()


def new_file(folder: Path) -> Path:
    """A Parquet file of a folder that nobody else writes."""
    return folder / f"part-{secrets.token_hex(8)}.parquet"


def _writer(path: Path, columns: Columns) -> parquet.ParquetWriter:
    import pyarrow as pa
    from pyarrow import parquet

    repeated = [
        name for name, kind in columns.types.items() if kind == "STRING" or name in ("author", "log_id", "copies")
    ]
    hashes = [name for name in columns.names if name.endswith("_hash")]  # neither shorter nor in any order
    return parquet.ParquetWriter(
        path,
        pa.schema(list(columns.arrow.items())),
        use_dictionary=repeated,
        compression={name: "none" if name in hashes else "snappy" for name in columns.names},
        write_statistics=[name for name in columns.names if name not in hashes],
    )


def read_table(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """The rows of a folder of Parquet files; ``schema`` in SQL, so that no file is opened to find it out."""
    return spark.read.schema(schema).parquet(place_of(folder))


def place_of(path: Path) -> str:
    """A path of this machine's file system as Spark reads it: it would take some characters for a pattern."""
    escaped = re.sub(r"([\\\[\]{}*?,])", r"\\\1", str(path.absolute()))
    return f"file://{escaped}"


@contextmanager
def whole_folder(output: Path) -> Iterator[Path]:
    """A new folder to fill, which takes the place of ``output`` at the end of the block unless that raises."""
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
