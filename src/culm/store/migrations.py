"""Bringing a store up to date: from an empty file, or from what an earlier version of Culm made."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from culm.store import records
from culm.store.schema import APPLICATION_ID, VERSION_1, VERSION_2, schema_version

if TYPE_CHECKING:
    from collections.abc import Callable


def _to_version_1(connection: sqlite3.Connection) -> None:
    _run(connection, VERSION_1)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _to_version_2(connection: sqlite3.Connection) -> None:
    """The record index."""
    _run(connection, VERSION_2)
    records.rebuild(connection)


# MIGRATIONS[n] turns a store of version n into one of version n + 1, within one transaction.
MIGRATIONS: list[Callable[[sqlite3.Connection], None]] = [_to_version_1, _to_version_2]


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the database to the newest version; an empty one is filled. Call inside a writing transaction."""
    version = schema_version(connection)
    for step in MIGRATIONS[version:]:
        step(connection)
    if version < len(MIGRATIONS):
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _run(connection: sqlite3.Connection, script: str) -> None:
    """Run the script's statements one by one: ``executescript`` would commit the transaction it runs in."""
    lines = ""
    for line in script.splitlines():
        lines += line + "\n"
        if sqlite3.complete_statement(lines):
            connection.execute(lines)
            lines = ""
