"""One connection to the store's file: its transactions, its errors, and hooks at the end of each transaction.

WAL mode: one process writes at a time. Any number of others read meanwhile, and see the last committed state. A commit
is on the disk before it is reported (``synchronous = FULL``). Otherwise a power cut could take back an author's newest
entry after it was sent, and the next entry that the author signs would fork the log.

This module knows no table. What a transaction has to settle before it ends (the record index, files to delete) is
registered by the layer above as a hook; ``culm.store.opening`` does that for every store.
"""

import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from culm.errors import ConfigError, StoreDamaged, StoreError, StoreFull, StoreLocked, StoreMissing
from culm.store.payloads.folder import Folder
from culm.store.records.sums import LogRow
from culm.store.rows import Column, DamagedRow, all_rows
from culm.types import Log

LOCK_TIMEOUT = 10.0  # seconds to wait for another writer: a large import commits several times a second
_RETRY_SECONDS = 0.02  # between attempts to switch to WAL mode, which takes about a millisecond
_CACHE_KIB = 8_192  # of pages: enough for the inner pages of the indexes of millions of entries
_WAL_LIMIT = 64 * 1024 * 1024  # bytes: SQLite cuts the WAL file back to this after a checkpoint, else it never shrinks
_PAGE_BYTES = 4096  # of the database, SQLite's default

_ERRORS: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_BUSY: (StoreLocked, "another process keeps the store locked"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "another process keeps the store locked"),
    sqlite3.SQLITE_FULL: (StoreFull, "the disk is full; nothing was changed"),
    sqlite3.SQLITE_NOTADB: (StoreDamaged, "not a Culm store"),
    sqlite3.SQLITE_CORRUPT: (StoreDamaged, "the store's file is damaged"),
    sqlite3.SQLITE_CANTOPEN: (
        StoreError,
        "the store's file cannot be opened (does the folder exist, and may you write there?)",
    ),
    sqlite3.SQLITE_READONLY: (StoreError, "no permission to write the store's file"),
    sqlite3.SQLITE_PERM: (StoreError, "no permission to use the store's file"),
}

Hook = Callable[["Database"], Callable[[], object] | None]
"""Called at the end of a transaction, in the order of ``Database.hooks``. What it returns is called after the commit,
if that succeeds. A transaction inside another calls the hooks too, so that the outer one reads settled tables."""


_SQLITES = sqlite3.Error, UnicodeDecodeError  # What SQLite's module raises; the latter quotes a damaged schema.


@contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors, and damaged rows, into Culm's errors, which name the file."""
    try:
        yield
    except _SQLITES as error:
        _raise_translated(path, error)


def _raise_translated(path: Path, error: Exception) -> NoReturn:
    match error:
        case DamagedRow():
            raise StoreDamaged(f"{path}: the store's file is damaged: {error}") from error
        case sqlite3.ProgrammingError() | sqlite3.InterfaceError():
            # A mistake in a program, for instance a parameter of a wrong type, must not look like damage. Only a closed
            # connection is no mistake: a reader sees it if the node stops meanwhile.
            if "closed" not in str(error):
                raise error
            raise StoreError(f"{path}: the store was closed") from error
        case sqlite3.Error():
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            kind, text = _ERRORS.get(code, (StoreError, str(error)))
            if code == sqlite3.SQLITE_CONSTRAINT:  # Culm writes only what fits, so the rows in the file are wrong
                kind, text = StoreDamaged, f"the store's file is damaged: {error}"
            raise kind(f"{path}: {text}") from error
    raise StoreDamaged(f"{path}: the store's file is damaged") from error


class Inserted(NamedTuple):
    """Verified entries of one log that a transaction has inserted: neighbours, in consecutive rows.

    ``log`` is the log's row id; ``first`` and ``entry`` are the number of the first entry, as it is stored, and its row
    id. ``has_payloads``: all their payloads are complete; otherwise none is. ``digests`` are those of the entries.
    """

    log: int
    first: int
    entry: int
    has_payloads: bool
    digests: Sequence[bytes]


