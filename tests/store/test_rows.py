"""Rows become values: what fits a column passes, what does not is damage, and a mistake of a caller stays one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from culm.errors import Place, StoreDamaged
from culm.store import SQLiteStore, rows
from culm.store.rows import (
    AT,
    BYTES,
    COUNT,
    FLAG,
    ID,
    KEY,
    LOG_ID,
    PAYLOAD_STATE,
    ROW,
    SEQ,
    SIGN,
    STATE,
    TEXT,
    DamagedRow,
)
from culm.testing import build_log
from tests.store.below import database_of
from tests.store.damage import put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from culm.store.rows import Column

LOG = build_log(5)
NAME = LOG.entries[0].log
MOST = (1 << 63) - 1


@pytest.mark.parametrize(
    ("column", "good", "bad"),
    [
        (LOG_ID, [0, -MOST - 1, MOST], [None, "1", 1.0, b"1"]),
        (SEQ, [0, -MOST, MOST], [-MOST - 1, None]),
        (AT, [-MOST - 1, MOST - 1], [MOST, None]),
        (COUNT, [0, 1 << 62], [-1, (1 << 62) + 1]),
        (ROW, [1], [0, -1]),
        (STATE, [1, 3], [0, 4]),
        (PAYLOAD_STATE, [0, 4], [-1, 5]),
        (SIGN, [-1, 0, 1], [2, -2]),
        (FLAG, [0, 1], [-1, 2]),
        (BYTES, [b"", b"1"], ["", None, 1]),
        (ID, [bytes(32)], [b"", bytes(31), bytes(33)]),
        (KEY, [bytes(40)], [bytes(39)]),
        (TEXT, ["", "a"], [b"a", None]),
    ],
)
def test_columns(column: Column, good: list[object], bad: list[object]) -> None:
    """A column takes its own values, alone and beside others; any other value is damage, wherever it stands."""
    column.check(good)
    column.or_null().check([None, *good])
    column.or_null().check([None])
    column.or_null().check_one(None)
    for value in good:
        column.check_one(value)
        column.or_null().check_one(value)
    for value in bad:
        with pytest.raises(DamagedRow, match="a row holds"):
            column.check([*good, value, *good])
        with pytest.raises(DamagedRow, match="a row holds"):
            column.check_one(value)
        if value is not None:
            with pytest.raises(DamagedRow):
                column.or_null().check([None, value])


def test_reading_rows() -> None:
    """All ways to read give the same rows, check each column, and refuse another number of columns."""
    with closing(sqlite3.connect(":memory:")) as connection:

        def query(text: str = "SELECT 1, 'a' UNION ALL SELECT 2, 'b'") -> sqlite3.Cursor:
            return connection.execute(text)

        expected = [(1, "a"), (2, "b")]
        many = query(" UNION ALL ".join(["SELECT 1, 'a'"] * 9))
        assert [(1, "a")] * 9 == rows.all_rows(many, COUNT, TEXT)
        with pytest.raises(DamagedRow):
            rows.all_rows(query(" UNION ALL ".join(["SELECT 1, 'a'"] * 9)), COUNT, BYTES)
        assert expected == rows.all_rows(query(), COUNT, TEXT) == list(rows.each_row(query(), COUNT, TEXT))
        assert expected[0] == rows.first_row(query(), COUNT, TEXT) == rows.the_row(query(), COUNT, TEXT)
        nothing = "SELECT 1, 'a' WHERE 0"
        assert rows.first_row(query(nothing), COUNT, TEXT) is None
        assert [] == rows.all_rows(query(nothing), COUNT, TEXT)
        with pytest.raises(DamagedRow, match="a row is missing"):
            rows.the_row(query(nothing), COUNT, TEXT)
        readers: list[Callable[..., object]] = [rows.all_rows, rows.first_row, rows.the_row]
        for read in [*readers, lambda *args: list(rows.each_row(*args))]:
            with pytest.raises(DamagedRow):
                read(query(), COUNT, BYTES)
            with pytest.raises(ValueError, match="zip"):
                read(query(), COUNT)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_mistake_of_a_caller_is_told_at_once(tmp_path: Path, *, is_damaged: bool) -> None:
    """A wrong argument raises Python's own error, and the store is not searched for damage, even if there is some."""
    path = tmp_path / "s.db"
    with SQLiteStore(path) as store:
        store.add(LOG.items())
    if is_damaged:
        assert put(path, "news", "kind", "'text'")
    asked: list[str] = []
    with SQLiteStore(path, read_only=True) as store:
        database_of(store).connection.set_trace_callback(asked.append)
        with pytest.raises(AttributeError):
            store.get(None)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            list(store.entries_of(7))  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            list(store.entries(NAME, "1"))  # type: ignore[arg-type]
        assert not [query for query in asked if "typeof" in query or "integrity_check" in query]
        assert len(asked) <= 8


def test_a_value_that_sqlite_cannot_take_is_no_damage(tmp_path: Path) -> None:
    """A parameter of a type that SQLite does not know is a mistake of the caller, not of the file."""
    with SQLiteStore(tmp_path / "s.db") as store, pytest.raises(sqlite3.ProgrammingError):
        store.get(Place(object(), 0, 1))  # type: ignore[arg-type]


def test_a_damaged_row_names_file_and_value(tmp_path: Path) -> None:
    """Whoever reads a damaged row learns which file is damaged, what stands there, and what belongs there."""
    path = tmp_path / "s.db"
    with SQLiteStore(path) as store:
        store.add(LOG.items())
    assert put(path, "entries", "encoded", "'text'", "id = 3")
    with SQLiteStore(path, read_only=True) as store:
        assert store.get(LOG.entries[1].place) is not None
        with pytest.raises(StoreDamaged) as caught:
            store.get(LOG.entries[2].place)
        assert str(caught.value) == (
            f"{path}: the store's file is damaged: a row holds 'text' where a byte string is expected"
        )
