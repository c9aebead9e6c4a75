"""What is held of each log, as runs of consecutive entries, kept up to date with every transaction.

"Entries 1 to 4,000,000" is one row, whatever the log's length. Peers ask all the time what is held around some number,
and this answers with a look-up instead of reading entries. There are two kinds of runs: of verified entries, and of
those among them whose payload is complete. A run is stored by its first and last sequence number, each less one, like
``at`` in ``record_changes``. Taking in consecutive entries costs a few look-ups, however many they are.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from culm.bamboo import MAX_U64
from culm.ranges import Range, RangeSet
from culm.ranges.runs import runs_of
from culm.store.database import Database
from culm.store.rows import AT, FLAG, ROW, DamagedRow, Row, all_rows, each_row, first_row
from culm.store.schema import IS_COMPLETE, IS_VERIFIED, from_sql, to_sql
from culm.types import Run

ENTRIES, PAYLOADS = 0, 1  # the kinds of runs; part of the schema
NONE, SOME, ALL = range(3)  # how much of a span is held
_BEFORE = "SELECT first, last FROM runs WHERE log = ? AND kind = ? AND first <= ? ORDER BY first DESC LIMIT 1"


def around(database: Database, log: int | None, kind: int, seq: int) -> Run | None:
    """The run that contains a sequence number, None if no run does. ``log`` is the log's row id."""
    at = to_sql(seq) - 1
    for first, last in database.read(_BEFORE, (log, kind, at), AT, AT):
        if last >= at:
            return from_sql(first) + 1, from_sql(last) + 1
    return None


def extent(database: Database, log: int | None, kind: int) -> Run | None:
    """The lowest and the highest sequence number held, None if nothing is held."""
    query = (
        "SELECT min(first), (SELECT last FROM runs WHERE log = ?1 AND kind = ?2 ORDER BY first DESC LIMIT 1)"
        " FROM runs WHERE log = ?1 AND kind = ?2"
    )
    ((least, greatest),) = database.read(query, (log, kind), AT.or_null(), AT.or_null())
    return None if least is None or greatest is None else (from_sql(least) + 1, from_sql(greatest) + 1)


def spread(connection: sqlite3.Connection, log: int | None, kind: int, spans: Sequence[Run]) -> list[int]:
    """How much of each span of sequence numbers is held: ``NONE``, ``SOME`` or ``ALL``. The spans ascend.

    A run is looked up once for all spans that it covers, so the cost depends on the spans, not on the log's length.
    """
    found = []
    run: Run | None = (to_sql(MAX_U64), 0)  # a run after all spans, so that the first look-up happens
    for first, last in reversed(spans):
        low, high = to_sql(first) - 1, to_sql(last) - 1
        if run is not None and run[0] > high:
            run = _before(connection, log, kind, high)
        if run is None or run[1] < low:
            found.append(NONE)
        else:
            found.append(ALL if run[0] <= low and run[1] >= high else SOME)
    return found[::-1]


def of_log(connection: sqlite3.Connection, log: int, kind: int, limit: int = -1) -> list[Run]:
    """The runs of a log, ascending; only the first ``limit``, -1 for all of them."""
    query = "SELECT first, last FROM runs WHERE log = ? AND kind = ? ORDER BY first LIMIT ?"
    rows = all_rows(connection.execute(query, (log, kind, limit)), AT, AT)
    return [(from_sql(first) + 1, from_sql(last) + 1) for first, last in rows]


def set_of(rows: list[Row]) -> RangeSet:
    """The runs of a log as a set of ranges; a row holds the kind of the run, the first and the last position."""
    if any(first > last for _, first, last in rows):
        raise DamagedRow("a run of entries ends before it begins")
    ranges = [
        Range(from_sql(first) + 1, from_sql(last) + 1, metadata=kind == ENTRIES, payloads=kind == PAYLOADS)
        for kind, first, last in rows
    ]
    return RangeSet(ranges, most=max(1, len(ranges)))


