"""Reading one piece of an input, in a worker: entries come out as rows, payloads only as what was found out about them.

Payloads are hashed where they lie, piece by piece, so that a row stays small however large the payload is. Where a
file or a store turns out to be damaged, what was read before stands, and a reject tells what the rest was.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from culm.bamboo import Entry, PayloadHasher
from culm.errors import CulmError, EncodingError, InvalidEntry, StoreError
from culm.spark.inputs import Part, Piece
from culm.spark.payload import ABSENT, FORGOTTEN, PARTIAL, SIZE_MISMATCH, PayloadFrame, judged, without_bytes
from culm.store.database import Database, translated_errors
from culm.store.files import EntryRecord, PayloadRecord, Record, read_records
from culm.store.pieces import hash_held
from culm.store.schema import PayloadState

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = 500  # rows of a store read in one short snapshot


class Found(NamedTuple):
    """A row of what was read: an entry with its payload's state, a payload's frame, or a reject with its reason.

    ``offset`` is a byte of a file, or the row id in a store. A reject may have the bytes that were no entry.
    """

    source: str
    offset: int
    encoded: bytes | None = None
    payload_state: str | None = None
    payload_frame: bytes | None = None
    reason: str | None = None


def scan(piece: Piece) -> Iterator[Found]:
    """The rows of one piece. ``CulmError`` only if it cannot be opened."""
    if piece.part is Part.FILE:
        return _scan_file(piece.path)
    return _scan_entries(piece) if piece.part is Part.ENTRIES else _scan_forks(piece)


# -- export files ------------------------------------------------------------------------------------------------


def _scan_file(path: str) -> Iterator[Found]:
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise CulmError(f"{path}: cannot be read here: {error.strerror}") from error
    with stream:
        at = 0
        try:
            for record in read_records(stream):
                at = record.offset
                yield from _rows_of(path, record)
        except EncodingError as error:
            yield Found(path, error.offset, reason=str(error))
        except OSError as error:
            yield Found(path, at, reason=f"cannot be read on: {error.strerror}")


def _rows_of(path: str, record: Record) -> Iterator[Found]:
    if isinstance(record, EntryRecord):
        if record.payload is None:
            yield Found(path, record.offset, record.entry.encoded, without_bytes(record.entry))
            return
        hasher = PayloadHasher()
        try:
            for data in record.payload:
                hasher.update(data)
        except EncodingError:  # the file is cut short in here; the entry is whole
            yield Found(path, record.offset, record.entry.encoded, PARTIAL if hasher.size else ABSENT)
            raise
        yield Found(path, record.offset, record.entry.encoded, judged(record.entry, hasher.hash, hasher.size))
    elif isinstance(record, PayloadRecord):
        hasher = PayloadHasher()
        for data in record.payload:
            hasher.update(data)
        place = record.place
        frame = PayloadFrame(place.author, place.log_id, place.seq, hasher.hash, hasher.size)
        yield Found(path, record.offset, payload_frame=frame.encode())
    else:
        for entry in (record.proof.first, record.proof.second):
            yield Found(path, record.offset, entry.encoded, without_bytes(entry))


# -- stores ------------------------------------------------------------------------------------------------------


def _scan_entries(piece: Piece) -> Iterator[Found]:
    at = piece.low
    database = Database(Path(piece.path), read_only=True)
    try:
        while at <= piece.high:
            try:
                page = _entry_page(database, at, piece)
            except StoreError as error:
                yield Found(piece.path, at, reason=f"rows {at} to {piece.high}: {error}")
                return
            yield from page
            if not page:
                return
            at = page[-1].offset + 1
    finally:
        database.close()


def _entry_page(database: Database, low: int, piece: Piece) -> list[Found]:
    with database.snapshot() as connection:
        rows: list[tuple[int, bytes, int]] = connection.execute(
            "SELECT id, CAST(encoded AS BLOB), payload_state FROM entries WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
            (low, piece.high, _PAGE),
        ).fetchall()
        complete = [row_id for row_id, _, state in rows if state == PayloadState.COMPLETE]
        hashed = _hashed_payloads(database, complete)
    return [
        Found(piece.path, row_id, encoded, _state(encoded, state, hashed.get(row_id)))
        for row_id, encoded, state in rows
    ]


def _hashed_payloads(database: Database, row_ids: list[int]) -> dict[int, PayloadHasher]:
    """The payloads of these rows (ascending), hashed in one pass over their pieces; an empty one has no pieces."""
    connection = database.connection
    hashed = {row_id: PayloadHasher() for row_id in row_ids}
    if hashed:
        span = (row_ids[0], row_ids[-1])
        for row_id, data in connection.execute(
            "SELECT entry, CAST(piece AS BLOB) FROM payloads WHERE entry BETWEEN ? AND ? ORDER BY entry, at", span
        ):
            if row_id in hashed:
                hashed[row_id].update(data)
        for (row_id,) in connection.execute("SELECT entry FROM payload_files WHERE entry BETWEEN ? AND ?", span):
            if row_id in hashed:
                hashed[row_id] = hash_held(database, row_id)
    return hashed


_STATES: dict[int, str] = {
    PayloadState.PARTIAL: PARTIAL,
    PayloadState.FORGOTTEN: FORGOTTEN,
    PayloadState.SIZE_MISMATCH: SIZE_MISMATCH,
}


def _state(encoded: bytes, state: int, hashed: PayloadHasher | None) -> str:
    """What holds of a payload: only one that the store calls complete is looked at."""
    if hashed is None:
        return _STATES.get(state, ABSENT)
    try:
        entry = Entry.decode(encoded)
    except InvalidEntry:
        return ABSENT  # the row will be rejected: there is nothing to compare the payload with
    return judged(entry, hashed.hash, hashed.size)


def _scan_forks(piece: Piece) -> Iterator[Found]:
    path = Path(piece.path)
    database = Database(path, read_only=True)
    try:
        with translated_errors(path):
            rows = database.connection.execute(
                "SELECT id, CAST(first AS BLOB), CAST(second AS BLOB) FROM forks WHERE id BETWEEN ? AND ? ORDER BY id",
                (piece.low, piece.high),
            )
            for row_id, *proof in rows:
                for encoded in proof:
                    yield Found(piece.path, row_id, encoded, ABSENT)
    except StoreError as error:
        yield Found(piece.path, piece.low, reason=f"fork proofs: {error}")
    finally:
        database.close()
