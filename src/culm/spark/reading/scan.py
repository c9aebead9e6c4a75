"""Reading one piece of an input, in a worker. Entries come out as rows; of a payload only its state does.

Payloads are hashed where they lie, so that a row stays small however large its payload is. Where a file or a store is
damaged, the rows before the damage stand, and a reject tells what could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from culm.bamboo import Entry, PayloadHasher
from culm.errors import EncodingError, InvalidEntry, Place, StoreError
from culm.spark.batches import payload as states
from culm.spark.reading.found import EVERYTHING, Found, Wanted
from culm.spark.reading.inputs import Part, Piece
from culm.spark.storage import opened_store
from culm.store.database import Database, translated_errors
from culm.store.files import EntryRecord, PayloadRecord, ProofRecord, Record, read_records, read_records_from
from culm.store.payloads.pieces import read_pieces
from culm.store.rows import BYTES, ROW, Column, all_rows, each_row, in_order
from culm.store.schema import PayloadState, to_sql

_NUMBER = Column("a number", frozenset({int}))
_ANY_STATE = Column("the state of a payload", frozenset({int}))  # one that does not exist is judged as absent
# Rows of a store in one snapshot: few, because SQLite cannot shorten its write-ahead log while a snapshot is open.
_PAGE = 500


def scan(piece: Piece, wanted: Wanted = EVERYTHING) -> Iterator[Found]:
    """The rows of one piece that are wanted; of fork proofs all. Damage is a reject.

    ``CulmError`` if the file or store cannot be opened.
    """
    if piece.part is Part.REJECT:
        return iter([Found(piece.path, 0, reason=piece.reason)])
    if piece.part is Part.FORKS:
        return _scan_forks(piece)
    return _scan_file(piece, wanted) if piece.part is Part.FILE else _scan_entries(piece, wanted)


class Payload:
    """A payload while it is read: hashed, and kept in memory up to ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: list[bytes] = []
        self.hasher = PayloadHasher()

    def read(self, pieces: Iterable[bytes]) -> bool:
        """Take the next bytes; False if the file ends among them. What comes next in the file says so, too."""
        try:
            for data in pieces:
                self.hasher.update(data)
                if self.hasher.size <= self._limit:
                    self._kept.append(data)
                else:
                    self._kept.clear()
        except EncodingError:
            return False
        return True

    def found(self, source: str, offset: int, entry: Entry) -> Found:
        """The row of an entry, if these are all bytes of its payload, or of what stands in its place."""
        state = states.judged(entry, self.hasher.hash, self.hasher.size)
        is_kept = state == states.HELD and self.hasher.size <= self._limit
        return Found(source, offset, entry.encoded, state, payload=b"".join(self._kept) if is_kept else None)

    def frame(self, place: Place) -> bytes:
        """The payload as an encoded ``PayloadFrame`` of this place."""
        return states.PayloadFrame(place.author, place.log_id, place.seq, self.hasher.hash, self.hasher.size).encode()


# -- export files ------------------------------------------------------------------------------------------------


def _scan_file(piece: Piece, wanted: Wanted) -> Iterator[Found]:
    with piece.location.open() as stream:
        records = read_records(stream)
        if piece.low or piece.high:
            records = read_records_from(stream, piece.low, piece.high or None, piece.checksum)
        for found in _rows_of_records(piece.path, records, wanted):
            yield found._replace(offset=found.offset + piece.low) if piece.low else found


def _rows_of_records(path: str, records: Iterator[Record], wanted: Wanted) -> Iterator[Found]:
    at = 0
    try:
        for record, following in paired(records):
            at = record.offset
            if isinstance(record, ProofRecord):
                yield from (_alone(path, at, entry) for entry in (record.proof.first, record.proof.second))
            elif isinstance(record, EntryRecord):
                if wanted.has(record.entry.place):
                    yield from _rows_of_entry(path, record, following, wanted)
            elif wanted.frames and wanted.has(record.place):
                payload = Payload(-1)
                if payload.read(record.payload):
                    yield Found(path, at, payload_frame=payload.frame(record.place))
    except EncodingError as error:
        yield Found(path, error.offset, reason=str(error))
    except OSError as error:
        yield Found(path, at, reason=f"cannot be read on: {error.strerror or error}")


def paired(records: Iterator[Record]) -> Iterator[tuple[Record, PayloadRecord | None]]:
    """The records, an entry of a bundle together with a payload of its place that follows it."""
    waiting: EntryRecord | None = None
    try:
        for record in records:
            if waiting is not None:
                entry, waiting = waiting, None
                if isinstance(record, PayloadRecord) and record.place == entry.entry.place:
                    yield entry, record
                    continue
                yield entry, None
            if isinstance(record, EntryRecord) and record.payload is None:
                waiting = record
            else:
                yield record, None
    except (EncodingError, OSError):  # behind the entry, which is whole
        if waiting is not None:
            yield waiting, None
        raise
    if waiting is not None:
        yield waiting, None


def _rows_of_entry(path: str, record: EntryRecord, following: PayloadRecord | None, wanted: Wanted) -> Iterator[Found]:
    """The rows for an entry and the payload that follows it, in a bundle as a record of its own.

    If that record has another hash, it may belong to another entry of this place. It then goes on as a frame.
    """
    entry, payload = record.entry, Payload(wanted.payload_limit)
    pieces = record.payload if following is None else following.payload
    if pieces is None or not wanted.reads_payloads:
        yield _alone(path, record.offset, entry)
        return
    is_whole = payload.read(pieces)
    if is_whole and (following is None or payload.hasher.hash == entry.payload_hash):
        yield payload.found(path, record.offset, entry)
    elif following is None:  # the file is cut short in the payload
        yield Found(path, record.offset, entry.encoded, states.PARTIAL if payload.hasher.size else states.ABSENT)
    else:
        yield _alone(path, record.offset, entry)
        if is_whole and wanted.frames:
            yield Found(path, following.offset, payload_frame=payload.frame(following.place))


