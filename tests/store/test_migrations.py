"""Stores of earlier versions become stores of the newest one, and numbers and states keep their form."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from culm.errors import StoreError
from culm.store import SQLiteStore, State, opening, schema
from culm.store.database import Database
from culm.testing import build_log
from tests.store.below import database_of
from tests.store.model import look

LOG = build_log(40, payload_size=3000)
NAME = LOG.entries[0].log


def test_older_stores_are_brought_up_to_date(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of an older version is migrated when it is opened, keeping what it holds; for reading only it is not."""
    with SQLiteStore(place) as store:
        store.add(LOG.items())
        before = look(store, NAME)
    steps = [*opening.MIGRATIONS, lambda database: database.connection.execute("CREATE TABLE more (x)")]
    monkeypatch.setattr(opening, "MIGRATIONS", steps)
    with SQLiteStore(place) as store:
        connection = database_of(store).connection

        assert before == look(store, NAME)
        assert (len(steps) + 1,) == connection.execute("PRAGMA user_version").fetchone()
        assert [] == connection.execute("SELECT x FROM more").fetchall()


def test_migrations_that_fail(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a step of a migration fails the store is as it was before all of them."""
    with SQLiteStore(place) as store:
        store.add(LOG.items())
        before = look(store, NAME)
    steps = [
        *opening.MIGRATIONS,
        lambda database: database.connection.execute("DROP TABLE payloads"),
        lambda database: database.connection.execute("nonsense"),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(opening, "MIGRATIONS", steps)
        with pytest.raises(StoreError, match="nonsense"):
            SQLiteStore(place)
    with SQLiteStore(place) as store:
        assert before == look(store, NAME)


def test_a_first_opening_that_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If making the tables fails the file is still one that can become a store."""
    with monkeypatch.context() as patch:
        patch.setattr(opening, "NEWEST", f"{schema.NEWEST}nonsense;\n")
        with pytest.raises(StoreError, match="nonsense"):
            SQLiteStore(place)
    with SQLiteStore(place) as store:
        assert 40 == store.add(LOG.items()).added


@pytest.mark.parametrize("version", range(1, schema.VERSION))
def test_a_migrated_store_is_as_a_fresh_one(tmp_path: Path, version: int) -> None:
    """An empty store of any version is migrated to the definitions and rows of a fresh store, letter by letter."""
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.executescript(schema.SCRIPTS[0])
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    with closing(Database(tmp_path / "old.db")) as database, database.transaction() as connection:
        for step in opening.MIGRATIONS[: version - 1]:
            step(database)
        connection.execute(f"PRAGMA user_version = {version}")
    dumps = []
    for file in ("old.db", "fresh.db"):
        SQLiteStore(tmp_path / file).close()
        with closing(sqlite3.connect(tmp_path / file)) as connection:
            numbers = [
                connection.execute(f"PRAGMA {number}").fetchone() for number in ("user_version", "application_id")
            ]
            dumps.append((sorted(connection.iterdump()), numbers))

    assert "ALTER" not in schema.NEWEST
    assert dumps[0] == dumps[1]


@pytest.mark.parametrize("number", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_numbers_of_64_bits(number: int) -> None:
    """Every unsigned 64-bit number has its place among SQLite's signed ones, and comes back."""
    assert -(2**63) <= schema.to_sql(number) < 2**63
    assert number == schema.from_sql(schema.to_sql(number))


def test_states_are_part_of_the_schema() -> None:
    """The numbers that stand for states in the file never change."""
    assert {"WAITING": 1, "VERIFIED": 2, "INVALID": 3} == {state.name: int(state) for state in State}
    assert {"ABSENT": 0, "PARTIAL": 1, "COMPLETE": 2, "FORGOTTEN": 3, "SIZE_MISMATCH": 4} == {
        state.name: int(state) for state in schema.PayloadState
    }
