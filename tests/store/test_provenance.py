"""In which clumps a log is served: where it came from, unless its owner says otherwise.

Specification: docs/specs/bushbaby.md, "Clumps".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.store import SQLiteStore
from culm.store.copying import copy_store
from culm.testing import build_log
from tests.store.below import age, database_of

if TYPE_CHECKING:
    from pathlib import Path

ME = Identity(bytes(32))
FAMILY, WORK = b"family", b"\x00\xffwork"


def test_a_received_log(store: SQLiteStore) -> None:
    """A new log is served in the clump that it came in, and in another one once an entry of it came there, too."""
    log = build_log(5)
    key = log.entries[0].log
    store.receive_in(FAMILY)
    store.add(log.items(log.entries[:3]))
    assert {FAMILY} == store.clumps_of(key)

    store.receive_in(WORK)
    store.add(log.items(log.entries[:1]))
    assert {FAMILY, WORK} == store.clumps_of(key)
    assert {key: {FAMILY, WORK}} == store.clumps()


def test_only_new_logs(store: SQLiteStore) -> None:
    """An import without a clump says nothing of logs that are held."""
    held, new = build_log(2), build_log(1, seed=2)
    store.receive_in(FAMILY)
    store.add(held.items(held.entries[:1]))
    store.receive_in(b"", only_new=True)
    store.add([*held.items(), *new.items()])
    assert [{FAMILY}, {b""}] == [store.clumps_of(log.entries[0].log) for log in (held, new)]


def test_the_nameless_clump(store: SQLiteStore) -> None:
    """A log that came without a clump is served there, and in no clump that has a name."""
    log = build_log(1)
    store.receive_in(b"")
    store.add(log.items())
    assert {b""} == store.clumps_of(log.entries[0].log)


def test_logs_without_marks(store: SQLiteStore) -> None:
    """Own logs, published here or sent by a peer, and logs that a program adds are served in every clump."""
    own, other = build_log(3), build_log(3, seed=2)
    store.append(ME, 7, [b"1"])
    store.add(other.items())
    store.receive_in(WORK, own={own.identity.public})
    store.add(own.items())
    store.add(other.items())
    store.append(ME, 8, [b"1"])
    assert {} == store.clumps()
    assert [None] * 4 == [store.clumps_of(log.log) for log in store.logs()]


def test_an_entry_that_is_refused(store: SQLiteStore) -> None:
    """A log is marked by an entry that is held. One with a wrong signature leaves nothing behind."""
    log = build_log(2)
    store.receive_in(WORK)
    good = log.entries[0]
    forged = type(good).decode(good.encoded[:-1] + bytes((good.encoded[-1] ^ 1,)))
    assert 1 == len(store.add([(forged, None)]).refused)
    assert {} == store.clumps()


def test_sharing(store: SQLiteStore) -> None:
    """A log of every clump is narrowed to the first clump it is shared for; the next one is added; None undoes both."""
    store.append(ME, 7, [b"1"])
    log = ME.public, 7
    found = []
    for clump in (FAMILY, WORK, WORK, None):
        before = store.change()
        store.share(log, clump)
        assert ([log], before + 1) == (store.changed_logs(before)[1], store.change())
        found.append(store.clumps_of(log))
    assert [{FAMILY}, {FAMILY, WORK}, {FAMILY, WORK}, None] == found


def test_the_marks_of_another_store(store: SQLiteStore) -> None:
    """A log that is not held takes over the marks of the other store; one that is held gets more, if it has any."""
    unmarked, marked, new = [build_log(1, seed=seed) for seed in (1, 2, 3)]
    store.add(unmarked.items())
    store.receive_in(WORK)
    store.add(marked.items())
    names = [log.entries[0].log for log in (unmarked, marked, new)]
    store.adopt_clumps({log: {FAMILY, b""} for log in names})
    assert [None, {b"", FAMILY, WORK}, {b"", FAMILY}] == [store.clumps_of(log) for log in names]


def test_sharing_before_the_first_entry(store: SQLiteStore) -> None:
    """A log can be shared for a clump before anything of it is published, so that no other clump sees the beginning."""
    store.share((ME.public, 7), FAMILY)
    store.append(ME, 7, [b"1"])
    assert {FAMILY} == store.clumps_of((ME.public, 7))


@pytest.mark.parametrize("clump", [b"", FAMILY, b"\xff" * 40])
def test_whether_other_clumps_have_logs(store: SQLiteStore, clump: bytes) -> None:
    """A node asks whether any log has a mark of another clump, below or above its own in the order of bytes."""
    assert not store.has_clump_beside(clump)
    store.share((ME.public, 1), clump)
    assert not store.has_clump_beside(clump)
    for other in (b"", b"\xff" * 41, b"f"):
        if other != clump:
            assert store.has_clump_beside(other)


def test_an_earlier_store(place: Path) -> None:
    """The logs of an earlier version are served in every clump, even when more of them comes, until they are shared."""
    old, new, mine = build_log(4), build_log(1, seed=2), (ME.public, 7)
    with SQLiteStore(place) as store:
        store.add(old.items(old.entries[:2]))
        store.append(ME, 7, [b"1"])
        with database_of(store).transaction() as connection:
            age(connection, 6)
    with SQLiteStore(place) as store:
        store.receive_in(WORK, own={ME.public})
        store.add([*old.items(), *new.items()])
        assert {new.entries[0].log: {WORK}} == store.clumps()
        assert (1, 2) == (store.unmarked_since_upgrade({ME.public}), store.unmarked_since_upgrade(()))

        store.share(old.entries[0].log, FAMILY)
        store.share(mine, FAMILY)
        assert 0 == store.unmarked_since_upgrade(())


def test_a_new_store_has_no_logs_of_earlier_versions(store: SQLiteStore) -> None:
    """Only what was there before the migration is counted."""
    store.add(build_log(1).items())
    assert 0 == store.unmarked_since_upgrade(())


def test_a_copy(store: SQLiteStore, tmp_path: Path) -> None:
    """The copy of a store, as in a backup, knows the clumps."""
    store.share((ME.public, 7), WORK)
    copy_store(store.path, tmp_path / "copy.db")
    with SQLiteStore(tmp_path / "copy.db") as copy:
        assert {WORK} == copy.clumps_of((ME.public, 7))


def test_how_many_logs_a_clump_does_not_get(store: SQLiteStore) -> None:
    """Those with marks of other clumps only, and with an entry: a log can be shared before its first one."""
    for seed, clumps in ((1, (FAMILY,)), (2, (WORK,)), (3, (FAMILY, WORK)), (4, ())):
        log = build_log(1, seed=seed)
        store.add(log.items())
        for clump in clumps:
            store.share(log.entries[0].log, clump)
    store.share((ME.public, 9), b"c")
    assert [1, 1, 3] == [store.withheld(clump) for clump in (FAMILY, WORK, b"")]
