"""Questions about logs: what is held of each, how far it can be sent, what is missing, how it forks."""

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

from culm.bamboo import ForkProof
from culm.bamboo.certified import certified_runs
from culm.ranges import RangeSet
from culm.ranges.runs import runs_of
from culm.store.database import Database
from culm.store.records import runs
from culm.store.rows import (
    AT,
    BYTES,
    COUNT,
    FLAG,
    LOG_ID,
    ROW,
    SEQ,
    Row,
    all_rows,
    each_row,
    first_row,
    last_change,
    proof_of,
)
from culm.store.schema import (
    IS_FORGOTTEN,
    IS_INCOMPLETE,
    IS_INVALID,
    IS_SETTLED,
    IS_VERIFIED,
    IS_WAITING,
    OF_LOG,
    from_sql,
    log_key,
    optional_from_sql,
    to_sql,
)
from culm.store.values import LogSummary, Offer
from culm.types import Log, Run

_OPTIONAL = SEQ.or_null()
SUMMARY_ROW = ROW, BYTES, LOG_ID, _OPTIONAL, _OPTIONAL, AT, *[_OPTIONAL] * 3, *[COUNT] * 6
"""What the columns of ``summary_columns`` hold."""


def summary_columns(most: int) -> str:
    """The columns of ``logs`` that make a ``LogSummary``.

    ``most`` bounds the counts that have to read each entry, -1 does not bound them.
    """
    counted = "(SELECT count(*) FROM (SELECT {} FROM entries WHERE log = logs.id AND {} LIMIT {}))"
    return (
        "id, author, log_id, newest, greatest, contiguous, ended_at, forked_at, invalid_from, entry_count,"
        f" payload_count, change, {counted.format(1, IS_WAITING, most)}, {counted.format(1, IS_INVALID, most)},"
        f" {counted.format('DISTINCT seq', f'{IS_WAITING} AND seq < newest', most)}"
    )


def summaries(connection: sqlite3.Connection, rows: Iterable[Row], most_runs: int = -1) -> list[LogSummary]:
    """The summaries that rows of ``summary_columns`` hold.

    The certified entries of a log with more than ``most_runs`` runs of verified entries are not counted; -1 counts all.
    """
    return [_summary(connection, row, most_runs) for row in rows]


def _summary(connection: sqlite3.Connection, row: Row, most_runs: int) -> LogSummary:
    log_row, author, log_id, *numbers = row
    newest, greatest, contiguous, ended_at, forked_at, invalid_from = map(optional_from_sql, numbers[:6])
    entries, payloads, changed, waiting, invalid, waiting_below = numbers[6:]
    return LogSummary(
        author=author,
        log_id=from_sql(log_id),
        newest=newest or 0,
        greatest=greatest or 0,
        complete_to=contiguous or 0,
        entries=entries,
        payloads=payloads,
        certified=_count_certified(connection, log_row, entries, greatest or 0, most_runs),
        waiting=waiting,
        invalid=invalid,
        missing=max((newest or 0) - entries - waiting_below, 0),
        forked_at=forked_at,
        invalid_from=invalid_from,
        ended=ended_at is not None and ended_at == newest,
        changed=changed,
    )


def _count_certified(
    connection: sqlite3.Connection, log_row: int, entries: int, greatest: int, most_runs: int
) -> int | None:
    if entries in (0, greatest):  # nothing is verified, or all numbers are: no run has to be read
        return entries
    verified = runs.of_log(connection, log_row, runs.ENTRIES, most_runs + 1 if most_runs >= 0 else -1)
    if 0 <= most_runs < len(verified):
        return None
    return sum(high - low + 1 for low, high in certified_runs(verified, greatest))


