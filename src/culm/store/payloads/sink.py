"""Taking in payloads piece by piece.

A payload may be larger than memory, and its transfer may break at any byte. A ``Sink`` therefore commits the pieces as
they arrive, and the next transfer goes on at the byte reached, in another process if need be. Only bytes that arrived
are stored: an entry that claims a huge payload reserves no space.

Two transfers of one payload can run at once, for example from two peers. Nothing locks them out, because a lock would
let a slow peer keep the payload from a fast one. Instead each sink checks before every commit that the bytes held are
still those that it found or stored. If they are not, the sink was overtaken and stores nothing more.
"""

import sqlite3
from contextlib import suppress

from culm.bamboo import PayloadHasher
from culm.errors import NotHeld, PayloadMismatch, PayloadSizeMismatch, Place
from culm.store.database import Database
from culm.store.entries import find_entry
from culm.store.logview import LogView
from culm.store.payloads import pieces
from culm.store.rows import COUNT, PAYLOAD_STATE, next_change, the_row
from culm.store.schema import PayloadState
from culm.store.values import Overtaken
from culm.types import Buffer

_LARGE_PIECE = 16 * 1024  # Smaller pieces are put together: a peer could send a million of them.
_COMMIT_BYTES = 1024 * 1024  # between two commits: so much is lost at most, and a commit costs milliseconds


