"""Looking at the inputs and cutting them into splits: what one task reads. Runs before any job, on one machine.

Files are told apart by their content: a Culm store begins as SQLite files do, a table of entries as Parquet files do,
and everything else is taken for an export file (``culm.store.files``). Folders and globs may mix them. An input that
was named and that nobody can read is refused here, before Spark takes ten seconds to start. A file that a folder has
beside others is no reason to stop: it becomes a reject that names the file and the reason.

A store is cut by ranges of row ids, Parquet by row groups, a large bundle by ``borders``. A plain export is
one piece, since it can only be read from its beginning.
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain
from typing import TypeVar

from pyarrow import ArrowException, parquet

from culm.bamboo import MAX_U64
from culm.errors import ConfigError, CulmError
from culm.spark.reading.borders import PARQUET_MAGIC, borders
from culm.spark.reading.found import EVERYTHING, Wanted, check_columns
from culm.spark.storage import Listed, Location, located, opened_store
from culm.store.schema import from_sql, to_sql
from culm.types import Run

T = TypeVar("T")

SQLITE_MAGIC = b"SQLite format 3\x00"
"""How every SQLite file begins, and so every store."""

# What SQLite and Culm keep beside a store, which is read together with the store; and what a home keeps beside its own
# (docs/files.md). Without the latter a home that is named as an input would have its secret keys read as if they were
# entries, and would end with a reject for each of these files.
_BESIDE_STORE = re.compile(r"-(wal|shm|journal)$|-payloads/[^/]+$")
_BESIDE_HOME_STORE = re.compile(r"/(identities/[^/]+|(policy|names|peers)\.json|culm\.toml)$")

_NOT_FOLLOWED = "a store, which grows, and is not read with a folder that is followed: follow it by its own path"

# Files that are looked at at a time. On other machines each takes some round trips; here it makes no difference.
_AT_ONCE = 16

# Rows of a store in one piece: some seconds of work. Shorter pieces would spread small stores over more tasks than
# they are worth, longer ones would leave workers idle at the end of a job.
ROWS = 20_000

# Pieces of one store. The driver keeps a record of each piece, so a huge store is cut into longer ranges instead.
_MAX_PIECES = 4000

# Bundles that are larger are read once by the driver, which looks for places to cut them. It does so before Spark
# starts and says how many cores there are. So pieces are short, and those that share a task are read as one
# (``together``). On other machines the driver's reading costs more, and files of this size keep enough tasks busy.
_CUT_HERE, _CUT_ELSEWHERE = 64 * 1024 * 1024, 256 * 1024 * 1024

# Logs of a store in one piece, where only some numbers of all logs are wanted.
_LOGS = 5_000

# How many bytes of a file are about as much work as a row of a store: an entry with its links and its signature. It
# lets pieces of stores and of files share a task by one measure.
ROW_BYTES = 400

# Small pieces share a task up to this many bytes, because a task costs more than reading a small file. Where many tasks
# are asked for, they are shorter, but not so short that starting them takes longer than their work.
SPLIT_BYTES, _LEAST_BYTES = 32 * 1024 * 1024, 4 * 1024 * 1024


class Part(Enum):
    """Which part of an input a piece is of; for a store also the name of the table."""

    FILE = "file"
    ENTRIES = "entries"
    FORKS = "forks"
    TABLE = "table"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Piece(Location):
    """Something to read in one go. What ``low`` and ``high`` are depends on the part; both are included.

    ==========  =====================================================================================
    FILE        the bytes from ``low`` to before ``high``, where records begin; 0 for the file's end
    ENTRIES     row ids of entries; of logs, if only entries with ``numbers`` (first and last) are wanted
    FORKS       row ids of fork proofs; of logs, if there are ``numbers``
    TABLE       row groups
    REJECT      nothing: only the ``reason`` counts
    ==========  =====================================================================================

    ``size`` in bytes is an estimate of the work; it decides which pieces share a task. ``checksum``: that of a bundle
    whose end this piece has, if others have the rest.
    """

    part: Part
    low: int = 0
    high: int = 0
    size: int = 0
    reason: str | None = None
    numbers: Run | None = None
    checksum: bytes = b""


Split = tuple[Piece, ...]
"""What one task reads."""

Paths = Iterable[str | os.PathLike[str]]


def plan(
    paths: Paths, settings: Mapping[str, str] | None = None, wanted: Wanted = EVERYTHING, tasks: int = 1
) -> list[Split]:
    """The splits of all inputs: paths, URIs and globs of files and folders. A file named twice is read once.

    ``settings`` are Hadoop's, for other machines; they win over those of the session and of the environment. Of stores
    only the entries that are ``wanted`` are planned; a reader of other pieces has to choose. Large inputs are cut into
    about as many ``tasks``, or more.

    ``ConfigError`` or ``StoreError``, naming the path, for a path that is missing, empty or unreadable, for a folder in
    which nothing can be read, and for an SQLite file that is not a store. A damaged export file is no error: the
    entries before the damage are read, and a reject tells of the rest.
    """
    places = located(paths, settings)
    if not places:
        raise ConfigError("no input was given: name at least one store, export file, Parquet table, or folder of them")
    return shared([tuple(dict.fromkeys(piece for place in places for piece in _pieces(place, wanted)))], tasks)


def shared(splits: Iterable[Split], tasks: int = 1) -> list[Split]:
    """The pieces of some splits, in their order, as about so many splits, or more, of 4 to 32 MiB."""
    pieces = list(chain.from_iterable(splits))
    share = min(SPLIT_BYTES, max(_LEAST_BYTES, sum(piece.size for piece in pieces) // tasks))
    return list(packed(pieces, share, lambda piece: piece.size))


def _pieces(place: Location, wanted: Wanted) -> list[Piece]:
    """The pieces of all files of one input; ``ConfigError`` if nothing can be read of a folder or glob."""
    files = without_beside(place.listed())
    found = looked_at(files, wanted)
    rejected = [piece for piece in found if piece.part is Part.REJECT]
    if len(rejected) == len(files):
        first = f"; {rejected[0].name}: {rejected[0].reason}" if rejected else ""
        raise ConfigError(f"{place}: nothing in it can be read: {len(files)} files{first}")
    return found


def without_beside(files: Iterable[Listed]) -> list[Listed]:
    """The files that do not belong to a store that is listed too, or to the home of such a store."""
    owners = {file: _BESIDE_HOME_STORE.sub("/store.db", _BESIDE_STORE.sub("", file.location.uri)) for file in files}
    uris = {file.location.uri for file in owners}
    return [file for file, owner in owners.items() if owner == file.location.uri or owner not in uris]


def looked_at(files: Iterable[Listed], wanted: Wanted, *, stores: bool = True) -> list[Piece]:
    """The pieces of files. One that was not named and cannot be read is a reject; so is a store, without ``stores``."""

    def pieces(file: Listed) -> list[Piece]:
        try:
            return list(_of_file(file, wanted, stores=stores))
        except CulmError as error:
            if file.named:
                raise
            return [Piece(file.location.uri, Part.REJECT, reason=str(error).removeprefix(f"{file.location}: "))]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(chain.from_iterable(pool.map(pieces, files)))


def start_of(location: Location) -> bytes:
    """The first bytes of a file, by which stores and tables are known."""
    with location.open(len(SQLITE_MAGIC)) as stream:
        return stream.read(len(SQLITE_MAGIC))


def _of_file(file: Listed, wanted: Wanted, *, stores: bool) -> Iterator[Piece]:
    location = file.location
    if file.size is None:
        raise ConfigError(f"{location}: not a regular file")
    start = start_of(location)
    if not start:
        raise ConfigError(f"{location}: the file is empty")
    if start == SQLITE_MAGIC and not stores:
        raise ConfigError(f"{location}: {_NOT_FOLLOWED}")
    if start == SQLITE_MAGIC:
        yield from _store_pieces(location, wanted)
    elif start.startswith(PARQUET_MAGIC):
        yield from _table_pieces(location)
    else:
        yield from _file_pieces(location, file.size)


def _file_pieces(location: Location, size: int) -> Iterator[Piece]:
    starts, checksum = [0], b""
    if size > (_CUT_HERE if location.is_local else _CUT_ELSEWHERE):
        with location.open() as stream:
            starts, checksum = borders(stream, _LEAST_BYTES)
    for low, high in zip(starts, [*starts[1:], 0], strict=True):
        weight = (high or size) - low
        checks = checksum if low and not high else b""
        yield Piece(location.uri, Part.FILE, low, high, weight, checksum=checks, settings=location.settings)


def _table_pieces(location: Location) -> Iterator[Piece]:
    system, path = location.filesystem()
    try:
        file = parquet.ParquetFile(path, filesystem=system)
    except (OSError, ArrowException) as error:
        raise ConfigError(f"{location}: cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    with file:
        check_columns(location, file.schema_arrow)
        for group in range(file.num_row_groups):
            size = file.metadata.row_group(group).total_byte_size
            yield Piece(location.uri, Part.TABLE, group, group, size, settings=location.settings)


def _store_pieces(location: Location, wanted: Wanted) -> Iterator[Piece]:
    with opened_store(location) as database, database.snapshot() as connection:
        for part, low, high, numbers in _spans(connection, wanted):
            of_each = 1 if numbers is None or part is Part.FORKS else min(numbers[1] - numbers[0] + 1, ROWS)
            size = (high - low + 1) * of_each * ROW_BYTES
            yield Piece(location.uri, part, low, high, size, numbers=numbers, settings=location.settings)


def cut(low: int, high: int, step: int) -> Iterator[tuple[int, int]]:
    """The numbers from ``low`` to ``high`` as ranges of ``step`` of them, both ends included."""
    return ((at, min(at + step - 1, high)) for at in range(low, high + 1, step))


def greatest_id(connection: sqlite3.Connection, table: str) -> int:
    """The greatest row id of a table; 0 if it has no rows."""
    (greatest,) = connection.execute(f"SELECT max(id) FROM {table}").fetchone()
    return greatest or 0


def _spans(connection: sqlite3.Connection, wanted: Wanted) -> Iterator[tuple[Part, int, int, Run | None]]:
    """Ranges that cover the entries that are wanted, and fork proofs.

    They are ranges of row ids, or of logs and numbers if not all entries are wanted: the store's indexes find both.
    """
    first, last = wanted.span.start, wanted.span.last
    whole = (to_sql(first), to_sql(last))
    if not wanted.chooses:
        for part in (Part.ENTRIES, Part.FORKS):
            high = greatest_id(connection, part.value)
            yield from ((part, *ids, None) for ids in cut(1, high, max(ROWS, high // _MAX_PIECES + 1)))
        return
    if wanted.span.is_empty:
        return
    if wanted.named is None:
        logs = cut(1, greatest_id(connection, "logs"), _LOGS)
        yield from ((part, *ids, whole) for ids in logs for part in (Part.ENTRIES, Part.FORKS))
        return
    named = [(one, 0, MAX_U64) if isinstance(one, bytes) else (*one, one[1]) for one in wanted.named]
    query = "SELECT id, greatest FROM logs WHERE author = ? AND log_id BETWEEN ? AND ?"
    found = {row for author, *ids in named for row in connection.execute(query, (author, *map(to_sql, ids)))}
    rows = greatest_id(connection, "entries")
    for log, greatest in sorted(found):
        yield Part.FORKS, log, log, whole
        reached = min(last, 0 if greatest is None else from_sql(greatest))
        # A log may have two entries, 1 and 2^64 - 1. There are never more pieces than the store's rows are worth.
        step = max(ROWS, (reached - first) // (rows // ROWS + 1) + 1)
        yield from ((Part.ENTRIES, log, log, (to_sql(low), to_sql(high))) for low, high in cut(first, reached, step))


def together(split: Split) -> list[Piece]:
    """The pieces of a split, neighbours in a file as one, so that a task opens each file once."""
    found: list[Piece] = []
    for piece in split:
        last = found[-1] if found else piece
        if piece.part is Part.FILE and piece.low and (last.uri, last.high) == (piece.uri, piece.low):
            found[-1] = replace(last, high=piece.high, size=last.size + piece.size, checksum=piece.checksum)
        else:
            found.append(piece)
    return found


def packed(things: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[tuple[T, ...]]:
    """Things, in their order, together for a task while their sizes add up to at most ``most``."""
    together, weight = list[T](), 0
    for one in things:
        if together and weight + size(one) > most:
            yield tuple(together)
            together, weight = [], 0
        together.append(one)
        weight += size(one)
    if together:
        yield tuple(together)
