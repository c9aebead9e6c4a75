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
from typing import TYPE_CHECKING

from culm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

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


def write_table(table: DataFrame, folder: Path) -> None:
    """Write a DataFrame as Parquet files into a new folder of this machine's file system."""
    table.write.parquet(f"file://{folder.absolute()}")


def read_table(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """The rows of a folder of Parquet files; ``schema`` in SQL, so that no file is opened to find it out."""
    escaped = re.sub(r"([\\\[\]{}*?,])", r"\\\1", str(folder.absolute()))  # Spark takes what it reads for a pattern
    return spark.read.schema(schema).parquet(f"file://{escaped}")


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
