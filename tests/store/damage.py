"""Damage that SQLite itself would not let anybody do."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def put(path: Path, table: str, column: str, value: str, where: str = "1") -> bool:
    """Have a column of some rows hold a value, NULL included; whether that could be done, and to any row."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection, _anything_goes(connection, table):
        try:
            return connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {where}").rowcount > 0
        except sqlite3.IntegrityError:  # several rows with one key, or NULL for one, are not even damage
            return False


def flip(place: Path, seq: int, at: int = 0) -> None:
    """Change one bit of a stored payload, as a disk does: nobody is told."""
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        number = f"(SELECT id FROM entries WHERE seq = {seq - 2**63})"
        row = connection.execute(f"SELECT name FROM payload_files WHERE entry = {number}").fetchone()
        if row is not None:
            with (place.with_name(place.name + "-payloads") / row[0]).open("r+b") as file:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 4]))
            return
        first, piece = connection.execute(
            f"SELECT at, piece FROM payloads WHERE entry = {number} AND at <= ? ORDER BY at DESC LIMIT 1", (at,)
        ).fetchone()
        changed = bytearray(piece)
        changed[at - first] ^= 4
        connection.execute(f"UPDATE payloads SET piece = ? WHERE entry = {number} AND at = ?", (bytes(changed), first))


_INDEX = re.compile(r"(CREATE (?:UNIQUE )?INDEX \w+ ON \w+ )\((.*?)\)(.*)", re.DOTALL)


def indexes(path: Path) -> dict[str, int]:
    """The indexes that have a name of ours, and how many columns each has."""
    columns = "SELECT count(*) FROM pragma_index_info(declared.name)"
    query = f"SELECT name, ({columns}) FROM sqlite_schema AS declared WHERE type = 'index' AND sql <> ''"
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute(query))


def skew(path: Path, index: str, column: int, value: str) -> None:
    """Have an index say of all rows that a column, counted from 0, is something else than their table says."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        query = "SELECT sql FROM sqlite_schema WHERE name = ?"
        ((declared,),) = connection.execute(query, (index,)).fetchall()
        found = _INDEX.fullmatch(declared)
        assert found is not None
        before, inside, behind = found.groups()
        parts = inside.split(", ")
        parts[column] = f"(+{value})"
        connection.execute(f"DROP INDEX {index}")
        connection.execute(f"{before.replace('UNIQUE', '')}({', '.join(parts)}){behind}")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (declared, index))
        connection.execute("PRAGMA writable_schema = RESET")


def columns(path: Path, table: str) -> list[str]:
    """The columns of a table."""
    with closing(sqlite3.connect(path)) as connection:
        return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


@contextmanager
def _anything_goes(connection: sqlite3.Connection, table: str) -> Iterator[None]:
    triggers = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    ((declared,),) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    _declare(connection, table, re.sub(r"NOT\s+NULL", "", declared))
    yield
    _declare(connection, table, declared)
    for _, sql in triggers:
        connection.execute(sql)


def _declare(connection: sqlite3.Connection, table: str, sql: str) -> None:
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, table))
    connection.execute("PRAGMA writable_schema = RESET")
