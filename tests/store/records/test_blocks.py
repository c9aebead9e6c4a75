"""The blocks of the record index: kept in order by every transaction, read within bounds, and refused when damaged."""

from __future__ import annotations

import random
import sqlite3
from contextlib import suppress
from sys import maxsize
from typing import TYPE_CHECKING

import pytest

from culm.errors import NotHeld, StoreDamaged
from culm.store import SQLiteStore, View
from culm.store.records import index as records
from culm.store.records import views
from culm.store.rows import next_change
from culm.store.schema import to_sql
from culm.testing import build_log
from tests.store.below import age, database_of

if TYPE_CHECKING:
    from pathlib import Path

    from culm.bamboo import Entry
    from culm.types import Buffer

Item = tuple["Entry", "Buffer | None"]


def blocks_of(store: SQLiteStore) -> list[tuple[int, int]]:
    """Kind and number of records of each block."""
    return (
        database_of(store).connection.execute("SELECT kind, count FROM record_blocks ORDER BY kind, first").fetchall()
    )


def taken(items: list[Item], size: int) -> list[Item]:
    """The first few items, which are taken out."""
    first = items[:size]
    del items[:size]
    return first


@pytest.mark.parametrize(("seed", "page"), [(1, 5), (2, 5), (3, 10_000), (4, 10_000)])
def test_small_blocks(store: SQLiteStore, seed: int, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks of a few records, after any transaction: all sums and places are right, and no block is too large.

    Entries come forwards, backwards, of several logs at once, and without their certificate path. Payloads come later
    and are forgotten, and forks take entries away.
    """
    monkeypatch.setattr(records, "MAX_BLOCK", 8)
    monkeypatch.setattr(records, "MIN_BLOCK", 2)
    monkeypatch.setattr(records, "_PAGE", page)
    rng = random.Random(seed)
    logs = [build_log(length, seed=100 * seed + length) for length in (1, 2, 3, 5, 8, 13, 21, 34, 40)]
    left = [log.items() for log in logs]
    for number in (3, 6):
        left[number].reverse()
    forks = {70: (8, 3), 90: (5, 9), 110: (1, 1)}
    for step in range(120):
        log = rng.choice(logs)
        if step in forks:
            number, seq = forks[step]
            store.add([(logs[number].make(seq, b"otherwise"), None)])
        elif step % 6 == 3:
            with suppress(NotHeld):
                store.forget(rng.choice(log.entries).place)
        elif step % 6 == 4:
            store.add([rng.choice(log.items())])
        else:
            store.add(
                [
                    (entry, payload if rng.random() < 0.8 else None)
                    for items in rng.sample([items for items in left if items] or [[]], 1)
                    + rng.choices(left, k=rng.randrange(3))
                    for entry, payload in taken(items, rng.choice((1, 2, 7)))
                ]
            )
        assert records.problems(database_of(store).connection) == []
        for kind in records.Kind:
            counts = [count for one, count in blocks_of(store) if one == kind]
            assert max(counts) <= 8
            assert len(counts) <= 1 + sum(counts) // 2


@pytest.mark.parametrize("border", range(31, 38))
def test_blocks_of_several_logs(store: SQLiteStore, border: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two logs' entries in one transaction, entries beside a fork, and entries where a fork emptied the last block."""
    monkeypatch.setattr(records, "MAX_BLOCK", 8)
    monkeypatch.setattr(records, "MIN_BLOCK", 2)
    a, b, c = (build_log(40, seed=seed) for seed in (1, 2, 3))
    connection = database_of(store).connection
    for items in (
        a.items(),
        b.items(b.entries[:20]),
        [*b.items(b.entries[20:30]), *c.items(c.entries[:10])],
        [*b.items(b.entries[30:border]), (a.make(3, b"otherwise"), None)],
        b.items(b.entries[border : border + 1]),
        b.items(b.entries[border + 1 :]),
    ):
        store.add(items)
        assert records.problems(connection) == []
    query = "SELECT id, head FROM logs ORDER BY id"
    heads = connection.execute(query).fetchall()
    with database_of(store).transaction():
        records.rebuild(connection)
    assert connection.execute(query).fetchall() == heads


@pytest.mark.parametrize("nested", [False, True])
def test_changes_behind_the_index(store: SQLiteStore, *, nested: bool) -> None:
    """Whatever statement changes an entry, the index follows, the log has a new head, and it is news.

    That holds for a transaction of its own, and for one that adds entries of the log, too.
    """
    log = build_log(9)
    database = database_of(store)
    store.add(log.items(log.entries[:3]))
    before = store.change()
    with database.transaction() as connection:
        if nested:
            store.add(log.items(log.entries[3:5]))
        next_change(connection)
        connection.execute("UPDATE entries SET payload_state = 0, payload_held = 0 WHERE seq = ?", (to_sql(2),))
    assert [name for name, _ in store.holdings(before)] == [(log.identity.public, 0)]
    query = "SELECT head, entry_count, payload_count FROM logs"
    heads: list[tuple[bytes, int, int]] = []
    for items in ([], log.items(log.entries[3:6]), log.items(log.entries[6:])):
        store.add(items)
        assert records.problems(connection) == []
        heads = connection.execute(query).fetchall()
        with store.record_set(View.HEADS) as storage:
            assert [storage.id(0)] == [row[0] for row in heads]
    with database.transaction():
        records.rebuild(connection)
    assert connection.execute(query).fetchall() == heads


def test_a_set_is_opened_while_the_store_writes(store: SQLiteStore) -> None:
    """Whoever opens a set only reads, and so waits for no writer; the set is as it was before."""
    with database_of(store).transaction(), store.record_set(View.ENTRIES) as storage:
        assert len(storage) == 0


def test_a_forgotten_payload_is_news_of_its_log(store: SQLiteStore) -> None:
    """Whoever asks which logs changed is told of one that lost a payload, and of no other."""
    logs = [build_log(3, seed=seed) for seed in (1, 2)]
    for log in logs:
        store.add(log.items())
    before = store.change()
    store.forget(logs[0].entries[1].place)
    assert [log for log, _ in store.holdings(before)] == [(logs[0].identity.public, 0)]


def test_a_fresh_index_has_small_blocks(tmp_path: Path) -> None:
    """The blocks that an older store gets are no larger than those that grow."""
    place = tmp_path / "old.db"
    with SQLiteStore(place) as store:
        store.add(build_log(300).items(), authenticated=True)
        age(database_of(store).connection, 1)
    with SQLiteStore(place) as store:
        counts = [count for kind, count in blocks_of(store) if kind == 0]
        assert sum(counts) == 300
        assert max(counts) <= records.MAX_BLOCK
        assert store.verify().problems == []


def test_building_anew_replaces_what_was_there(store: SQLiteStore) -> None:
    """An index that is built anew owes nothing to a damaged one."""
    store.add(build_log(9).items())
    database = database_of(store)
    with database.transaction():
        for change in (
            "INSERT INTO records VALUES (0, x'00', 1)",
            "UPDATE record_blocks SET count = count + 1",
            "UPDATE runs SET last = last + 1",
            "UPDATE logs SET entry_count = 3, payload_count = 4, head = zeroblob(32)",
            "INSERT INTO record_changes SELECT id, log, seq - 1, hash, 1, 1 FROM entries",
        ):
            database.connection.execute(change)
        records.rebuild(database.connection)
    assert store.verify().problems == []


def test_one_line_for_however_many_wrong_records(store: SQLiteStore) -> None:
    """A check names the first entry whose record is wrong, and not each of them."""
    store.add(build_log(5).items())
    database_of(store).connection.execute("UPDATE records SET ref = ref + 2 WHERE kind = 0")
    assert records.problems(database_of(store).connection) == ["the record index is wrong from entry number 1 on"]


# -- reading --------------------------------------------------------------------------------------------------------


def test_few_blocks_stay_in_memory(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that goes through a whole set keeps the last few blocks, and the sums of these."""
    monkeypatch.setattr(records, "MAX_BLOCK", 8)
    monkeypatch.setattr(views, "_BLOCKS_KEPT", 3)
    store.add(build_log(60).items())
    with store.record_set(View.ENTRIES) as storage:
        for at in range(60):
            storage.fingerprint(at, 60)
        assert len(storage._blocks) == 3  # type: ignore[attr-defined]
        assert len(storage._sums) <= 3  # type: ignore[attr-defined]


def test_a_set_ends_with_its_block(store: SQLiteStore) -> None:
    """A set that is asked after its time is over gives no answer, rather than one of another moment."""
    store.add(build_log(3).items())
    with store.record_set(View.ENTRIES) as storage:
        pass
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        storage.id(0)


def test_an_index_without_blocks(store: SQLiteStore) -> None:
    """Every index has a block, so one without is damage, noticed on opening."""
    database_of(store).connection.execute("DELETE FROM record_blocks")
    with pytest.raises(StoreDamaged, match="record index is not in order"), store.record_set(View.ENTRIES):
        pass


def test_more_records_than_can_be_counted(store: SQLiteStore) -> None:
    """Blocks with more records than a set can have are damage, noticed on opening; the most it can have are none."""
    connection = database_of(store).connection
    connection.execute("UPDATE record_blocks SET count = ? WHERE kind = 0", (2**62,))
    query = "INSERT OR REPLACE INTO record_blocks SELECT 0, x'ff', ?, total, 0, total FROM record_blocks WHERE kind = 1"
    connection.execute(query, (2**62 - 1,))
    with store.record_set(View.ENTRIES) as storage:
        assert len(storage) == maxsize
    connection.execute(query, (2**62,))
    with pytest.raises(StoreDamaged, match="record index is not in order"), store.record_set(View.ENTRIES):
        pass


def test_a_block_that_counts_wrong(store: SQLiteStore) -> None:
    """A block with fewer records than it counts is damage when it is read, be it by a session or to be cut."""
    log = build_log(300)
    store.add(log.items(log.entries[:3]))
    database = database_of(store)
    database.connection.execute("UPDATE record_blocks SET count = 4 WHERE kind = 0")
    with (
        store.record_set(View.ENTRIES) as storage,
        pytest.raises(StoreDamaged, match="record index is not in order"),
    ):
        storage.id(0)
    database.connection.execute("UPDATE record_blocks SET count = 290 WHERE kind = 0")
    database.blocks.clear()
    with pytest.raises(StoreDamaged, match="counts more records than there are"):
        store.add(log.items(log.entries[3:]))


def test_a_record_of_no_entry(store: SQLiteStore) -> None:
    """A record whose entry is not there is damage, and no entry less."""
    log = build_log(3)
    store.add(log.items())
    ids = {entry.hash[2:34] for entry in log.entries}
    assert [stored.entry for stored in store.entries_of(ids)] == log.entries
    database_of(store).connection.execute("UPDATE records SET ref = 2000 WHERE kind = 0 AND ref / 2 = 2")
    with pytest.raises(StoreDamaged, match="record index is not in order"):
        list(store.entries_of(ids))
