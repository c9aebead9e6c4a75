"""Reading entries, and the bytes of their payloads.

Long answers are read page by page, and each page is a short snapshot of its own. One snapshot for the whole answer
would be simpler, but SQLite cannot fold the WAL file back beyond the oldest snapshot, so a slow reader would let the
file grow without bound.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import itemgetter

from culm.bamboo import MAX_U64, Entry, PayloadHasher, yamf_hash
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import Place, StoreDamaged, StoreError
from culm.store.database import Database
from culm.store.payloads import checked, pieces
from culm.store.rows import (
    BYTES,
    COUNT,
    PAYLOAD_STATE,
    ROW,
    SEQ,
    STATE,
    Row,
    all_rows,
    entries_of,
    entry_of,
    first_row,
    in_order,
)
from culm.store.schema import IS_COMPLETE, IS_VERIFIED, OF_LOG, PayloadState, State, from_sql, log_key, to_sql
from culm.store.values import Sendable, StoredEntry
from culm.types import Buffer, Log

_PAGE = 500  # rows of one snapshot: milliseconds, so that no reader holds up the folding of the WAL file
SMALL_BYTES = 4096  # payloads up to this size are read together with their entries, which saves a query for each
_MAX_VARIANT = 2**31  # greater than every variant, so that (number, _MAX_VARIANT) stands after all entries of a number
ENTRY_COLUMNS = "entries.id, encoded, state, payload_state, payload_held, hash"
_CHECKED = itemgetter(1, 5, 0)  # Of these columns, what ``entries_of`` compares.
ENTRY_ROW = ROW, BYTES, STATE, PAYLOAD_STATE, COUNT, BYTES
"""What these columns hold."""
_PIECE_OR_NOTHING = BYTES.or_null()
_VERIFIED_ENTRY = f"SELECT encoded, hash, id FROM entries WHERE {OF_LOG} AND seq = ? AND {IS_VERIFIED} LIMIT 1"
_IS_SMALL = f"{IS_COMPLETE} AND at = 0 AND length(piece) = payload_held AND payload_held <= {SMALL_BYTES}"
_SMALL_PAYLOAD = (
    f"SELECT CAST(piece AS BLOB) FROM entries JOIN payloads ON entry = entries.id WHERE {OF_LOG} AND seq = ?"
    f" AND hash = ? AND {_IS_SMALL}"
)
_VERIFIED_WITH_PAYLOAD = (
    "SELECT encoded, hash, entries.id, CAST(piece AS BLOB) FROM entries"
    f" LEFT JOIN payloads ON entry = entries.id AND {_IS_SMALL} WHERE {OF_LOG} AND seq = ? AND {IS_VERIFIED} LIMIT 1"
)
Damaged = Callable[[Place, StoreError], None]
"""Is told of an entry that is left out, or whose payload is, because it is damaged; and how."""


def stored_of_row(row: Row) -> StoredEntry:
    """The entry of a checked row that begins with ``ENTRY_COLUMNS``; ``StoreDamaged`` if its bytes have changed."""
    return _stored(row, entry_of(row[1], row[5], row[0]))


def stored_of_rows(rows: list[Row]) -> list[StoredEntry]:
    """``stored_of_row`` for many rows, which costs less each."""
    return [_stored(row, entry) for row, entry in zip(rows, entries_of([_CHECKED(row) for row in rows]), strict=True)]


def _stored(row: Row, entry: Entry) -> StoredEntry:
    entry_id, _, state, payload_state, held, *_ = row
    return StoredEntry(entry, State(state), PayloadState(payload_state), held, entry_id)


def _compared(entry: Entry, piece: bytes | None) -> bytes | None:
    """The bytes if they are the entry's payload, else None."""
    return piece if piece is not None and len(piece) == entry.size and yamf_hash(piece) == entry.payload_hash else None


def find_entry(connection: sqlite3.Connection, place: Place, entry_hash: bytes | None = None) -> StoredEntry | None:
    """The entry at a place, None if it is not held.

    Where entries contradict each other: the one with the given hash (66 bytes), or the one that came first.
    """
    query = (
        f"SELECT {ENTRY_COLUMNS} FROM entries WHERE {OF_LOG} AND seq = ? AND hash = coalesce(?, hash)"
        " ORDER BY variant LIMIT 1"
    )
    digest = entry_hash and entry_hash[len(YAMF_PREFIX) :]
    values = (*log_key((place.author, place.log_id)), to_sql(place.seq), digest)
    row = first_row(connection.execute(query, values), *ENTRY_ROW)
    return None if row is None else stored_of_row(row)


