"""Reading one piece of an input, in a worker. Entries come out as rows; of a payload only its state does.

Payloads are hashed where they lie, part by part, so that a row stays small however large its payload is. Where a file
or a store turns out to be damaged, the rows before the damage stand, and a reject tells what could not be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from culm.bamboo import Entry, PayloadHasher
from culm.errors import EncodingError, InvalidEntry, StoreError
from culm.spark.inputs import Part, Piece, opened_store
from culm.spark.payload import ABSENT, FORGOTTEN, HELD, PARTIAL, SIZE_MISMATCH, PayloadFrame, judged, without_bytes
from culm.store.database import translated_errors
from culm.store.files import EntryRecord, PayloadRecord, ProofRecord, Record, read_records
from culm.store.payloads.pieces import read_pieces
from culm.store.rows import BYTES, ROW, Column, all_rows, each_row, in_order
from culm.store.schema import PayloadState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from culm.errors import Place
    from culm.store.database import Database

_ANY_STATE = Column("the state of a payload", frozenset({int}))  # one that does not exist is judged as absent
# Rows of a store that are read in one snapshot. A node may write to the store meanwhile, and while a snapshot is open
# SQLite cannot shorten its write-ahead log; so snapshots are short.
_PAGE = 500


class Found(NamedTuple):
    """A row that was read: an entry with its payload's state, a payload frame, or a reject with its reason.

    ``offset`` is a byte of a file, or the row id in a store. A reject may have the bytes that are not an entry.
    ``payload`` is None unless payloads were asked for, and this one is the entry's and not too large.
    """

    source: str
    offset: int
    encoded: bytes | None = None
    payload_state: str | None = None
    payload_frame: bytes | None = None
    reason: str | None = None
    payload: bytes | None = None


def scan(piece: Piece, payload_limit: int = -1) -> Iterator[Found]:
    """The rows of one piece. ``payload_limit``: the most bytes of a payload in a row; -1 for no payloads at all.

    ``CulmError`` if the file or store cannot be opened. Damage within it is a reject.
    """
    if piece.part is Part.REJECT:
        return iter([Found(piece.path, 0, reason=piece.reason)])
    if piece.part is Part.FILE:
        return _scan_file(piece, payload_limit)
    return _scan_entries(piece, payload_limit) if piece.part is Part.ENTRIES else _scan_forks(piece)


# -- export files ------------------------------------------------------------------------------------------------


def _scan_file(piece: Piece, limit: int) -> Iterator[Found]:
    path = piece.path
    with piece.location.open() as stream:
        at = 0
        waiting: _Waiting | None = None  # an entry of a bundle, whose payload may come next
        try:
            for record in read_records(stream):
                at = record.offset
                if waiting is not None and isinstance(record, PayloadRecord) and record.place == waiting.entry.place:
                    begun, waiting = waiting, None
                    yield from begun.joined(record, limit)
                    continue
                if waiting is not None:
                    yield waiting.alone()
                    waiting = None
                if isinstance(record, EntryRecord) and record.payload is None:
                    waiting = _Waiting(path, record)
                else:
                    yield from _rows_of(path, record, limit)
        except EncodingError as error:
            if waiting is not None:
                yield waiting.alone()
                waiting = None
            yield Found(path, error.offset, reason=str(error))
        except OSError as error:
            yield Found(path, at, reason=f"cannot be read on: {error.strerror}")
        if waiting is not None:
            yield waiting.alone()


class _Payload:
    """A payload while it is read: hashed, and kept in memory up to ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: list[bytes] = []
        self.hasher = PayloadHasher()

    def read(self, pieces: Iterable[bytes]) -> _Payload:
        for data in pieces:
            self.hasher.update(data)
            if self.hasher.size <= self._limit:
                self._kept.append(data)
            else:
                self._kept.clear()
        return self

    def state(self, entry: Entry) -> str:
        return judged(entry, self.hasher.hash, self.hasher.size)

    def bytes_for(self, entry: Entry) -> bytes | None:
        """The bytes, if they were kept and are the payload of this entry; else None."""
        if self.hasher.size > self._limit or self.state(entry) != HELD:
            return None
        return b"".join(self._kept)

    def frame(self, place: Place) -> bytes:
        return PayloadFrame(place.author, place.log_id, place.seq, self.hasher.hash, self.hasher.size).encode()


class _Waiting:
    """An entry of a bundle that waits for the next record, which may be its payload."""

    def __init__(self, path: str, record: EntryRecord) -> None:
        self._path = path
        self._offset = record.offset
        self.entry = record.entry

    def alone(self) -> Found:
        return Found(self._path, self._offset, self.entry.encoded, without_bytes(self.entry))

    def joined(self, record: PayloadRecord, limit: int) -> Iterator[Found]:
        """The rows for the entry and the payload that follows it.

        If that payload is of the same place but has another hash, it may belong to another entry of this place. It then
        goes on as a frame of its own.
        """
        try:
            payload = _Payload(limit).read(record.payload)
        except EncodingError:
            yield self.alone()
            raise
        if payload.hasher.hash == self.entry.payload_hash:
            state, data = payload.state(self.entry), payload.bytes_for(self.entry)
            yield Found(self._path, self._offset, self.entry.encoded, state, payload=data)
        else:
            yield self.alone()
            yield Found(self._path, record.offset, payload_frame=payload.frame(record.place))


