"""Reading: entries, logs, offers, gaps, fork proofs.

Long answers are read page by page, and each page is a short snapshot of its own. One snapshot for the whole answer
would be simpler, but SQLite cannot fold the WAL file back beyond the oldest snapshot, so a slow reader would let the
file grow without bound.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice

from culm.bamboo import MAX_U64, Entry, ForkProof
from culm.errors import InvalidEntry, Place, StoreDamaged
from culm.store.database import Database
from culm.store.records.runs import runs_of
from culm.store.rows import (
    AT,
    BYTES,
    COUNT,
    LOG_ID,
    PAYLOAD_STATE,
    ROW,
    SEQ,
    STATE,
    all_rows,
    each_row,
    first_row,
    in_order,
    last_change,
    proof_of,
    the_row,
)
from culm.store.schema import (
    IS_COMPLETE,
    IS_FORGOTTEN,
    IS_INCOMPLETE,
    IS_INVALID,
    IS_SETTLED,
    IS_VERIFIED,
    IS_WAITING,
    PayloadState,
    State,
    from_sql,
    to_sql,
)
from culm.store.values import LogSummary, Offer, Sendable, StoredEntry
from culm.types import Log

_PAGE = 500  # rows of one snapshot: milliseconds, so that no reader holds up the folding of the WAL file
_OPTIONAL = SEQ.or_null()
ENTRY_COLUMNS = "entries.id, encoded, state, payload_state, payload_held"
ENTRY_ROW = ROW, BYTES, STATE, PAYLOAD_STATE, COUNT
"""What these columns hold."""


def stored_of_row(row: tuple[int, bytes, int, int, int]) -> StoredEntry:
    """The entry of a checked row of ``ENTRY_COLUMNS``; ``StoreDamaged`` if its bytes are no entry."""
    entry_id, encoded, state, payload_state, held = row
    try:
        return StoredEntry(Entry.decode(encoded), State(state), PayloadState(payload_state), held, entry_id)
    except InvalidEntry as error:
        raise StoreDamaged(f"the store is damaged: row {entry_id} of its entries: {error}") from None


def stored_entry(connection: sqlite3.Connection, log: int, seq: int, variant: int) -> StoredEntry | None:
    """The entry with this row id of its log, number as stored, and variant; None if it is not held any more."""
    query = f"SELECT {ENTRY_COLUMNS} FROM entries WHERE log = ? AND seq = ? AND variant = ?"
    row = first_row(connection.execute(query, (log, seq, variant)), *ENTRY_ROW)
    return None if row is None else stored_of_row(row)


def get(database: Database, place: Place) -> StoredEntry | None:
    """The entry at a place; of several that contradict each other the one that came first."""
    with database.snapshot() as connection:
        row = first_row(
            connection.execute(
                f"SELECT {ENTRY_COLUMNS} FROM entries JOIN logs ON logs.id = log"
                " WHERE author = ? AND log_id = ? AND seq = ? ORDER BY variant LIMIT 1",
                (place.author, to_sql(place.log_id), to_sql(place.seq)),
            ),
            *ENTRY_ROW,
        )
    return None if row is None else stored_of_row(row)


def entries(database: Database, log: Log, low: int, high: int, states: Iterable[State]) -> Iterator[StoredEntry]:
    """The entries of a log from ``low`` to ``high`` in one of ``states``, ascending."""
    wanted = ", ".join(str(int(state)) for state in states)
    after, variant = to_sql(max(low, 1)) - 1, MAX_VARIANT
    while True:
        with database.snapshot() as connection:
            rows = all_rows(
                connection.execute(
                    f"SELECT {ENTRY_COLUMNS}, seq, variant FROM entries"
                    " WHERE log = (SELECT id FROM logs WHERE author = ? AND log_id = ?)"
                    f" AND (seq, variant) > (?, ?) AND seq <= ? AND state IN ({wanted})"
                    " ORDER BY seq, variant LIMIT ?",
                    (log[0], to_sql(log[1]), after, variant, to_sql(min(high, MAX_U64)), _PAGE),
                ),
                *ENTRY_ROW,
                SEQ,
                COUNT,
            )
            if rows:
                in_order((after, variant), rows[-1][5:])
        for row in rows:
            yield stored_of_row(row[:5])
        if len(rows) < _PAGE:
            return
        after, variant = rows[-1][5:]


def sendables(database: Database, log: Log, low: int, high: int, limit: int) -> list[Sendable]:
    """The first ``limit`` verified entries from ``low`` to ``high`` whose payload is held, ascending."""
    with database.snapshot() as connection:
        rows = all_rows(
            connection.execute(
                "SELECT seq, encoded, payload_held, CAST(coalesce(piece, x'') AS BLOB), entries.id FROM entries"
                " LEFT JOIN payloads ON entry = entries.id AND at = 0"
                " WHERE log = (SELECT id FROM logs WHERE author = ? AND log_id = ?)"
                f" AND seq BETWEEN ? AND ? AND {IS_VERIFIED} AND {IS_COMPLETE} ORDER BY seq LIMIT ?",
                (log[0], to_sql(log[1]), to_sql(low), to_sql(high), limit),
            ),
            SEQ,
            BYTES,
            COUNT,
            BYTES,
            ROW,
        )
        if rows:
            in_order(to_sql(low) - 1, rows[-1][0])
    return [Sendable(from_sql(seq), encoded, size, start, row) for seq, encoded, size, start, row in rows]


MAX_VARIANT = 2**31  # greater than every variant, so that (number, MAX_VARIANT) stands after all entries of a number


def every_entry(database: Database) -> Iterator[tuple[Log, int, bytes, bytes, int, int, int, int]]:
    """Every entry held, by author, log and number, not decoded.

    Log, number, bytes, hash, state, payload state, payload bytes held, row id.
    """
    after: tuple[bytes, int, int, int] = (b"", to_sql(0), to_sql(0), 0)
    while True:
        with database.snapshot() as connection:
            rows = all_rows(
                connection.execute(
                    "SELECT author, log_id, seq, variant, encoded, hash, state, payload_state, payload_held, entries.id"
                    " FROM logs JOIN entries ON log = logs.id"
                    " WHERE (author, log_id, seq, variant) > (?, ?, ?, ?)"
                    " AND (author, log_id) >= (?, ?)"
                    " ORDER BY author, log_id, seq, variant LIMIT ?",
                    (*after, *after[:2], _PAGE),
                ),
                *(BYTES, LOG_ID, SEQ, COUNT, BYTES, BYTES, STATE, PAYLOAD_STATE, COUNT, ROW),
            )
            if rows:
                in_order(after, rows[-1][:4])
        for author, log_id, seq, _, *rest in rows:
            yield ((author, from_sql(log_id)), from_sql(seq), *rest)
        if len(rows) < _PAGE:
            return
        after = rows[-1][:4]


def logs_by(database: Database, author: bytes) -> list[Log]:
    """The logs of an author of which anything is verified."""
    with database.snapshot() as connection:
        query = "SELECT log_id FROM logs WHERE author = ? AND newest IS NOT NULL ORDER BY log_id"
        rows = all_rows(connection.execute(query, (author,)), LOG_ID)
    return [(author, from_sql(log_id)) for (log_id,) in rows]


def logs(database: Database) -> Iterator[LogSummary]:
    """What is held of each log, by author and log id."""
    with database.snapshot() as connection:
        rows = all_rows(
            connection.execute(
                "SELECT author, log_id, newest, forked_at, invalid_from, ended_at, entry_count, payload_count,"
                f" (SELECT count(*) FROM entries WHERE log = logs.id AND {IS_WAITING}),"
                f" (SELECT count(*) FROM entries WHERE log = logs.id AND {IS_INVALID})"
                " FROM logs ORDER BY author, log_id"
            ),
            *(BYTES, LOG_ID, _OPTIONAL, _OPTIONAL, _OPTIONAL, _OPTIONAL, COUNT, COUNT, COUNT, COUNT),
        )
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
    """How far each log that changed after change number ``since`` can be sent; of one log only, if one is given.

    Costs a few look-ups a log: the first missing payload comes from a partial index.
    """
    where = "change > ?"
    values: list[object] = [since]
    if only is not None:
        where = "author = ? AND log_id = ?"
        values = [only[0], to_sql(only[1])]
    found = []
    with database.snapshot() as connection:
        rows = all_rows(
            connection.execute(
                "SELECT id, author, log_id, newest, (SELECT min(seq) FROM entries"
                f"  WHERE log = logs.id AND {IS_VERIFIED} AND {IS_INCOMPLETE}) AS gap"
                f" FROM logs WHERE {where} AND newest IS NOT NULL",
                values,
            ),
            *(ROW, BYTES, LOG_ID, SEQ, _OPTIONAL),
        )
        for log, author, log_id, newest_verified, gap in rows:
            newest = newest_verified
            if gap is not None:
                below = f"SELECT max(seq) FROM entries WHERE log = ? AND {IS_VERIFIED} AND seq < ?"
                (newest,) = the_row(connection.execute(below, (log, gap)), _OPTIONAL)
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

    Nothing at or after a fork is wanted, and no forgotten payload. An entry that waits for its path is held.
    """
    with database.snapshot() as connection:
        row = first_row(
            connection.execute(
                "SELECT id, contiguous, invalid_from FROM logs WHERE author = ? AND log_id = ?",
                (log[0], to_sql(log[1])),
            ),
            *(ROW, AT, _OPTIONAL),
        )
        if row is None:
            return [(low, high)] if low <= high else []
        log_row, contiguous, invalid_from = row
        low = max(low, from_sql(contiguous) + 1)
        if invalid_from is not None:
            high = min(high, from_sql(invalid_from) - 1)
        spans: list[tuple[int, int]] = []
        held = connection.execute(
            f"SELECT DISTINCT seq FROM entries WHERE log = ? AND seq BETWEEN ? AND ? AND {IS_SETTLED} ORDER BY seq",
            (log_row, to_sql(low), to_sql(high)),
        )
        for (stored,) in each_row(held, SEQ):
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
        f" AND {IS_WAITING} ORDER BY seq LIMIT ?",
        (log[0], to_sql(log[1]), limit),
        SEQ,
    )
    return [from_sql(seq) for (seq,) in rows]


