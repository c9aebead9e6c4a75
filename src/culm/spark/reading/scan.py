"""Reading one piece of an input, in a worker. Entries come out as rows; of a payload only its state does.

Payloads are hashed where they lie, so that a row stays small however large its payload is. Where a file or a store is
damaged, the rows before the damage stand, and a reject tells what could not be read.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from culm.bamboo import Entry, PayloadHasher
from culm.errors import EncodingError, InvalidEntry, StoreError
from culm.spark.batches import payload as states
from culm.spark.reading.found import EVERYTHING, EntryRow, Wanted
from culm.spark.reading.inputs import Part, Piece
from culm.spark.storage import opened_store
from culm.store.database import Database
from culm.store.files import EntryRecord, PayloadRecord, ProofRecord, Record, read_records, read_records_from
from culm.store.payloads.pieces import read_pieces
from culm.store.rows import BYTES, ROW, Column, Row, all_rows, each_row, in_order
from culm.store.schema import PayloadState, to_sql

_NUMBER = Column("a number", frozenset({int}))
_ANY_STATE = Column("the state of a payload", frozenset({int}))  # one that does not exist is judged as absent
# Rows of a store in one snapshot: few, because SQLite cannot shorten its write-ahead log while a snapshot is open.
_PAGE = 500


def scan(piece: Piece, wanted: Wanted = EVERYTHING) -> Iterator[EntryRow]:
    """The rows of one piece that are wanted; of fork proofs all. Damage is a reject.

    ``CulmError`` if the file or store cannot be opened.
    """
    if piece.part is Part.REJECT:
        return iter([EntryRow(piece.uri, 0, reason=piece.reason)])
    if piece.part is Part.FORKS:
        return _scan_forks(piece)
    return _scan_file(piece, wanted) if piece.part is Part.FILE else _scan_entries(piece, wanted)


class Payload:
    """A payload while it is read: hashed, and kept in memory if a row can have it."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._kept: list[bytes] = []
        self.hasher = PayloadHasher()

    def read(self, pieces: Iterable[bytes]) -> bool:
        """Take the next bytes; False if the file ends among them. What comes next in the file says so, too."""
        try:
            for data in pieces:
                self.hasher.update(data)
                self._kept.append(data)
                if self.hasher.size > self._wanted.payload_limit:
                    self._kept.clear()
        except EncodingError:
            return False
        return True

    def found(self, source: str, offset: int, entry: Entry) -> EntryRow:
        """The row of an entry, if these are all bytes of its payload, or of what stands in its place."""
        state = states.judged(entry, self.hasher.hash, self.hasher.size)
        is_kept = state == states.HELD and self._wanted.has_payload(entry.seq, entry.size)
        return EntryRow(source, offset, entry.encoded, state, payload=b"".join(self._kept) if is_kept else None)


# -- export files ------------------------------------------------------------------------------------------------


def _scan_file(piece: Piece, wanted: Wanted) -> Iterator[EntryRow]:
    with piece.open() as stream:
        records = read_records(stream)
        if piece.low or piece.high:
            records = read_records_from(stream, piece.low, piece.high or None, piece.checksum)
        for found in _rows_of_records(piece.uri, records, wanted):
            yield found._replace(offset=found.offset + piece.low) if piece.low else found


def _rows_of_records(path: str, records: Iterator[Record], wanted: Wanted) -> Iterator[EntryRow]:
    waiting: EntryRecord | None = None  # an entry of a bundle, whose payload may follow as a record of its own
    rejects: list[EntryRow] = []
    at = 0
    try:
        for record in records:
            at, before, waiting = record.offset, waiting, None
            if isinstance(record, PayloadRecord):
                yield from _of_payload(path, before, record, wanted)
                continue
            if before is not None:
                yield _alone(path, before.offset, before.entry)
            if isinstance(record, ProofRecord):
                yield from (_alone(path, at, entry) for entry in (record.proof.first, record.proof.second))
            elif record.payload is None:
                waiting = record if wanted.has(record.entry.place) else None
            elif wanted.has(record.entry.place):
                yield _with_payload(path, record, record.payload, wanted)
    except EncodingError as error:
        rejects = [EntryRow(path, error.offset, reason=str(error))]
    except OSError as error:
        rejects = [EntryRow(path, at, reason=f"cannot be read on: {error.strerror or error}")]
    if waiting is not None:
        yield _alone(path, waiting.offset, waiting.entry)
    yield from rejects


def _with_payload(path: str, record: EntryRecord, pieces: Iterable[bytes], wanted: Wanted) -> EntryRow:
    """The row for an entry of a plain file, in which its payload follows it."""
    payload = Payload(wanted)
    if wanted.reads_payloads and payload.read(pieces):
        return payload.found(path, record.offset, record.entry)
    # The file is cut short in the payload, or its state is not wanted.
    state = states.PARTIAL if payload.hasher.size else states.ABSENT
    return EntryRow(path, record.offset, record.entry.encoded, state)