def _rows_of(path: str, record: Record, limit: int) -> Iterator[Found]:
    if isinstance(record, EntryRecord) and record.payload is not None:
        payload = _Payload(limit)
        try:
            payload.read(record.payload)
        except EncodingError:  # the file is cut short in here; the entry is whole
            yield Found(path, record.offset, record.entry.encoded, PARTIAL if payload.hasher.size else ABSENT)
            raise
        state, data = payload.state(record.entry), payload.bytes_for(record.entry)
        yield Found(path, record.offset, record.entry.encoded, state, payload=data)
    elif isinstance(record, PayloadRecord):
        yield Found(path, record.offset, payload_frame=_Payload(limit).read(record.payload).frame(record.place))
    elif isinstance(record, ProofRecord):
        for entry in (record.proof.first, record.proof.second):
            yield Found(path, record.offset, entry.encoded, without_bytes(entry))


# -- stores ------------------------------------------------------------------------------------------------------


def _scan_entries(piece: Piece, limit: int) -> Iterator[Found]:
    at = piece.low
    with opened_store(piece.location) as database:
        while at <= piece.high:
            try:
                page = _entry_page(database, at, piece, limit)
            except StoreError as error:
                yield Found(piece.path, at, reason=f"rows {at} to {piece.high}: {error}")
                return
            yield from page
            if not page:
                return
            at = page[-1].offset + 1


def _entry_page(database: Database, low: int, piece: Piece, limit: int) -> list[Found]:
    with database.snapshot() as connection:
        rows = all_rows(
            connection.execute(
                "SELECT id, CAST(encoded AS BLOB), payload_state FROM entries"
                " WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
                (low, piece.high, _PAGE),
            ),
            *(ROW, BYTES.or_null(), _ANY_STATE),
        )
        if rows:
            in_order(low - 1, rows[-1][0])
        complete = [row_id for row_id, _, state in rows if state == PayloadState.COMPLETE]
        payloads = _payloads(database, complete, limit)
    return [_row_of(piece.path, row_id, encoded, state, payloads.get(row_id)) for row_id, encoded, state in rows]


def _payloads(database: Database, row_ids: list[int], limit: int) -> dict[int, _Payload]:
    """The payloads of these rows (ascending), read in one pass over their pieces. An empty payload has no pieces."""
    connection = database.connection
    read = {row_id: _Payload(limit) for row_id in row_ids}
    if read:
        span = (row_ids[0], row_ids[-1])
        query = "SELECT entry, CAST(piece AS BLOB) FROM payloads WHERE entry BETWEEN ? AND ? ORDER BY entry, at"
        for row_id, data in connection.execute(query, span):
            if row_id in read:
                read[row_id].read([] if data is None else [data])  # nothing, where only damage can be
        for (row_id,) in connection.execute("SELECT entry FROM payload_files WHERE entry BETWEEN ? AND ?", span):
            if row_id in read:
                read[row_id].read(read_pieces(database, row_id))
    return read


_STATES: dict[int, str] = {
    PayloadState.PARTIAL: PARTIAL,
    PayloadState.FORGOTTEN: FORGOTTEN,
    PayloadState.SIZE_MISMATCH: SIZE_MISMATCH,
}


def _row_of(path: str, row_id: int, encoded: bytes | None, state: int, payload: _Payload | None) -> Found:
    """One row of a store as a ``Found``. ``payload`` is None unless the store calls it complete."""
    if encoded is None:
        return Found(path, row_id, reason="the row has no entry: the store is damaged; culm doctor says what to do")
    if payload is None:
        return Found(path, row_id, encoded, _STATES.get(state, ABSENT))
    try:
        entry = Entry.decode(encoded)
    except InvalidEntry:
        return Found(path, row_id, encoded, ABSENT)  # it will be rejected: there is nothing to compare the payload with
    return Found(path, row_id, encoded, payload.state(entry), payload=payload.bytes_for(entry))


def _scan_forks(piece: Piece) -> Iterator[Found]:
    with opened_store(piece.location) as database:
        try:
            with translated_errors(database.path):
                rows = database.connection.execute(
                    "SELECT id, CAST(first AS BLOB), CAST(second AS BLOB) FROM forks"
                    " WHERE id BETWEEN ? AND ? ORDER BY id",
                    (piece.low, piece.high),
                )
                for row_id, *proof in each_row(rows, ROW, BYTES, BYTES):
                    for encoded in proof:
                        yield Found(piece.path, row_id, encoded, ABSENT)
        except StoreError as error:
            yield Found(piece.path, piece.low, reason=f"fork proofs: {error}")
