"""Reading the record index: the store as sets to reconcile (docs/specs/negentropy.md, "Sets of a store").

A session must see one unchanging set, and may last for minutes while others write. A ``RecordSet`` therefore has a
connection and a snapshot of its own. It reads the sums of all blocks when it opens, one row for some hundred records,
and answers most questions from these. Records are read a block at a time, where the two sets differ.
"""

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate, islice, pairwise
from sys import maxsize

from culm.errors import StoreDamaged
from culm.negentropy import Storage
from culm.negentropy.codec import INFINITY
from culm.store.database import Database
from culm.store.entries import ENTRY_COLUMNS, ENTRY_ROW, stored_of_row
from culm.store.opening import open_database
from culm.store.records.index import Kind, every_record, key_id, key_timestamp, record_key
from culm.store.records.sums import ID_BYTES
from culm.store.rows import AT, BYTES, COUNT, ID, KEY, LOG_ID, ROW, SEQ, all_rows, each_row, first_row
from culm.store.schema import IS_COMPLETE, IS_VERIFIED, OF_LOG, from_sql, log_key, to_sql
from culm.store.values import StoredEntry, View
from culm.types import Log

_BLOCKS_KEPT = 64  # of at most 256 records: about a megabyte for each session
_DAMAGED = "the store is damaged: its record index is not in order (run culm doctor)"


