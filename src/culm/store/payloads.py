"""Payloads on their way in, piece by piece, and what becomes of them. Their bytes are in ``culm.store.pieces``.

A payload is never needed in memory as a whole. Its pieces are committed as they fill, so that a transfer that breaks
goes on at the byte reached, in another process if need be. Only bytes that came are ever stored: a claimed size
reserves nothing.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from culm.bamboo import Entry, PayloadHasher
from culm.errors import NotHeld, PayloadMismatch, PayloadSizeMismatch, Place, StoreError
from culm.store import pieces
from culm.store.guard import tells_damage
from culm.store.logview import LogView
from culm.store.rows import find_entry, next_change
from culm.store.schema import PayloadState

if TYPE_CHECKING:
    import sqlite3

    from culm.store.database import Database
    from culm.store.interface import Bytes

_COMMIT_BYTES = 1024 * 1024  # a sink commits after this much


class Overtaken(StoreError):
    """Another transfer changed what is held of a payload. ``complete`` says whether it brought all of it."""

    def __init__(self, *, complete: bool) -> None:
        super().__init__("another transfer of this payload changed what is held of it: begin again")
        self.complete = complete


@tells_damage
class Sink:
    """A ``PayloadSink`` for an entry in an SQLite store.

    ``wanted`` is false if there is nothing to write: the payload is held, was forgotten, or can never be right.

    ``is_large``: the payload is to be a file, and bringing it to the disk takes a while (see ``sync``).

    ``trusted``: whoever writes has checked the bytes against the entry, what was held before included. ``durable``:
    what was written survives a power cut, not only the end of the process.

    There may be several for one payload. What they store must fit together: one that finds the payload otherwise than
    it left it is over. If all of it came another way that is as good; ``Overtaken`` is raised if not.

    The last byte does not count as held before ``finish`` has checked them all: whoever goes on, in another process if
    this one ends before, asks for that byte again, and so comes to the check.
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
        self.is_large = self._entry.size > pieces.LARGE_BYTES
        # What is to be brought to the disk before the payload counts as held.
        self._file = pieces.file_of(database, self._id) if state == PayloadState.PARTIAL else None
        if self._file is not None and database.folder.size(self._file) < self._stored:  # a power cut can do that
            with database.transaction() as connection:
                pieces.drop(connection, self._id, PayloadState.ABSENT)
            self._file, self._stored = None, 0
        self.wanted = state in (PayloadState.ABSENT, PayloadState.PARTIAL)
        self._done = not self.wanted
        self._overtaken: Overtaken | None = None
        self._pending = bytearray()
        self._written = self._stored  # bytes that are in the file; the last one may not count yet
        # What tells the bytes that are stored from as many of another transfer.
        self._name = pieces.file_of(database, self._id) if self.is_large else None
        self._begun = pieces.hash_held(database, self._id) if not self.is_large else PayloadHasher()
        self._hasher: PayloadHasher | None = None  # of all bytes so far; None: they are hashed at the end, if need be
        if not trusted:
            self._hasher = pieces.hash_held(self._database, self._id)

    @property
    def offset(self) -> int:
        """Bytes held so far, those not yet committed included."""
        return self._stored + len(self._pending)

    def write(self, piece: Bytes) -> None:
        """Take the next bytes; ``PayloadMismatch`` if they would be more than the entry claims.

        ``Overtaken`` if they do not belong behind what is held any more: what came since the last commit is lost.
        """
        if self._overtaken is not None:
            if self._overtaken.complete:
                return
            raise self._overtaken
        if self._done or self.offset + len(piece) > self._entry.size:
            msg = f"the payload goes on after the {self._entry.size} bytes its entry claims"
            raise PayloadMismatch(msg, self._entry.place)
        if self._hasher is not None:
            self._hasher.update(piece)
        self._pending += piece
        if len(self._pending) >= _COMMIT_BYTES:
            # Whole pieces only, so that a payload that came in drips is not stored in drips.
            whole = len(self._pending) - len(self._pending) % pieces.PIECE_BYTES
            if not self.is_large and self._stored + whole == self._entry.size:
                whole -= pieces.PIECE_BYTES
            self._commit(whole)

    def _commit(self, size: int) -> None:
        """Store the first ``size`` of the pending bytes; all but the payload's last one count as held from now on."""
        counted = min(size, self._entry.size - 1 - self._stored)
        if not self.is_large:
            size = counted
        if not size:
            return
        data = bytes(memoryview(self._pending)[:size])  # a view would live on in an error that is kept
        try:
            with self._database.transaction(durable=self._durable) as connection:
                self._check_overtaken(connection)
                self._store(data)
                connection.execute(
                    "UPDATE entries SET payload_state = ?, payload_held = ? WHERE id = ?",
                    (PayloadState.PARTIAL, self._stored + counted, self._id),
                )
        except Overtaken as error:
            if not error.complete:
                raise
            return
        self._written = self._stored + size
        self._stored += counted
        self._pending = self._pending[counted:]

    def _store(self, data: bytes) -> None:
        if self.is_large:
            self._file = self._name = pieces.write_file(self._database, self._id, self._stored, data)
        else:
            self._begun.update(data)
            pieces.write_pieces(self._database.connection, self._id, self._stored, data)

    def _check_overtaken(self, connection: sqlite3.Connection) -> None:
        state, held = connection.execute(
            "SELECT payload_state, payload_held FROM entries WHERE id = ?", (self._id,)
        ).fetchone()
        if state in (PayloadState.ABSENT, PayloadState.PARTIAL) and held == self._stored and self._is_ours():
            return
        self._done, self._stored, self._written, self._pending = True, held, held, bytearray()
        self._overtaken = Overtaken(complete=state == PayloadState.COMPLETE)
        raise self._overtaken

    def _is_ours(self) -> bool:
        """Whether the bytes held are those that were found or stored here: others may have come in their place."""
        if not self._stored:
            return True
        if self.is_large:
            return pieces.file_of(self._database, self._id) == self._name
        return pieces.hash_held(self._database, self._id).hash == self._begun.hash

    def sync(self) -> None:
        """Bring what ``keep`` stored of a large payload to the disk. May be called in another thread."""
        file = self._file
        if file is not None:
            self._database.folder.sync(file)
            self._file = None

    def keep(self) -> None:
        """Store every byte written so far."""
        if self.offset > self._written and not self._done:
            self._commit(len(self._pending))

    def finish(self) -> None:
        """All was written: check it, and count it as held.

        A large payload is brought to the disk before; ``keep`` and ``sync`` can do that ahead, without holding up the
        store.

        ``PayloadMismatch`` drops what was held. ``PayloadSizeMismatch`` marks the log invalid from this entry on.
        """
        if self._done:
            if self._overtaken is not None and not self._overtaken.complete:
                raise self._overtaken
            return
        try:
            if not self._trusted:
                self._check()
            if self.is_large:
                self.keep()
                self.sync()
            with self._database.transaction(durable=self._durable) as connection:
                self._check_overtaken(connection)
                if self.offset > self._written:
                    self._store(bytes(self._pending))
                complete_payload(connection, self._id, self._entry)
        except PayloadMismatch as error:
            self._refuse(error)
            raise
        except Overtaken as error:
            if not error.complete:
                raise
            return
        self._stored, self._pending, self._done = self._entry.size, bytearray(), True

    def distrust(self) -> None:
        """Nobody has checked the bytes after all: ``finish`` does, those held before included."""
        self._trusted = False

    def _check(self) -> None:
        """``PayloadMismatch`` if the bytes are not those that the entry names."""
        if self._hasher is None:
            with self._database.snapshot() as connection:
                self._check_overtaken(connection)
            self._hasher = pieces.hash_held(self._database, self._id, self._stored)
            self._hasher.update(self._pending)
        self._hasher.check(self._entry)

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
        with suppress(Overtaken):
            self.keep()


def complete_payload(connection: sqlite3.Connection, entry_id: int, entry: Entry) -> None:
    """All bytes of the payload are stored and checked: count it as held."""
    view = _touched(connection, entry)  # before the payload is complete: that is news of this change
    connection.execute(
        "UPDATE entries SET payload_state = ?, payload_held = ? WHERE id = ?",
        (PayloadState.COMPLETE, entry.size, entry_id),
    )
    view.payload_arrived(entry.seq)
    view.flush()


def refuse_payload(connection: sqlite3.Connection, entry_id: int, entry: Entry, *, lied: bool) -> None:
    """Drop a payload that failed its check; if its author lied about its size, the log is invalid from here on."""
    pieces.drop(connection, entry_id, PayloadState.SIZE_MISMATCH if lied else PayloadState.ABSENT)
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
