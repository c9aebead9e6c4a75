"""Reading the record index: the store as sets to reconcile (docs/protocols/negentropy.md).

A ``RecordSet`` opens with the sums of the blocks, not with the records; those it reads a block at a time, where a
session looks closer. It belongs to one snapshot of the store, however long the session lasts and whoever writes
meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import contextmanager
from enum import Enum
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from culm.negentropy.codec import INFINITY
from culm.negentropy.storage import MODULUS_MASK, make_fingerprint, shortest_prefix
from culm.store.database import Database
from culm.store.queries import stored_entry
from culm.store.records import ID_BYTES, Kind
from culm.store.rows import find_log
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from culm.negentropy import ArrayStorage, Storage
    from culm.store.interface import Log, StoredEntry

_BLOCKS_KEPT = 64
_PAGE = 10_000


class View(Enum):
    """Which records: of all verified entries, of those whose payload is held complete, of the logs."""

    ENTRIES = "entries"
    PAYLOADS = "payloads"
    HEADS = "heads"

    @property
    def kind(self) -> Kind:
        """The kind of record in the index."""
        return Kind.HEAD if self is View.HEADS else Kind.ENTRY


@contextmanager
def record_set(
    database: Database, view: View, *, log: Log | None = None, without: Iterable[Log] = ()
) -> Iterator[Storage]:
    """The records of a view as they are now, for as long as the block lasts.

    Of one log if one is given, or of all but some: such sets are made by passing over the logs' entries, or over all.
    """
    own = Database(database.path, read_only=True)
    try:
        with own.snapshot() as connection:
            if log is not None:
                yield _of_rows(_rows_of_log(connection, view, log))
            elif without := set(without):
                yield _of_rows(_rows_without(connection, view, without))
            else:
                yield RecordSet(connection, view)
    finally:
        own.close()


class RecordSet:
    """The records of a view as a ``culm.negentropy.Storage``, within a reading transaction."""

    def __init__(self, connection: sqlite3.Connection, view: View) -> None:
        self._db = connection
        self._kind = view.kind
        columns = "held_count, held_total" if view is View.PAYLOADS else "count, total"
        condition = " AND held" if view is View.PAYLOADS else ""
        self._records = (
            f"SELECT at, id FROM records WHERE kind = ? AND (at, id) >= (?, ?){condition} ORDER BY at, id LIMIT ?"
        )
        rows = connection.execute(
            f"SELECT first_at, first_id, {columns} FROM record_blocks WHERE kind = ? ORDER BY first_at, first_id",
            (self._kind,),
        ).fetchall()
        self._firsts: list[tuple[int, bytes]] = [row[:2] for row in rows]
        self._starts: list[int] = [0, *accumulate(row[2] for row in rows)]
        self._totals: list[int] = [0, *accumulate(int.from_bytes(row[3], "little") for row in rows)]
        self._blocks: dict[int, list[tuple[int, bytes]]] = {}
        self._sums: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return self._starts[-1]

    def position(self, timestamp: int, prefix: bytes, low: int) -> int:  # noqa: ARG002 - a hint for other storages
        """The first position whose record is not below a bound."""
        if timestamp == INFINITY:
            return len(self)
        bound = (to_sql(timestamp), prefix)
        number = bisect_right(self._firsts, bound) - 1
        # A prefix stands for itself and zeros: an id is below it if and only if its own start is.
        return self._starts[number] + bisect_left(self._block(number), bound)

    def timestamp(self, position: int) -> int:
        """The timestamp of a record."""
        return from_sql(self._record(position)[0])

    def id(self, position: int) -> bytes:
        """The id of a record."""
        return self._record(position)[1]

    def ids(self, low: int, high: int) -> bytes:
        """The ids of the records from ``low`` to before ``high``, one behind the other."""
        parts: list[bytes] = []
        while low < high:
            number, offset = self._locate(low)
            records = self._block(number)[offset : offset + high - low]
            parts += [identity for _, identity in records]
            low += len(records)
        return b"".join(parts)

    def bound(self, position: int) -> tuple[int, bytes]:
        """The shortest bound between a record and the one before it: a timestamp and an id prefix."""
        (before_at, before), (at, identity) = self._record(position - 1), self._record(position)
        return from_sql(at), b"" if at != before_at else shortest_prefix(before, identity)

    def fingerprint(self, low: int, high: int) -> bytes:
        """The fingerprint of the records from ``low`` to before ``high``."""
        return make_fingerprint((self._total(high) - self._total(low)) & MODULUS_MASK, high - low)

    def fingerprints(self, positions: Sequence[int]) -> list[bytes]:
        """The fingerprints of the ranges between each position and the next."""
        totals = [self._total(position) for position in positions]
        return [
            make_fingerprint((totals[i + 1] - totals[i]) & MODULUS_MASK, high - low)
            for i, (low, high) in enumerate(pairwise(positions))
        ]

    # -- blocks ------------------------------------------------------------------------------------------------

    def _locate(self, position: int) -> tuple[int, int]:
        """The block of a record, and its place in there."""
        number = bisect_right(self._starts, position) - 1
        return number, position - self._starts[number]

    def _record(self, position: int) -> tuple[int, bytes]:
        number, offset = self._locate(position)
        return self._block(number)[offset]

    def _total(self, position: int) -> int:
        """The sum of the ids before a position, not yet reduced."""
        number, offset = self._locate(position)
        if not offset:
            return self._totals[number]
        sums = self._sums.get(number)
        if sums is None:
            block = self._block(number)
            sums = [0, *accumulate([int.from_bytes(identity, "little") for _, identity in block])]
            self._sums[number] = sums
        return self._totals[number] + sums[offset]

    def _block(self, number: int) -> list[tuple[int, bytes]]:
        """The records of a block. Sessions go through the ranges in order: the last few blocks are kept."""
        block = self._blocks.get(number)
        if block is None:
            while len(self._blocks) >= _BLOCKS_KEPT:
                oldest = next(iter(self._blocks))
                del self._blocks[oldest]
                self._sums.pop(oldest, None)
            count = self._starts[number + 1] - self._starts[number]
            block = self._db.execute(self._records, (self._kind, *self._firsts[number], count)).fetchall()
            self._blocks[number] = block
        return block


# -- sets that are not kept -----------------------------------------------------------------------------------------


def _of_rows(rows: Iterable[tuple[int, bytes]]) -> ArrayStorage:
    """A sealed set of records as they are stored."""
    import numpy as np  # noqa: PLC0415 - opening a store does not need it

    from culm.negentropy import ArrayStorage  # noqa: PLC0415

    numbers: list[int] = []
    ids = bytearray()
    for at, identity in rows:
        numbers.append(from_sql(at))
        ids += identity
    timestamps = np.array(numbers, dtype=np.uint64)
    return ArrayStorage(timestamps, np.frombuffer(ids, np.uint8).reshape(-1, ID_BYTES))


def _rows_of_log(connection: sqlite3.Connection, view: View, log: Log) -> Iterable[tuple[int, bytes]]:
    row = find_log(connection, log)
    if view is View.HEADS:
        return connection.execute("SELECT ?, head FROM logs WHERE id = ? AND head IS NOT NULL", (to_sql(0), row))
    held = " AND payload_state = 2" if view is View.PAYLOADS else ""
    return connection.execute(
        f"SELECT seq - 1, substr(hash, 1, 32) FROM entries WHERE log = ? AND state = 2{held}", (row,)
    )


def _rows_without(connection: sqlite3.Connection, view: View, logs: set[Log]) -> Iterable[tuple[int, bytes]]:
    hidden = {find_log(connection, log) for log in logs}
    held = " AND held" if view is View.PAYLOADS else ""
    of_log = "row" if view is View.HEADS else "(SELECT log FROM entries WHERE entries.id = row)"
    rows = connection.execute(f"SELECT at, id, {of_log} FROM records WHERE kind = ?{held}", (view.kind,))
    return ((at, identity) for at, identity, log in rows if log not in hidden)


# -- what an id stands for ------------------------------------------------------------------------------------------


def entries_of(database: Database, ids: set[bytes]) -> Iterator[StoredEntry]:
    """The verified entries with these record ids, log by log in ascending order. Passes over the index once."""
    rows: list[int] = []
    after = (-(2**63), b"")
    while ids:
        with database.snapshot() as connection:
            page = connection.execute(
                "SELECT at, id, row FROM records WHERE kind = ? AND (at, id) > (?, ?) ORDER BY at, id LIMIT ?",
                (Kind.ENTRY, *after, _PAGE),
            ).fetchall()
        rows += (row for _, identity, row in page if identity in ids)
        if len(page) < _PAGE:
            break
        after = page[-1][:2]
    with database.snapshot() as connection:
        places = [
            connection.execute("SELECT log, seq, variant FROM entries WHERE id = ?", (row,)).fetchone() for row in rows
        ]
    for place in sorted(place for place in places if place is not None):
        with database.snapshot() as connection:
            found = stored_entry(connection, *place)
        if found is not None:
            yield found


def logs_of(database: Database, heads: Iterable[bytes]) -> list[Log]:
    """The logs whose heads have these ids, those that have changed since left out."""
    with database.snapshot() as connection:
        rows = [
            connection.execute("SELECT author, log_id FROM logs WHERE head = ?", (head,)).fetchone() for head in heads
        ]
    return [(author, from_sql(log_id)) for author, log_id in (row for row in rows if row is not None)]
