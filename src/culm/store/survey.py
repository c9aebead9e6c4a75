"""What is held of all logs, for people to look at: answers of bounded size and cost, however much there is.

Lists come page by page. What is held of a log comes as a picture of so many *cells*, each of which stands for as many
sequence numbers as it takes; it costs a few look-ups a cell.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from culm.bamboo import ForkProof
from culm.store.guard import tells_damage
from culm.store.rows import find_log
from culm.store.runs import ALL, ENTRIES, NONE, PAYLOADS, spread
from culm.store.schema import PayloadState, State, from_sql, to_sql

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from culm.store.database import Database
    from culm.types import Log

MOST_COUNTED = 10_000  # entries of one log that wait, or are invalid, are counted up to here
_STEPS = 10_000  # of SQLite between two looks at the clock


class Cell(StrEnum):
    """What is held of the sequence numbers of a cell."""

    FULL = "f"  # all entries, with their payloads
    BARE = "b"  # all entries, not all of their payloads
    PART = "p"  # some entries
    WAITING = "w"  # entries whose path to entry 1 is not there yet, and none that are verified
    INVALID = "x"  # entries at or after the position of a fork, or of a payload whose size was lied about
    NONE = "n"


class Order(StrEnum):
    """By what a list of logs is sorted."""

    NAME = "name"
    RECENT = "recent"  # the log that changed last comes first
    ENTRIES = "entries"  # the one with the most entries held
    MISSING = "missing"  # the one that lacks the most entries below its newest


class Only(StrEnum):
    """Which logs a list has."""

    ALL = "all"
    GAPS = "gaps"  # an entry or a payload is missing below the newest entry
    FORKED = "forked"
    WAITING = "waiting"


# Numbers are stored 2^63 lower; beyond 2^63 SQLite goes on with floating point, which is good enough to sort by.
_MISSING = "coalesce(newest + 9223372036854775807 + 1 - entry_count, 0)"
_ORDERS = {
    Order.NAME: "author, log_id",
    Order.RECENT: "change DESC, id",
    Order.ENTRIES: "entry_count DESC, author, log_id",
    Order.MISSING: f"{_MISSING} DESC, author, log_id",
}
_WAITS = "EXISTS (SELECT 1 FROM entries WHERE log = logs.id AND state = 1)"
_HAS_GAPS = "newest IS NOT NULL AND contiguous < newest"
_CONDITIONS = {
    Only.ALL: "",
    Only.GAPS: f" AND {_HAS_GAPS}",
    Only.FORKED: " AND forked_at IS NOT NULL",
    Only.WAITING: f" AND {_WAITS}",
}
_COUNT = f"(SELECT count(*) FROM (SELECT 1 FROM entries WHERE log = logs.id AND state = %d LIMIT {MOST_COUNTED}))"
_LINE = (
    "author, log_id, newest, greatest, contiguous, ended_at, forked_at, invalid_from, entry_count, payload_count,"
    f" change, {_COUNT % State.WAITING}, {_COUNT % State.INVALID},"
    " (SELECT count(*) FROM (SELECT DISTINCT seq FROM entries WHERE log = logs.id AND state = 1 AND seq < newest"
    f" LIMIT {MOST_COUNTED}))"
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A log in a list.

    ``newest`` is the newest verified sequence number, ``greatest`` the greatest one held, whatever is made of it,
    ``complete_to`` the one up to which nothing is missing (0: none). ``entries`` counts those verified, ``payloads``
    those of them whose payload is complete, ``waiting`` and ``invalid`` the others, up to ``MOST_COUNTED``;
    ``missing`` the numbers below ``newest`` of which nothing is held. ``changed`` grows with every change.
    """

    author: bytes
    log_id: int
    newest: int
    greatest: int
    complete_to: int
    ended: bool
    forked_at: int | None
    invalid_from: int | None
    entries: int
    payloads: int
    changed: int
    waiting: int
    invalid: int
    missing: int

    @property
    def log(self) -> Log:
        """Author and id."""
        return self.author, self.log_id


