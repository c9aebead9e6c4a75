"""The file of a view: the application's tables, and what is known of the entries that made them.

An update asks the store which logs have changed, and compares, for each of them, the number and the sum of the ids of
entries with their payload: the store keeps both for its record index. Usually entries were added at the end. If the
sums tell that others have come or gone (a gap was filled, a fork came to light, a payload was deleted), the log is
compared entry by entry.

Then the rows are taken back to the lowest place in the order that is concerned (``culm.views.undo``), or made anew if
that lies too far back, and the entries from there on are applied. Rows, known entries and the position in the store are
one transaction. So after a crash each entry counts once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self

from culm.bamboo import Entry
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import ConfigError, NotHeld, Place, StoreError
from culm.store import ReadableStore
from culm.types import Log
from culm.views import undo
from culm.views.order import Key, Unplaced, heights
from culm.views.view import Changes, Rejected, View

_PAGE = 500  # entries read from the store, or taken from the order, at once
_TRIES = 5  # Updates that are begun anew because the store changed while it was read.
_ID = slice(len(YAMF_PREFIX), len(YAMF_PREFIX) + 32)  # of an entry's hash: its id in the store's sums
_MASK = 2**256 - 1
_OWN_TABLES = """
CREATE TABLE culm_meta (view BLOB NOT NULL, change INTEGER NOT NULL, undo_from INTEGER NOT NULL);
CREATE TABLE culm_logs (
    id INTEGER PRIMARY KEY, author BLOB NOT NULL, log_id BLOB NOT NULL, count INTEGER NOT NULL, total BLOB NOT NULL,
    UNIQUE (author, log_id)
);
CREATE TABLE culm_entries (
    hash BLOB PRIMARY KEY, log INTEGER NOT NULL, seq BLOB NOT NULL, used INTEGER NOT NULL, applied INTEGER NOT NULL,
    height INTEGER, step INTEGER
) WITHOUT ROWID;
CREATE INDEX culm_places ON culm_entries (log, seq);
CREATE INDEX culm_order ON culm_entries (height, hash);
CREATE INDEX culm_steps ON culm_entries (step) WHERE step IS NOT NULL;
CREATE TABLE culm_references (entry BLOB NOT NULL, target BLOB NOT NULL, PRIMARY KEY (entry, target)) WITHOUT ROWID;
CREATE TABLE culm_undo (id INTEGER PRIMARY KEY, step INTEGER NOT NULL, sql TEXT NOT NULL);
"""
_OWN_INDEX = "CREATE INDEX IF NOT EXISTS culm_undo_steps ON culm_undo (step)"  # Files of earlier versions lack it.


class _Moved(Exception):
    """The store has changed while it was read."""


class ViewFile:
    """A view's rows, made of a store's entries. Use it, and the store, from one thread at a time.

    Opening makes the file, or makes it anew if it is that of another view or version. ``StoreError`` if the file cannot
    be used, ``ConfigError`` if the view's tables do not fit (see ``View``).
    """

    def __init__(self, path: Path | str, view: View, store: ReadableStore) -> None:
        self.path = Path(path)
        self._view = view
        self._store = store
        self._from: Key | None = None  # Where an update begins to apply entries; all before that are applied already.
        try:
            self._rows = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            self._prepare()
        except BaseException as error:
            self._rows.close()
            if isinstance(error, sqlite3.Error):
                raise self._unusable(error) from error
            raise

    def _unusable(self, error: sqlite3.Error) -> StoreError:
        return StoreError(f"{self.path}: the view cannot be opened: {error}")

    def _prepare(self) -> None:
        self._rows.execute("PRAGMA journal_mode = WAL")
        self._rows.execute("PRAGMA recursive_triggers = ON")  # so that REPLACE tells what it deletes
        with self._transaction():
            if not self._is_of_this_view():
                self._begin_anew()
            self._rows.execute(_OWN_INDEX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. What ``update`` reported is in it."""
        self._rows.close()

    def read(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a query. It sees the state of the last update, and must not change anything."""
        self._rows.execute("PRAGMA query_only = ON")
        try:
            return self._rows.execute(sql, parameters).fetchall()
        finally:
            self._rows.execute("PRAGMA query_only = OFF")

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of all tables of the application, with their rowids: equal for two files of the same entries."""
        return {
            name: self.read(f"SELECT rowid, * FROM {undo.quoted(name)} ORDER BY rowid")
            for name in undo.tables(self._rows)
        }

    def update(self) -> Changes:
        """Bring the rows up to date with the store.

        What ``View.apply`` raises, apart from ``Rejected``, comes out here; then nothing has changed. Cost: what has
        changed in the store, and what has to be repeated.
        """
        for _ in range(_TRIES):
            try:
                with self._transaction():
                    return self._update()
            except _Moved:
                continue
        raise StoreError(f"{self.path}: the store changes faster than the view can follow: try again later")

    def rebuild(self) -> Changes:
        """Make all rows anew. They are the same afterwards, unless ``View.apply`` depends on something else."""
        with self._transaction():
            self._begin_anew()
        changes = self.update()
        changes.rebuilt = True
        return changes

    # -- the file ------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._rows.execute("BEGIN IMMEDIATE")
        try:
            yield
            undo.stop_recording(self._rows)
            self._rows.execute("COMMIT")
        except BaseException:
            if self._rows.in_transaction:
                self._rows.execute("ROLLBACK")
            raise

    def _is_of_this_view(self) -> bool:
        if not self._all("SELECT 1 FROM sqlite_schema WHERE name = 'culm_meta'"):
            if self._all("SELECT 1 FROM sqlite_schema"):
                raise StoreError(f"{self.path}: this is the file of another program, not of a view")
            return False
        return self._all("SELECT view FROM culm_meta") == [(self._view.digest,)]

    def _begin_anew(self) -> None:
        self._drop_all("%")
        self._run(_OWN_TABLES)
        self._rows.execute(_OWN_INDEX)
        self._rows.execute("INSERT INTO culm_meta VALUES (?, -1, 0)", (self._view.digest,))
        self._run(self._view.schema)
        undo.check_tables(self._rows)

    def _drop_all(self, pattern: str) -> None:
        undo.stop_recording(self._rows)
        kinds = "'table', 'view'"  # indexes and triggers go with their tables
        names = self._all(
            f"SELECT type, name FROM sqlite_schema WHERE type IN ({kinds}) AND name NOT LIKE 'sqlite_%'"
            " AND (? = '%' OR name NOT LIKE ? ESCAPE '\\') ORDER BY type DESC",
            (pattern, pattern),
        )
        for kind, name in names:
            self._rows.execute(f"DROP {kind} {undo.quoted(name)}")

    def _run(self, script: str) -> None:
        """Run the statements of a script, inside the transaction, which ``executescript`` would end."""
        statement = ""
        for part in script.split(";"):
            statement += part + ";"
            if sqlite3.complete_statement(statement):
                try:
                    self._rows.execute(statement)
                except sqlite3.OperationalError as error:
                    raise ConfigError(f"the schema of the view is wrong: {error}") from None
                statement = ""
        if statement.strip("; \n\t"):
            raise ConfigError("the schema of the view ends in the middle of a statement")

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._rows.execute(sql, values).fetchall()

    # -- entries that come and go ----------------------------------------------------------------------------------

    def _update(self) -> Changes:
        changes = Changes()
        self._from = None
        ((before,),) = self._all("SELECT change FROM culm_meta")
        now, logs = self._store.changed_logs(before)
        for log in sorted(logs):
            if self._view.wants(log):
                self._take(log, changes)
        lowest, changes.waiting = self._place()
        if lowest is not None:
            self._rewind(lowest, changes)
        self._play(changes)
        self._rows.execute("UPDATE culm_meta SET change = ?", (now,))
        return changes

    def _take(self, log: Log, changes: Changes) -> None:
        """Register the entries of a log that have come, and forget those that have gone."""
        row, count, total = self._log_row(log)
        ((newest,),) = self._all("SELECT max(seq) FROM culm_entries WHERE log = ?", (row,))
        expected = self._store.payload_sum(log)
        if (count, total) == expected:
            return
        for entry, payload in self._complete(log, 1 + (int.from_bytes(newest) if newest else 0)):
            self._register(row, entry, payload)
            count, total = count + 1, total + _id_of(entry.hash)
        if (count, total & _MASK) != expected:
            self._compare(log, row, changes)
            held = self._all("SELECT hash FROM culm_entries WHERE log = ?", (row,))
            count, total = len(held), sum(_id_of(each) for (each,) in held)
        values = count, (total & _MASK).to_bytes(32), row
        self._rows.execute("UPDATE culm_logs SET count = ?, total = ? WHERE id = ?", values)

    def _log_row(self, log: Log) -> tuple[int, int, int]:
        author, log_id = log[0], log[1].to_bytes(8)
        self._rows.execute(
            "INSERT OR IGNORE INTO culm_logs (author, log_id, count, total) VALUES (?, ?, 0, ?)",
            (author, log_id, bytes(32)),
        )
        query = "SELECT id, count, total FROM culm_logs WHERE author = ? AND log_id = ?"
        ((row, count, total),) = self._all(query, (author, log_id))
        return row, count, int.from_bytes(total)

    def _complete(self, log: Log, first: int) -> Iterator[tuple[Entry, bytes | None]]:
        """The entries of a log from a number on whose payload is complete, with it if it is small."""
        lookup = self._store.lookup(log)
        while page := lookup.page(first, ascending=True, limit=_PAGE):
            yield from ((kept.entry, kept.small) for kept in page if kept.complete)
            first = page[-1].entry.seq + 1

    def _compare(self, log: Log, row: int, changes: Changes) -> None:
        """Find out entry by entry what has come and gone in a log, and take the rows back as far as that matters."""
        held = {entry.hash: (entry, payload) for entry, payload in self._complete(log, 1)}
        known = dict(self._all("SELECT hash, seq FROM culm_entries WHERE log = ?", (row,)))
        gone = [(each, seq) for each, seq in known.items() if each not in held]
        come = [each for each in held if each not in known]
        places = [seq for _, seq in gone] + [held[each][0].seq.to_bytes(8) for each in come]
        if not places:
            return
        query = "SELECT min(height) FROM culm_entries WHERE log = ? AND seq >= ?"
        ((height,),) = self._all(query, (row, min(places)))
        if height is not None:  # whatever stands on the entries from here on is at least as high
            self._rewind((height, b""), changes)
            self._rows.execute("UPDATE culm_entries SET height = NULL WHERE height >= ?", (height,))
        for each, _ in gone:
            ((was_applied,),) = self._all("SELECT applied FROM culm_entries WHERE hash = ?", (each,))
            changes.removed += was_applied
            self._rows.execute("DELETE FROM culm_entries WHERE hash = ?", (each,))
            self._rows.execute("DELETE FROM culm_references WHERE entry = ?", (each,))
        for each in come:
            self._register(row, *held[each])

    def _register(self, row: int, entry: Entry, payload: bytes | None) -> None:
        value = self._view.decode(entry, self._payload(entry) if payload is None else payload)
        values = entry.hash, row, entry.seq.to_bytes(8), value is not None
        self._rows.execute("INSERT INTO culm_entries (hash, log, seq, used, applied) VALUES (?, ?, ?, ?, 0)", values)
        if value is not None:
            found = [(entry.hash, target) for target in {*self._view.references(value)} - {entry.hash}]
            self._rows.executemany("INSERT INTO culm_references VALUES (?, ?)", found)

    def _payload(self, entry: Entry) -> bytes:
        small = self._store.small_payload(entry)
        if small is not None:
            return small
        stored = self._store.get(entry.place)
        if stored is None or stored.entry != entry or not stored.payload_complete:
            raise _Moved
        try:
            return b"".join(self._store.payload(stored))
        except NotHeld:
            raise _Moved from None

    # -- order -------------------------------------------------------------------------------------------------------

    def _place(self) -> tuple[Key | None, int]:
        """Give heights to the entries that can have one; the lowest place among these, and how many wait."""
        unplaced: list[Unplaced] = []
        known: dict[bytes, int] = {}
        for each, row, seq in self._all("SELECT hash, log, seq FROM culm_entries WHERE height IS NULL"):
            query = "SELECT hash, height FROM culm_entries WHERE log = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
            before = self._all(query, (row, seq))
            query = "SELECT target, height FROM culm_references LEFT JOIN culm_entries ON hash = target WHERE entry = ?"
            targets = self._all(query, (each,))
            known.update((other, height) for other, height in chain(before, targets) if height is not None)
            references = tuple(target for target, _ in targets)
            unplaced.append(Unplaced(each, before[0][0] if before else None, references))
        placed = heights(unplaced, known)
        values = ((height, each) for each, height in placed.items())
        self._rows.executemany("UPDATE culm_entries SET height = ? WHERE hash = ?", values)
        lowest = min(((height, each) for each, height in placed.items()), default=None)
        return lowest, len(unplaced) - len(placed)

    def _rewind(self, key: Key, changes: Changes) -> None:
        """Take back what was applied at a place of the order or behind it."""
        self._from = key if self._from is None else min(self._from, key)
        query = (
            "SELECT step FROM culm_entries WHERE (height, hash) >= (?, ?) AND step IS NOT NULL"
            " ORDER BY height, hash LIMIT 1"
        )
        found = self._all(query, key)
        if not found:
            return
        ((step,),) = found
        ((undo_from,),) = self._all("SELECT undo_from FROM culm_meta")
        if step < undo_from:
            self._drop_all("culm\\_%")
            self._run(self._view.schema)
            self._rows.execute("DELETE FROM culm_undo")
            self._rows.execute("UPDATE culm_meta SET undo_from = 0")
            changes.rebuilt, step, self._from = True, 0, (0, b"")
        else:
            undo.stop_recording(self._rows)
            undo.undo(self._rows, step)
        self._rows.execute("UPDATE culm_entries SET step = NULL WHERE step >= ?", (step,))

    # -- applying ----------------------------------------------------------------------------------------------------

    def _play(self, changes: Changes) -> None:
        """Apply what has a place and was not applied, in order. What lies before the lowest place is not looked at."""
        if self._from is None:
            return
        todo = "step IS NULL AND used"
        query = f"SELECT count(*) FROM culm_entries WHERE (height, hash) >= (?, ?) AND {todo}"
        ((left,),) = self._all(query, self._from)
        if not left:
            return
        ((last,),) = self._all("SELECT coalesce(max(step), 0) FROM culm_entries WHERE step IS NOT NULL")
        recorded = left <= undo.DEPTH
        if recorded:
            undo.record(self._rows)
        for each, author, log_id, seq, again in self._in_order((self._from[0], b""), todo):
            if not recorded and left <= undo.DEPTH:
                recorded = True
                self._rows.execute("UPDATE culm_meta SET undo_from = ?", (last + 1,))
                undo.record(self._rows)
            last, left = last + 1, left - 1
            self._apply(
                each,
                Place(author, int.from_bytes(log_id), int.from_bytes(seq)),
                last if recorded else None,
                changes,
                is_new=not again,
            )
            self._rows.execute("UPDATE culm_entries SET step = ?, applied = 1 WHERE hash = ?", (last, each))
        oldest = last + 1 - undo.DEPTH
        self._rows.execute("DELETE FROM culm_undo WHERE step < ?", (oldest,))
        self._rows.execute("UPDATE culm_meta SET undo_from = max(undo_from, ?)", (oldest,))

    def _in_order(self, place: Key, todo: str) -> Iterable[tuple[bytes, bytes, bytes, bytes, int]]:
        query = (
            "SELECT hash, author, log_id, seq, applied, height FROM culm_entries JOIN culm_logs ON culm_logs.id = log"
            f" WHERE (height, hash) > (?, ?) AND {todo} ORDER BY height, hash LIMIT {_PAGE}"
        )
        while page := self._all(query, place):
            yield from (row[:5] for row in page)
            place = page[-1][5], page[-1][0]

    def _apply(self, expected: bytes, place: Place, step: int | None, changes: Changes, *, is_new: bool) -> None:
        entry = self._store.verified_entry((place.author, place.log_id), place.seq)
        if entry is None or entry.hash != expected:
            raise _Moved
        value = self._view.decode(entry, self._payload(entry))
        if step is not None:
            undo.set_step(self._rows, step)
        self._rows.execute("SAVEPOINT culm_entry")
        try:
            self._view.apply(self._rows, entry, value)
        except Rejected as rejected:
            self._rows.execute("ROLLBACK TO culm_entry")
            if is_new:
                changes.rejected.append((entry, str(rejected)))
        if not self._rows.in_transaction:
            raise ConfigError("apply of the view has ended the transaction: it must neither commit nor run scripts")
        self._rows.execute("RELEASE culm_entry")
        changes.applied += is_new
        changes.repeated += not is_new


def _id_of(entry_hash: bytes) -> int:
    return int.from_bytes(entry_hash[_ID], "little")
