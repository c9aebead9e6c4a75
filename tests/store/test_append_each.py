"""Publishing many entries in one transaction: as if each had been appended alone, with one wait for the disk.

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import MAX_U64, Entry, Identity, path
from culm.errors import AfterEndOfLog, CulmError, ForkDetected, Place, StoreError, StoreFull, UnconfirmedLog
from culm.store import Draft, SQLiteStore, State
from culm.store.append import grouped
from culm.store.payloads.pieces import PIECE_BYTES
from culm.store.schema import to_sql
from culm.testing import LogBuilder
from tests.store.below import database_of
from tests.store.damage import put
from tests.store.model import look

if TYPE_CHECKING:
    from pathlib import Path

AUTHOR, OTHER = Identity(bytes(32)), Identity(bytes([1] * 32))
NAME = (AUTHOR.public, 7)


def draft(*payloads: bytes, log_id: int = 7, identity: Identity = AUTHOR, **options: Any) -> Draft:
    """A draft for log 7 of the author, or another one."""
    return Draft(identity, log_id, payloads, **options)


def numbers(results: list[list[Entry] | CulmError]) -> list[list[int] | type[Exception]]:
    """Of each result the entries' numbers, or the class of the error."""
    return [[entry.seq for entry in made] if isinstance(made, list) else type(made) for made in results]


def test_groups() -> None:
    """A group ends with the payload that makes it 4 MiB or a thousand entries, and not before."""
    large, small = bytes(4 * 1024 * 1024 - 1), b"x"
    assert [[large, small], [large, small], [small]] == list(grouped([large, small, large, small, small]))
    assert [1000, 1000, 1] == [len(group) for group in grouped([b""] * 2001)]
    assert [] == list(grouped([]))


@pytest.mark.slow
def test_as_if_each_were_alone(tmp_path: Path) -> None:
    """The entries are those that single appends would have made, of one log and of many, with every size of payload."""
    sizes = [0, 1, 4096, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2_000_000]
    wanted = [
        (identity, log_id, bytes([count]) * size)
        for count, size in enumerate(sizes * 2)
        for identity in (AUTHOR, OTHER)
        for log_id in (7, MAX_U64)
    ]
    with SQLiteStore(tmp_path / "1.db") as alone, SQLiteStore(tmp_path / "2.db") as together:
        first = [alone.append(identity, log_id, [payload]) for identity, log_id, payload in wanted]
        drafts = [Draft(identity, log_id, [payload]) for identity, log_id, payload in wanted]
        results = together.append_each(drafts[:9]) + together.append_each(drafts[9:])

        assert [[entry] for entry in first] == results
        assert [replace(log, changed=0) for log in alone.logs()] == [replace(log, changed=0) for log in together.logs()]
        for log in {entry.log for entry in first}:
            assert look(alone, log) == look(together, log)
        assert alone.verify() == together.verify()
        assert [] == together.verify().problems


def test_many_entries_of_one_draft(store: SQLiteStore) -> None:
    """The payloads of a draft are entries in their order; the last of them ends the log, if one is to."""
    payloads = [b"%d" % seq for seq in range(1, 101)]
    (made,) = store.append_each([draft(*payloads, is_end=True)])

    copy = LogBuilder(AUTHOR, 7)
    for payload in payloads:
        copy.append(payload, is_end=payload == b"100")
    assert copy.entries == made
    assert payloads == list(look(store, NAME).payloads.values())
    assert (100, 100, []) == ((report := store.verify()).verified, report.certified, report.problems)


def test_nothing(store: SQLiteStore) -> None:
    """Without a draft nothing happens; a draft without an entry, or of no log, cannot be made."""
    before = store.change()

    assert [] == store.append_each([])
    assert before == store.change()
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match="not a log id"):
            draft(b"1", log_id=wrong)
    with pytest.raises(ValueError, match="a draft without a payload"):
        draft()


def test_a_refused_draft_is_alone(store: SQLiteStore) -> None:
    """A draft that the log does not take gets the error of ``append`` and leaves no entry; the others are stored."""
    forked, waiting = LogBuilder(AUTHOR, 1), LogBuilder(AUTHOR, 2)
    for seq in range(1, 8):
        forked.append(b"%d" % seq)
        waiting.append(b"%d" % seq)
    store.add([*forked.items(), (forked.make(5, b"x"), None), waiting.items()[0], waiting.items()[6]])
    store.append(AUTHOR, 3, [], is_end=True)
    before = [look(store, (AUTHOR.public, log_id)) for log_id in (1, 2, 3)]
    results = store.append_each(
        [draft(b"a"), *(draft(b"b", b"c", log_id=log_id) for log_id in (1, 2, 3)), draft(b"d", b"e"), draft(b"f")]
    )

    assert [[1], ForkDetected, StoreError, AfterEndOfLog, [2, 3], [4]] == numbers(results)
    assert before == [look(store, (AUTHOR.public, log_id)) for log_id in (1, 2, 3)]
    assert [b"a", b"d", b"e", b"f"] == list(look(store, NAME).payloads.values())
    for log_id in (1, 2, 3):
        refused = results[log_id]
        assert isinstance(refused, CulmError)
        with pytest.raises(type(refused)) as caught:
            store.append(AUTHOR, log_id, [b"b"])
        assert str(refused) == str(caught.value)