@dataclass(frozen=True, slots=True)
class Totals:
    """What is held in all. ``gaps`` counts logs of which something is missing below the newest entry."""

    logs: int
    entries: int
    payloads: int
    waiting: int
    invalid: int
    gaps: int
    forked: int
    proofs: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What is held at a sequence number; of entries that contradict each other ``variants`` counts all."""

    seq: int
    state: State
    payload_state: PayloadState
    variants: int


def cells_between(low: int, high: int, most: int) -> list[tuple[int, int]]:
    """The numbers from ``low`` to ``high`` in at most so many spans of about one length, ascending."""
    count = high - low + 1
    cells = min(most, count)
    edges = [low + count * cell // cells for cell in range(cells + 1)] if cells > 0 else [low]
    return [(first, after - 1) for first, after in pairwise(edges)]


@tells_damage
class Survey:
    """Questions about everything that a store holds. Each answer belongs to its own moment."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """Within the block reading is broken off with ``StoreError`` once it has taken so long."""
        deadline = time.monotonic() + seconds
        connection = self._database.connection
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)

    # -- all logs ----------------------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """What is held in all; reads the list of logs once."""
        query = (
            "SELECT count(*), coalesce(sum(entry_count), 0), coalesce(sum(payload_count), 0),"
            " (SELECT count(*) FROM entries WHERE state = 1), (SELECT count(*) FROM entries WHERE state = 3),"
            f" coalesce(sum({_HAS_GAPS}), 0), count(forked_at), (SELECT count(*) FROM forks)"
            " FROM logs WHERE greatest IS NOT NULL"
        )
        return Totals(*self._database.read(query)[0])

    def logs(
        self,
        *,
        order: Order = Order.NAME,
        only: Only = Only.ALL,
        authors: tuple[bytes, bytes] | None = None,
        log_id: int | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[int, list[LogLine]]:
        """How many logs there are, and a page of them; only those with an author between two, or of an id, if given."""
        where = f"greatest IS NOT NULL{_CONDITIONS[only]}"
        values: list[object] = []
        if authors is not None:
            where += " AND author BETWEEN ? AND ?"
            values += authors
        if log_id is not None:
            where += " AND log_id = ?"
            values.append(to_sql(log_id))
        with self._database.snapshot() as connection:
            (count,) = connection.execute(f"SELECT count(*) FROM logs WHERE {where}", values).fetchone()
            rows = connection.execute(
                f"SELECT {_LINE} FROM logs WHERE {where} ORDER BY {_ORDERS[order]} LIMIT ? OFFSET ?",
                (*values, limit, offset),
            ).fetchall()
        return count, [_line(row) for row in rows]

    def line(self, log: Log) -> LogLine | None:
        """One log; None if nothing of it is held."""
        query = f"SELECT {_LINE} FROM logs WHERE author = ? AND log_id = ? AND greatest IS NOT NULL"
        rows = self._database.read(query, (log[0], to_sql(log[1])))
        return _line(rows[0]) if rows else None

    def changed(self, since: int, limit: int) -> tuple[int, list[Log]]:
        """The number of the last change, and the logs that changed last, after change number ``since``."""
        with self._database.snapshot() as connection:
            (last,) = connection.execute("SELECT value FROM counters WHERE name = 'change'").fetchone()
            rows = connection.execute(
                "SELECT author, log_id FROM logs WHERE change > ? ORDER BY change DESC LIMIT ?", (since, limit)
            ).fetchall()
        return int(last), [(author, from_sql(log_id)) for author, log_id in rows]

    # -- one log -----------------------------------------------------------------------------------------------

    def cells(self, line: LogLine, spans: Sequence[tuple[int, int]]) -> list[Cell]:
        """What is held of spans of a log's numbers, ascending."""
        with self._database.snapshot() as connection:
            row = find_log(connection, line.log)
            entries = spread(connection, row, ENTRIES, spans)
            payloads = spread(connection, row, PAYLOADS, spans)
            return [
                _doubted(connection, row, line, span, held) or _cell(held, complete)
                for held, complete, span in zip(entries, payloads, spans, strict=True)
            ]

    def marks(self, log: Log, low: int, high: int) -> list[Mark]:
        """What is held from ``low`` to ``high``, ascending; numbers of which nothing is held are left out."""
        rows = self._database.read(
            "SELECT seq, state, payload_state FROM entries WHERE log = (SELECT id FROM logs WHERE author = ? AND"
            " log_id = ?) AND seq BETWEEN ? AND ? ORDER BY seq, state = 2 DESC, variant",
            (log[0], to_sql(log[1]), to_sql(low), to_sql(high)),
        )
        return list(_marks(rows))

    def marks_at(self, log: Log, seqs: Iterable[int]) -> list[Mark]:
        """The same for single numbers."""
        return [mark for seq in seqs for mark in self.marks(log, seq, seq)]

    # -- forks -------------------------------------------------------------------------------------------------

    def proofs(self, log: Log, limit: int) -> tuple[int, list[ForkProof]]:
        """How many fork proofs of a log are held, and those of the lowest positions."""
        with self._database.snapshot() as connection:
            row = find_log(connection, log)
            (count,) = connection.execute("SELECT count(*) FROM forks WHERE log = ?", (row,)).fetchone()
            rows = connection.execute(
                "SELECT first, second FROM forks WHERE log = ? ORDER BY position, id LIMIT ?", (row, limit)
            ).fetchall()
        return count, [ForkProof.decode(first + second) for first, second in rows]