def entry_rows(database: Database, log: Log, low: int, high: int, states: Iterable[State]) -> Iterator[Row]:
    """The entries of a log as rows that may be damaged: ``ENTRY_COLUMNS``, number and variant as stored."""
    return chain.from_iterable(_entry_pages(database, log, low, high, states))


def _entry_pages(database: Database, log: Log, low: int, high: int, states: Iterable[State]) -> Iterator[list[Row]]:
    wanted = ", ".join(str(int(state)) for state in states)
    query = (
        f"SELECT {ENTRY_COLUMNS}, seq, variant FROM entries WHERE {OF_LOG} AND (seq, variant) > (?, ?)"
        f" AND seq <= ? AND state IN ({wanted}) ORDER BY seq, variant LIMIT {_PAGE}"
    )
    place = to_sql(max(low, 1)) - 1, _MAX_VARIANT
    rows: list[Row] | None = None
    while rows is None or len(rows) == _PAGE:
        with database.snapshot() as connection:
            values = (*log_key(log), *place, to_sql(min(high, MAX_U64)))
            rows = all_rows(connection.execute(query, values), *ENTRY_ROW, SEQ, COUNT)
            if rows:
                in_order(place, rows[-1][6:8])
        yield rows
        place = rows[-1][6:8] if rows else place


