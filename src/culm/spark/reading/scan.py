"""Reading one piece of an input, in a worker. Entries come out as rows; of a payload only its state does.

Payloads are hashed where they lie, so that a row stays small however large its payload is. Where a file or a store is
damaged, the rows before the damage stand, and a reject tells what could not be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from culm.bamboo import Entry
from culm.errors import EncodingError, InvalidEntry, StoreError
from culm.spark.batches.payload import ABSENT, FORGOTTEN, PARTIAL, SIZE_MISMATCH, without_bytes
from culm.spark.reading.found import Found, Payload
from culm.spark.reading.inputs import Part, Piece, opened_store
from culm.spark.reading.wanted import EVERYTHING, Wanted
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
    waiting: EntryRecord | None = None  # an entry of a bundle, whose payload may come next
    damage: Found | None = None
    try:
        for record in records:
            at, begun, waiting = record.offset, waiting, None
            if begun is not None and isinstance(record, PayloadRecord) and record.place == begun.entry.place:
                yield from _joined(path, begun, record, wanted)
                continue
            if begun is not None:
                yield _alone(path, begun)
            if not isinstance(record, EntryRecord) or record.payload is not None:
                yield from _rows_of(path, record, wanted)
            elif wanted.has(record.entry.place):
                waiting = record
    except EncodingError as error:
        damage = Found(path, error.offset, reason=str(error))
    except OSError as error:
        damage = Found(path, at, reason=f"cannot be read on: {error.strerror or error}")
    if waiting is not None:
        yield _alone(path, waiting)
    if damage is not None:
        yield damage


def _alone(path: str, record: EntryRecord) -> Found:
    return Found(path, record.offset, record.entry.encoded, without_bytes(record.entry))


def _joined(path: str, record: EntryRecord, following: PayloadRecord, wanted: Wanted) -> Iterator[Found]:
    """The rows for an entry of a bundle and the payload that follows it.

    If that payload is of the same place but has another hash, it may belong to another entry of this place. It then
    goes on as a frame of its own.
    """
    if not wanted.reads_payloads:
        yield _alone(path, record)
        return
    try:
        payload = Payload(wanted.payload_limit).read(following.payload)
    except EncodingError:
        yield _alone(path, record)
        raise
    if payload.hasher.hash == record.entry.payload_hash:
        yield _with_payload(path, record, payload)
        return
    yield _alone(path, record)
    if wanted.frames:
        yield Found(path, following.offset, payload_frame=payload.frame(following.place))


def _rows_of(path: str, record: Record, wanted: Wanted) -> Iterator[Found]:
    if isinstance(record, ProofRecord):
        for entry in (record.proof.first, record.proof.second):
            yield Found(path, record.offset, entry.encoded, without_bytes(entry))
    elif isinstance(record, PayloadRecord):
        if wanted.frames and wanted.has(record.place):
            frame = Payload(-1).read(record.payload).frame(record.place)
            yield Found(path, record.offset, payload_frame=frame)
    elif wanted.has(record.entry.place):
        yield from _row_with_payload(path, record, wanted)


def _row_with_payload(path: str, record: EntryRecord, wanted: Wanted) -> Iterator[Found]:
    payload = Payload(wanted.payload_limit)
    try:
        payload.read(record.payload or () if wanted.reads_payloads else ())
    except EncodingError:  # the file is cut short in here; the entry is whole
        yield Found(path, record.offset, record.entry.encoded, PARTIAL if payload.hasher.size else ABSENT)
        raise
    yield _with_payload(path, record, payload)


def _with_payload(path: str, record: EntryRecord, payload: Payload) -> Found:
    entry = record.entry
    return Found(path, record.offset, entry.encoded, payload.state(entry), payload=payload.bytes_for(entry))


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
                page, reached = _entry_page(database, after, piece, wanted)
            except StoreError as error:
                which = f"rows {after[0] + 1}" if piece.numbers is None else f"logs {after[0]}"
                yield Found(piece.path, after[0], reason=f"{which} to {piece.high}: {error}")
                return
            yield from page
            if not page:
                return
            after = reached


def _entry_page(
    database: Database, after: tuple[int, ...], piece: Piece, wanted: Wanted
) -> tuple[list[Found], tuple[int, ...]]:
    """The next rows of a piece, and the place of the last one."""
    with database.snapshot() as connection:
        if piece.numbers is None:
            cursor = connection.execute(_BY_ROW, {"id": after[0], "high": piece.high, "page": _PAGE})
        else:
            chosen = wanted.span.numbers(wanted.span.last) if wanted.span.sparse else ()
            numbers = f"IN ({','.join(str(to_sql(number)) for number in chosen)})" if wanted.span.sparse else "NOT NULL"
            values = dict(zip(("log", "seq", "variant"), after, strict=True))
            values |= {"first": piece.numbers[0], "last": piece.numbers[1], "high": piece.high, "page": _PAGE}
            cursor = connection.execute(_BY_LOG.format(numbers=numbers), values)
        rows = all_rows(cursor, ROW, BYTES.or_null(), _ANY_STATE, *[_NUMBER] * len(after))
        reached, complete = after, list[int]()
        for row_id, _, state, *place in rows:
            reached = tuple(place)
            if state == PayloadState.COMPLETE and wanted.reads_payloads:
                complete.append(row_id)
        if rows:
            in_order(after, reached)
        payloads = _payloads(database, sorted(complete), wanted.payload_limit)
    found = [_row_of(piece.path, row_id, encoded, state, payloads.get(row_id)) for row_id, encoded, state, *_ in rows]
    return found, reached


def _payloads(database: Database, row_ids: list[int], limit: int) -> dict[int, Payload]:
    """The payloads of these rows (ascending). An empty payload has no pieces."""
    connection = database.connection
    read = {row_id: Payload(limit) for row_id in row_ids}
    if read:
        # Neighbours are read in one pass over a range; rows that lie apart are looked up, so that nothing else is read.
        dense = row_ids[-1] - row_ids[0] < 4 * len(row_ids)
        wanted = f"BETWEEN {row_ids[0]} AND {row_ids[-1]}" if dense else f"IN ({','.join(map(str, row_ids))})"
        query = f"SELECT entry, CAST(piece AS BLOB) FROM payloads WHERE entry {wanted} ORDER BY entry, at"
        for row_id, data in connection.execute(query):
            if row_id in read:
                read[row_id].read([] if data is None else [data])  # nothing, where only damage can be
        for (row_id,) in connection.execute(f"SELECT entry FROM payload_files WHERE entry {wanted}"):
            if row_id in read:
                read[row_id].read(read_pieces(database, row_id))
    return read


_STATES: dict[int, str] = {
    PayloadState.PARTIAL: PARTIAL,
    PayloadState.FORGOTTEN: FORGOTTEN,
    PayloadState.SIZE_MISMATCH: SIZE_MISMATCH,
}


def _row_of(path: str, row_id: int, encoded: bytes | None, state: int, payload: Payload | None) -> Found:
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
                    f" WHERE {'id' if piece.numbers is None else 'log'} BETWEEN ? AND ? ORDER BY id",
                    (piece.low, piece.high),
                )
                for row_id, *proof in each_row(rows, ROW, BYTES, BYTES):
                    for encoded in proof:
                        yield Found(piece.path, row_id, encoded, ABSENT)
        except StoreError as error:
            yield Found(piece.path, piece.low, reason=f"fork proofs: {error}")