def test_after_the_end(store: SQLiteStore) -> None:
    """A draft behind the end of its log, in the same call, is refused; in another log it is not."""
    results = store.append_each([draft(b"1", is_end=True), draft(b"2"), draft(b"3", log_id=8), draft(b"4")])

    assert [[1], AfterEndOfLog, [1], AfterEndOfLog] == numbers(results)


@pytest.mark.parametrize("newest", [1, 3, 6, 7, 12, 13, 25, 38, 39, 40])
def test_sparse_logs(store: SQLiteStore, newest: int) -> None:
    """A path to the newest entry is enough: it holds all that the entries of a long draft link to below it."""
    copy = LogBuilder(AUTHOR, 7)
    for seq in range(1, 150):
        copy.append(b"%d" % seq)
    store.add([(copy.entries[seq - 1], None) for seq in path(newest, 1)])

    assert [copy.entries[newest:]] == store.append_each([draft(*(b"%d" % seq for seq in range(newest + 1, 150)))])


def test_a_link_that_is_gone(store: SQLiteStore) -> None:
    """If a damaged store lacks what a later entry of a draft links to, no entry of it is added; others are."""
    store.append_each([draft(*[b"x"] * 12)])
    with closing(sqlite3.connect(store.path, isolation_level=None)) as damaging:
        damaging.execute("DELETE FROM entries WHERE seq = ?", (to_sql(4),))
    refused, made = store.append_each([draft(b"13", b"14"), draft(b"1", log_id=8)])

    assert isinstance(refused, StoreError)
    assert "entry 4 of this log is not held" in str(refused)
    assert [[1]] == numbers([made])
    assert 11 == len(look(store, NAME).states)


def test_a_link_to_an_entry_that_waits(store: SQLiteStore) -> None:
    """If a damaged store has an entry waiting that is needed, those that link to it are kept, with their payloads."""
    store.append_each([draft(*[b"x"] * 11)])
    assert put(store.path, "entries", "state", str(int(State.WAITING)), f"seq = {to_sql(4)}")
    (made,) = store.append_each([draft(b"12", b"13", b"14")])
    assert [[12, 13, 14]] == numbers([made])
    assert isinstance(made, list)
    for entry in made:
        stored = store.get(entry.place)
        assert stored is not None
        assert b"%d" % entry.seq == b"".join(store.payload(stored))


def test_a_link_that_a_later_entry_needs(store: SQLiteStore) -> None:
    """What a damaged store lacks is no hindrance before the entry that links to it: 12 links to 8, and 13 to 4."""
    store.append_each([draft(*[b"x"] * 11)])
    with closing(sqlite3.connect(store.path, isolation_level=None)) as damaging:
        damaging.execute("DELETE FROM entries WHERE seq = ?", (to_sql(4),))
    assert 12 == store.append(AUTHOR, 7, [b"12"]).seq
    with pytest.raises(StoreError, match="entry 4 of this log is not held"):
        store.append(AUTHOR, 7, [b"13"])


def test_unconfirmed_logs(store: SQLiteStore) -> None:
    """A marked author's log takes only a draft that continues here; that confirms it for those behind, not before."""
    store.unconfirm(AUTHOR.public)
    results = store.append_each(
        [draft(b"1"), draft(b"1", continue_here=True), draft(b"2"), draft(b"1", log_id=8), draft(b"x", identity=OTHER)]
    )

    assert [UnconfirmedLog, [1], [2], UnconfirmedLog, [1]] == numbers(results)
    assert (True, False) == (store.is_confirmed(NAME), store.is_confirmed((AUTHOR.public, 8)))


def test_a_refused_draft_confirms_nothing(store: SQLiteStore) -> None:
    """Who says "continue here" of a log that takes no entry has not confirmed it."""
    copy = LogBuilder(AUTHOR, 7)
    for seq in range(1, 8):
        copy.append(b"%d" % seq)
    store.add([copy.items()[0], copy.items()[6]])
    store.unconfirm(AUTHOR.public)

    assert [StoreError] == numbers(store.append_each([draft(b"2", continue_here=True)]))
    assert not store.is_confirmed(NAME)