def _of_payload(path: str, before: EntryRecord | None, record: PayloadRecord, wanted: Wanted) -> Iterator[EntryRow]:
    """The rows for a payload that a bundle has as a record of its own, and for the entry before it.

    If it has another hash than that entry names, it may belong to another entry of this place. It then goes on as a
    frame.
    """
    payload = Payload(wanted)
    follows = before is not None and before.entry.place == record.place
    is_read = wanted.reads_payloads if follows else wanted.frames and wanted.has(record.place)
    is_whole = is_read and payload.read(record.payload)
    if before is not None:
        is_its_own = follows and is_whole and payload.hasher.hash == before.entry.payload_hash
        make = payload.found if is_its_own else _alone
        yield make(path, before.offset, before.entry)
        if is_its_own:
            return
    if is_whole and wanted.frames:
        frame = states.PayloadFrame(*record.place, payload.hasher.hash, payload.hasher.size)
        yield EntryRow(path, record.offset, payload_frame=frame.encode())


def _alone(path: str, offset: int, entry: Entry) -> EntryRow:
    return EntryRow(path, offset, entry.encoded, states.without_bytes(entry))


# -- stores ------------------------------------------------------------------------------------------------------


# Pages begin behind the last row of the page before. The last columns are its place in the order of the query.
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


def _scan_entries(piece: Piece, wanted: Wanted) -> Iterator[EntryRow]:
    query, after, first, last = _BY_ROW, {"id": piece.low - 1}, 0, 0
    if piece.numbers is not None:
        chosen = map(to_sql, wanted.span.numbers(wanted.span.last) if wanted.span.sparse else ())
        numbers = f"IN ({','.join(map(str, chosen))})" if wanted.span.sparse else "NOT NULL"
        query, after = _BY_LOG.format(numbers=numbers), {"log": piece.low, "seq": _LEAST, "variant": _LEAST}
        first, last = piece.numbers
    given = {"first": first, "last": last, "high": piece.high, "page": _PAGE}
    columns = (ROW, BYTES.or_null(), _ANY_STATE, *[_NUMBER] * len(after))
    with opened_store(piece) as database:
        try:
            while True:
                with database.snapshot() as connection:
                    rows = all_rows(connection.execute(query, given | after), *columns)
                    if not rows:
                        return
                    reached = dict(zip(after, rows[-1][3:], strict=True))
                    in_order([*after.values()], [*reached.values()])
                    payloads = _payloads(database, rows, wanted) if wanted.reads_payloads else {}
                after = reached
                for row_id, encoded, state, *_ in rows:
                    yield _row_of(piece.uri, row_id, encoded, state, payloads.get(row_id))
        except StoreError as error:
            at = next(iter(after.values()))
            which = f"rows {at + 1}" if piece.numbers is None else f"logs {at}"
            yield EntryRow(piece.uri, at, reason=f"{which} to {piece.high}: {error}")


def _payloads(database: Database, rows: list[Row], wanted: Wanted) -> dict[int, Payload]:
    """The payloads of these rows that the store calls complete. An empty payload has no pieces."""
    read = {row_id: Payload(wanted) for row_id, _, state, *_ in rows if state == PayloadState.COMPLETE}
    these = f"entry IN ({','.join(map(str, read))})"
    query = f"SELECT entry, CAST(piece AS BLOB) FROM payloads WHERE {these} ORDER BY entry, at"
    for row_id, data in database.connection.execute(query):
        read[row_id].read([] if data is None else [data])  # nothing, where only damage can be
    for (row_id,) in database.connection.execute(f"SELECT entry FROM payload_files WHERE {these}"):
        read[row_id].read(read_pieces(database, row_id))
    return read


# States in which a store knows more than that it has no bytes. They have the same names here.
_NAMED = PayloadState.PARTIAL, PayloadState.FORGOTTEN, PayloadState.SIZE_MISMATCH


def _row_of(path: str, row_id: int, encoded: bytes | None, state: int, payload: Payload | None) -> EntryRow:
    """One row of a store as a ``EntryRow``. ``payload`` is None unless the store calls it complete."""
    if encoded is None:
        return EntryRow(path, row_id, reason="the row has no entry: the store is damaged; culm doctor says what to do")
    if payload is not None:
        with suppress(InvalidEntry):  # it is rejected later: there is no hash to compare the payload with
            return payload.found(path, row_id, Entry.decode(encoded))
    return EntryRow(path, row_id, encoded, PayloadState(state).name.lower() if state in _NAMED else states.ABSENT)


def _scan_forks(piece: Piece) -> Iterator[EntryRow]:
    by = "id" if piece.numbers is None else "log"
    query = f"SELECT id, CAST(first AS BLOB), CAST(second AS BLOB) FROM forks WHERE {by} BETWEEN ? AND ? ORDER BY id"
    with opened_store(piece) as database:
        try:
            with database.snapshot() as connection:
                rows = connection.execute(query, (piece.low, piece.high))
                for row_id, *proof in each_row(rows, ROW, BYTES, BYTES):
                    yield from (EntryRow(piece.uri, row_id, encoded, states.ABSENT) for encoded in proof)
        except StoreError as error:
            yield EntryRow(piece.uri, piece.low, reason=f"fork proofs: {error}")