def update(connection: sqlite3.Connection, log: int, kind: int, came: Iterable[int], went: Iterable[int]) -> None:
    """Add positions that came to be held, and remove those that are held no longer; both ascend."""
    for first, last in runs_of(went):
        _cut(connection, log, kind, first, last)
    for first, last in runs_of(came):
        join(connection, log, kind, first, last)


def _before(connection: sqlite3.Connection, log: int | None, kind: int, at: int) -> Run | None:
    """The last run that begins at or before a position, as it is stored."""
    row = first_row(connection.execute(_BEFORE, (log, kind, at)), AT, AT)
    return None if row is None else (row[0], row[1])


def join(connection: sqlite3.Connection, log: int, kind: int, first: int, last: int) -> None:
    """Add neighbouring positions that came to be held."""
    before = _before(connection, log, kind, first)
    if before is not None and before[1] >= first - 1:
        first, last = before[0], max(before[1], last)
    while True:  # swallow the runs that begin inside this one, or right after it
        following = _before(connection, log, kind, last + 1)
        if following is None or following[0] <= first:
            break
        last = max(last, following[1])
        connection.execute("DELETE FROM runs WHERE log = ? AND kind = ? AND first = ?", (log, kind, following[0]))
    connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)", (log, kind, first, last))


def extend(connection: sqlite3.Connection, log: int, kinds: Sequence[int], first: int, last: int) -> None:
    """Add neighbouring positions that came to be held to runs of these kinds: mostly they go on with the last one."""
    # No run follows the last one, so if it ends right before, nothing else has to be looked at.
    query = (
        "UPDATE runs SET last = ?3 WHERE log = ?1 AND kind = ?4 AND last + 1 = ?2"
        " AND first = (SELECT max(first) FROM runs WHERE log = ?1 AND kind = ?4)"
    )
    went_on = connection.executemany(query, [(log, first, last, kind) for kind in kinds]).rowcount
    if went_on < len(kinds):
        for kind in kinds:
            join(connection, log, kind, first, last)


def _cut(connection: sqlite3.Connection, log: int, kind: int, first: int, last: int) -> None:
    while (run := _before(connection, log, kind, last)) is not None and run[1] >= first:
        connection.execute("DELETE FROM runs WHERE log = ? AND kind = ? AND first = ?", (log, kind, run[0]))
        for part in ((run[0], min(run[1], first - 1)), (max(run[0], last + 1), run[1])):
            if part[0] <= part[1]:
                connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?)", (log, kind, *part))


# -- all anew -------------------------------------------------------------------------------------------------------

_OF_KIND = {ENTRIES: IS_VERIFIED, PAYLOADS: f"{IS_VERIFIED} AND {IS_COMPLETE}"}


def fresh(connection: sqlite3.Connection) -> Iterator[tuple[int, int, int, int]]:
    """The runs as they ought to be: log, kind, first, last."""
    for kind, condition in _OF_KIND.items():
        rows = connection.execute(f"SELECT log, seq - 1 FROM entries WHERE {condition} ORDER BY log, seq")
        for log, of_log in groupby(each_row(rows, ROW, AT), key=lambda row: int(row[0])):
            for first, last in runs_of(at for _, at in of_log):
                yield log, kind, first, last


def rebuild(connection: sqlite3.Connection) -> None:
    """Build the runs anew from the entries."""
    connection.execute("DELETE FROM runs")
    connection.executemany("INSERT INTO runs VALUES (?, ?, ?, ?)", fresh(connection))


def problems(connection: sqlite3.Connection) -> list[str]:
    """Where the runs disagree with the entries: one line, or none."""
    kept = all_rows(connection.execute("SELECT log, kind, first, last FROM runs"), ROW, FLAG, AT, AT)
    wrong = {row[0] for row in set(kept) ^ set(fresh(connection))}
    return [f"the runs of entries held are wrong for {len(wrong)} logs"] if wrong else []
