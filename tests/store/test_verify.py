"""Checking everything held afresh: tampering done behind the store's back is found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from culm.errors import Place, StoreDamaged
from culm.store import SQLiteStore
from culm.store.schema import to_sql
from culm.store.verify import TABLES
from culm.testing import build_log, tampered
from tests.store.model import look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from culm.bamboo import Entry
    from culm.store import VerifyReport

LOG = build_log(20, payload_size=100)
NAME = LOG.entries[0].log
OTHER = build_log(5, seed=2)


@pytest.fixture
def filled(store: SQLiteStore) -> SQLiteStore:
    """A store with two logs, of one of them 20 entries."""
    store.add([*LOG.items(), *OTHER.items()])
    return store


def tamper(store: SQLiteStore, statement: str, values: Sequence[object] = ()) -> None:
    """Change the store's file without asking the store."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        assert connection.execute(statement, values).rowcount > 0


def of_entries(report: VerifyReport) -> list[tuple[Place | None, str]]:
    """The problems of entries: the record index disagrees with what was tampered with, too."""
    return [(place, problem) for place, problem in report.problems if place is not None]


def row_of(store: SQLiteStore, seq: int) -> int:
    """The row of an entry of the first log."""
    found = store.get(Place(*NAME, seq))
    assert found is not None
    return found.id


def test_nothing_wrong(filled: SQLiteStore) -> None:
    """Of an honest store every entry and every payload is counted, and progress is told up to the last."""
    progress: list[int] = []
    report = filled.verify(progress=progress.append)

    assert (25, 25, 0, 0, 0, 25, []) == (
        report.entries,
        report.verified,
        report.unverified,
        report.invalid,
        report.forks,
        report.payloads,
        report.problems,
    )
    assert sorted(progress) == progress
    assert 25 == progress[-1]


def test_an_empty_store(store: SQLiteStore) -> None:
    """In an empty store there is nothing to count and nothing wrong."""
    report = store.verify()

    assert (0, []) == (report.entries, report.problems)


def test_one_log(filled: SQLiteStore) -> None:
    """One log can be checked by itself; one that is not held has nothing wrong."""
    tamper(filled, "UPDATE entries SET state = 1 WHERE id = ?", (row_of(filled, 7),))

    assert (5, []) == (filled.verify(OTHER.entries[0].log).entries, filled.verify(OTHER.entries[0].log).problems)
    assert (20, 1) == (filled.verify(NAME).entries, len(filled.verify(NAME).problems))
    assert (0, []) == (filled.verify((bytes(32), 9)).entries, filled.verify((bytes(32), 9)).problems)


def test_a_changed_signature(filled: SQLiteStore) -> None:
    """An entry whose signature was changed is found, and with it that others lose their path."""
    tamper(filled, "UPDATE entries SET encoded = ? WHERE id = ?", (tampered(LOG.entries[6]), row_of(filled, 7)))
    report = filled.verify()

    assert (LOG.entries[6].place, "the signature does not verify under the claimed author") == report.problems[0]
    assert 1 == report.invalid


@pytest.mark.parametrize("at", [0, 1, 33, 34, 35, 100, 200])
def test_any_other_byte_of_an_entry(filled: SQLiteStore, at: int) -> None:
    """An entry with any byte changed is found, even if its bytes can no longer be read."""
    data = bytearray(LOG.entries[6].encoded)
    data[at] ^= 0x41
    tamper(filled, "UPDATE entries SET encoded = ? WHERE id = ?", (bytes(data), row_of(filled, 7)))
    report = filled.verify()

    assert len(report.problems) > 0
    assert 1 <= report.invalid


def test_a_cut_entry(filled: SQLiteStore) -> None:
    """An entry of which bytes are missing is found and its place named."""
    tamper(filled, "UPDATE entries SET encoded = x'00' WHERE id = ?", (row_of(filled, 7),))
    place, problem = filled.verify().problems[0]

    assert Place(*NAME, 7) == place
    assert "damaged: truncated" in problem


def test_a_changed_hash(filled: SQLiteStore) -> None:
    """A stored hash that is not the entry's is found."""
    tamper(filled, "UPDATE entries SET hash = zeroblob(64) WHERE id = ?", (row_of(filled, 7),))

    assert [(LOG.entries[6].place, "the stored hash is not the entry's")] == of_entries(filled.verify())


