"""New stores for tests that need some but do not test how one is made.

Making the tables of a store takes SQLite several milliseconds of CPU, and the tests need thousands of stores. All new
stores have the same bytes (``tests/store/test_database.py``), so one is made, and its file is copied.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from culm.store import SQLiteStore


def blank_store(path: Path) -> SQLiteStore:
    """A new store at a path that does not exist."""
    with path.open("xb") as file:
        file.write(_blank())
    return SQLiteStore(path)


@cache
def _blank() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "blank"
        SQLiteStore(path).close()
        return path.read_bytes()
