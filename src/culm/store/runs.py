"""What is held of each log as runs of neighbours, kept up to date with every transaction.

Two kinds: of verified entries, and of those of them whose payload is complete. A run is stored by the first and last
sequence number less one, as ``at`` in ``record_changes``. Taking in consecutive entries costs a few look-ups, however
many they are, and reading what is held of a log costs its runs, not its entries.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64
from culm.ranges import Range, RangeSet
from culm.store.rows import find_log
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from culm.types import Log

ENTRIES, PAYLOADS = 0, 1
NONE, SOME, ALL = range(3)


def held(connection: sqlite3.Connection, log: Log) -> RangeSet:
    """What is held of a log: the verified entries, with the payloads that are complete."""
    return _set_of(
        connection.execute(
            "SELECT kind, first, last FROM runs WHERE log = ? ORDER BY kind, first", (find_log(connection, log),)
        ).fetchall()
    )


def holdings(connection: sqlite3.Connection, since: int) -> list[tuple[Log, RangeSet]]:
    """What is held of each log that changed after change number ``since``, by author and log id."""
    rows = connection.execute(
        "SELECT author, log_id, kind, first, last FROM logs JOIN runs ON log = logs.id WHERE change > ?"
        " ORDER BY author, log_id, kind, first",
        (since,),
    )
    return [
        ((author, from_sql(log_id)), _set_of([row[2:] for row in of_log]))
        for (author, log_id), of_log in groupby(rows, key=lambda row: row[:2])
    ]


def around(connection: sqlite3.Connection, log: int | None, kind: int, seq: int) -> tuple[int, int] | None:
    """The run that a sequence number is in; None if it is not held. ``log`` is the log's row id."""
    at = to_sql(seq) - 1
    run = None if log is None else _before(connection, log, kind, at)
    return (from_sql(run[0]) + 1, from_sql(run[1]) + 1) if run is not None and run[1] >= at else None


def spread(connection: sqlite3.Connection, log: int | None, kind: int, spans: Sequence[tuple[int, int]]) -> list[int]:
    """How much of each span of sequence numbers is held: ``NONE``, ``SOME`` or ``ALL``; spans ascend.

    A run is looked up once, whatever spans it covers: the cost is that of the spans, not of what is held.
    """
    found = []
    run: tuple[int, int] | None = (to_sql(MAX_U64), 0)  # behind everything
    for first, last in reversed(spans):
        low, high = to_sql(first) - 1, to_sql(last) - 1
        if run is not None and run[0] > high:
            run = None if log is None else _before(connection, log, kind, high)
        if run is None or run[1] < low:
            found.append(NONE)
        else:
            found.append(ALL if run[0] <= low and run[1] >= high else SOME)
    return found[::-1]


def extent(connection: sqlite3.Connection, log: int | None, kind: int) -> tuple[int, int] | None:
    """The least and the greatest sequence number held; None if nothing is."""
    least, greatest = connection.execute(
        "SELECT min(first), (SELECT last FROM runs WHERE log = ?1 AND kind = ?2 ORDER BY first DESC LIMIT 1)"
        " FROM runs WHERE log = ?1 AND kind = ?2",
        (log, kind),
    ).fetchone()
    return None if least is None else (from_sql(least) + 1, from_sql(greatest) + 1)


def _set_of(rows: list[tuple[int, int, int]]) -> RangeSet:
    ranges = [
        Range(from_sql(first) + 1, from_sql(last) + 1, metadata=kind == ENTRIES, payloads=kind == PAYLOADS)
        for kind, first, last in rows
    ]
    return RangeSet(ranges, most=max(1, len(ranges)))


def update(connection: sqlite3.Connection, log: int, kind: int, came: Iterable[int], went: Iterable[int]) -> None:
    """Take up entries that came to be held, and that no longer are; both ascending."""
    for first, last in runs_of(went):
        _cut(connection, log, kind, first, last)
    for first, last in runs_of(came):
        _join(connection, log, kind, first, last)


def runs_of(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Runs of neighbours among ascending numbers."""
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield members[0], members[-1]


def _before(connection: sqlite3.Connection, log: int, kind: int, first: int) -> tuple[int, int] | None:
    """The last run that begins at or before a number."""
    row: tuple[int, int] | None = connection.execute(
        "SELECT first, last FROM runs WHERE log = ? AND kind = ? AND first <= ? ORDER BY first DESC LIMIT 1",
        (log, kind, first),
    ).fetchone()
    return row


def _join(connection: sqlite3.Connection, log: int, kind: int, first: int, last: int) -> None:
    before = _before(connection, log, kind, first)
    if before is not None and before[1] >= first - 1:
        first, last = before[0], max(before[1], last)
    while True:  # runs that begin within, or right behind
        following = _before(connection, log, kind, last + 1)
        if following is None or following[0] <= first:
            break
        last = max(last, following[1])
        connection.execute("DELETE FROM runs WHERE log = ? AND kind = ? AND first = ?", (log, kind, following[0]))
    connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", (log, kind, first, last))


def _cut(connection: sqlite3.Connection, log: int, kind: int, first: int, last: int) -> None:
    while (run := _before(connection, log, kind, last)) is not None and run[1] >= first:
        connection.execute("DELETE FROM runs WHERE log = ? AND kind = ? AND first = ?", (log, kind, run[0]))
        for part in ((run[0], min(run[1], first - 1)), (max(run[0], last + 1), run[1])):
            if part[0] <= part[1]:
                connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?)", (log, kind, *part))


# -- all anew -------------------------------------------------------------------------------------------------------

_OF_KIND = {ENTRIES: "state = 2", PAYLOADS: "state = 2 AND payload_state = 2"}


def fresh(connection: sqlite3.Connection) -> Iterator[tuple[int, int, int, int]]:
    """The runs as the entries have them: log, kind, first, last."""
    for kind, condition in _OF_KIND.items():
        rows = connection.execute(f"SELECT log, seq - 1 FROM entries WHERE {condition} ORDER BY log, seq")
        for log, of_log in groupby(rows, key=lambda row: int(row[0])):
            for first, last in runs_of(at for _, at in of_log):
                yield log, kind, first, last


def rebuild(connection: sqlite3.Connection) -> None:
    """Make the runs anew."""
    connection.execute("DELETE FROM runs")
    connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", fresh(connection))


def problems(connection: sqlite3.Connection) -> list[str]:
    """What does not agree with the entries: a line, or none."""
    kept = connection.execute("SELECT log, kind, first, last FROM runs").fetchall()
    wrong = {row[0] for row in set(kept) ^ set(fresh(connection))}
    return [f"the runs of entries held are wrong for {len(wrong)} logs"] if wrong else []
