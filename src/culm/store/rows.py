"""Where rows of the database become values, and small queries that several modules share.

SQLite keeps a value of any type in any column, and does not notice a byte that was changed inside a row. Code that
unpacks such a row would fail with a ``TypeError`` somewhere further on, which looks like a mistake in Culm. Therefore
each query states what its columns hold (``the_row(cursor, ROW, BYTES, STATE)``), and a row that does not fit raises
``DamagedRow`` here. ``culm.store.database`` turns that into ``StoreDamaged`` and names the file. Everything else that
is raised while a store is used is a mistake in a program, and stays what it is.

The check is cheap: whole pages are checked a column at a time, about 0.1 microseconds a value.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

from culm.bamboo import Entry, ForkProof
from culm.bamboo.many import entries_apart
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import InvalidEntry, StoreDamaged
from culm.store.schema import PayloadState, State, log_key
from culm.types import Log

Row = tuple[Any, ...]
_PAGE = 500  # rows checked at once, so that a long answer is never in memory as a whole
_FEW = 4  # rows up to which checking value by value is faster than column by column
_TOGETHER = 16  # Rows inserted by one statement; more gain little.
_MOST_SHOWN = 40  # characters of a damaged value that a message shows


class DamagedRow(sqlite3.DatabaseError):
    """A row holds what Culm never writes. A kind of ``DatabaseError``, because SQLite itself would not complain."""


@dataclass(frozen=True, slots=True)
class Column:
    """What a column of a query holds: a ``name`` for messages, and the types of its values.

    ``low`` and ``high`` are the range of numbers, inclusive. ``size`` is the length of byte strings.
    """

    name: str
    types: frozenset[type]
    low: int | None = None
    high: int | None = None
    size: int | None = None

    def check(self, values: Sequence[Any]) -> None:
        """``DamagedRow`` if one of the values does not belong into the column."""
        fit = self.types.issuperset(map(type, values))
        if fit and (self.low is not None or self.size is not None):
            there = [value for value in values if value is not None] if type(None) in self.types else values
            if there and self.low is not None and self.high is not None:
                fit = self.low <= min(there) <= max(there) <= self.high
            elif self.size is not None:
                fit = {self.size}.issuperset(map(len, there))
        if not fit:
            for value in values:
                self.check_one(value)

    def check_one(self, value: Any) -> None:  # noqa: ANN401 - it may be anything
        """The same for a single value, which is faster that way."""
        if type(value) not in self.types:
            raise self._damaged(value)
        if self.low is not None:
            if value is not None and not self.low <= value <= self.high:
                raise self._damaged(value)
        elif self.size is not None and value is not None and len(value) != self.size:
            raise self._damaged(value)

    def or_null(self) -> Column:
        """The same for a column that may also be empty."""
        return Column(f"{self.name} or nothing", self.types | {type(None)}, self.low, self.high, self.size)

    def _damaged(self, value: object) -> DamagedRow:
        return DamagedRow(f"a row holds {repr(value)[:_MOST_SHOWN]} where {self.name} is expected")


def _number(name: str, low: int, high: int) -> Column:
    return Column(name, frozenset({int}), low, high)


_MOST = 1 << 62  # far above any count or row id that a disk can hold, and sums of two still fit into 64 bits
LOG_ID = Column("the id of a log", frozenset({int}))
"""As ``to_sql`` stores it: any 64-bit integer."""
SEQ = _number("a sequence number", -(1 << 63) + 1, (1 << 63) - 1)
"""As ``to_sql`` stores it. There is no number 0, so one less can always be stored, too."""
AT = _number("a position in a log", -(1 << 63), (1 << 63) - 2)
"""A sequence number less one, so the greatest 64-bit integer is none: the number after it would not fit."""
COUNT = _number("a count", 0, _MOST)
ROW = _number("a row id", 1, _MOST)
STATE = _number("the state of an entry", int(min(State)), int(max(State)))
PAYLOAD_STATE = _number("the state of a payload", int(min(PayloadState)), int(max(PayloadState)))
FLAG = _number("0 or 1", 0, 1)
SIGN = _number("-1, 0 or 1", -1, 1)
BYTES = Column("a byte string", frozenset({bytes}))
ID = Column("the id of a record (32 bytes)", frozenset({bytes}), size=32)
KEY = Column("the key of a record (40 bytes)", frozenset({bytes}), size=40)
TEXT = Column("text", frozenset({str}))
_NEWEST_ROW = ROW.or_null()


def checked(rows: list[Row], *columns: Column) -> list[Row]:
    """The same rows, if each value belongs into its column; ``DamagedRow`` otherwise.

    Without columns nothing is checked: for PRAGMAs, whose rows SQLite makes itself.
    """
    if not columns:
        return rows
    if len(rows) <= _FEW:
        for row in rows:
            for column, value in zip(columns, row, strict=True):
                column.check_one(value)
    else:
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            column.check(values)
    return rows


def all_rows(cursor: sqlite3.Cursor, *columns: Column) -> list[Row]:
    """All rows of a query."""
    return checked(cursor.fetchall(), *columns)


def each_row(cursor: sqlite3.Cursor, *columns: Column) -> Iterator[Row]:
    """The rows of a query one by one, for answers that do not fit into memory."""
    while rows := cursor.fetchmany(_PAGE):
        yield from checked(rows, *columns)


def first_row(cursor: sqlite3.Cursor, *columns: Column) -> Row | None:
    """The first row of a query, None if there is none."""
    row: Row | None = cursor.fetchone()
    return None if row is None else checked([row], *columns)[0]


def the_row(cursor: sqlite3.Cursor, *columns: Column) -> Row:
    """The first row of a query that always has one; ``DamagedRow`` if it has none."""
    row = first_row(cursor, *columns)
    if row is None:
        raise DamagedRow("a row is missing that every store has")
    return row


def in_order(place: Any, last: Any) -> None:  # noqa: ANN401 - numbers, or tuples of them
    """``DamagedRow`` unless a page of rows ended beyond the place after which it was to begin.

    The next page begins where this one ended. If a damaged index moves that place back, reading would never end.
    """
    if not last > place:
        raise DamagedRow("an index is out of order")


# -- queries that several modules share --------------------------------------------------------------------------


def last_change(connection: sqlite3.Connection) -> int:
    """The number of the store's last change."""
    (change,) = the_row(connection.execute("SELECT value FROM counters WHERE name = 'change'"), COUNT)
    return int(change)


