"""Reading: entries, logs, offers, gaps, fork proofs.

Long answers are read page by page, each page its own short snapshot, so that no reader keeps the WAL file from being
folded back into the database.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, Entry, ForkProof
from culm.errors import StoreDamaged
from culm.store.interface import LogSummary, Offer, Sendable, StoredEntry
from culm.store.runs import runs_of
from culm.store.schema import PayloadState, State, from_sql, to_sql

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from culm.errors import Place
    from culm.store.database import Database
    from culm.types import Log

_PAGE = 500
ENTRY_COLUMNS = "entries.id, encoded, state, payload_state, payload_held"


def stored_of_row(row: tuple[int, bytes, int, int, int]) -> StoredEntry:
    """The entry of a row of ``ENTRY_COLUMNS``; ``StoreDamaged`` if it holds none."""
    entry_id, encoded, state, payload_state, held = row
    try:
        return StoredEntry(Entry.decode(encoded), State(state), PayloadState(payload_state), held, entry_id)
    except (TypeError, ValueError) as error:  # a malformed entry is a ``ValueError``, too
        raise StoreDamaged(f"the store is damaged: row {entry_id} of its entries: {error}") from None


def stored_entry(connection: sqlite3.Connection, log: int, seq: int, variant: int) -> StoredEntry | None:
    """The entry of a row's place: the log's row id, the number as stored, the variant."""
    row = connection.execute(
        f"SELECT {ENTRY_COLUMNS} FROM entries WHERE log = ? AND seq = ? AND variant = ?", (log, seq, variant)
    ).fetchone()
    return None if row is None else stored_of_row(row)


def get(database: Database, place: Place) -> StoredEntry | None:
    """The entry at a place; of several that contradict each other the one that came first."""
    with database.snapshot() as connection:
        row = connection.execute(
            f"SELECT {ENTRY_COLUMNS} FROM entries JOIN logs ON logs.id = log"
            " WHERE author = ? AND log_id = ? AND seq = ? ORDER BY variant LIMIT 1",
            (place.author, to_sql(place.log_id), to_sql(place.seq)),
        ).fetchone()
    return None if row is None else stored_of_row(row)


def entries(database: Database, log: Log, low: int, high: int, states: Iterable[State]) -> Iterator[StoredEntry]:
    """The entries of a log from ``low`` to ``high`` in one of ``states``, ascending."""
    wanted = ", ".join(str(int(state)) for state in states)
    after, variant = to_sql(max(low, 1)) - 1, MAX_VARIANT
    while True:
        with database.snapshot() as connection:
            rows = connection.execute(
                f"SELECT {ENTRY_COLUMNS}, seq, variant FROM entries"
                " WHERE log = (SELECT id FROM logs WHERE author = ? AND log_id = ?)"
                f" AND (seq, variant) > (?, ?) AND seq <= ? AND state IN ({wanted})"
                " ORDER BY seq, variant LIMIT ?",
                (log[0], to_sql(log[1]), after, variant, to_sql(min(high, MAX_U64)), _PAGE),
            ).fetchall()
        for row in rows:
            yield stored_of_row(row[:5])
        if len(rows) < _PAGE:
            return
        database.expect_beyond((after, variant), rows[-1][5:])
        after, variant = rows[-1][5:]


def sendables(database: Database, log: Log, low: int, high: int, limit: int) -> list[Sendable]:
    """The first ``limit`` verified entries from ``low`` to ``high`` whose payload is held, ascending."""
    with database.snapshot() as connection:
        rows = connection.execute(
            "SELECT seq, encoded, payload_held, CAST(coalesce(piece, x'') AS BLOB), entries.id FROM entries"
            " LEFT JOIN payloads ON entry = entries.id AND at = 0"
            " WHERE log = (SELECT id FROM logs WHERE author = ? AND log_id = ?)"
            " AND seq BETWEEN ? AND ? AND state = 2 AND payload_state = 2 ORDER BY seq LIMIT ?",
            (log[0], to_sql(log[1]), to_sql(low), to_sql(high), limit),
        ).fetchall()
    if rows:
        database.expect_beyond(to_sql(low) - 1, rows[-1][0])
    return [Sendable(from_sql(seq), encoded, size, start, row) for seq, encoded, size, start, row in rows]


MAX_VARIANT = 2**31  # beyond every variant there is


def every_entry(database: Database) -> Iterator[tuple[Log, int, bytes, bytes, int, int, int, int]]:
    """All that is held, by author, log and number, unread.

    Log, number, bytes, hash, state, payload state, payload bytes held, row id.
    """
    after: tuple[bytes, int, int, int] = (b"", to_sql(0), to_sql(0), 0)
    while True:
        with database.snapshot() as connection:
            rows = connection.execute(
                "SELECT author, log_id, seq, variant, encoded, hash, state, payload_state, payload_held, entries.id"
                " FROM logs JOIN entries ON log = logs.id"
                " WHERE (author, log_id, seq, variant) > (?, ?, ?, ?)"
                " AND (author, log_id) >= (?, ?)"
                " ORDER BY author, log_id, seq, variant LIMIT ?",
                (*after, *after[:2], _PAGE),
            ).fetchall()
        for author, log_id, seq, _, *rest in rows:
            if log_id is None or seq is None:  # read from an index that does not have what the table has
                raise StoreDamaged(f"{database.path}: an index of the store is damaged")
            yield ((author, from_sql(log_id)), from_sql(seq), *rest)
        if len(rows) < _PAGE:
            return
        database.expect_beyond(after, rows[-1][:4])
        after = rows[-1][:4]


def logs_by(database: Database, author: bytes) -> list[Log]:
    """The logs of an author of which anything is verified."""
    with database.snapshot() as connection:
        rows = connection.execute(
            "SELECT log_id FROM logs WHERE author = ? AND newest IS NOT NULL ORDER BY log_id", (author,)
        ).fetchall()
    return [(author, from_sql(log_id)) for (log_id,) in rows]


def logs(database: Database) -> Iterator[LogSummary]:
    """What is held of each log, by author and log id."""
    with database.snapshot() as connection:
        rows = connection.execute(
            "SELECT author, log_id, newest, forked_at, invalid_from, ended_at, entry_count, payload_count,"
            " (SELECT count(*) FROM entries WHERE log = logs.id AND state = 1),"
            " (SELECT count(*) FROM entries WHERE log = logs.id AND state = 3)"
            " FROM logs ORDER BY author, log_id"
        ).fetchall()
    for author, log_id, newest, forked_at, invalid_from, ended_at, verified, payloads, waiting, invalid in rows:
        if verified or waiting or invalid:
            yield LogSummary(
                author=author,
                log_id=from_sql(log_id),
                newest=0 if newest is None else from_sql(newest),
                entries=verified,
                payloads=payloads,
                waiting=waiting,
                invalid=invalid,
                forked_at=None if forked_at is None else from_sql(forked_at),
                invalid_from=None if invalid_from is None else from_sql(invalid_from),
                ended=ended_at is not None and ended_at == newest,
            )


def offers(database: Database, since: int, only: Log | None = None) -> Iterator[Offer]:
    """How far each log that changed after change number ``since`` can be sent; only one log, if one is given."""
    where = "change > ?"
    values: list[object] = [since]
    if only is not None:
        where = "author = ? AND log_id = ?"
        values = [only[0], to_sql(only[1])]
    found = []
    with database.snapshot() as connection:
        rows = connection.execute(
            "SELECT id, author, log_id, newest, (SELECT min(seq) FROM entries"
            "  WHERE log = logs.id AND state = 2 AND payload_state <> 2) AS gap"
            f" FROM logs WHERE {where} AND newest IS NOT NULL",
            values,
        ).fetchall()
        for log, author, log_id, newest_verified, gap in rows:
            newest = newest_verified
            if gap is not None:
                (newest,) = connection.execute(
                    "SELECT max(seq) FROM entries WHERE log = ? AND state = 2 AND seq < ?", (log, gap)
                ).fetchone()
            found.append((author, log_id, newest, gap))
    for author, log_id, newest, gap in found:
        yield Offer(
            author,
            from_sql(log_id),
            0 if newest is None else from_sql(newest),
            None if gap is None else from_sql(gap),
        )


def missing(database: Database, log: Log, low: int, high: int, limit: int) -> list[tuple[int, int]]:
    """The first ``limit`` spans of numbers from ``low`` to ``high`` whose entry or payload is missing and wanted.

    Nothing at or after a fork is wanted. What waits for its path is held; forgotten payloads are not wanted.
    """
    with database.snapshot() as connection:
        row = connection.execute(
            "SELECT id, contiguous, invalid_from, newest FROM logs WHERE author = ? AND log_id = ?",
            (log[0], to_sql(log[1])),
        ).fetchone()
        if row is None:
            return [(low, high)] if low <= high else []
        log_row, contiguous, invalid_from, _ = row
        low = max(low, from_sql(contiguous) + 1)
        if invalid_from is not None:
            high = min(high, from_sql(invalid_from) - 1)
        spans: list[tuple[int, int]] = []
        held = connection.execute(
            "SELECT DISTINCT seq FROM entries"
            " WHERE log = ? AND seq BETWEEN ? AND ? AND payload_state IN (2, 3) ORDER BY seq",
            (log_row, to_sql(low), to_sql(high)),
        )
        for (stored,) in held:
            seq = from_sql(stored)
            if seq > low:
                spans.append((low, seq - 1))
                if len(spans) >= limit:
                    return spans
            low = seq + 1
        if low <= high:
            spans.append((low, high))
        return spans


def waiting(database: Database, log: Log, limit: int) -> list[int]:
    """The first ``limit`` numbers of entries that wait for their path, ascending."""
    rows = database.read(
        "SELECT DISTINCT seq FROM entries WHERE log = (SELECT id FROM logs WHERE author = ? AND log_id = ?)"
        " AND state = 1 ORDER BY seq LIMIT ?",
        (log[0], to_sql(log[1]), limit),
    )
    return [from_sql(seq) for (seq,) in rows]


def forgotten(database: Database, log: Log, limit: int) -> list[tuple[int, int]]:
    """The first ``limit`` runs of verified entries whose payload was forgotten, ascending."""
    with database.snapshot() as connection:
        rows = connection.execute(
            "SELECT DISTINCT seq FROM entries WHERE log = (SELECT id FROM logs WHERE author = ? AND log_id = ?)"
            " AND state = 2 AND payload_state <> 2 AND payload_state = 3 ORDER BY seq",
            (log[0], to_sql(log[1])),
        )
        return list(islice(runs_of(from_sql(seq) for (seq,) in rows), limit))


def fork_proofs(database: Database, log: Log | None) -> Iterator[ForkProof]:
    """The fork proofs held (of one log), the lowest position of each log first."""
    with database.snapshot() as connection:
        rows = connection.execute(
            "SELECT first, second FROM forks JOIN logs ON logs.id = log"
            + (" WHERE author = ? AND log_id = ?" if log else "")
            + " ORDER BY author, log_id, position, forks.id",
            (log[0], to_sql(log[1])) if log else (),
        ).fetchall()
    for first, second in rows:
        yield ForkProof.decode(first + second)


def changed_logs(database: Database, since: int) -> tuple[int, list[Log]]:
    """The number of the last change, and the logs that changed after change number ``since``."""
    with database.snapshot() as connection:
        (last,) = connection.execute("SELECT value FROM counters WHERE name = 'change'").fetchone()
        rows = connection.execute("SELECT author, log_id FROM logs WHERE change > ?", (since,)).fetchall()
    return int(last), [(author, from_sql(log_id)) for author, log_id in rows]


def change(database: Database) -> int:
    """The number of the store's last change."""
    with database.snapshot() as connection:
        return int(connection.execute("SELECT value FROM counters WHERE name = 'change'").fetchone()[0])
