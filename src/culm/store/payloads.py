"""Payloads: written in pieces, read in pieces, forgotten.

A payload is never needed in memory as a whole. Its pieces are committed as they fill, so that a transfer that breaks
goes on at the byte reached, in another process if need be. Only bytes that came are ever stored: a claimed size
reserves nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from culm.bamboo import Entry, PayloadHasher
from culm.errors import NotHeld, PayloadMismatch, PayloadSizeMismatch, Place, StoreError
from culm.store.logview import LogView
from culm.store.rows import PIECE_BYTES, find_entry, next_change, write_pieces
from culm.store.schema import PayloadState

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from culm.store.database import Database
    from culm.store.interface import Bytes

_COMMIT_BYTES = 1024 * 1024  # a sink commits after this much


def read_pieces(database: Database, entry_id: int, offset: int = 0) -> Iterator[bytes]:
    """The bytes held of an entry's payload from ``offset`` on, one stored piece after the other."""
    while True:
        rows = database.read(
            "SELECT at, piece FROM payloads WHERE entry = ? AND at <= ? ORDER BY at DESC LIMIT 1", (entry_id, offset)
        )
        if not rows or rows[0][0] + len(rows[0][1]) <= offset:
            return
        row = rows[0]
        piece = row[1][offset - row[0] :] if row[0] < offset else row[1]
        offset += len(piece)
        yield piece


def read_slice(database: Database, entry_id: int, offset: int, size: int) -> bytes:
    """The first bytes held of an entry's payload from ``offset`` on: at most ``size``, and of one stored piece."""
    for piece in read_pieces(database, entry_id, offset):
        return piece if len(piece) <= size else piece[:size]
    return b""