def next_change(connection: sqlite3.Connection) -> int:
    """Count this transaction as a change of the store; the change's number."""
    (change,) = the_row(
        connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'change' RETURNING value"), COUNT
    )
    return int(change)


def next_change_and_entry_id(connection: sqlite3.Connection) -> tuple[int, int]:
    """Both, in one statement."""
    cursor = connection.execute(
        "UPDATE counters SET value = value + 1 WHERE name = 'change' RETURNING value, (SELECT max(id) FROM entries)"
    )
    change, greatest = the_row(cursor, COUNT, _NEWEST_ROW)
    return int(change), int(greatest or 0) + 1


def next_entry_id(connection: sqlite3.Connection) -> int:
    """The row id for the next entry. Row ids grow in the order of arrival, so they serve as cursors."""
    (greatest,) = the_row(connection.execute("SELECT max(id) FROM entries"), _NEWEST_ROW)
    return int(greatest or 0) + 1


def insert_rows(connection: sqlite3.Connection, table: str, rows: Sequence[Sequence[object]]) -> None:
    """Insert rows into all columns of a table, in order.

    Some share a statement, because SQLite lets go of the interpreter's lock for each: with one for each row, a busy
    event loop would be in the way as often as there are rows.
    """
    if not rows:
        return
    row = f"({', '.join('?' * len(rows[0]))})"
    together = len(rows) - len(rows) % _TOGETHER
    for at in range(0, together, _TOGETHER):
        values = list(chain.from_iterable(rows[at : at + _TOGETHER]))
        connection.execute(f"INSERT INTO {table} VALUES {', '.join([row] * _TOGETHER)}", values)
    connection.executemany(f"INSERT INTO {table} VALUES {row}", rows[together:])


def find_log(connection: sqlite3.Connection, log: Log) -> int | None:
    """The row id of a log, None if the store has no entries of it."""
    query = "SELECT id FROM logs WHERE author = ? AND log_id = ?"
    row = first_row(connection.execute(query, log_key(log)), ROW)
    return None if row is None else int(row[0])


def entry_of(encoded: bytes, digest: bytes | None = None, row: int | None = None) -> Entry:
    """The entry that a row holds; ``StoreDamaged`` if the bytes are none, or have another ``digest`` than the row says.

    Entries that leave the store are compared with their digest, as they may have changed on the disk. ``row`` is the
    number to name in the error.
    """
    where = "an entry" if row is None else f"row {row} of its entries"
    try:
        (entry,) = entries_apart([encoded])
    except InvalidEntry as error:
        raise StoreDamaged(f"the store is damaged: the bytes of {where} cannot be read: {error}") from error
    if digest is not None and entry.hash != YAMF_PREFIX + digest:
        raise StoreDamaged(f"the store is damaged: the bytes of {where} have changed")
    return entry


def entries_of(rows: Sequence[tuple[bytes, bytes, int]]) -> list[Entry]:
    """``entry_of`` for many rows: encoded entry, digest, number of the row."""
    with suppress(InvalidEntry):
        entries = entries_apart([encoded for encoded, _, _ in rows])
        if [entry.hash for entry in entries] == [YAMF_PREFIX + digest for _, digest, _ in rows]:
            return entries
    return [entry_of(*row) for row in rows]  # One of them raises the error.


def proof_of(first: bytes, second: bytes) -> ForkProof:
    """The fork proof that a row holds; ``StoreDamaged`` if the bytes are none."""
    try:
        return ForkProof.decode(first + second)
    except InvalidEntry as error:
        raise StoreDamaged(f"the store is damaged: the bytes of a fork proof cannot be read: {error}") from error