class Database:
    """A connection with Culm's settings. Use it from one thread at a time.

    ``culm.store.opening.open_database`` makes one that is ready for use.
    """

    def __init__(self, path: Path, *, read_only: bool = False, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.path = path
        self.folder = Folder(path)
        self.read_only = read_only
        self.hooks: list[Hook] = []
        # For ``culm.store.payloads.checked``: bytes that were compared last, and checksums that the store lacks.
        self.stretches: OrderedDict[tuple[bytes, int], bytes] = OrderedDict()
        self.sums: dict[bytes, bytes] = {}
        self.inserted: list[Inserted] = []
        """What this transaction has inserted and no hook has dealt with so far."""
        self.flushed: list[LogRow] = []
        """Logs whose rows this transaction has still to write: a hook does, with what it knows of them."""
        self.is_settled = False
        """Whether this transaction has left the hooks nothing to do."""
        # What later transactions need not read, because it is in memory. All of it is forgotten after a transaction
        # that is undone, and after one of another connection.
        self.blocks: dict[int, Any] = {}
        """For ``culm.store.records.index``: the blocks that were changed last, by the kinds of their records."""
        self.views: dict[Log, Any] = {}
        """For ``culm.store.logview``: logs as this transaction leaves them. Only the next one finds them, in
        ``earlier_views``: whatever else changes logs need not know of them."""
        self.earlier_views: dict[Log, Any] = {}
        self.has_growth = False
        """For ``culm.store.growing``: whether its view and its trigger were made."""
        self._version = 0  # SQLite's number of the state that they belong to: it changes with the commits of others.
        self._afterwards: list[Callable[[], object]] = []  # what the hooks of this transaction returned
        self._lock_timeout = lock_timeout
        self._thread = 0  # the thread that runs a transaction, 0 if none does
        self._durable = True
        if str(path) == ":memory:":  # To SQLite this names a database in memory; here it would become a file's name.
            raise ConfigError(
                "a store is a file: there is none in memory; name a file in a temporary folder instead,"
                " or in a test use culm.testing.memory_store()"
            )
        try:
            is_there, is_folder = path.exists(), path.is_dir()
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from error
        if is_folder:
            raise StoreDamaged(f"{path}: a directory, not a store")
        if read_only and not is_there:
            raise StoreMissing(f"{path}: there is no store")
        with translated_errors(path):
            uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}"
            self.connection = sqlite3.connect(
                uri, uri=True, timeout=lock_timeout, isolation_level=None, check_same_thread=False
            )
            try:
                self.connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                # The file may come from somebody else (a backup), and its triggers must not call risky functions.
                self.connection.execute("PRAGMA trusted_schema = OFF")
            except BaseException:
                self.connection.close()
                raise

    def prepare_to_write(self) -> None:
        """Switch the file to WAL mode. Call this only once the file is known to be a store, or empty."""
        deadline = time.monotonic() + self._lock_timeout
        with translated_errors(self.path):
            while True:  # switching needs the file alone, and SQLite's own timeout does not apply to it
                try:
                    self.connection.execute("PRAGMA journal_mode = WAL")
                    break
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                        raise
                    time.sleep(_RETRY_SECONDS)
            self.connection.execute("PRAGMA synchronous = FULL")
            self.connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")

    @contextmanager
    def transaction(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """A writing transaction: all of it is kept or, if an exception leaves the block, nothing.

        Transactions may be nested; the outermost one commits. One that is not ``durable`` survives the end of the
        process, but a power cut can take it back, together with all that follow it up to the next durable one. That is
        enough for what a peer can send again, and saves waiting for the disk.
        """
        if self.read_only:
            raise StoreError(f"{self.path}: the store was opened for reading only")
        self._check_thread()
        try:  # By hand: a context manager around each transaction would cost a tenth of a short one.
            if self._thread:  # inside another transaction
                self.earlier_views.clear()  # The outer transaction may have changed these logs,
                yield self.connection
                self._call_hooks()
                self.views.clear()  # and may still change these.
                return
            if durable != self._durable:
                self.connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            self.connection.execute("BEGIN IMMEDIATE")
            self._thread = threading.get_ident()
            undone = True
            try:
                self._recall()
                self.is_settled = False
                yield self.connection
                if not self.is_settled:
                    self._call_hooks()
                undone = False  # A commit that fails can still be in the WAL file, and a crash would bring it back.
                self.connection.execute("COMMIT")
            except BaseException:
                self._afterwards.clear()
                self.inserted.clear()
                self.flushed.clear()
                self._forget()
                # After a full disk or an I/O error SQLite has rolled back already, and ROLLBACK would fail.
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            finally:
                self._thread = 0
                self.folder.end_transaction(undone=undone)
            afterwards, self._afterwards = self._afterwards, []
            for after in afterwards:
                after()
        except _SQLITES as error:
            _raise_translated(self.path, error)

    def _recall(self) -> None:
        """What the transaction before has left in memory is still true, unless another connection has written since."""
        (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._forget()
        self.earlier_views, self.views = self.views, {}

    def _forget(self) -> None:
        self.blocks, self.views, self.earlier_views, self.has_growth = {}, {}, {}, False

    def _call_hooks(self) -> None:
        self._afterwards += [after for hook in self.hooks if (after := hook(self)) is not None]

    def _check_thread(self) -> None:
        # A second thread would take part in the first one's transaction: what it reports as done could be rolled back.
        if self._thread not in (0, threading.get_ident()):
            raise StoreError(f"{self.path}: another thread is using this store: open one for each thread")

    def read(self, query: str, parameters: Sequence[object] = (), *columns: Column) -> list[tuple[Any, ...]]:
        """The rows of a single query, which sees one moment by itself and needs no transaction around it."""
        self._check_thread()
        try:
            return all_rows(self.connection.execute(query, parameters), *columns)
        except _SQLITES as error:  # By hand: every read comes by here, and a context manager would cost a tenth of it.
            _raise_translated(self.path, error)

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A reading transaction: everything read inside belongs to one moment.

        Keep it short, because the WAL file cannot be folded back beyond that moment, and grows.
        """
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
        """Another connection calls ``fold``: commits here fold the WAL file back only once it has grown very large."""
        with translated_errors(self.path):
            self.connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_LIMIT // _PAGE_BYTES}")

    def fold(self) -> None:
        """Fold the WAL file back into the database, as far as no reader stands in the way. Waits for nobody."""
        with translated_errors(self.path):
            self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close the connection. What was committed is safe, closed or not."""
        self.connection.close()
