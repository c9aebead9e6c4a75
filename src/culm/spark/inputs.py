"""Looking at the inputs and cutting them into splits: what one task reads. Runs before any job, on one machine.

A path is a Culm store if it begins as SQLite files do, a table of entries if it is a Parquet file or a folder of them,
and an export file (``culm.store.files``) otherwise. Inputs that nobody can read are refused here, before Spark takes
ten seconds to start. A store is cut by ranges of row ids, Parquet by row groups. An export file can only be read from
its beginning, because its records have no fixed length; it is one piece, however large it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from culm.errors import ConfigError, StoreDamaged
from culm.store.opening import open_database

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

_SQLITE_MAGIC = b"SQLite format 3\x00"  # how every SQLite file begins
_PARQUET_MAGIC = b"PAR1"  # how every Parquet file begins

# Rows of a store in one piece: some seconds of work. Shorter pieces would spread small stores over more tasks than
# they are worth, longer ones would leave workers idle at the end of a job.
_ROWS = 20_000

# Pieces of one store. The driver keeps a record of each piece, so a huge store is cut into longer ranges instead.
_MAX_PIECES = 4000

# How many bytes of a file are about as much work as a row of a store: an entry with its links and its signature. It
# lets pieces of stores and of files share a task by one measure.
_ROW_BYTES = 400

# Small pieces share a task up to this many bytes, because a task costs more than reading a small file.
_SPLIT_BYTES = 32 * 1024 * 1024


# The columns of a table that are read, and what each has to hold. A table made by somebody else may hold anything.
_COLUMNS = {
    "source": "text",
    "offset": "whole numbers",
    "encoded": "bytes",
    "payload_state": "text",
    "payload_frame": "bytes",
    "reason": "text",
}
_TEXT = {"string", "large_string", "string_view"}
_ARROW_TYPES = {
    "text": _TEXT,
    "bytes": {"binary", "large_binary", "binary_view", "fixed_size_binary", *_TEXT},
    "whole numbers": {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"},  # what fits into a BIGINT
}


class Part(Enum):
    """Which part of an input a piece is of; for a store also the name of the table."""

    FILE = "file"
    ENTRIES = "entries"
    FORKS = "forks"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Piece:
    """Something to read in one go: an export file, or the row ids or row groups ``low`` to ``high``, both included.

    ``size`` in bytes is an estimate of the work; it decides which pieces share a task.
    """

    path: str
    part: Part
    low: int
    high: int
    size: int = 0


Split = tuple[Piece, ...]
"""What one task reads."""


def plan(paths: Iterable[str | os.PathLike[str]]) -> list[Split]:
    """The splits of all inputs. A path given twice is read once.

    ``ConfigError`` or ``StoreError``, naming the path, for a path that is missing, empty or unreadable, for a folder
    without Parquet files, and for an SQLite file that is not a store. A damaged export file is no error: the entries
    before the damage are read, and a reject tells of the rest.
    """
    absolute = dict.fromkeys(Path(path).absolute() for path in paths)
    if not absolute:
        raise ConfigError("no input was given: name at least one store, export file or Parquet table")
    return list(_packed(piece for path in absolute for piece in _pieces(path)))


def _pieces(path: Path) -> Iterator[Piece]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if not _hidden(file.relative_to(path)))
        if not files:
            raise ConfigError(f"{path}: a folder without Parquet files; expected a store, an export file or a table")
        for file in files:
            yield from _table_pieces(file)
        return
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file")
    if not path.is_file():
        raise ConfigError(f"{path}: not a regular file; copy its content into one")
    try:
        with path.open("rb") as stream:
            start = stream.read(len(_SQLITE_MAGIC))
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if not start:
        raise ConfigError(f"{path}: the file is empty")
    if start == _SQLITE_MAGIC:
        yield from _store_pieces(path)
    elif start.startswith(_PARQUET_MAGIC):
        yield from _table_pieces(path)
    else:
        yield Piece(str(path), Part.FILE, 0, 0, size)


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _table_pieces(path: Path) -> Iterator[Piece]:
    from pyarrow import ArrowException, parquet

    try:
        file = parquet.ParquetFile(path)
    except (OSError, ArrowException) as error:
        raise ConfigError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    with file:
        schema = file.schema_arrow
        if "encoded" not in schema.names:
            raise ConfigError(f"{path}: a table of entries needs a binary column 'encoded'")
        for name in _COLUMNS.keys() & set(schema.names):
            if not _holds(schema.field(name).type, _COLUMNS[name]):
                raise ConfigError(
                    f"{path}: the column '{name}' holds {schema.field(name).type}; in a table of entries it holds"
                    f" {_COLUMNS[name]}"
                )
        for group in range(file.num_row_groups):
            yield Piece(str(path), Part.TABLE, group, group, file.metadata.row_group(group).total_byte_size)


def _holds(found: pa.DataType, expected: str) -> bool:
    """Whether each value of an Arrow type can be read as what is expected."""
    # Columns of few different values are written as dictionaries, by pandas for instance.
    kind = str(getattr(found, "value_type", found)) if str(found).startswith("dictionary") else str(found)
    return kind == "null" or kind.partition("[")[0] in _ARROW_TYPES[expected]


def _store_pieces(path: Path) -> Iterator[Piece]:
    try:
        database = open_database(path, read_only=True)
    except StoreDamaged as error:
        message = str(error) if str(path) in str(error) else f"{path}: {error}"
        raise StoreDamaged(message) from error
    try:
        with database.snapshot() as connection:
            spans = [
                (part, *connection.execute(f"SELECT min(id), max(id) FROM {part.value}").fetchone())
                for part in (Part.ENTRIES, Part.FORKS)
            ]
    finally:
        database.close()
    for part, low, high in spans:
        if low is None or high is None:
            continue
        step = max(_ROWS, (high - low) // _MAX_PIECES + 1)
        for at in range(low, high + 1, step):
            end = min(at + step - 1, high)
            yield Piece(str(path), part, at, end, (end - at + 1) * _ROW_BYTES)


def _packed(pieces: Iterable[Piece]) -> Iterator[Split]:
    split: list[Piece] = []
    weight = 0
    for piece in pieces:
        if split and weight + piece.size > _SPLIT_BYTES:
            yield tuple(split)
            split, weight = [], 0
        split.append(piece)
        weight += piece.size
    if split:
        yield tuple(split)