@pytest.mark.parametrize("at", [0, 50, 99])
def test_a_changed_payload(filled: SQLiteStore, at: int) -> None:
    """A payload with one byte changed is found; the others are still counted."""
    payload = bytearray(LOG.payloads[LOG.entries[6].hash])
    payload[at] ^= 1
    tamper(filled, "UPDATE payloads SET piece = ? WHERE entry = ?", (bytes(payload), row_of(filled, 7)))
    report = filled.verify()

    assert [(LOG.entries[6].place, "payload: its bytes have changed")] == (report.problems)
    assert 24 == report.payloads


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM payloads WHERE entry = ?",
        "UPDATE payloads SET at = 1 WHERE entry = ?",
        "UPDATE payloads SET piece = x'00' WHERE entry = ?",
        "UPDATE entries SET payload_held = 99 WHERE id = ?",
    ],
)
def test_missing_payloads(filled: SQLiteStore, statement: str) -> None:
    """A payload that is not there, or not whole, though the store says so, is found."""
    tamper(filled, statement, (row_of(filled, 7),))

    assert [LOG.entries[6].place] == [place for place, _ in filled.verify().problems]


@pytest.mark.parametrize(
    ("seq", "state", "problem"),
    [
        (7, 1, "the store calls it waiting, but it is verified"),
        (20, 3, "the store calls it invalid, but it is verified"),
        (1, 1, "the store calls it waiting, but it is verified"),
    ],
)
def test_a_changed_state(filled: SQLiteStore, seq: int, state: int, problem: str) -> None:
    """A state that is not what the bytes say is found."""
    tamper(filled, "UPDATE entries SET state = ? WHERE id = ?", (state, row_of(filled, seq)))

    assert [(Place(*NAME, seq), problem)] == of_entries(filled.verify())


def test_entries_called_verified(store: SQLiteStore) -> None:
    """Entries that are called verified though nothing leads to entry 1 are found."""
    store.add(LOG.items()[1:])
    tamper(store, "UPDATE entries SET state = 2")
    report = store.verify()

    assert (0, 19) == (report.verified, report.unverified)
    assert [(LOG.entries[1].place, "the store calls it verified, but it is waiting")] == of_entries(report)


def test_a_deleted_entry(filled: SQLiteStore) -> None:
    """When an entry is gone those that had their path through it are found."""
    tamper(filled, "DELETE FROM entries WHERE id = ?", (row_of(filled, 4),))
    report = filled.verify()

    assert (LOG.entries[4].place, "the store calls it verified, but it is waiting") in report.problems


@pytest.mark.parametrize("both", [True, False])
def test_entries_in_each_others_place(filled: SQLiteStore, *, both: bool) -> None:
    """Entries that were put in each other's place are found, even if all else agrees."""
    rows = {7: row_of(filled, 7), 12: row_of(filled, 12)}
    swapped = {7: LOG.entries[11], 12: LOG.entries[6]}
    for seq in (7, 12) if both else (7,):
        tamper(
            filled,
            "UPDATE entries SET encoded = ?, hash = ? WHERE id = ?",
            (swapped[seq].encoded, swapped[seq].hash[2:], rows[seq]),
        )
    problems = filled.verify().problems

    assert Place(*NAME, 7) in [place for place, _ in problems]


def test_an_entry_of_another_log(filled: SQLiteStore) -> None:
    """An entry that was put into another log is found."""
    entry: Entry = OTHER.entries[4]
    tamper(
        filled,
        "UPDATE entries SET encoded = ?, hash = ? WHERE id = ?",
        (entry.encoded, entry.hash[2:], row_of(filled, 5)),
    )

    assert Place(*NAME, 5) in [place for place, _ in filled.verify().problems]


def test_hidden_forks(filled: SQLiteStore) -> None:
    """A fork whose proof and effects were taken out of the file is found again from the entries."""
    filled.add([(LOG.make(10, b"x"), None)])
    tamper(filled, "DELETE FROM forks")
    tamper(filled, "UPDATE entries SET state = 2")
    report = filled.verify()

    assert (14, 12, 1) == (report.verified, report.invalid, report.forks)
    assert "the store calls it verified, but it is invalid" in [problem for _, problem in report.problems]


def test_a_proof_is_enough(filled: SQLiteStore) -> None:
    """That a log is forked is known from its proof even if one of the two entries is gone."""
    filled.add([(LOG.make(20, b"x"), None)])
    tamper(filled, "DELETE FROM entries WHERE seq = ? AND variant = 1", (to_sql(20),))
    report = filled.verify()

    assert (19 + 5, 1, 1, []) == (report.verified, report.invalid, report.forks, report.problems)


@pytest.mark.parametrize(
    ("statement", "value", "at"),
    [
        ("UPDATE forks SET first = ?", tampered(LOG.entries[19]), 20),
        ("UPDATE forks SET second = ?", b"", 20),
        ("UPDATE forks SET second = ?", LOG.entries[18].encoded, 20),
        ("UPDATE forks SET position = ?", to_sql(3), 3),
    ],
)
def test_damaged_proofs(filled: SQLiteStore, statement: str, value: object, at: int) -> None:
    """A proof that proves nothing, or something else than it is kept for, is found; it invalidates nothing."""
    filled.add([(LOG.make(20, b"x"), None)])
    tamper(filled, statement, (value,))
    report = filled.verify()

    assert [(Place(*NAME, at), "the fork proof is damaged")] == report.problems
    assert (19 + 5, 2, 1) == (report.verified, report.invalid, report.forks)


