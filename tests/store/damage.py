"""Damage that SQLite itself would not let anybody do."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def empty(path: Path, table: str, column: str, where: str) -> None:
    """Have a column of some rows hold nothing, although its table says NOT NULL."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        ((declared,),) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,))
        allowed, count = re.subn(rf"({column}\s+\w+)\s+NOT NULL", r"\1", declared)
        assert count == 1
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (allowed, table))
        connection.execute("PRAGMA writable_schema = RESET")
        assert connection.execute(f"UPDATE {table} SET {column} = NULL WHERE {where}").rowcount
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (declared, table))