class LogQueries:
    """The questions to a store about logs."""

    _database: Database

    def logs(self) -> Iterator[LogSummary]:
        """What is held of each log, by author and log id."""
        query = f"SELECT {summary_columns(-1)} FROM logs WHERE greatest IS NOT NULL ORDER BY author, log_id"
        with self._database.snapshot() as connection:
            return iter(summaries(connection, all_rows(connection.execute(query), *SUMMARY_ROW)))

    def logs_by(self, author: bytes) -> list[Log]:
        """The logs of an author that have verified entries."""
        query = "SELECT log_id FROM logs WHERE author = ? AND newest IS NOT NULL ORDER BY log_id"
        return [(author, from_sql(log_id)) for (log_id,) in self._database.read(query, (author,), LOG_ID)]

    def payload_sum(self, log: Log) -> tuple[int, int]:
        """The number of verified entries of a log whose payload is complete, and the sum of their ids modulo 2^256.

        An id is the first 32 bytes of the digest in the entry's hash, as a little-endian number. So two numbers tell
        whether somebody else has the same entries, however many they are.
        """
        query = "SELECT payload_count, payload_total FROM logs WHERE author = ? AND log_id = ?"
        rows = self._database.read(query, log_key(log), COUNT, BYTES)
        return (rows[0][0], int.from_bytes(rows[0][1], "little")) if rows else (0, 0)

    def longest(self, author: bytes | None = None) -> int:
        """The number of the newest verified entry in the longest log of all, or of an author; 0 if there is none."""
        query = f"SELECT max(newest) FROM logs{'' if author is None else ' WHERE author = ?'}"
        (newest,) = next(iter(self._database.read(query, () if author is None else (author,), _OPTIONAL)))
        return optional_from_sql(newest) or 0

    def change(self) -> int:
        """A number that grows whenever the store changes, whichever process changes it."""
        with self._database.snapshot() as connection:
            return last_change(connection)

    def changed_logs(self, since: int, limit: int = -1) -> tuple[int, list[Log]]:
        """The number of the last change, and the logs that changed after change number ``since``, the latest first.

        ``limit`` is the most logs to return, -1 for all of them.
        """
        query = "SELECT author, log_id FROM logs WHERE change > ? ORDER BY change DESC LIMIT ?"
        with self._database.snapshot() as connection:
            rows = all_rows(connection.execute(query, (since, limit)), BYTES, LOG_ID)
            return last_change(connection), [(author, from_sql(log_id)) for author, log_id in rows]

    def offers(self, since: int = -1) -> Iterator[Offer]:
        """How far each log that changed after change number ``since`` can be sent."""
        return self._offers("change > ?", since)

    def offer(self, log: Log) -> Offer | None:
        """How far one log can be sent; None if none of its entries is verified and no fork of it is known."""
        return next(self._offers("author = ? AND log_id = ?", *log_key(log)), None)

    def _offers(self, where: str, *values: object) -> Iterator[Offer]:
        """The offers of some logs. Each costs a few look-ups: runs say how far payloads are held."""
        query = (
            "SELECT author, log_id, until, gap, forked_at,"
            f" (SELECT hash FROM entries WHERE log = some.id AND seq = until AND {IS_VERIFIED})"
            " FROM (SELECT id, author, log_id, forked_at,"
            f" (SELECT last + 1 FROM runs WHERE log = logs.id AND kind = {runs.PAYLOADS}"
            " ORDER BY first DESC LIMIT 1) AS until,"
            f" (SELECT min(seq) FROM entries WHERE log = logs.id AND {IS_VERIFIED} AND {IS_INCOMPLETE}) AS gap"
            f" FROM logs WHERE {where} AND (newest IS NOT NULL OR forked_at IS NOT NULL)) AS some"
        )
        columns = BYTES, LOG_ID, *[_OPTIONAL] * 3, BYTES.or_null()
        for author, log_id, until, gap, forked_at, digest in self._database.read(query, values, *columns):
            newest, *rest = map(optional_from_sql, (until, gap, forked_at))
            yield Offer(author, from_sql(log_id), newest or 0, rest[0], digest or b"", rest[1])

    def missing(self, log: Log, high: int, limit: int = 1000, *, low: int = 1) -> list[Run]:
        """The first ``limit`` spans from ``low`` to ``high`` whose entries or payloads are missing and wanted.

        Nothing at or after a fork is wanted, and no forgotten payload. An entry that waits for its path is held.
        """
        spans: list[Run] = []
        with self._database.snapshot() as connection:
            query = "SELECT id, contiguous, invalid_from FROM logs WHERE author = ? AND log_id = ?"
            row = first_row(connection.execute(query, log_key(log)), ROW, AT, _OPTIONAL)
            if row is None:
                return [(low, high)] if low <= high else []
            log_row, contiguous, invalid_from = row
            low = max(low, from_sql(contiguous) + 1)
            if invalid_from is not None:
                high = min(high, from_sql(invalid_from) - 1)
            of_span = f"log = ? AND seq BETWEEN ? AND ? AND {IS_SETTLED}"
            query = f"SELECT DISTINCT seq FROM entries WHERE {of_span} ORDER BY seq"
            for (stored,) in each_row(connection.execute(query, (log_row, to_sql(low), to_sql(high))), SEQ):
                seq = from_sql(stored)
                if seq > low:
                    spans.append((low, seq - 1))
                    if len(spans) >= limit:
                        return spans
                low = seq + 1
        if low <= high:
            spans.append((low, high))
        return spans

    def waiting(self, log: Log, limit: int) -> list[int]:
        """The first ``limit`` numbers of entries of a log that wait for their path, ascending."""
        query = f"SELECT DISTINCT seq FROM entries WHERE {OF_LOG} AND {IS_WAITING} ORDER BY seq LIMIT ?"
        return [from_sql(seq) for (seq,) in self._database.read(query, (*log_key(log), limit), SEQ)]

    def forgotten(self, log: Log, limit: int) -> list[Run]:
        """The first ``limit`` runs of verified entries of a log whose payload was forgotten, ascending."""
        # That they are incomplete says nothing new, but lets SQLite use the partial index.
        condition = f"{OF_LOG} AND {IS_VERIFIED} AND {IS_INCOMPLETE} AND {IS_FORGOTTEN}"
        with self._database.snapshot() as connection:
            rows = connection.execute(f"SELECT DISTINCT seq FROM entries WHERE {condition} ORDER BY seq", log_key(log))
            return list(islice(runs_of(from_sql(seq) for (seq,) in each_row(rows, SEQ)), limit))

    def held(self, author: bytes, log_id: int) -> RangeSet:
        """Which verified entries of a log are held, and with which payloads. Costs its gaps, not its length."""
        query = f"SELECT kind, first, last FROM runs WHERE {OF_LOG} ORDER BY kind, first"
        with self._database.snapshot() as connection:
            return runs.set_of(all_rows(connection.execute(query, log_key((author, log_id))), FLAG, AT, AT))

    def certified(self, log: Log) -> list[Run]:
        """The runs of entries whose whole certificate pool is verified, as far as the greatest number held reaches.

        Ascending. Costs the log's gaps, not its length.
        """
        query = "SELECT id, greatest FROM logs WHERE author = ? AND log_id = ? AND greatest IS NOT NULL"
        with self._database.snapshot() as connection:
            row = first_row(connection.execute(query, log_key(log)), ROW, SEQ)
            return certified_runs(runs.of_log(connection, row[0], runs.ENTRIES), from_sql(row[1])) if row else []

    def holdings(self, since: int = -1) -> list[tuple[Log, RangeSet]]:
        """``held`` for each log that changed after change number ``since`` and has verified entries."""
        query = (
            "SELECT author, log_id, kind, first, last FROM logs JOIN runs ON log = logs.id WHERE change > ?"
            " ORDER BY author, log_id, kind, first"
        )
        with self._database.snapshot() as connection:
            rows = each_row(connection.execute(query, (since,)), BYTES, LOG_ID, FLAG, AT, AT)
            return [
                ((author, from_sql(log_id)), runs.set_of([row[2:] for row in of_log]))
                for (author, log_id), of_log in groupby(rows, key=lambda row: row[:2])
            ]

    def fork_proofs(self, log: Log | None = None) -> Iterator[ForkProof]:
        """The fork proofs held, of one log or of all, the lowest position of each log first."""
        condition, values = (OF_LOG, log_key(log)) if log else ("true", ())
        query = (
            f"SELECT first, second FROM forks JOIN logs ON logs.id = log WHERE {condition}"
            " ORDER BY author, log_id, position, forks.id"
        )
        for first, second in self._database.read(query, values, BYTES, BYTES):
            yield proof_of(first, second)
