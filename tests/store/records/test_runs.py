"""Runs of entries held, against a plain set of numbers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.ranges import Range
from culm.store import SQLiteStore
from culm.store.records import runs
from culm.store.rows import DamagedRow
from culm.store.schema import to_sql
from tests.store.below import database_of

TABLE = "CREATE TABLE runs (log INTEGER, kind INTEGER, first INTEGER, last INTEGER, PRIMARY KEY (log, kind, first))"
NUMBERS = st.sets(st.integers(1, 24), max_size=16)


def runs_of(numbers: set[int]) -> list[tuple[int, int]]:
    """The runs of a set of numbers."""
    firsts = sorted(number for number in numbers if number - 1 not in numbers)
    lasts = sorted(number for number in numbers if number + 1 not in numbers)
    return list(zip(firsts, lasts, strict=True))


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(1, 24), st.integers(0, 6)), max_size=6))
def test_runs_are_those_of_the_set(steps: list[tuple[set[int], set[int], int, int]]) -> None:
    """Whatever comes and goes, singly or as a stretch, the rows are the runs of what is held, and spans are judged so.

    What is held already may come again, and what is not held may go.
    """
    held: set[int] = set()
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLE)
        connection.execute("INSERT INTO runs VALUES (1, 1, ?, ?), (2, 0, ?, ?)", (to_sql(1), to_sql(9)) * 2)
        for came, went, first, more in steps:
            runs.update(
                connection,
                1,
                runs.ENTRIES,
                *([to_sql(seq) - 1 for seq in sorted(part)] for part in (came, went - came)),
            )
            held = held - (went - came) | came
            assert runs.of_log(connection, 1, runs.ENTRIES) == runs_of(held)
            runs.extend(connection, 1, [runs.ENTRIES], to_sql(first) - 1, to_sql(first + more) - 1)
            held |= set(range(first, first + more + 1))
            assert runs.of_log(connection, 1, runs.ENTRIES) == runs_of(held)
            for size in (1, 3):
                spans = [(low, high - 1) for low, high in pairwise(range(1, 32, size))]
                found = [len(held & set(range(low, high + 1))) for low, high in spans]
                expected = [runs.ALL if count == size else runs.SOME if count else runs.NONE for count in found]
                assert runs.spread(connection, 1, runs.ENTRIES, spans) == expected
        assert runs.of_log(connection, 1, runs.PAYLOADS) == runs.of_log(connection, 2, runs.ENTRIES) == [(2, 10)]


def test_the_extent_of_a_log(store: SQLiteStore) -> None:
    """The lowest and the highest number held, up to the greatest there is; None if nothing is held."""
    database = database_of(store)
    with database.transaction():
        database.connection.execute(
            "INSERT INTO logs (id, author, log_id, contiguous, change) VALUES (1, zeroblob(32), 0, 0, 0)"
        )
        assert runs.extent(database, 1, runs.ENTRIES) is None
        runs.update(database.connection, 1, runs.ENTRIES, [to_sql(seq) - 1 for seq in (3, 4, 7)], [])
        assert runs.extent(database, 1, runs.ENTRIES) == (3, 7)
        runs.update(database.connection, 1, runs.ENTRIES, [to_sql(2**64 - 1) - 1], [])
        assert runs.extent(database, 1, runs.ENTRIES) == (3, 2**64 - 1)
        assert [runs.around(database, 1, runs.ENTRIES, seq) for seq in (2, 3, 4, 5)] == [None, (3, 4), (3, 4), None]
        database.connection.execute("DELETE FROM runs")
        database.connection.execute("DELETE FROM logs")


def test_rows_as_ranges() -> None:
    """Rows of both kinds are ranges of what they stand for; a run that ends before it begins is damage."""
    rows = [(runs.ENTRIES, to_sql(0), to_sql(8)), (runs.PAYLOADS, to_sql(1), to_sql(1))]
    assert list(runs.set_of(rows[:1])) == [Range(1, 9, payloads=False)]
    both = runs.set_of(rows)
    assert [seq for seq in range(1, 11) if both.contains_metadata(seq)] == list(range(1, 10))
    assert [seq for seq in range(1, 11) if both.contains_payload(seq, 5)] == [2]
    assert list(runs.set_of([])) == []
    with pytest.raises(DamagedRow, match="ends before it begins"):
        runs.set_of([(runs.ENTRIES, to_sql(2), to_sql(1))])