def test_a_full_disk(store: SQLiteStore) -> None:
    """What fails for all of them keeps none of them: the store is as it was, and goes on."""
    store.append(AUTHOR, 7, [b"1"])
    before = look(store, NAME), store.change()
    connection = database_of(store).connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(StoreFull):
        store.append_each([draft(b"small"), *(draft(bytes(30_000), log_id=8) for _ in range(100))])
    connection.execute("PRAGMA max_page_count = 1000000")

    assert before == (look(store, NAME), store.change())
    assert [[2]] == numbers(store.append_each([draft(b"2")]))
    assert [] == store.verify().problems


def test_what_is_remembered_is_undone_with_its_transaction(store: SQLiteStore) -> None:
    """After an append that failed at its commit, the next one begins where the store really is."""
    store.append_each([draft(b"1"), draft(b"1", log_id=8)])
    database = database_of(store)
    with pytest.raises(ZeroDivisionError), database.transaction():
        store.append_each([draft(b"gone"), draft(b"gone", log_id=9)])
        raise ZeroDivisionError
    made = store.append_each([draft(b"2"), draft(b"1", log_id=9)])

    assert [[2], [1]] == numbers(made)
    assert [] == store.verify().problems


def test_appends_inside_a_larger_transaction(store: SQLiteStore) -> None:
    """What a transaction changes in a log before and behind an append inside it is seen by it and by the next one."""
    store.append_each([draft(b"1")])
    with database_of(store).transaction():
        store.append(AUTHOR, 7, [b"2"])
        assert [[3]] == numbers(store.append_each([draft(b"3")]))
        store.append(AUTHOR, 7, [b"4"])

    assert [[5]] == numbers(store.append_each([draft(b"5")]))
    assert [] == store.verify().problems


@pytest.mark.slow
def test_others_write_between_two_appends(store: SQLiteStore) -> None:
    """An append sees what another connection, a peer or the owner has changed since the append before."""
    copy = LogBuilder(AUTHOR, 7)
    for seq in range(1, 6):
        copy.append(b"%d" % seq)
    with SQLiteStore(store.path) as other:
        for seq in range(1, 300):  # Enough that blocks of the record index are cut on both sides.
            at, beside = (store, other) if seq % 3 else (other, store)
            assert [[2 * seq - 1]] == numbers(at.append_each([draft(b"one")]))
            assert [[2 * seq]] == numbers(beside.append_each([draft(b"two")]))
        assert [] == store.verify().problems
        store.forget(Place(AUTHOR.public, 7, 598))
        assert [[599]] == numbers(store.append_each([draft(b"3")]))
        store.unconfirm(AUTHOR.public)
        assert [UnconfirmedLog] == numbers(store.append_each([draft(b"4")]))
        assert [[600]] == numbers(store.append_each([draft(b"4", continue_here=True)]))
        assert [[601]] == numbers(store.append_each([draft(b"5")]))
        other.unconfirm(AUTHOR.public)
        assert [UnconfirmedLog] == numbers(store.append_each([draft(b"6")]))
        other.add(copy.items()[:1])

    assert [ForkDetected] == numbers(store.append_each([draft(b"6")]))
    assert [] == store.verify().problems


def test_appends_together_are_few_statements(store: SQLiteStore) -> None:
    """Two more entries of a log that was just written cost at most 16 statements, and no row of the log is read."""
    for number in range(40):
        store.append_each([draft(b"%d" % number)])
    statements: list[str] = []
    connection = database_of(store).connection
    connection.set_trace_callback(statements.append)
    store.append_each([draft(b"one more"), draft(b"another")])
    connection.set_trace_callback(None)

    writes = [statement for statement in statements if "INTO payloads" not in statement]
    assert len(writes) <= 16 + 4, statements
    reads = [statement for statement in statements if statement.startswith("SELECT")]
    assert ["SELECT 1 FROM record_changes LIMIT 1", "SELECT name FROM dropped_files"] == reads


KILLED = """
import os, signal, sys
from culm import Identity, Store
from culm.store import Draft, append
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
append.write_payloads, store = die, Store(sys.argv[1])
store.append(Identity(bytes(32)), 7, [b"1"])
store.append_each([Draft(Identity(bytes(32)), 7, [b"2", b"3"]), Draft(Identity(bytes(32)), 8, [b"1"])])
"""


def test_a_killed_process(place: Path) -> None:
    """If the process is killed before the commit, no log has any of the entries."""
    assert -signal.SIGKILL == subprocess.run([sys.executable, "-c", KILLED, str(place)], check=False).returncode
    with SQLiteStore(place) as store:
        assert [(7, 1)] == [(log.log_id, log.entries) for log in store.logs()]
        assert [[2]] == numbers(store.append_each([draft(b"2")]))