def regrouped(pieces: Iterable[Bytes], size: int = PIECE_BYTES) -> Iterator[bytes]:
    """The same bytes in pieces of ``size`` (the last may be smaller)."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)


def drop_pieces(connection: sqlite3.Connection, entry_id: int, state: PayloadState) -> None:
    """Delete what is held of a payload, and note why."""
    connection.execute("DELETE FROM payloads WHERE entry = ?", (entry_id,))
    connection.execute("UPDATE entries SET payload_state = ?, payload_held = 0 WHERE id = ?", (state, entry_id))


def hash_held(database: Database, entry_id: int) -> PayloadHasher:
    """The hash of the bytes that are held of a payload."""
    hasher = PayloadHasher()
    for piece in read_pieces(database, entry_id):
        hasher.update(piece)
    return hasher


class Overtaken(StoreError):
    """Another transfer changed what is held of a payload. ``complete`` says whether it brought all of it."""

    def __init__(self, *, complete: bool) -> None:
        super().__init__("another transfer of this payload changed what is held of it: begin again")
        self.complete = complete


class Sink:
    """A ``PayloadSink`` for an entry in an SQLite store.

    ``wanted`` is false if there is nothing to write: the payload is held, was forgotten, or can never be right.

    ``trusted``: whoever writes has checked the bytes against the entry, what was held before included. ``durable``:
    what was written survives a power cut, not only the end of the process.

    There may be several for one payload. What they store must fit together: one that finds the payload otherwise than
    it left it is over. If all of it came another way that is as good; ``Overtaken`` is raised if not.
    """

    def __init__(
        self,
        database: Database,
        place: Place,
        entry_hash: bytes | None = None,
        *,
        trusted: bool = False,
        durable: bool = True,
    ) -> None:
        self._database = database
        self._trusted = trusted
        self._durable = durable
        with database.snapshot() as connection:
            row = find_entry(connection, place, entry_hash)
        if row is None:
            msg = "the entry is not held: its payload cannot be checked"
            raise NotHeld(msg)
        self._id, encoded, state, self._stored = row
        self._entry = Entry.decode(encoded)
        self.wanted = state in (PayloadState.ABSENT, PayloadState.PARTIAL)
        self._done = not self.wanted
        self._overtaken: Overtaken | None = None
        self._pending = bytearray()
        self._hasher = PayloadHasher()
        if not trusted:
            self._hash_held()

    def _hash_held(self) -> None:
        self._hasher = hash_held(self._database, self._id)

    @property
    def offset(self) -> int:
        """Bytes held so far, those not yet committed included."""
        return self._stored + len(self._pending)

    def write(self, piece: Bytes) -> None:
        """Take the next bytes; ``PayloadMismatch`` if they would be more than the entry claims."""
        if self._overtaken is not None and self._overtaken.complete:
            return
        if self._done or self.offset + len(piece) > self._entry.size:
            msg = f"the payload goes on after the {self._entry.size} bytes its entry claims"
            raise PayloadMismatch(msg, self._entry.place)
        if not self._trusted:
            self._hasher.update(piece)
        self._pending += piece
        if len(self._pending) >= _COMMIT_BYTES:
            # Whole pieces only, so that a payload that came in drips is not stored in drips.
            self._commit(len(self._pending) - len(self._pending) % PIECE_BYTES)

    def _commit(self, size: int) -> None:
        """Store the first ``size`` of the pending bytes."""
        try:
            with self._database.transaction(durable=self._durable) as connection:
                self._check_overtaken(connection)
                write_pieces(connection, self._id, self._stored, memoryview(self._pending)[:size])
                connection.execute(
                    "UPDATE entries SET payload_state = ?, payload_held = ? WHERE id = ?",
                    (PayloadState.PARTIAL, self._stored + size, self._id),
                )
        except Overtaken as error:
            if not error.complete:
                raise
            return
        self._stored += size
        self._pending = self._pending[size:]

    def _check_overtaken(self, connection: sqlite3.Connection) -> None:
        state, held = connection.execute(
            "SELECT payload_state, payload_held FROM entries WHERE id = ?", (self._id,)
        ).fetchone()
        if state in (PayloadState.ABSENT, PayloadState.PARTIAL) and held == self._stored:
            return
        self._done, self._stored, self._pending = True, held, bytearray()
        self._overtaken = Overtaken(complete=state == PayloadState.COMPLETE)
        raise self._overtaken

    def finish(self) -> None:
        """All was written: check it, and count it as held.

        ``PayloadMismatch`` drops what was held. ``PayloadSizeMismatch`` marks the log invalid from this entry on.
        """
        if self._done:
            if self._overtaken is not None and not self._overtaken.complete:
                raise self._overtaken
            return
        try:
            if not self._trusted:
                self._hasher.check(self._entry)
        except PayloadMismatch as error:
            self._refuse(error)
            raise
        try:
            with self._database.transaction(durable=self._durable) as connection:
                self._check_overtaken(connection)
                write_pieces(connection, self._id, self._stored, self._pending)
                complete_payload(connection, self._id, self._entry)
        except Overtaken as error:
            if not error.complete:
                raise
            return
        self._stored, self._pending, self._done = self._entry.size, bytearray(), True

    def distrust(self) -> None:
        """Nobody has checked the bytes after all: ``finish`` does, those held before included."""
        if self._trusted and not self._done:
            self._trusted = False
            self._hash_held()
            self._hasher.update(self._pending)

    def abandon(self) -> None:
        """What was written turned out to be wrong: drop all that is held of the payload."""
        if not self._done:
            self._refuse(PayloadMismatch("the payload is not the one the entry names", self._entry.place))

    def _refuse(self, error: PayloadMismatch) -> None:
        lied = isinstance(error, PayloadSizeMismatch)
        try:
            with self._database.transaction() as connection:
                if not lied:  # what another transfer brought is not this one's to drop
                    self._check_overtaken(connection)
                refuse_payload(connection, self._id, self._entry, lied=lied)
        except Overtaken:
            return
        self._done, self._stored, self._pending = True, 0, bytearray()

    def close(self) -> None:
        """Stop for now, keeping every byte written, unless another transfer overtook this one."""
        if self._pending and not self._done:
            with suppress(Overtaken):
                self._commit(len(self._pending))


def complete_payload(connection: sqlite3.Connection, entry_id: int, entry: Entry) -> None:
    """All bytes of the payload are stored and checked: count it as held."""
    connection.execute(
        "UPDATE entries SET payload_state = ?, payload_held = ? WHERE id = ?",
        (PayloadState.COMPLETE, entry.size, entry_id),
    )
    view = _touched(connection, entry)
    view.payload_arrived(entry.seq)
    view.flush()


def refuse_payload(connection: sqlite3.Connection, entry_id: int, entry: Entry, *, lied: bool) -> None:
    """Drop a payload that failed its check; if its author lied about its size, the log is invalid from here on."""
    drop_pieces(connection, entry_id, PayloadState.SIZE_MISMATCH if lied else PayloadState.ABSENT)
    view = _touched(connection, entry)
    if lied:
        view.invalidate_from(entry.seq)
    view.flush()


def want_again(connection: sqlite3.Connection, entry_id: int, entry: Entry) -> None:
    """A payload that was forgotten is missing from now on."""
    connection.execute("UPDATE entries SET payload_state = ? WHERE id = ?", (PayloadState.ABSENT, entry_id))
    view = _touched(connection, entry)
    view.contiguous = min(view.contiguous, entry.seq - 1)
    view.flush()


def _touched(connection: sqlite3.Connection, entry: Entry) -> LogView:
    return LogView(connection, entry.author, entry.log_id, next_change(connection))