class EntryQueries:
    """The questions to a store about entries."""

    _database: Database

    def get(self, place: Place) -> StoredEntry | None:
        """The entry at a place. If entries contradict each other there, the one that came first."""
        with self._database.snapshot() as connection:
            return find_entry(connection, place)

    def verified_entry(self, log: Log, seq: int) -> Entry | None:
        """The verified entry of a number; None if the store does not have it, also where no log has such a number."""
        if not 1 <= seq <= MAX_U64:
            return None
        rows = self._database.read(_VERIFIED_ENTRY, (*log_key(log), to_sql(seq)), BYTES, BYTES, ROW)
        return entry_of(*rows[0]) if rows else None

    def verified_with_payload(self, log: Log, seq: int) -> tuple[Entry, bytes | None] | None:
        """``verified_entry``, and what ``small_payload`` says of it, by one query."""
        if not 1 <= seq <= MAX_U64:
            return None
        values = *log_key(log), to_sql(seq)
        rows = self._database.read(_VERIFIED_WITH_PAYLOAD, values, BYTES, BYTES, ROW, _PIECE_OR_NOTHING)
        if not rows:
            return None
        *found, piece = rows[0]
        entry = entry_of(*found)
        return entry, _compared(entry, piece)

    def small_payload(self, entry: Entry) -> bytes | None:
        """An entry's payload of at most ``SMALL_BYTES``, compared, by one query.

        None if that query does not answer it: the payload is larger, or not held whole, or damaged. ``payload`` says
        which.
        """
        values = *log_key(entry.log), to_sql(entry.seq), entry.hash[len(YAMF_PREFIX) :]
        rows = self._database.read(_SMALL_PAYLOAD, values, BYTES)
        return _compared(entry, rows[0][0]) if rows else None

    def entries(
        self,
        log: Log,
        low: int = 1,
        high: int = MAX_U64,
        *,
        states: Iterable[State] = (State.VERIFIED,),
        damaged: Damaged | None = None,
    ) -> Iterator[StoredEntry]:
        """The entries of a log from ``low`` to ``high`` in one of ``states``, ascending.

        An entry whose bytes changed on the disk is left out and told to ``damaged``, or raises ``StoreDamaged``.
        """
        for rows in _entry_pages(self._database, log, low, high, states):
            try:
                yield from stored_of_rows(rows)
            except StoreDamaged:
                for row in rows:
                    try:
                        yield stored_of_row(row)
                    except StoreDamaged as error:
                        if damaged is None:
                            raise
                        damaged(Place(*log, from_sql(row[6])), error)

    def sendables(self, log: Log, low: int, high: int, limit: int) -> list[Sendable]:
        """The first ``limit`` verified entries from ``low`` to ``high`` whose payload is held, ascending.

        ``PayloadDamaged`` if one of the payloads lies whole in its ``Sendable``, and is wrong.
        """
        query = (
            "SELECT seq, encoded, payload_held, CAST(coalesce(piece, x'') AS BLOB), entries.id, hash FROM entries"
            f" LEFT JOIN payloads ON entry = entries.id AND at = 0 WHERE {OF_LOG}"
            f" AND seq BETWEEN ? AND ? AND {IS_VERIFIED} AND {IS_COMPLETE} ORDER BY seq LIMIT ?"
        )
        with self._database.snapshot() as connection:
            cursor = connection.execute(query, (*log_key(log), to_sql(low), to_sql(high), limit))
            rows = all_rows(cursor, SEQ, BYTES, COUNT, BYTES, ROW, BYTES)
            if rows:
                in_order(to_sql(low) - 1, rows[-1][0])
        found = []
        entries = entries_of([(encoded, digest, entry_id) for _, encoded, _, _, entry_id, digest in rows])
        for entry, (seq, encoded, size, start, entry_id, _) in zip(entries, rows, strict=True):
            if len(start) >= size and yamf_hash(start) != entry.payload_hash:
                checked.check_complete(self._database, entry_id, entry)
                continue  # it was deleted since, or there would be an error
            found.append(Sendable(from_sql(seq), encoded, size, start, entry_id))
        return found

    def payload_rest(self, sendable: Sendable) -> Iterator[bytes]:
        """The payload's pieces after ``sendable.start``, as ``payload`` gives them. The start is checked with them."""
        return checked.read_rest(self._database, sendable.id, entry_of(sendable.encoded), sendable.start)

    def payload(self, stored: StoredEntry, offset: int = 0) -> Iterator[bytes]:
        """The payload's bytes held, from ``offset`` on, in pieces of at most ``pieces.PIECE_BYTES``.

        The bytes of a complete payload are compared on the way: ``PayloadDamaged``, at the latest in place of the last
        piece, if they are not those that the author signed.
        """
        if stored.payload_complete:
            return checked.read_checked(self._database, stored.id, stored.entry, offset)
        return pieces.read_pieces(self._database, stored.id, offset)

    def payload_slice(self, entry_id: int, offset: int, size: int) -> bytes:
        """At most ``size`` bytes of the payload of the entry with this row id, from ``offset`` on; none at its end.

        ``PayloadDamaged`` if the payload is complete and these bytes are wrong.
        """
        return bytes(self.payload_view(entry_id, offset, size))

    def payload_view(self, entry_id: int, offset: int, size: int) -> Buffer:
        """``payload_slice`` without a copy, where the bytes are in memory as a part of more."""
        return checked.read_part(self._database, entry_id, offset, size)

    def payloads_to_check(self, after: int, limit: int, *, without_sums: bool = False) -> list[StoredEntry]:
        """The next complete payloads with any bytes, by the rows of their entries; see ``check_payload``.

        ``without_sums``: only large ones whose checksums the store does not know yet.
        """
        # CROSS JOIN keeps SQLite from reading all entries where few have a file.
        files, order = ("payload_files CROSS JOIN", "entry") if without_sums else ("", "id")
        query = (
            f"SELECT {ENTRY_COLUMNS} FROM {files} entries WHERE {order} > ? AND {IS_COMPLETE} AND payload_held > 0"
            f"{' AND entries.id = entry AND sums IS NULL' if without_sums else ''} ORDER BY {order} LIMIT ?"
        )
        rows = self._database.read(query, (after, limit), *ENTRY_ROW)
        return stored_of_rows(rows)

    def check_payload(self, stored: StoredEntry) -> bytes | None:
        """Read a complete payload whole and compare its hash; ``PayloadDamaged`` if the bytes are wrong.

        Returns the checksums for ``Store.keep_sums``; None if the payload is small and needs none.
        """
        return checked.check_complete(self._database, stored.id, stored.entry)

    def scrubbed(self) -> int:
        """The row behind which the search for damaged payloads goes on; see ``culm.node.storage.healing``."""
        rows = self._database.read("SELECT value FROM counters WHERE name = 'scrubbed'", (), COUNT)
        return int(rows[0][0]) if rows else 0

    def damaged_payloads(self, limit: int = _PAGE) -> list[StoredEntry]:
        """Entries whose payload was damaged on the disk and has not come again, at most ``limit``."""
        query = f"SELECT {ENTRY_COLUMNS} FROM damaged JOIN entries ON entries.id = entry LIMIT ?"
        return [stored_of_row(row) for row in self._database.read(query, (limit,), *ENTRY_ROW)]

    def payload_begun(self, stored: StoredEntry) -> PayloadHasher:
        """The hash of the payload bytes that were held when ``stored`` was read, to continue with further bytes.

        Bytes that another transfer stored since are left out, because the caller does not know their number.
        """
        return pieces.hash_held(self._database, stored.id, stored.payload_held)
