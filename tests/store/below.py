"""The database below a store, for tests of what a store makes of tables and files that are not as it left them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from culm.store.schema import SCRIPTS

if TYPE_CHECKING:
    from culm.store import SQLiteStore
    from culm.store.database import Database


def database_of(store: SQLiteStore) -> Database:
    """The database of a store: its own connection, so that settings and transactions on it are the store's.

    The one place in the tests that reaches into a store. A connection of the test's own to the same file will not do:
    it neither shares the store's transaction nor holds what the store has switched off or bounded for itself.
    """
    return store._database


def let_nothing_wait(store: SQLiteStore) -> None:
    """Refuse entries whose certificate path is not there, as a store does whose holding area is full."""
    store._max_waiting = 0, 0


_OURS = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'"


def age(connection: sqlite3.Connection, version: int) -> None:
    """Give a store the tables, indexes and triggers of an earlier version, and its counters. Other rows are kept."""
    _list_each(connection)
    with closing(sqlite3.connect(":memory:")) as earlier:
        for script in SCRIPTS[:version]:
            earlier.executescript(script)
        counters = earlier.execute("SELECT name FROM counters").fetchall()
        kept = {(kind, name): sql for kind, name, sql in earlier.execute(_OURS)}
        columns = {
            name: {row[1] for row in earlier.execute(f"PRAGMA table_info({name})")}
            for kind, name in kept
            if kind == "table"
        }
    for kind, name, _ in sorted(connection.execute(_OURS), key=lambda row: str(row[0]) == "table"):
        if kind != "table" or (kind, name) not in kept:
            connection.execute(f"DROP {kind} {name}")
    for table, names in columns.items():
        for row in connection.execute(f"PRAGMA table_info({table})").fetchall():
            if row[1] not in names:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {row[1]}")
    with closing(sqlite3.connect(":memory:")) as newest:
        for script in SCRIPTS:
            newest.executescript(script)
        later = set(newest.execute("SELECT name FROM counters")) - set(counters)
    connection.executemany("DELETE FROM counters WHERE name = ?", later)
    for (kind, _), sql in kept.items():
        if kind != "table":
            connection.execute(sql)
    connection.execute(f"PRAGMA user_version = {version}")


def _list_each(connection: sqlite3.Connection) -> None:
    """Have a row for each of the news, as versions before 8 had."""
    runs = connection.execute("SELECT change, log, seq, kind, entry, count FROM news WHERE count > 1").fetchall()
    for change, log, seq, kind, entry, count in runs:
        rows = [(change, log, seq + at, kind, entry + at) for at in range(1, count)]
        connection.executemany("INSERT INTO news VALUES (?, ?, ?, ?, ?, 1)", rows)