def _line(row: tuple[bytes, int, *tuple[int | None, ...]]) -> LogLine:
    author, log_id, *numbers = row
    newest, greatest, contiguous, ended_at, forked_at, invalid_from = (
        None if number is None else from_sql(number) for number in numbers[:6]
    )
    entries, payloads, changed, waiting, invalid, waiting_below = (number or 0 for number in numbers[6:])
    return LogLine(
        author=author,
        log_id=from_sql(log_id),
        newest=newest or 0,
        greatest=greatest or 0,
        complete_to=contiguous or 0,
        ended=ended_at is not None and ended_at == newest,
        forked_at=forked_at,
        invalid_from=invalid_from,
        entries=entries,
        payloads=payloads,
        changed=changed,
        waiting=waiting,
        invalid=invalid,
        missing=max((newest or 0) - entries - waiting_below, 0),
    )


def _cell(entries: int, payloads: int) -> Cell:
    if entries != ALL:
        return Cell.PART if entries else Cell.NONE
    return Cell.FULL if payloads == ALL else Cell.BARE


def _doubted(
    connection: sqlite3.Connection, row: int | None, line: LogLine, span: tuple[int, int], verified: int
) -> Cell | None:
    """What the cell of a span is for the sake of entries that are not verified, if any."""
    low, high = to_sql(span[0]), to_sql(span[1])
    if line.invalid_from is not None and span[1] >= line.invalid_from:
        query = "SELECT 1 FROM entries WHERE log = ? AND seq BETWEEN ? AND ? AND state = 3 LIMIT 1"
        if connection.execute(query, (row, max(low, to_sql(line.invalid_from)), high)).fetchone():
            return Cell.INVALID
    if line.waiting and verified == NONE:
        query = "SELECT 1 FROM entries WHERE log = ? AND state = 1 AND seq BETWEEN ? AND ? LIMIT 1"
        if connection.execute(query, (row, low, high)).fetchone():
            return Cell.WAITING
    return None


def _marks(rows: Iterable[tuple[int, int, int]]) -> Iterator[Mark]:
    for stored, of_seq in groupby(rows, key=lambda row: row[0]):
        variants = list(of_seq)
        _, state, payload_state = variants[0]
        yield Mark(from_sql(stored), State(state), PayloadState(payload_state), len(variants))
