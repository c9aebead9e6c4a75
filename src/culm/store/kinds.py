"""Whether the tables hold what can be in them: numbers in columns of numbers, none too large, bytes in those of bytes.

SQLite keeps any kind of value in any column. Culm writes what fits; where something else is, the file was damaged in a
way that SQLite does not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.errors import StoreDamaged
from culm.store.schema import PayloadState, State

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
_ROW = f"BETWEEN 1 AND {1 << 62}"
_COUNT = f"BETWEEN 0 AND {1 << 62}"
_NOT_LAST = f"< {(1 << 63) - 1}"
_STATES, _PAYLOAD_STATES = (
    f"IN ({', '.join(str(int(state)) for state in states)})" for states in (State, PayloadState)
)
_SIZES = {  # of numbers that are computed with
    "logs": {"id": _ROW, "change": _COUNT, "entry_count": _COUNT, "payload_count": _COUNT, "contiguous": _NOT_LAST},
    "entries": {"id": _ROW, "state": _STATES, "payload_state": _PAYLOAD_STATES, "payload_held": _COUNT},
    "payloads": {"entry": _ROW, "at": _COUNT},
    "counters": {"value": _COUNT},
    "record_blocks": {"count": _COUNT, "held_count": _COUNT},
    "runs": {"first": "<= last", "last": _NOT_LAST},
    "record_changes": {"entry": _ROW, "listed": "BETWEEN -1 AND 1", "held": "BETWEEN -1 AND 1"},
    "news": {"change": _COUNT, "entry": _ROW},
}
_THERE = {  # from the beginning: rows that are to be found
    "the number of its last change": "SELECT count(*) = 2 FROM counters WHERE name IN ('change', 'unsettled')",
    "the beginning of its record index": "SELECT count(*) = 2 FROM record_blocks WHERE kind IN (0, 1) AND first = x''",
}


def check_kinds(database: Database) -> None:
    """Look at every row, but at no large value; ``StoreDamaged`` if one holds what cannot be there."""
    with database.snapshot() as connection:
        for table in TABLES:
            query = f"SELECT count(*) FROM {table} WHERE {_misfit(connection, table)}"
            (count,) = connection.execute(query).fetchone()
            if count:
                raise StoreDamaged(f"{database.path}: {count} rows of its table {table} hold what cannot be there")
        for what, query in _THERE.items():
            if not connection.execute(query).fetchone()[0]:
                raise StoreDamaged(f"{database.path}: {what} is not there")


def check_indexes(database: Database) -> None:
    """Compare every index with its table; ``StoreDamaged`` if one says something else."""
    with database.snapshot() as connection:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise StoreDamaged(f"{database.path}: {found}")


def _misfit(connection: sqlite3.Connection, table: str) -> str:
    """The condition for a row of a table that has a value of another kind than its column."""
    wrong = ["0"]
    for _, column, kind, needed, _, key in connection.execute(f"PRAGMA table_info({table})"):
        kinds = {"INTEGER": "'integer'", "BLOB": "'blob'", "TEXT": "'text'"}.get(kind, "''")
        allowed = kinds if needed or key else f"{kinds}, 'null'"
        wrong.append(f'typeof("{_quoted(column)}") NOT IN ({allowed})')
    wrong += [f"NOT {column} {condition}" for column, condition in _SIZES.get(table, {}).items()]
    return " OR ".join(wrong)


def _quoted(name: str) -> str:
    return name.replace('"', '""')
