"""Whether the tables hold what can be in them: numbers in columns of numbers, bytes in columns of bytes.

SQLite keeps any kind of value in any column. Culm writes what fits; where something else is, the file was damaged in a
way that SQLite does not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.errors import StoreDamaged

if TYPE_CHECKING:
    import sqlite3

    from culm.store.database import Database

TABLES = (
    "logs",
    "entries",
    "payloads",
    "forks",
    "counters",
    "records",
    "record_blocks",
    "runs",
    "record_changes",
    "payload_files",
    "dropped_files",
    "news",
    "payloads_lost",
)


def check_kinds(database: Database) -> None:
    """Look at every row, but at no large value; ``StoreDamaged`` if one holds what cannot be there."""
    with database.snapshot() as connection:
        for table in TABLES:
            query = f"SELECT count(*) FROM {table} WHERE {_misfit(connection, table)}"
            (count,) = connection.execute(query).fetchone()
            if count:
                raise StoreDamaged(f"{database.path}: {count} rows of its table {table} hold what cannot be there")


def _misfit(connection: sqlite3.Connection, table: str) -> str:
    """The condition for a row of a table that has a value of another kind than its column."""
    wrong = ["0"]
    for _, column, kind, needed, _, key in connection.execute(f"PRAGMA table_info({table})"):
        kinds = {"INTEGER": "'integer'", "BLOB": "'blob'", "TEXT": "'text'"}.get(kind, "''")
        allowed = kinds if needed or key else f"{kinds}, 'null'"
        wrong.append(f'typeof("{_quoted(column)}") NOT IN ({allowed})')
    return " OR ".join(wrong)


def _quoted(name: str) -> str:
    return name.replace('"', '""')
