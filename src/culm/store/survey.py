"""What is held of all logs, for people to look at: answers of bounded size and cost, however much is held.

The status page must not slow down a node that holds a hundred million entries, so no answer may read them all. Lists
come page by page. What is held of a log comes as a picture of *cells*; each cell stands for an equal share of the
sequence numbers. A cell costs a few look-ups in the runs of the log, however many numbers it stands for.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, pairwise

from culm.bamboo import ForkProof
from culm.store.database import Database
from culm.store.logs import SUMMARY_ROW, summaries, summary_columns
from culm.store.records.runs import ALL, ENTRIES, NONE, PAYLOADS, spread
from culm.store.rows import BYTES, COUNT, PAYLOAD_STATE, SEQ, STATE, all_rows, find_log, first_row, proof_of, the_row
from culm.store.schema import (
    IS_INVALID,
    IS_VERIFIED,
    IS_WAITING,
    OF_LOG,
    PayloadState,
    State,
    from_sql,
    log_key,
    to_sql,
)
from culm.store.values import LogSummary
from culm.types import Log, Run

MOST_COUNTED = 10_000
"""Waiting and invalid entries of one log are counted up to here, because the count reads each of them."""


MOST_RUNS = 100
"""Certified entries of a log are counted if its verified ones lie in at most so many runs, because the count takes
some 30 microseconds of Python for each of them, and a page lists a hundred logs."""


class Cell(StrEnum):
    """What is held of the sequence numbers that a cell stands for."""

    FULL = "f"  # all entries, with their payloads
    BARE = "b"  # all entries, not all of their payloads
    PART = "p"  # some entries
    WAITING = "w"  # entries whose path to entry 1 is not there yet, and none that are verified
    INVALID = "x"  # some entry at or after a fork, or after an entry whose author lied about the payload's size
    NONE = "n"


class Order(StrEnum):
    """How a list of logs is sorted."""

    NAME = "name"
    RECENT = "recent"  # the log that changed last comes first
    ENTRIES = "entries"  # the one with the most entries held
    MISSING = "missing"  # the one that lacks the most entries below its newest


class Only(StrEnum):
    """Which logs a list contains."""

    ALL = "all"
    GAPS = "gaps"  # an entry or a payload is missing below the newest entry
    FORKED = "forked"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Totals:
    """What is held in all logs. ``gaps`` counts the logs that lack an entry or payload below their newest entry.

    ``damaged`` counts the payloads that were damaged on the disk and have not come again.
    """

    logs: int
    entries: int
    payloads: int
    waiting: int
    invalid: int
    gaps: int
    forked: int
    proofs: int
    damaged: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What is held at a sequence number. ``variants`` is more than 1 if entries contradict each other."""

    seq: int
    state: State
    payload_state: PayloadState
    variants: int


_STEPS = 10_000  # of SQLite's machine between two looks at the clock: a fraction of a millisecond
_ORDERS = {
    Order.NAME: "author, log_id",
    Order.RECENT: "change DESC, id",
    Order.ENTRIES: "entry_count DESC, author, log_id",
    # Numbers are stored 2^63 lower. Beyond 2^63 SQLite computes in floating point, which is good enough to sort by.
    Order.MISSING: "coalesce(newest + 9223372036854775807 + 1 - entry_count, 0) DESC, author, log_id",
}
_HAS_GAPS = "newest IS NOT NULL AND contiguous < newest"
_CONDITIONS = {
    Only.ALL: "",
    Only.GAPS: f" AND {_HAS_GAPS}",
    Only.FORKED: " AND forked_at IS NOT NULL",
    Only.WAITING: f" AND EXISTS (SELECT 1 FROM entries WHERE log = logs.id AND {IS_WAITING})",
}
_SUMMARY = summary_columns(MOST_COUNTED)