def _alone(path: str, offset: int, entry: Entry) -> Found:
    return Found(path, offset, entry.encoded, states.without_bytes(entry))


# -- stores ------------------------------------------------------------------------------------------------------


# Pages begin behind the last row of the page before. ``after`` is its place in the order of the query.
_COLUMNS = "SELECT entries.id, CAST(encoded AS BLOB), payload_state"
_BY_ROW = f"{_COLUMNS}, id FROM entries WHERE id > :id AND id <= :high ORDER BY id LIMIT :page"
# The outer loop goes through logs and the inner one through an index of their entries, so no other row is looked at.
_BY_LOG = (
    f"{_COLUMNS}, log, seq, variant FROM logs CROSS JOIN entries ON entries.log = logs.id"
    " WHERE logs.id BETWEEN :log AND :high AND seq {numbers}"
    " AND seq >= CASE WHEN log = :log THEN max(:seq, :first) ELSE :first END AND seq <= :last"
    " AND (log, seq, variant) > (:log, :seq, :variant) ORDER BY logs.id, seq, variant LIMIT :page"
)
_LEAST = -(2**63)  # before every number that SQLite has


def _scan_entries(piece: Piece, wanted: Wanted) -> Iterator[Found]:
    after: tuple[int, ...] = (piece.low - 1,) if piece.numbers is None else (piece.low, _LEAST, _LEAST)
    with opened_store(piece.location) as database:
        while True:
            try:
                page, after = _entry_page(database, after, piece, wanted)
            except StoreError as error:
                which = f"rows {after[0] + 1}" if piece.numbers is None else f"logs {after[0]}"
                yield Found(piece.path, after[0], reason=f"{which} to {piece.high}: {error}")
                return
            if not page:
                return
            yield from page


def _entry_page(
    database: Database, after: tuple[int, ...], piece: Piece, wanted: Wanted
) -> tuple[list[Found], tuple[int, ...]]:
    """The next rows of a piece, and the place of the last one."""
    query, names, (first, last) = _BY_ROW, ["id"], piece.numbers or (0, 0)
    if piece.numbers is not None:
        chosen = wanted.span.numbers(wanted.span.last) if wanted.span.sparse else ()
        numbers = f"IN ({','.join(str(to_sql(number)) for number in chosen)})" if wanted.span.sparse else "NOT NULL"
        query, names = _BY_LOG.format(numbers=numbers), ["log", "seq", "variant"]
    values = dict(zip(names, after, strict=True), first=first, last=last, high=piece.high, page=_PAGE)
    with database.snapshot() as connection:
        rows = all_rows(connection.execute(query, values), ROW, BYTES.or_null(), _ANY_STATE, *[_NUMBER] * len(after))
        reached = tuple(rows[-1][3:]) if rows else after
        if rows:
            in_order(after, reached)
        complete = [row_id for row_id, _, state, *_ in rows if state == PayloadState.COMPLETE]
        payloads = _payloads(database, complete if wanted.reads_payloads else [], wanted.payload_limit)
    found = [_row_of(piece.path, row_id, encoded, state, payloads.get(row_id)) for row_id, encoded, state, *_ in rows]
    return found, reached


def _payloads(database: Database, row_ids: list[int], limit: int) -> dict[int, Payload]:
    """The payloads of these rows. An empty payload has no pieces."""
    read = {row_id: Payload(limit) for row_id in row_ids}
    these = f"entry IN ({','.join(map(str, row_ids))})"
    query = f"SELECT entry, CAST(piece AS BLOB) FROM payloads WHERE {these} ORDER BY entry, at"
    for row_id, data in database.connection.execute(query):
        read[row_id].read([] if data is None else [data])  # nothing, where only damage can be
    for (row_id,) in database.connection.execute(f"SELECT entry FROM payload_files WHERE {these}"):
        read[row_id].read(read_pieces(database, row_id))
    return read


_STATES: dict[int, str] = {
    PayloadState.PARTIAL: states.PARTIAL,
    PayloadState.FORGOTTEN: states.FORGOTTEN,
    PayloadState.SIZE_MISMATCH: states.SIZE_MISMATCH,
}


def _row_of(path: str, row_id: int, encoded: bytes | None, state: int, payload: Payload | None) -> Found:
    """One row of a store as a ``Found``. ``payload`` is None unless the store calls it complete."""
    if encoded is None:
        return Found(path, row_id, reason="the row has no entry: the store is damaged; culm doctor says what to do")
    if payload is None:
        return Found(path, row_id, encoded, _STATES.get(state, states.ABSENT))
    try:
        entry = Entry.decode(encoded)
    except InvalidEntry:
        return Found(
            path, row_id, encoded, states.ABSENT
        )  # it will be rejected: there is nothing to compare the payload with
    return payload.found(path, row_id, entry)


def _scan_forks(piece: Piece) -> Iterator[Found]:
    with opened_store(piece.location) as database:
        try:
            with translated_errors(database.path):
                rows = database.connection.execute(
                    "SELECT id, CAST(first AS BLOB), CAST(second AS BLOB) FROM forks"
                    f" WHERE {'id' if piece.numbers is None else 'log'} BETWEEN ? AND ? ORDER BY id",
                    (piece.low, piece.high),
                )
                for row_id, *proof in each_row(rows, ROW, BYTES, BYTES):
                    for encoded in proof:
                        yield Found(piece.path, row_id, encoded, states.ABSENT)
        except StoreError as error:
            yield Found(piece.path, piece.low, reason=f"fork proofs: {error}")
