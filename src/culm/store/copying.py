"""A consistent copy of a store while others write to it: the database of one moment, and its payload files.

Holding the database at one moment while gigabytes are copied would hold up the folding of its WAL file. Most files are
therefore copied before, each as far as the database says that its bytes count: those bytes never change. Then, with the
database held at one moment, only what is new since is copied. A file may be gone by then because its payload was
forgotten; the copy then tries again at a later moment, which no longer refers to the file.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from culm.errors import StoreError
from culm.store.database import Database, translated_errors
from culm.store.opening import open_database
from culm.store.payloads.folder import Folder
from culm.store.rows import COUNT, TEXT, the_row
from culm.store.schema import IS_VERIFIED

_PIECE = 1024 * 1024  # bytes in memory at once
_ATTEMPTS = 20  # to find all files of one moment: each is shorter than the one before, as less is new


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """What was copied: verified entries, payload files, and the bytes of everything."""

    entries: int
    payload_files: int
    size: int


def copy_store(source: Path, target: Path, progress: Callable[[int], None] = lambda _: None) -> StoreCopy:
    """Copy a store to ``target``, where nothing exists yet. ``progress`` is called with the bytes copied so far.

    ``StoreError`` if the store is missing or damaged, or the disk is full.
    """
    try:
        with closing(open_database(source, read_only=True)) as database:
            files = _Files(database.folder, Folder(target), progress)
            files.copy(_listed(database))  # most of the bytes, without holding the database at one moment
            for _ in range(_ATTEMPTS):
                with database.snapshot() as connection:
                    listed = _listed(database)
                    if not files.copy(listed):
                        continue
                    query = f"SELECT count(*) FROM entries WHERE {IS_VERIFIED}"
                    (entries,) = the_row(connection.execute(query), COUNT)
                    with translated_errors(target), closing(sqlite3.connect(target, isolation_level=None)) as copy:
                        connection.backup(copy)
                files.finish(listed)
                return StoreCopy(entries, len(listed), files.done + target.stat().st_size)
    except OSError as error:
        raise StoreError(f"{error.filename or target}: {error.strerror}") from error
    raise StoreError(
        f"{source}: payload files are missing, or deleted faster than they are copied: try again, or see culm doctor"
    )


def _listed(database: Database) -> dict[str, int]:
    """The names of the payload files, each with the number of its bytes that count."""
    query = "SELECT name, payload_held FROM payload_files JOIN entries ON entries.id = entry"
    return dict(database.read(query, (), TEXT, COUNT))


class _Files:
    """The payload files of a copy."""

    def __init__(self, source: Folder, target: Folder, progress: Callable[[int], None]) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._copied: dict[str, int] = {}
        self.done = 0

    def copy(self, listed: dict[str, int]) -> bool:
        """Copy the bytes that are not copied yet; whether all of them were there."""
        complete = True
        for name, size in listed.items():
            if name not in self._copied:
                self._target.path.mkdir(exist_ok=True, mode=0o700)
                (self._target.path / name).touch(mode=0o600)
            at = self._copied.get(name, 0)
            while at < size and (data := self._source.read(name, at, min(_PIECE, size - at))):
                self._target.write(name, at, data)
                at += len(data)
                self.done += len(data)
                self._progress(self.done)
            self._copied[name] = at
            complete = complete and at >= size
        return complete

    def finish(self, listed: dict[str, int]) -> None:
        """Remove the files and bytes that the copied database does not refer to; bring the rest to the disk."""
        self._target.remove(name for name in self._target.names() if name not in listed)
        for name, size in listed.items():
            if self._copied[name] > size:
                os.truncate(self._target.path / name, size)
            self._target.sync(name)