class Survey:
    """Questions about everything that a store holds. Each answer belongs to its own moment."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """Inside the block, a query that is still running after ``seconds`` fails with ``StoreError``."""
        deadline = time.monotonic() + seconds
        connection = self._database.connection
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)

    # -- all logs ----------------------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """What is held in all logs. Reads the list of logs once."""
        query = (
            "SELECT count(*), coalesce(sum(entry_count), 0), coalesce(sum(payload_count), 0),"
            f" (SELECT count(*) FROM entries WHERE {IS_WAITING}),"
            f" (SELECT count(*) FROM entries WHERE {IS_INVALID}),"
            f" coalesce(sum({_HAS_GAPS}), 0), count(forked_at), (SELECT count(*) FROM forks),"
            " (SELECT count(*) FROM damaged)"
            " FROM logs WHERE greatest IS NOT NULL"
        )
        return Totals(*self._database.read(query, (), *[COUNT] * 9)[0])

    def logs(
        self,
        *,
        order: Order = Order.NAME,
        only: Only = Only.ALL,
        authors: tuple[bytes, bytes] | None = None,
        log_id: int | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[int, list[LogSummary]]:
        """How many logs there are, and a page of them.

        ``authors`` is the lowest and the highest author to list, ``log_id`` the only log id; None: all of them.
        """
        where = f"greatest IS NOT NULL{_CONDITIONS[only]}"
        values: list[object] = []
        if authors is not None:
            where += " AND author BETWEEN ? AND ?"
            values += authors
        if log_id is not None:
            where += " AND log_id = ?"
            values.append(to_sql(log_id))
        with self._database.snapshot() as connection:
            (count,) = the_row(connection.execute(f"SELECT count(*) FROM logs WHERE {where}", values), COUNT)
            query = f"SELECT {_SUMMARY} FROM logs WHERE {where} ORDER BY {_ORDERS[order]} LIMIT ? OFFSET ?"
            rows = all_rows(connection.execute(query, (*values, limit, offset)), *SUMMARY_ROW)
            return count, summaries(connection, rows, MOST_RUNS)

    def line(self, log: Log) -> LogSummary | None:
        """The line of one log, None if the store has no entries of it."""
        _, found = self.logs(authors=(log[0], log[0]), log_id=log[1])
        return found[0] if found else None

    def file_bytes(self) -> int:
        """The bytes of payloads that lie in files of their own. Reads a row for each of them."""
        query = "SELECT coalesce(sum(payload_held), 0) FROM payload_files JOIN entries ON entries.id = entry"
        return int(self._database.read(query, (), COUNT)[0][0])

    # -- one log -----------------------------------------------------------------------------------------------

    def cells(self, line: LogSummary, spans: Sequence[Run]) -> list[Cell]:
        """What is held of each span of a log's numbers. The spans ascend."""
        with self._database.snapshot() as connection:
            row = find_log(connection, line.log)
            entries = spread(connection, row, ENTRIES, spans)
            payloads = spread(connection, row, PAYLOADS, spans)
            return [
                _doubted(connection, row, line, span, held) or _cell(held, complete)
                for held, complete, span in zip(entries, payloads, spans, strict=True)
            ]

    def marks(self, log: Log, low: int, high: int) -> list[Mark]:
        """What is held from ``low`` to ``high``, ascending. Numbers without any entry are left out."""
        query = (
            f"SELECT seq, state, payload_state FROM entries WHERE {OF_LOG} AND seq BETWEEN ? AND ?"
            f" ORDER BY seq, {IS_VERIFIED} DESC, variant"
        )
        values = (*log_key(log), to_sql(low), to_sql(high))
        found = []
        for stored, of_seq in groupby(
            self._database.read(query, values, SEQ, STATE, PAYLOAD_STATE), key=lambda row: int(row[0])
        ):
            (_, state, payload_state), *others = of_seq
            found.append(Mark(from_sql(stored), State(state), PayloadState(payload_state), 1 + len(others)))
        return found

    # -- forks -------------------------------------------------------------------------------------------------

    def proofs(self, log: Log, limit: int) -> tuple[int, list[ForkProof]]:
        """How many fork proofs of a log are held, and the ``limit`` of them with the lowest positions."""
        with self._database.snapshot() as connection:
            (count,) = the_row(connection.execute(f"SELECT count(*) FROM forks WHERE {OF_LOG}", log_key(log)), COUNT)
            query = f"SELECT first, second FROM forks WHERE {OF_LOG} ORDER BY position, id LIMIT ?"
            rows = all_rows(connection.execute(query, (*log_key(log), limit)), BYTES, BYTES)
        return count, [proof_of(first, second) for first, second in rows]


def cells_between(low: int, high: int, most: int) -> list[tuple[int, int]]:
    """The numbers from ``low`` to ``high`` in at most ``most`` spans of about equal length, ascending."""
    count = high - low + 1
    cells = min(most, count)
    edges = [low + count * cell // cells for cell in range(cells + 1)] if cells > 0 else [low]
    return [(first, after - 1) for first, after in pairwise(edges)]


def _cell(entries: int, payloads: int) -> Cell:
    if entries != ALL:
        return Cell.PART if entries else Cell.NONE
    return Cell.FULL if payloads == ALL else Cell.BARE


def _doubted(
    connection: sqlite3.Connection, row: int | None, line: LogSummary, span: Run, verified: int
) -> Cell | None:
    """``INVALID`` or ``WAITING`` if entries that are not verified decide what the cell of a span is, else None."""
    low, high = to_sql(span[0]), to_sql(span[1])
    if line.invalid_from is not None and span[1] >= line.invalid_from:
        query = f"SELECT 1 FROM entries WHERE log = ? AND seq BETWEEN ? AND ? AND {IS_INVALID} LIMIT 1"
        if first_row(connection.execute(query, (row, max(low, to_sql(line.invalid_from)), high)), COUNT):
            return Cell.INVALID
    if line.waiting and verified == NONE:
        query = f"SELECT 1 FROM entries WHERE log = ? AND {IS_WAITING} AND seq BETWEEN ? AND ? LIMIT 1"
        if first_row(connection.execute(query, (row, low, high)), COUNT):
            return Cell.WAITING
    return None
