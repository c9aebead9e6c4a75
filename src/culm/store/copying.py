"""A consistent copy of a store while others write to it: the database as it was at one moment, and its payload files.

Nobody is held up. Files are copied first, as far as the database says they count; what is behind that may be written
meanwhile, what counts never changes. Then, with the database held at one moment, what came since is copied; should a
file be gone by then, because its payload was forgotten, there is a later moment that does not speak of it.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm.errors import StoreError
from culm.store.database import Database, translated_errors
from culm.store.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PIECE = 1024 * 1024
_ATTEMPTS = 20  # to find all files of one moment; each needs only what is new since the one before


@dataclass(frozen=True, slots=True)
class StoreCopy:
    """What was copied: verified entries, payload files, and the bytes of everything."""

    entries: int
    payload_files: int
    size: int


def copy_store(source: Path, target: Path, progress: Callable[[int], None] = lambda _: None) -> StoreCopy:
    """Copy a store to a place where there is none. ``progress`` is called with the bytes copied so far.

    ``StoreError`` if that cannot be: the store is missing or damaged, there is no room.
    """
    database = Database(source, read_only=True)
    try:
        files = _Files(database.folder, Folder(target), progress)
        files.copy(_listed(database))  # the bulk of it, with the database held at no moment
        for _ in range(_ATTEMPTS):
            with database.snapshot() as connection:
                listed = _listed(database)
                if not files.copy(listed):
                    continue
                entries = int(connection.execute("SELECT count(*) FROM entries WHERE state = 2").fetchone()[0])
                _copy_database(database, target)
            files.drop_others(listed)
            files.sync()
            return StoreCopy(entries, len(listed), files.done + target.stat().st_size)
    except OSError as error:
        raise StoreError(f"{error.filename or target}: {error.strerror}") from error
    finally:
        database.close()
    raise StoreError(f"{source}: payload files go faster than they can be copied, or are missing (see: culm doctor)")


def _listed(database: Database) -> dict[str, int]:
    """The payload files that count, by name, and how many of their bytes do."""
    return dict(database.read("SELECT name, payload_held FROM payload_files JOIN entries ON entries.id = entry"))


def _copy_database(database: Database, target: Path) -> None:
    with translated_errors(target):
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            database.connection.backup(copy)
        finally:
            copy.close()


class _Files:
    """The payload files of a copy."""

    def __init__(self, source: Folder, target: Folder, progress: Callable[[int], None]) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._copied: dict[str, int] = {}
        self.done = 0

    def copy(self, listed: dict[str, int]) -> bool:
        """Copy what is not yet; whether all of it was there."""
        complete = True
        for name, size in listed.items():
            at = self._copied.get(name, 0)
            while at < size and (data := self._source.read(name, at, min(_PIECE, size - at))):
                self._write(name, at, data)
                at += len(data)
            if not size:
                self._write(name, 0, b"")
            self._copied[name] = at
            complete = complete and at >= size
        return complete

    def _write(self, name: str, at: int, data: bytes) -> None:
        self._target.path.mkdir(exist_ok=True, mode=0o700)
        file = os.open(self._target.path / name, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, data, at)
        finally:
            os.close(file)
        self.done += len(data)
        self._progress(self.done)

    def drop_others(self, listed: dict[str, int]) -> None:
        """Remove what the moment that was copied does not speak of, files and bytes."""
        self._target.remove(name for name in self._target.names() if name not in listed)
        for name, size in listed.items():
            if self._copied[name] > size:
                os.truncate(self._target.path / name, size)

    def sync(self) -> None:
        """Bring everything to the disk."""
        for name in self._target.names():
            self._target.sync(name)