def test_a_fork_below_the_one_proven(filled: SQLiteStore) -> None:
    """An entry of the forked number that contradicts something farther down counts there."""
    filled.add([(LOG.make(8, b"x", backlink=LOG.entries[0].hash, lipmaalink=LOG.entries[0].hash), None)])
    report = filled.verify()

    assert 4 == next(log for log in filled.logs() if log.author == NAME[0]).forked_at
    assert (3 + 5, 18, 1, []) == (report.verified, report.invalid, report.forks, report.problems)


def test_verification_changes_nothing(filled: SQLiteStore) -> None:
    """Checking changes neither what is held nor the change number, and can be done for reading only."""
    before = filled.change(), look(filled, NAME)
    filled.verify()
    with SQLiteStore(filled.path, read_only=True) as reader:
        assert [] == reader.verify().problems

    assert before == (filled.change(), look(filled, NAME))


def test_numbers_in_the_file(filled: SQLiteStore) -> None:
    """The number an entry is stored under is compared with its own."""
    tamper(filled, "UPDATE entries SET seq = ? WHERE id = ?", (to_sql(25), row_of(filled, 20)))

    assert Place(*NAME, 25) in [place for place, _ in filled.verify().problems]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM records WHERE substr(key, 1, 8) = x'0000000000000003'", "wrong from entry number 4 on"),
        ("UPDATE records SET ref = ref + 1", "wrong from entry number 1 on"),
        ("UPDATE record_blocks SET total = zeroblob(32)", "the sums of 2 blocks are wrong"),
        ("UPDATE record_blocks SET count = count + 1 WHERE kind = 1", "the sums of 1 blocks are wrong"),
        ("UPDATE runs SET last = last - 1 WHERE kind = 1", "runs of entries held are wrong for 2 logs"),
        ("UPDATE logs SET entry_count = entry_count + 1", "the sums of 2 logs are wrong"),
        ("DELETE FROM records WHERE kind = 1", "records of the logs' heads are wrong"),
    ],
)
def test_a_damaged_record_index(filled: SQLiteStore, statement: str, problem: str) -> None:
    """Records, blocks, sums and heads that do not agree with the entries are found."""
    tamper(filled, statement)
    assert problem in " ".join(reason for _, reason in filled.verify().problems)


@pytest.mark.parametrize("kind", [0, 1])
def test_a_record_index_without_beginning(filled: SQLiteStore, kind: int) -> None:
    """The first block is there in every store, also in an empty one: without it the file is damaged."""
    tamper(filled, f"DELETE FROM record_blocks WHERE kind = {kind}")
    with pytest.raises(StoreDamaged, match="the beginning of its record index is missing"):
        filled.verify()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET encoded = 7 WHERE id = 3",
        "UPDATE entries SET seq = 'x' WHERE id = 3",
        "UPDATE logs SET author = 'x' WHERE id = 1",
        "UPDATE record_blocks SET total = 1",
        "UPDATE runs SET last = x'00' WHERE kind = 1",
        "UPDATE payloads SET piece = 'text' WHERE entry = 3",
    ],
)
def test_values_of_another_kind(filled: SQLiteStore, statement: str) -> None:
    """A number where bytes should be, or the reverse, is damage, told before anything is made of it."""
    tamper(filled, statement)
    with pytest.raises(StoreDamaged, match=r"rows of its table [a-z_]+ hold values that Culm never writes"):
        filled.verify()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("encoded = 7", "a row holds 7 where a byte string is expected"),
        ("encoded = x'02'", "row 3 of its entries"),
        ("state = 9", "a row holds 9 where the state of an entry is expected"),
        ("payload_state = 125", "a row holds 125 where the state of a payload is expected"),
    ],
)
def test_reading_a_row_that_holds_no_entry(filled: SQLiteStore, change: str, told: str) -> None:
    """Whoever reads an entry whose row cannot be right is told that the store is damaged, whatever is wrong."""
    tamper(filled, f"UPDATE entries SET {change} WHERE id = 3")
    with pytest.raises(StoreDamaged, match=told):
        filled.get(Place(*NAME, 3))


def test_every_table_is_looked_at(filled: SQLiteStore) -> None:
    """There is no table whose values are not checked."""
    with closing(sqlite3.connect(filled.path)) as connection:
        names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert {name for name in names if not name.startswith("sqlite_")} == set(TABLES)