class PayloadSink:
    """Takes the payload of an entry. Bytes written stay if the process ends, and writing goes on from there.

    ``wanted`` is false if there is nothing to write: the payload is held, was forgotten, or can never be right.
    ``is_large`` says that the payload becomes a file, so bringing it to the disk takes a while (see ``sync``).

    ``trusted``: the writer has checked the bytes against the entry, including those held before. ``durable``: what was
    written survives a power cut, and not only the end of the process.

    Several sinks for one payload may exist. If another one completed the payload, writing ends well. If another one
    changed it otherwise, ``Overtaken`` is raised.

    The last byte does not count as held before ``finish`` has checked all of them. If the process ends before that
    check, the next transfer has to ask for the last byte, and thereby comes to the check.
    """

    def __init__(
        self, database: Database, place: Place, entry_hash: bytes | None, *, trusted: bool, durable: bool
    ) -> None:
        self._database = database
        self._trusted = trusted
        self._durable = durable
        with database.snapshot() as connection:
            found = find_entry(connection, place, entry_hash)
        if found is None:
            raise NotHeld("the entry is not held: its payload cannot be checked")
        self._entry, self._id, self._stored = found.entry, found.id, found.payload_held
        self.is_large = self._entry.size > pieces.LARGE_BYTES
        # The file to bring to the disk before the payload counts as held.
        self._file = pieces.file_of(database, self._id) if found.payload_state is PayloadState.PARTIAL else None
        # After a power cut the file may be shorter than the database says: SQLite syncs its own files only.
        if self._file is not None and database.folder.size(self._file) < self._stored:
            with database.transaction() as connection:
                pieces.drop(connection, self._id, PayloadState.ABSENT)
            self._file, self._stored = None, 0
        self.wanted = found.payload_state in (PayloadState.ABSENT, PayloadState.PARTIAL)
        self._done = not self.wanted
        self._overtaken: Overtaken | None = None
        self._pending = _Pending()
        self._written = self._stored  # bytes stored, including a last byte that does not count yet
        # How this sink recognizes its own bytes among those stored: a file's name is unique, pieces are hashed.
        self._name = pieces.file_of(database, self._id) if self.is_large else None
        self._begun = pieces.hash_held(database, self._id) if not self.is_large else PayloadHasher()
        self._hasher: PayloadHasher | None = None  # of all bytes so far; None: a trusted writer has hashed them
        # The checksums of all bytes so far; None: the beginning was held before, and nobody has read it again.
        self._sums = pieces.PieceSums() if not (trusted and self._stored) else None
        if not trusted:
            self._hasher = pieces.hash_held(self._database, self._id, sums=self._sums)

    @property
    def offset(self) -> int:
        """Bytes held so far, those not yet committed included."""
        return self._stored + self._pending.size

    def write(self, piece: Buffer) -> None:
        """Take the next bytes; ``PayloadMismatch`` if the payload would become longer than the entry claims.

        ``Overtaken`` if another transfer changed what is held: the bytes since the last commit are lost then.
        """
        if self._overtaken is not None:
            if self._overtaken.complete:
                return
            raise self._overtaken
        if self._done or self.offset + len(piece) > self._entry.size:
            raise PayloadMismatch(
                f"the payload is longer than the {self._entry.size} bytes that its entry claims", self._entry.place
            )
        if self._hasher is not None:
            self._hasher.update(piece)
        if self._sums is not None and self.is_large:
            self._sums.update(piece)
        self._pending.append(piece)
        if self._pending.size >= _COMMIT_BYTES:
            # A payload that is no file has at most ``LARGE_BYTES``, so it is whole: its last piece is stored by finish.
            # Rows have whole pieces: a peer that sends a few bytes at a time must not cause a row for each of them.
            whole = self._pending.size
            self._commit(whole if self.is_large else whole - whole % pieces.PIECE_BYTES - pieces.PIECE_BYTES)

    def _commit(self, size: int) -> None:
        """Store the first ``size`` of the pending bytes. All but the payload's last byte count as held from now on."""
        counted = min(size, self._entry.size - 1 - self._stored)
        if not self.is_large:
            size = counted
        if not size:
            return
        with self._database.transaction(durable=self._durable) as connection:
            if self._is_complete(connection):
                return
            self._store(self._pending.first(size))
            self._set_held(connection, PayloadState.PARTIAL, self._stored + counted)
        self._written = self._stored + size
        self._stored += counted
        self._pending.drop(counted)

    def _store(self, parts: list[Buffer]) -> None:
        if self.is_large:
            if self._name is not None and self._stored:  # ``_is_ours`` has just compared the name.
                pieces.write_into(self._database, self._name, self._stored, *parts)
            else:
                self._name = pieces.write_file(self._database, self._id, self._stored, *parts)
            self._file = self._name
        else:
            data = b"".join(parts)
            self._begun.update(data)
            pieces.write_pieces(self._database.connection, self._id, self._stored, data)

    def _set_held(self, connection: sqlite3.Connection, state: PayloadState, held: int) -> None:
        values = state, held, self._id
        connection.execute("UPDATE entries SET payload_state = ?, payload_held = ? WHERE id = ?", values)

    def _is_complete(self, connection: sqlite3.Connection) -> bool:
        """Whether another transfer completed the payload; ``Overtaken`` if one changed it otherwise."""
        query = "SELECT payload_state, payload_held FROM entries WHERE id = ?"
        state, held = the_row(connection.execute(query, (self._id,)), PAYLOAD_STATE, COUNT)
        if state in (PayloadState.ABSENT, PayloadState.PARTIAL) and held == self._stored and self._is_ours():
            return False
        self._done, self._stored, self._written, self._pending = True, held, held, _Pending()
        self._overtaken = Overtaken(complete=state == PayloadState.COMPLETE)
        if not self._overtaken.complete:
            raise self._overtaken
        return True

    def _is_ours(self) -> bool:
        """Whether the bytes held are those that this sink found or stored: others may have replaced them."""
        if not self._stored:
            return True
        if self.is_large:
            return pieces.file_of(self._database, self._id) == self._name
        return pieces.hash_held(self._database, self._id).hash == self._begun.hash

    def sync(self) -> None:
        """Bring to the disk what ``keep`` stored of a large payload. May be called in another thread."""
        file = self._file
        if file is not None:
            self._database.folder.sync(file)
            self._file = None

    def keep(self) -> None:
        """Store every byte written so far."""
        if self.offset > self._written and not self._done:
            self._commit(self._pending.size)

    def finish(self) -> None:
        """All bytes were written: check them, and count the payload as held.

        A large payload is brought to the disk first. Calling ``keep`` and ``sync`` before does that without holding up
        the store's thread.

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
                if self._is_complete(connection):
                    return
                if self.offset > self._written:
                    self._store(self._pending.first(self._pending.size))
                # The view first: the trigger that writes the news reads the new change number.
                view = LogView(self._database, self._entry.log, next_change(connection))
                self._set_held(connection, PayloadState.COMPLETE, self._entry.size)
                if self.is_large and self._sums is not None:
                    pieces.keep_sums(connection, self._id, self._sums.encoded)
                view.payload_settled(self._entry.seq)
                view.flush()
        except PayloadMismatch as error:
            self._refuse(error)
            raise
        self._stored, self._pending, self._done = self._entry.size, _Pending(), True

    def distrust(self) -> None:
        """The writer has not checked the bytes after all: ``finish`` does, including those held before."""
        self._trusted = False

    def _check(self) -> None:
        """``PayloadMismatch`` if the bytes are not the entry's payload."""
        if self._hasher is None:
            with self._database.snapshot() as connection:
                if self._is_complete(connection):
                    return
            self._sums = pieces.PieceSums()
            self._hasher = pieces.hash_held(self._database, self._id, self._stored, self._sums)
            for part in self._pending.first(self._pending.size):
                self._hasher.update(part)
                self._sums.update(part)
        self._hasher.check(self._entry)

    def abandon(self) -> None:
        """The bytes written turned out to be wrong: drop all that is held of the payload."""
        if not self._done:
            self._refuse(PayloadMismatch("the payload's hash is not the one in its entry", self._entry.place))

    def _refuse(self, error: PayloadMismatch) -> None:
        """Drop a payload that failed its check. If the author lied about its size, the log is invalid from here on."""
        lied = isinstance(error, PayloadSizeMismatch)
        with suppress(Overtaken):
            with self._database.transaction() as connection:
                if not lied and self._is_complete(connection):
                    return  # bytes that another transfer stored may be right, and are not dropped here
                pieces.drop(connection, self._id, PayloadState.SIZE_MISMATCH if lied else PayloadState.ABSENT)
                view = LogView(self._database, self._entry.log, next_change(connection))
                if lied:
                    view.invalidate_from(self._entry.seq)
                view.flush()
            self._done, self._stored, self._pending = True, 0, _Pending()

    def close(self) -> None:
        """Stop for now. Every byte written is kept, unless another transfer overtook this one."""
        with suppress(Overtaken):
            self.keep()


class _Pending:
    """Bytes that wait to be stored. Large pieces wait as they came; small ones are put together."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[Buffer] = []

    def append(self, piece: Buffer) -> None:
        """Add bytes. Those that their owner may change later are copied."""
        self.size += len(piece)
        owner = piece.obj if isinstance(piece, memoryview) else piece
        if len(piece) >= _LARGE_PIECE and type(owner) is bytes:
            self._parts.append(piece)
        elif self._parts and isinstance(last := self._parts[-1], bytearray):
            last += piece
        else:
            self._parts.append(bytearray(piece))

    def first(self, size: int) -> list[Buffer]:
        """The first ``size`` bytes, in parts."""
        parts: list[Buffer] = []
        for part in self._parts:
            parts.append(part[:size])
            size -= len(parts[-1])
        return [part for part in parts if part]

    def drop(self, size: int) -> None:
        """Remove the first ``size`` bytes."""
        self.size -= size
        while size:
            part = self._parts.pop(0)
            if size < len(part):
                self._parts.insert(0, part[size:])
            size -= min(size, len(part))
