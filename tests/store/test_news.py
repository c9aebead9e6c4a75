"""News: what became verified, once each and in order, from any position on."""

from __future__ import annotations

import itertools
import os
import random
import stat
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from culm.bamboo import Identity
from culm.errors import ConfigError, StoreError
from culm.store import BEGINNING, Position, SQLiteStore, ingest
from culm.store.copying import copy_store
from culm.store.opening import migrate, open_database
from culm.store.schema import VERSION
from culm.testing import build_log
from tests.quick import rounds
from tests.store.below import age, database_of

if TYPE_CHECKING:
    from pathlib import Path

LOG = build_log(20, seed=1)
OTHER = build_log(9, seed=2)
BIG = 100_000
MIB = 1024 * 1024


def read(store: SQLiteStore, since: Position = BEGINNING, **settings: object) -> tuple[list[int], Position]:
    """The numbers of all news after a position, in pages of three, and the position behind them."""
    found: list[int] = []
    while page := store.news(since, limit=3, **settings):  # type: ignore[arg-type]
        found += [stored.entry.seq for stored, _ in page.entries]
        if not page.entries:
            return found, page.end
        since = page.end
    raise AssertionError


def test_a_copy_that_the_disk_refuses(store: SQLiteStore, tmp_path: Path) -> None:
    """The error names the file and the disk's reason; it does not blame the store."""
    store.append(Identity(bytes(32)), 1, [bytes(2 * MIB)])
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"file/copy.db-payloads: Not a directory"):
        copy_store(store.path, tmp_path / "file" / "copy.db")


def test_a_copy_is_for_its_owner_alone(store: SQLiteStore, tmp_path: Path) -> None:
    """The files of large payloads in a copy of a store can be read by its owner only, as those of the store can."""
    store.append(Identity(bytes(32)), 1, [bytes(2 * MIB)])
    before = os.umask(0)
    try:
        copy_store(store.path, tmp_path / "copy.db")
    finally:
        os.umask(before)
    (file,) = (tmp_path / "copy.db-payloads").iterdir()
    assert (0o600, 2 * MIB) == (stat.S_IMODE(file.stat().st_mode), file.stat().st_size)


def test_each_entry_once_in_order(store: SQLiteStore) -> None:
    """Reading on from where one stopped gives what came since, ascending, whatever the order in which it came."""
    store.add(LOG.items(LOG.entries[4:2:-1]))  # 5 and 4 wait
    assert [] == read(store)[0]

    store.add(LOG.items(LOG.entries[:1]))  # 4 links to it, 5 to 4
    first, position = read(store)
    store.add(LOG.items(LOG.entries[1:8]))
    second, position = read(store, position)

    assert ([1, 4, 5], [2, 3, 6, 7, 8]) == (first, second)
    assert [] == read(store, position)[0]


def test_positions_in_between(store: SQLiteStore) -> None:
    """Every single entry has a position to go on from, also as text, also within one change."""
    store.add(LOG.items())
    for stored, position in store.news(limit=100).entries:
        assert list(range(stored.entry.seq + 1, 21)) == read(store, Position.parse(str(position)))[0]
    assert [] == read(store, store.latest())[0]


def test_neighbours_share_a_row(store: SQLiteStore) -> None:
    """Entries that become verified together cost one row, as long as they follow each other with or without payload."""
    store.add([*LOG.items(LOG.entries[:8]), *((entry, None) for entry in LOG.entries[8:12])])
    rows = database_of(store).connection.execute("SELECT kind, entry, count FROM news ORDER BY entry").fetchall()

    assert [(2, 1, 8), (0, 9, 4)] == rows


@pytest.mark.parametrize("settings", [{}, {"with_payload": True}, {"author": LOG.identity.public}], ids=str)
def test_a_page_costs_no_more_than_its_entries(store: SQLiteStore, settings: dict[str, Any]) -> None:
    """In a store of hundreds of entries a page of three is read without a look at the others."""
    store.add((entry, None) for entry in build_log(600, seed=4).entries)
    store.add(LOG.items())
    connection, steps = database_of(store).connection, itertools.count()
    connection.set_progress_handler(lambda: next(steps) and 0, 200)
    read_first = store.news(limit=3, **settings).entries
    connection.set_progress_handler(None, 0)

    assert 3 == len(read_first)
    assert next(steps) < 4


def test_positions_of_earlier_versions(place: Path) -> None:
    """A cursor that a reader got before the store was migrated goes on where it was, also inside of a change."""
    with SQLiteStore(place) as store:
        store.add(LOG.items(LOG.entries[:10]))
        before = store.news().entries
    database = open_database(place)
    with database.transaction() as connection:
        age(connection, 7)
    database.close()
    with SQLiteStore(place) as store:
        store.add(LOG.items(LOG.entries[10:]))
        for stored, position in before:
            assert list(range(stored.entry.seq + 1, 21)) == read(store, position)[0]


