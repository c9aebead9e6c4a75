"""What a live stream has on its disk: a store, in which rows only ever come behind others.

Spark may ask for a batch again after a failure, and must get the same rows, although the peer may be gone by then, or
have forgotten a payload. So entries are stored first, and an offset counts rows of the store. Rows of entries and of
fork proofs are never deleted and never change their bytes. What does change is the payload of an entry: it may come
after the entry. An offset therefore names the few rows that its batch has without their payloads.

An offset also has the hash of the last entry before it. If somebody deletes the home, or gives the stream another one,
the rows no longer mean the same, and the stream says so instead of going on with wrong ones.
"""

import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from culm.bamboo import Entry
from culm.errors import ConfigError, InvalidEntry
from culm.spark.batches.payload import without_bytes
from culm.spark.reading.found import EntryRow, Wanted
from culm.spark.reading.inputs import Part, Piece, greatest_id
from culm.spark.reading.scan import scan
from culm.staging import sync
from culm.store.opening import open_database
from culm.store.rows import BYTES, COUNT, ROW, each_row, in_order
from culm.store.schema import PayloadState
from culm.wire.places import log_text

# Bytes of a batch. Its rows go from the driver to the tasks, because only the driver's machine has the store; so they
# are in the driver's memory at once, and some copies of them.
_MOST_BYTES = 32 * 1024 * 1024
_MOST_WITHOUT = 1000  # Rows of a batch without payloads. Each is a number in an offset, which Spark keeps as text.
_MOST_FORKS = 1000  # Fork proofs of a batch; each is two entries.
_HASH_BYTES = 16  # of the last entry's hash: enough to tell stores apart, and short to read in Spark's progress
_ENTRIES = "SELECT id, CAST(encoded AS BLOB), hash, payload_state, payload_held FROM entries WHERE id > ? ORDER BY id"


class Offset(TypedDict):
    """How far a stream has come: row ids of entries and of fork proofs, and the beginning of the last entry's hash.

    ``without``: the rows of the last batch that come without their payloads.
    """

    entries: int
    forks: int
    last: str
    without: list[int]


BEGINNING = Offset(entries=0, forks=0, last="", without=[])


class Spool:
    """A store, as rows behind an offset. ``StoreError`` if it cannot be read; use it from one thread."""

    def __init__(self, path: Path, wanted: Wanted, wait: float) -> None:
        self._path, self._wanted, self._wait = path, wanted, wait
        self._database = open_database(path, read_only=True)
        self._held_up: tuple[int, int] | None = None  # the row that a payload holds up, and the bytes that it has of it
        self._since, self._known = 0.0, 0  # since when, and the greatest row then
        self._overdue = 0  # Up to this row, nobody waits for payloads any longer.

    def close(self) -> None:
        """Close the store."""
        self._database.close()

    def wait_no_longer(self) -> None:
        """Take the payloads that are not there by now as absent."""
        self._overdue = greatest_id(self._database.connection, "entries")

    def end(self, start: Offset, most: int) -> Offset:
        """The end of the batch behind an offset: at most so many entries; the offset itself if there is nothing new.

        A payload that is wanted and has not come holds the rows up from its own on, for ``wait`` seconds without a byte
        of it. ``ConfigError`` if the offset is of another store. What is returned is on the disk.
        """
        with self._database.snapshot() as connection:
            _check(connection, start, self._path)
            end = self._behind(connection, start, most)
            end["forks"] = min(greatest_id(connection, "forks"), start["forks"] + _MOST_FORKS)
        if (end["entries"], end["forks"]) == (start["entries"], start["forks"]):
            return start
        # The store does not wait for the disk with what a peer can send again. Spark's checkpoint is on the disk, and
        # must not know more than the store after a power cut.
        with suppress(FileNotFoundError):
            sync(self._path.with_name(f"{self._path.name}-wal"))
        return end

    def _behind(self, connection: sqlite3.Connection, start: Offset, most: int) -> Offset:
        end: Offset = {**start, "without": []}
        total, held_up = 0, None
        rows = connection.execute(f"{_ENTRIES} LIMIT ?", (start["entries"], most))
        for row, encoded, digest, state, held in each_row(rows, ROW, BYTES.or_null(), BYTES, COUNT, COUNT):
            in_order((end["entries"],), (row,))
            payload = 0
            with suppress(InvalidEntry):
                payload = _payload_bytes(Entry.decode(encoded or b""), self._wanted)
            if payload and state in {PayloadState.ABSENT, PayloadState.PARTIAL}:
                if row > self._overdue:
                    held_up = row, held
                    break
                end["without"].append(row)
                payload = 0
            end["entries"], end["last"] = row, digest[:_HASH_BYTES].hex()
            total += len(encoded or b"") + payload
            if total >= _MOST_BYTES or len(end["without"]) >= _MOST_WITHOUT:
                break
        # After a while without a byte of what holds the rows up, all rows that were there then are overdue.
        if held_up is None or held_up != self._held_up:
            self._held_up, self._since, self._known = held_up, time.monotonic(), greatest_id(connection, "entries")
        elif time.monotonic() - self._since > self._wait:
            self._overdue, self._held_up = self._known, None
        return end

    def rows(self, start: Offset, end: Offset, source: str) -> Iterator[EntryRow]:
        """The rows between two offsets, always the same. ``ConfigError`` if they are of another store.

        A fork proof is three rows: its two entries, and a reject that says what they mean.
        """
        with self._database.snapshot() as connection:
            _check(connection, start, self._path)
            _check(connection, end, self._path)
        path, without = str(self._path), frozenset(end["without"])
        for found in scan(Piece(path, Part.ENTRIES, start["entries"] + 1, end["entries"]), self._wanted):
            yield _settled(found, self._wanted, without)._replace(source=source)
        proofs = scan(Piece(path, Part.FORKS, start["forks"] + 1, end["forks"]), self._wanted)
        for found in proofs:
            yield found._replace(source=source)
            if found.reason is None:
                yield next(proofs)._replace(source=source)
                entry = Entry.decode(found.encoded or b"")
                told = f"the log {log_text(entry.log)} is forked: its author signed two entries {entry.seq}"
                if self._wanted.has_log(*entry.log):
                    yield EntryRow(source, found.offset, reason=f"{told}; both stand beside this row")


def _check(connection: sqlite3.Connection, offset: Offset, path: Path) -> None:
    """``ConfigError`` if the last row of an offset is another one in this store."""
    query = "SELECT hash FROM entries WHERE id = ?"
    (digest,) = connection.execute(query, (offset["entries"],)).fetchone() or (b"",)
    if digest[:_HASH_BYTES].hex() != offset["last"] or greatest_id(connection, "forks") < offset["forks"]:
        raise ConfigError(
            f"{path}: the checkpoint of this stream belongs to another store: name the home with which the stream was"
            " started, or start anew with another checkpoint"
        )


def _payload_bytes(entry: Entry, wanted: Wanted) -> int:
    """The size of an entry's payload if that is wanted, else 0."""
    return entry.size if wanted.has(entry.place) and wanted.has_payload(entry.seq, entry.size) else 0


def _settled(found: EntryRow, wanted: Wanted, without: Collection[int]) -> EntryRow:
    """A row with its payload if the batch has it; else as if no payload had ever come, because it may come later."""
    with suppress(InvalidEntry):
        entry = Entry.decode(found.encoded or b"")
        if found.offset in without or not _payload_bytes(entry, wanted):
            return found._replace(payload_state=without_bytes(entry), payload=None)
    return found