class RecordSets:
    """The questions to a store about its records."""

    _database: Database

    @contextmanager
    def record_set(
        self,
        view: View,
        *,
        log: Log | None = None,
        only: Callable[[Log], bool] | None = None,
        hidden: Iterable[Log] = (),
    ) -> Iterator[Storage]:
        """The records of a view as they are now, to reconcile with another set, for as long as the block lasts.

        With ``log`` only the records of one log, with ``only`` those of the logs for which it returns true, without
        those of ``hidden``. If less than half of the records are left out, the index is read around them. It has no
        sums for smaller sets: they are built in memory, from the entries of their logs. ``only`` is asked of every log
        of the store; to name the hidden ones costs nothing for the others.

        The set has a connection of its own, so it may be used in another thread than the store.
        """
        own = open_database(self._database.path, read_only=True)
        try:
            with own.snapshot() as connection:
                if log is not None:
                    yield _set_of(_rows_of_log(connection, view, log))
                else:
                    yield _all_but(connection, view, only, hidden)
        finally:
            own.close()

    def entries_of(self, ids: set[bytes]) -> Iterator[StoredEntry]:
        """The verified entries with these record ids (32 bytes), log by log in ascending order.

        Reads the whole index once.
        """
        with self._database.snapshot() as connection:
            records = every_record(connection, Kind.ENTRY) if ids else iter(())
            rows = [ref // 2 for key, ref in records if key_id(key) in ids]
            query = "SELECT log, seq, variant, id FROM entries WHERE id = ?"
            places = [first_row(connection.execute(query, (row,)), ROW, SEQ, COUNT, ROW) for row in rows]
        there = [place for place in places if place is not None]
        if len(there) != len(places):
            raise StoreDamaged(_DAMAGED)
        for *_, row in sorted(there):
            yield from map(
                stored_of_row,
                self._database.read(f"SELECT {ENTRY_COLUMNS} FROM entries WHERE id = ?", (row,), *ENTRY_ROW),
            )

    def logs_of(self, heads: Iterable[bytes]) -> list[Log]:
        """The logs whose heads have these ids (32 bytes). A log that has changed meanwhile is left out.

        It has another head then.
        """
        query = "SELECT author, log_id FROM logs WHERE head = ?"
        with self._database.snapshot() as connection:
            rows = [row for head in heads for row in all_rows(connection.execute(query, (head,)), BYTES, LOG_ID)]
        return [(author, from_sql(log_id)) for author, log_id in rows]


class RecordSet(Storage):
    """The records of a view as a ``culm.negentropy.Storage``, within a reading transaction.

    ``hide`` takes records out again. They cost memory, and each read of a block a look, so they should be the fewer.
    """

    def __init__(self, connection: sqlite3.Connection, view: View) -> None:
        self._db = connection
        self._kind = Kind.HEAD if view is View.HEADS else Kind.ENTRY
        columns, condition = (
            ("held_count, held_total", " AND ref & 1") if view is View.PAYLOADS else ("count, total", "")
        )
        query = f"SELECT first, {columns} FROM record_blocks WHERE kind = ? ORDER BY first"
        rows = all_rows(connection.execute(query, (self._kind,)), BYTES, COUNT, BYTES)
        self._query = f"SELECT key FROM records WHERE kind = ? AND key >= ?{condition} ORDER BY key LIMIT ?"
        self._firsts: list[bytes] = [row[0] for row in rows]
        self._counts: list[int] = [row[1] for row in rows]
        self._hidden: dict[int, set[bytes]] = {}  # keys, by block
        self._blocks: dict[int, list[bytes]] = {}
        self._sums: dict[int, list[int]] = {}
        self._add_up(self._counts, [int.from_bytes(row[2], "little") for row in rows])
        if not rows or self._starts[-1] > maxsize:
            raise StoreDamaged(_DAMAGED)

    def _add_up(self, counts: Iterable[int], totals: Iterable[int]) -> None:
        """Where each block begins, and the sum of the ids in front of it."""
        self._starts: list[int] = [0, *accumulate(counts)]
        self._totals: list[int] = [0, *accumulate(totals)]

    def hide(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Leave records out, given as timestamps and ids. To be called once, before anything is read."""
        counts, totals = [*self._counts], [after - before for before, after in pairwise(self._totals)]
        for timestamp, identity in records:
            key = record_key(timestamp, identity)
            number = bisect_right(self._firsts, key) - 1
            self._hidden.setdefault(number, set()).add(key)
            counts[number] -= 1
            totals[number] -= int.from_bytes(identity, "little")
        self._add_up(counts, totals)

    def __len__(self) -> int:
        return self._starts[-1]

    def position(self, timestamp: int, prefix: bytes, low: int) -> int:  # noqa: ARG002 - a hint for other storages
        """The first position whose record is not below a bound."""
        if timestamp == INFINITY:
            return len(self)
        # A bound's prefix stands for the prefix followed by zeros. An id is below it exactly if its own start is below
        # the prefix, so the shorter byte string can be compared as it is.
        key = record_key(timestamp, prefix)
        number = bisect_right(self._firsts, key) - 1
        return self._starts[number] + bisect_left(self._block(number), key)

    def timestamp(self, position: int) -> int:
        """The timestamp of a record."""
        return key_timestamp(self._key(position))

    def id(self, position: int) -> bytes:
        """The id of a record."""
        return key_id(self._key(position))

    def ids(self, low: int, high: int) -> bytes:
        """The ids of the records from ``low`` to before ``high``, joined."""
        parts: list[bytes] = []
        while low < high:
            number, offset = self._locate(low)
            keys = self._block(number)[offset : offset + high - low]
            parts += map(key_id, keys)
            low += len(keys)
        return b"".join(parts)

    def total_before(self, position: int) -> int:
        """The sum of the ids before a position, not yet reduced modulo 2^256."""
        number, offset = self._locate(position)
        if not offset:
            return self._totals[number]
        sums = self._sums.get(number)
        if sums is None:
            numbers = [int.from_bytes(key[8:], "little") for key in self._block(number)]
            sums = self._sums[number] = list(accumulate(numbers, initial=self._totals[number]))
        return sums[offset]

    # -- blocks ------------------------------------------------------------------------------------------------

    def _locate(self, position: int) -> tuple[int, int]:
        """The block of a record, and its place in the block."""
        number = bisect_right(self._starts, position) - 1
        return number, position - self._starts[number]

    def _key(self, position: int) -> bytes:
        number, offset = self._locate(position)
        return self._block(number)[offset]

    def _block(self, number: int) -> list[bytes]:
        """The keys of a block. The last few blocks are kept, because a session goes through the ranges in order."""
        block = self._blocks.get(number)
        if block is None:
            while len(self._blocks) >= _BLOCKS_KEPT:
                oldest = next(iter(self._blocks))
                del self._blocks[oldest]
                self._sums.pop(oldest, None)
            count = self._counts[number]
            rows = all_rows(self._db.execute(self._query, (self._kind, self._firsts[number], count)), KEY)
            block = [key for (key,) in rows]
            if hidden := self._hidden.get(number):
                count -= len(hidden)
                block = [key for key in block if key not in hidden]
            if len(block) != count:
                raise StoreDamaged(_DAMAGED)
            self._blocks[number] = block
        return block


# -- sets of some logs ----------------------------------------------------------------------------------------------


def _all_but(
    connection: sqlite3.Connection, view: View, only: Callable[[Log], bool] | None, hidden: Iterable[Log]
) -> Storage:
    """The records of all logs for which ``only`` returns true (None: of all), without those that are hidden."""
    index, left_out = RecordSet(connection, view), {*hidden}
    if only is not None:
        left_out |= {log for log in _every_log(connection) if not only(log)}
    most = len(index) // 2
    rows = list(islice(_rows_of_logs(connection, view, left_out), most + 1))
    if len(rows) > most:
        shown = [log for log in _every_log(connection) if log not in left_out]
        return _set_of(_rows_of_logs(connection, view, shown))
    index.hide((from_sql(at), identity) for at, identity in rows)
    return index


def _set_of(rows: Iterable[tuple[int, bytes]]) -> Storage:
    """A set of records, given as stored timestamps and ids."""
    from culm.negentropy.array import ArrayStorage  # noqa: PLC0415 - numpy takes long to load

    return ArrayStorage.of((from_sql(at), identity) for at, identity in rows)


def _every_log(connection: sqlite3.Connection) -> list[Log]:
    rows = all_rows(connection.execute("SELECT author, log_id FROM logs"), BYTES, LOG_ID)
    return [(author, from_sql(log_id)) for author, log_id in rows]


def _rows_of_logs(connection: sqlite3.Connection, view: View, logs: Iterable[Log]) -> Iterator[tuple[int, bytes]]:
    for log in logs:
        yield from _rows_of_log(connection, view, log)


def _rows_of_log(connection: sqlite3.Connection, view: View, log: Log) -> Iterable[tuple[int, bytes]]:
    if view is View.HEADS:
        query = f"SELECT {to_sql(0)}, head FROM logs WHERE author = ? AND log_id = ? AND head IS NOT NULL"
    else:
        held = f" AND {IS_COMPLETE}" if view is View.PAYLOADS else ""
        query = f"SELECT seq - 1, substr(hash, 1, {ID_BYTES}) FROM entries WHERE {OF_LOG} AND {IS_VERIFIED}{held}"
    return each_row(connection.execute(query, log_key(log)), AT, ID)
