"""Small things that several parts of the store do with its tables, inside a transaction of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.bamboo.yamf import YAMF_PREFIX
from culm.store.schema import to_sql

if TYPE_CHECKING:
    import sqlite3

    from culm.errors import Place
    from culm.types import Log


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