def forgotten(database: Database, log: Log, limit: int) -> list[tuple[int, int]]:
    """The first ``limit`` runs of verified entries whose payload was forgotten, ascending."""
    with database.snapshot() as connection:
        rows = connection.execute(
            "SELECT DISTINCT seq FROM entries WHERE log = (SELECT id FROM logs WHERE author = ? AND log_id = ?)"
            # The second condition says nothing new, but lets SQLite use the partial index.
            f" AND {IS_VERIFIED} AND {IS_INCOMPLETE} AND {IS_FORGOTTEN} ORDER BY seq",
            (log[0], to_sql(log[1])),
        )
        return list(islice(runs_of(from_sql(seq) for (seq,) in each_row(rows, SEQ)), limit))


def fork_proofs(database: Database, log: Log | None) -> Iterator[ForkProof]:
    """The fork proofs held (of one log), the lowest position of each log first."""
    with database.snapshot() as connection:
        rows = all_rows(
            connection.execute(
                "SELECT first, second FROM forks JOIN logs ON logs.id = log"
                + (" WHERE author = ? AND log_id = ?" if log else "")
                + " ORDER BY author, log_id, position, forks.id",
                (log[0], to_sql(log[1])) if log else (),
            ),
            BYTES,
            BYTES,
        )
    for first, second in rows:
        yield proof_of(first, second)


def changed_logs(database: Database, since: int) -> tuple[int, list[Log]]:
    """The number of the last change, and the logs that changed after change number ``since``."""
    with database.snapshot() as connection:
        last = last_change(connection)
        query = "SELECT author, log_id FROM logs WHERE change > ?"
        rows = all_rows(connection.execute(query, (since,)), BYTES, LOG_ID)
    return last, [(author, from_sql(log_id)) for author, log_id in rows]


def change(database: Database) -> int:
    """The number of the store's last change."""
    with database.snapshot() as connection:
        return last_change(connection)