def test_nothing_is_left_of_a_transaction_that_fails(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was inserted and then taken back is neither news nor a record."""
    with monkeypatch.context() as patch:
        patch.setattr(ingest, "write_payloads", Mock(side_effect=RuntimeError))
        with pytest.raises(RuntimeError):
            store.add(LOG.items())
    store.add(OTHER.items())

    assert list(range(1, 10)) == read(store)[0]
    assert [] == store.verify().problems


def test_filters(store: SQLiteStore) -> None:
    """Of one author, or one log, and nothing of others."""
    store.add(LOG.items(LOG.entries[:3]) + OTHER.items())
    assert [1, 2, 3] == read(store, author=LOG.identity.public)[0]
    assert list(range(1, 10)) == read(store, author=OTHER.identity.public, log_id=OTHER.log_id)[0]
    assert [] == read(store, author=OTHER.identity.public, log_id=77)[0]


def test_with_payload(store: SQLiteStore) -> None:
    """With payloads an entry is news when its payload is complete, by whichever way, and once for ever."""
    store.add([(entry, None) for entry in LOG.entries[:3]])
    seen, position = read(store, with_payload=True)
    assert ([], [1, 2, 3]) == (seen, read(store)[0])

    sink = store.payload_sink(LOG.entries[1].place)
    sink.write(LOG.payloads[LOG.entries[1].hash])
    sink.finish()
    store.add(LOG.items(LOG.entries[2:5]))
    seen, position = read(store, position, with_payload=True)
    assert [2, 3, 4, 5] == seen

    for seq in (2, 4):
        store.forget(LOG.entries[seq - 1].place)
        store.want_again(LOG.entries[seq - 1].place)
    store.add(LOG.items(LOG.entries[:5]))
    assert [1] == read(store, position, with_payload=True)[0]
    assert {1, 2, 3, 4, 5} == set(read(store, with_payload=True)[0])


def test_what_is_not_valid_any_more(store: SQLiteStore) -> None:
    """What a fork made invalid before it was read is not told."""
    store.add(LOG.items(LOG.entries[:8]))
    store.add([(LOG.make(5, b"another"), None)])
    assert [1, 2, 3, 4] == read(store)[0]


def test_a_position_of_another_store(store: SQLiteStore) -> None:
    """A position that lies ahead of the store is refused, and so is a text that is none."""
    with pytest.raises(StoreError, match="belongs to another store"):
        store.news(Position(77))
    for text in ("", "x", "1.2", "1.2.3.4.5", "99999999999999999999"):
        with pytest.raises(ConfigError, match="not a cursor"):
            Position.parse(text)


def test_a_position_that_the_store_has_lost(store: SQLiteStore, tmp_path: Path) -> None:
    """Where a store was put back to an earlier state and went on otherwise, a position of what is gone is refused."""
    store.add(LOG.items(LOG.entries[:5]))
    copy_store(store.path, tmp_path / "copy.db")
    store.add(LOG.items(LOG.entries[5:8]))
    ((*_, (_, lost)), _) = store.news()
    with SQLiteStore(tmp_path / "copy.db") as copy:
        copy.add(OTHER.items())
        copy.add(LOG.items(LOG.entries[5:8]))
        with pytest.raises(StoreError, match="a later state of this one"):
            copy.news(lost)
        assert [6, 7, 8] == read(copy, copy.news(limit=14).end)[0]
    assert [] == read(store, lost)[0]


def test_an_earlier_store(place: Path) -> None:
    """In a store of version 3 everything that is verified becomes news, log by log."""
    with SQLiteStore(place) as store:
        store.add(OTHER.items() + LOG.items(LOG.entries[:2]))
        store.add([(entry, None) for entry in LOG.entries[2:4]])
        numbers = sorted(read(store)[0])
    database = open_database(place)
    with database.transaction() as connection:
        age(connection, 3)
    with database.transaction() as connection:
        migrate(database)
        assert (VERSION,) == connection.execute("PRAGMA user_version").fetchone()
    database.close()
    with SQLiteStore(place) as store:
        assert numbers == sorted(read(store)[0])
        assert [1, 2] == read(store, author=LOG.identity.public, with_payload=True)[0]
        assert [1, 2, 3, 4] == read(store, author=LOG.identity.public)[0]


@pytest.mark.parametrize("seed", rounds(8))
def test_in_any_order(store: SQLiteStore, seed: int) -> None:
    """However entries and payloads come, each is news once: as soon as it is verified, and when it is complete."""
    rng = random.Random(seed)
    log = build_log(120, seed=3)
    arrivals = [*log.items(), *((entry, None) for entry in rng.sample(log.entries, 60))]
    rng.shuffle(arrivals)
    seen: dict[bool, list[int]] = {False: [], True: []}
    positions = {False: BEGINNING, True: BEGINNING}
    while arrivals:
        size = rng.randrange(1, 20)
        batch, arrivals = arrivals[:size], arrivals[size:]
        store.add(batch)
        for with_payload, numbers in seen.items():
            found, positions[with_payload] = read(store, positions[with_payload], with_payload=with_payload)
            assert sorted(found) == found  # of one change
            numbers.extend(found)
            held = store.entries((log.identity.public, log.log_id))
            verified = [stored.entry.seq for stored in held if stored.payload_complete or not with_payload]
            assert sorted(numbers) == verified
    assert all(len(numbers) == 120 for numbers in seen.values())
