"""Checking each value of every table: its type, and the range of numbers.

SQLite keeps a value of any type in any column. Reading checks the rows that it uses (``culm.store.rows``); verifying a
store also has to find damage in rows that no query happens to read, so it looks at all of them here.
"""

import sqlite3

from culm.errors import StoreDamaged
from culm.store.database import Database
from culm.store.rows import COUNT, the_row
from culm.store.schema import PayloadState, State

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
# SQL conditions, as in ``culm.store.rows``.
_ROW = f"BETWEEN 1 AND {1 << 62}"
_COUNT = f"BETWEEN 0 AND {1 << 62}"
_SEQ = f">= {-(1 << 63) + 1}"
_NOT_LAST = f"< {(1 << 63) - 1}"
_STATES, _PAYLOAD_STATES = (
    f"IN ({', '.join(str(int(state)) for state in states)})" for states in (State, PayloadState)
)
_SIZES = {  # the ranges of numbers that Culm computes with
    "logs": {
        "id": _ROW,
        "change": _COUNT,
        "entry_count": _COUNT,
        "payload_count": _COUNT,
        "contiguous": _NOT_LAST,
        **dict.fromkeys(("newest", "greatest", "ended_at", "forked_at", "invalid_from"), _SEQ),
    },
    "entries": {"id": _ROW, "seq": _SEQ, "state": _STATES, "payload_state": _PAYLOAD_STATES, "payload_held": _COUNT},
    "payloads": {"entry": _ROW, "at": _COUNT},
    "counters": {"value": _COUNT},
    "record_blocks": {"count": _COUNT, "held_count": _COUNT},
    "runs": {"first": "<= last", "last": _NOT_LAST},
    "record_changes": {"entry": _ROW, "listed": "BETWEEN -1 AND 1", "held": "BETWEEN -1 AND 1"},
    "news": {"change": _COUNT, "seq": _SEQ, "entry": _ROW},
}
_THERE = {  # rows that exist from the beginning
    "the number of its last change": "SELECT count(*) = 2 FROM counters WHERE name IN ('change', 'unsettled')",
    "the beginning of its record index": "SELECT count(*) = 2 FROM record_blocks WHERE kind IN (0, 1) AND first = x''",
}


def check_kinds(database: Database) -> None:
    """Look at every row, but read no large value; ``StoreDamaged`` if a value has the wrong type or size."""
    with database.snapshot() as connection:
        for table in TABLES:
            query = f"SELECT count(*) FROM {table} WHERE {_misfit(connection, table)}"
            (count,) = the_row(connection.execute(query), COUNT)
            if count:
                raise StoreDamaged(
                    f"{database.path}: the store's file is damaged: {count} rows of its table {table} hold values that"
                    " Culm never writes"
                )
        for what, query in _THERE.items():
            if not the_row(connection.execute(query), COUNT)[0]:
                raise StoreDamaged(f"{database.path}: the store's file is damaged: {what} is missing")


def _misfit(connection: sqlite3.Connection, table: str) -> str:
    """The SQL condition that is true for a row with a value of another type than its column's, or out of range."""
    wrong = ["0"]
    for _, column, kind, needed, _, key in connection.execute(f"PRAGMA table_info({table})"):
        kinds = {"INTEGER": "'integer'", "BLOB": "'blob'", "TEXT": "'text'"}.get(kind, "''")
        allowed = kinds if needed or key else f"{kinds}, 'null'"
        wrong.append(f'typeof("{_quoted(column)}") NOT IN ({allowed})')
    wrong += [f"NOT {column} {condition}" for column, condition in _SIZES.get(table, {}).items()]
    return " OR ".join(wrong)


def _quoted(name: str) -> str:
    return name.replace('"', '""')
