"""One connection to the store's file: how it is opened, its transactions, its errors.

WAL mode: one process writes at a time, any number read meanwhile and see the last committed state. Commits are synced
to the disk before they are reported (``synchronous = FULL``): an author whose newest entry was lost in a power cut
after it had been sent would fork the log with the next one.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from culm.errors import StoreDamaged, StoreError, StoreFull, StoreLocked, StoreMissing
from culm.store import pieces, records
from culm.store.folder import Folder
from culm.store.guard import telling
from culm.store.migrations import migrate
from culm.store.schema import VERSION, schema_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

LOCK_TIMEOUT = 10.0  # seconds to wait for another writer
_CACHE_KIB = 8_192
_WAL_LIMIT = 64 * 1024 * 1024  # bytes the WAL file is cut back to after a checkpoint

_ERRORS: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_BUSY: (StoreLocked, "another process keeps the store locked"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "another process keeps the store locked"),
    sqlite3.SQLITE_FULL: (StoreFull, "the disk is full; nothing was changed"),
    sqlite3.SQLITE_NOTADB: (StoreDamaged, "not a Culm store"),
    sqlite3.SQLITE_CORRUPT: (StoreDamaged, "the store's file is damaged"),
    sqlite3.SQLITE_CANTOPEN: (
        StoreError,
        "the store's file cannot be opened (is the folder there, and yours?)",
    ),
    sqlite3.SQLITE_READONLY: (StoreError, "the store may not be written (permission)"),
    sqlite3.SQLITE_PERM: (StoreError, "no permission to use the store"),
}


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into Culm's, naming the file."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        kind, text = _ERRORS.get(code, (StoreError, str(error)))
        if code == sqlite3.SQLITE_CONSTRAINT:  # what is written fits what is there
            kind, text = StoreDamaged, f"the store's file is damaged: {error}"
        message = f"{path}: {text}"
        raise kind(message) from error
    except UnicodeDecodeError as error:  # SQLite's own message names a part of a damaged schema
        raise StoreDamaged(f"{path}: the store's file is damaged") from error


class Database:
    """A connection with Culm's settings. Use it from one thread at a time."""

    def __init__(self, path: Path, *, read_only: bool = False, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.path = path
        self.folder = Folder(path)
        self.read_only = read_only
        self._depth = 0
        self._thread = 0  # whose transaction it is
        self._durable = True
        try:
            is_there, is_folder = path.exists(), path.is_dir()
        except OSError as error:
            msg = f"{path}: {error.strerror}"
            raise StoreError(msg) from error
        if is_folder:
            msg = f"{path}: a directory, not a store"
            raise StoreDamaged(msg)
        if read_only and not is_there:
            msg = f"{path}: there is no store"
            raise StoreMissing(msg)
        with translated_errors(path):
            uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
            self.connection = sqlite3.connect(
                uri, uri=True, timeout=lock_timeout, isolation_level=None, check_same_thread=False
            )
            try:
                with telling(self):
                    self._prepare(lock_timeout)
            except BaseException:
                self.connection.close()
                raise

    def _prepare(self, lock_timeout: float) -> None:
        self.connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self.connection.execute("PRAGMA trusted_schema = OFF")  # somebody else may have made the file: a backup
        with self.snapshot() as connection:  # another process may just be making it
            version = schema_version(connection)
        if self.read_only:
            if version == 0:
                msg = f"{self.path}: an empty file, not a Culm store"
                raise StoreDamaged(msg)
            if version < VERSION:  # made by an earlier Culm: reading needs what is new in it
                Database(self.path, lock_timeout=lock_timeout).close()
            return
        self._use_wal(lock_timeout)
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
        with self.transaction():
            migrate(self)

    def _use_wal(self, lock_timeout: float) -> None:
        # Switching a new file to WAL needs it alone, and does not wait for its turn as other statements do.
        deadline = time.monotonic() + lock_timeout
        while True:
            try:
                self.connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """A writing transaction: all of it is kept, or, if an exception leaves the block, none. May be nested.

        One that is not ``durable`` can be lost in a power cut, as a whole and with those after it, up to the next one
        that is: for what can be had again.
        """
        if self.read_only:
            msg = f"{self.path}: the store was opened for reading only"
            raise StoreError(msg)
        self._check_thread()
        with translated_errors(self.path):
            if self._depth == 0:
                self._thread = threading.get_ident()
                if durable != self._durable:
                    self.connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                    self._durable = durable
                self.connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            dropped: list[str] = []
            outermost = self._depth == 1
            try:
                yield self.connection
                records.settle(self.connection)
                if outermost:
                    dropped = pieces.take_dropped(self.connection)
                    self.connection.execute("COMMIT")
            except BaseException:
                # Full disks and I/O errors have SQLite roll back by itself.
                if outermost and self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1
            self.folder.remove(dropped)

    def _check_thread(self) -> None:
        # Inside another thread's transaction, what is reported as done may be taken back with the rest of it.
        if self._depth and self._thread != threading.get_ident():
            msg = f"{self.path}: another thread is using this store: open one for each"
            raise StoreError(msg)

    def expect_beyond(self, place: Any, last: Any) -> None:  # noqa: ANN401 - keys of any kind that have an order
        """``StoreDamaged`` unless a page of rows ended beyond a place: the next would begin there, and so for ever."""
        try:
            is_beyond = last > place
        except TypeError:  # an index that does not have what the table has
            is_beyond = False
        if not is_beyond:
            raise StoreDamaged(f"{self.path}: the store's file is damaged: an index is out of order")

    def read(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows of a single query: a moment of its own, without a transaction around it."""
        with translated_errors(self.path):
            return self.connection.execute(query, parameters).fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A reading transaction: everything read inside belongs to one moment. Keep it short."""
        self._check_thread()
        with translated_errors(self.path):
            nested = self.connection.in_transaction
            if not nested:
                self.connection.execute("BEGIN")
            try:
                yield self.connection
            finally:
                if not nested:
                    self.connection.execute("COMMIT")

    def fold_elsewhere(self) -> None:
        """Somebody else calls ``fold``: fold the WAL file back into the database here only if it has grown large."""
        with translated_errors(self.path):
            self.connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_LIMIT // 4096}")

    def fold(self) -> None:
        """Fold the WAL file back into the database as far as that is possible without waiting for anybody."""
        with translated_errors(self.path):
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection. What was committed is safe, closed or not."""
        self.connection.close()
