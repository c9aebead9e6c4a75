"""Small things that several parts of the store do with its tables, inside a transaction of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bamboo.yamf import YAMF_PREFIX
from culm.store.schema import to_sql

if TYPE_CHECKING:
    import sqlite3

    from culm.errors import Place
    from culm.store.interface import Bytes, Log

PIECE_BYTES = 64 * 1024  # payloads are stored in pieces of at most this size


def next_change(connection: sqlite3.Connection) -> int:
    """Count this transaction as a change of the store; its number."""
    (change,) = connection.execute(
        "UPDATE counters SET value = value + 1 WHERE name = 'change' RETURNING value"
    ).fetchone()
    return int(change)


def next_entry_id(connection: sqlite3.Connection) -> int:
    """The row id for the next entry: they grow in the order of arrival."""
    (greatest,) = connection.execute("SELECT max(id) FROM entries").fetchone()
    return (greatest or 0) + 1


def write_pieces(connection: sqlite3.Connection, entry_id: int, offset: int, data: Bytes) -> None:
    """Store ``data`` as the payload's bytes from ``offset`` on, inside the caller's transaction."""
    if len(data) <= PIECE_BYTES:
        if len(data):
            connection.execute("INSERT INTO payloads VALUES (?, ?, ?)", (entry_id, offset, data))
        return
    view = memoryview(data)
    connection.executemany(
        "INSERT INTO payloads VALUES (?, ?, ?)",
        ((entry_id, offset + at, view[at : at + PIECE_BYTES]) for at in range(0, len(view), PIECE_BYTES)),
    )


def write_payloads(connection: sqlite3.Connection, payloads: list[tuple[int, Bytes]]) -> None:
    """Store whole payloads, each with its entry's row id, inside the caller's transaction."""
    small = [(entry_id, 0, data) for entry_id, data in payloads if 0 < len(data) <= PIECE_BYTES]
    connection.executemany("INSERT INTO payloads VALUES (?, ?, ?)", small)
    for entry_id, data in payloads:
        if len(data) > PIECE_BYTES:
            write_pieces(connection, entry_id, 0, data)


def find_entry(
    connection: sqlite3.Connection, place: Place, entry_hash: bytes | None = None
) -> tuple[int, bytes, int, int] | None:
    """Row id, bytes, payload state and payload bytes held of the entry at a place.

    Of several that contradict each other: the one of the given hash (66 bytes), else the one that came first.
    """
    row: tuple[int, bytes, int, int] | None = connection.execute(
        "SELECT entries.id, encoded, payload_state, payload_held FROM entries JOIN logs ON logs.id = log"
        " WHERE author = ? AND log_id = ? AND seq = ? AND hash = coalesce(?, hash) ORDER BY variant LIMIT 1",
        (place.author, to_sql(place.log_id), to_sql(place.seq), entry_hash and entry_hash[len(YAMF_PREFIX) :]),
    ).fetchone()
    return row


def find_log(connection: sqlite3.Connection, log: Log) -> int | None:
    """The row id of a log; None if nothing of it is held."""
    row = connection.execute("SELECT id FROM logs WHERE author = ? AND log_id = ?", (log[0], to_sql(log[1]))).fetchone()
    return None if row is None else int(row[0])
