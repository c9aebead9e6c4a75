"""What is held of all logs, for people to look at: answers of bounded size and cost, however much is held.

The status page must not slow down a node that holds a hundred million entries, so no answer may read them all. Lists
come page by page. What is held of a log comes as a picture of *cells*, each of which stands for an equal share of the
sequence numbers. A cell costs a few look-ups in the runs of the log, however many numbers it stands for.
"""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from culm.bamboo import ForkProof
from culm.store.database import Database
from culm.store.records.runs import ALL, ENTRIES, NONE, PAYLOADS, spread
from culm.store.rows import (
    AT,
    BYTES,
    COUNT,
    LOG_ID,
    PAYLOAD_STATE,
    SEQ,
    STATE,
    Row,
    all_rows,
    find_log,
    first_row,
    last_change,
    proof_of,
    the_row,
)
from culm.store.schema import IS_INVALID, IS_VERIFIED, IS_WAITING, PayloadState, State, from_sql, to_sql
from culm.store.surveyed import MOST_COUNTED, Cell, LogLine, Mark, Only, Order, Totals
from culm.types import Log

_STEPS = 10_000  # of SQLite's machine between two looks at the clock: a fraction of a millisecond


# Numbers are stored 2^63 lower. Beyond 2^63 SQLite computes in floating point, which is good enough to sort by.
_MISSING = "coalesce(newest + 9223372036854775807 + 1 - entry_count, 0)"
_ORDERS = {
    Order.NAME: "author, log_id",
    Order.RECENT: "change DESC, id",
    Order.ENTRIES: "entry_count DESC, author, log_id",
    Order.MISSING: f"{_MISSING} DESC, author, log_id",
}
_WAITS = f"EXISTS (SELECT 1 FROM entries WHERE log = logs.id AND {IS_WAITING})"
_HAS_GAPS = "newest IS NOT NULL AND contiguous < newest"
_CONDITIONS = {
    Only.ALL: "",
    Only.GAPS: f" AND {_HAS_GAPS}",
    Only.FORKED: " AND forked_at IS NOT NULL",
    Only.WAITING: f" AND {_WAITS}",
}
_COUNT = f"(SELECT count(*) FROM (SELECT 1 FROM entries WHERE log = logs.id AND %s LIMIT {MOST_COUNTED}))"
_LINE = (
    "author, log_id, newest, greatest, contiguous, ended_at, forked_at, invalid_from, entry_count, payload_count,"
    f" change, {_COUNT % IS_WAITING}, {_COUNT % IS_INVALID},"
    f" (SELECT count(*) FROM (SELECT DISTINCT seq FROM entries WHERE log = logs.id AND {IS_WAITING} AND seq < newest"
    f" LIMIT {MOST_COUNTED}))"
)
_SEQ = SEQ.or_null()
_LINE_ROW = BYTES, LOG_ID, _SEQ, _SEQ, AT, _SEQ, _SEQ, _SEQ, COUNT, COUNT, COUNT, COUNT, COUNT, COUNT


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
            f" coalesce(sum({_HAS_GAPS}), 0), count(forked_at), (SELECT count(*) FROM forks)"
            " FROM logs WHERE greatest IS NOT NULL"
        )
        return Totals(*self._database.read(query, (), *[COUNT] * 8)[0])

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
            query = f"SELECT {_LINE} FROM logs WHERE {where} ORDER BY {_ORDERS[order]} LIMIT ? OFFSET ?"
            rows = all_rows(connection.execute(query, (*values, limit, offset)), *_LINE_ROW)
        return count, [_line(row) for row in rows]

    def line(self, log: Log) -> LogLine | None:
        """The line of one log, None if nothing of it is held."""
        query = f"SELECT {_LINE} FROM logs WHERE author = ? AND log_id = ? AND greatest IS NOT NULL"
        rows = self._database.read(query, (log[0], to_sql(log[1])), *_LINE_ROW)
        return _line(rows[0]) if rows else None

    def changed(self, since: int, limit: int) -> tuple[int, list[Log]]:
        """The number of the last change, and the logs that changed after ``since``, the latest first."""
        with self._database.snapshot() as connection:
            last = last_change(connection)
            query = "SELECT author, log_id FROM logs WHERE change > ? ORDER BY change DESC LIMIT ?"
            rows = all_rows(connection.execute(query, (since, limit)), BYTES, LOG_ID)
        return last, [(author, from_sql(log_id)) for author, log_id in rows]

    # -- one log -----------------------------------------------------------------------------------------------

    def cells(self, line: LogLine, spans: Sequence[tuple[int, int]]) -> list[Cell]:
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
        """What is held from ``low`` to ``high``, ascending. Numbers of which nothing is held are left out."""
        rows = self._database.read(
            "SELECT seq, state, payload_state FROM entries WHERE log = (SELECT id FROM logs WHERE author = ? AND"
            f" log_id = ?) AND seq BETWEEN ? AND ? ORDER BY seq, {IS_VERIFIED} DESC, variant",
            (log[0], to_sql(log[1]), to_sql(low), to_sql(high)),
            *(SEQ, STATE, PAYLOAD_STATE),
        )
        return list(_marks(rows))

    def marks_at(self, log: Log, seqs: Iterable[int]) -> list[Mark]:
        """The same for single numbers."""
        return [mark for seq in seqs for mark in self.marks(log, seq, seq)]

    # -- forks -------------------------------------------------------------------------------------------------

    def proofs(self, log: Log, limit: int) -> tuple[int, list[ForkProof]]:
        """How many fork proofs of a log are held, and the ``limit`` of them with the lowest positions."""
        with self._database.snapshot() as connection:
            row = find_log(connection, log)
            (count,) = the_row(connection.execute("SELECT count(*) FROM forks WHERE log = ?", (row,)), COUNT)
            query = "SELECT first, second FROM forks WHERE log = ? ORDER BY position, id LIMIT ?"
            rows = all_rows(connection.execute(query, (row, limit)), BYTES, BYTES)
        return count, [proof_of(first, second) for first, second in rows]


def _line(row: Row) -> LogLine:
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


def _marks(rows: Iterable[Row]) -> Iterator[Mark]:
    for stored, of_seq in groupby(rows, key=lambda row: row[0]):
        variants = list(of_seq)
        _, state, payload_state = variants[0]
        yield Mark(from_sql(stored), State(state), PayloadState(payload_state), len(variants))
