"""Marked authors: a store that may lack the newest entries of its own logs signs nothing before a peer has shown them.

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.errors import AfterEndOfLog, ForkDetected, StoreError, UnconfirmedLog
from culm.store import SQLiteStore
from culm.testing import LogBuilder
from tests.store.below import age, database_of

if TYPE_CHECKING:
    from pathlib import Path

ME, OTHER = Identity(bytes(32)), Identity(bytes([1]) * 32)
LOG = ME.public, 7


def a_log(length: int) -> LogBuilder:
    """Our log 7 as somebody else holds it."""
    builder = LogBuilder(ME, 7)
    for seq in range(1, length + 1):
        builder.append(b"%d" % seq)
    return builder


def test_a_marked_author(store: SQLiteStore) -> None:
    """Nothing is signed in any log of a marked author, with entries or without; other authors go on as before."""
    store.append(ME, 7, [b"1"])
    store.unconfirm(ME.public)
    for log_id in (7, 8):
        with pytest.raises(UnconfirmedLog, match="may lack the newest entries of this log") as caught:
            store.append(ME, log_id, [b"2"])
        assert isinstance(caught.value, StoreError)
        assert (ME.public, log_id) == (caught.value.place.author, caught.value.place.log_id)

    assert [1] == [log.newest for log in store.logs()]
    assert 1 == store.append(OTHER, 7, [b"1"]).seq
    assert {ME.public} == store.unconfirmed_authors()
    assert [False, False, True] == [store.is_confirmed(log) for log in (LOG, (ME.public, 8), (OTHER.public, 7))]


def test_a_new_store(store: SQLiteStore) -> None:
    """No author is marked from the beginning."""
    assert frozenset() == store.unconfirmed_authors()
    assert store.is_confirmed(LOG)


def test_the_mark_is_kept(place: Path) -> None:
    """The mark survives closing the store, and is seen by other connections at once."""
    with SQLiteStore(place) as store, SQLiteStore(place, read_only=True) as reader:
        store.unconfirm(ME.public)
        assert not reader.is_confirmed(LOG)
    with SQLiteStore(place) as store, pytest.raises(UnconfirmedLog):
        store.append(ME, 7, [b"1"])


def test_continue_here(store: SQLiteStore) -> None:
    """The caller may say that nothing newer exists: that holds for this log, for good, and for no other."""
    store.append(ME, 7, [b"1"])
    store.unconfirm(ME.public)
    assert 2 == store.append(ME, 7, [b"2"], continue_here=True).seq
    assert 3 == store.append(ME, 7, [b"3"]).seq
    with pytest.raises(UnconfirmedLog):
        store.append(ME, 8, [b"1"])

    assert 1 == store.append(ME, 8, [b"1"], continue_here=True).seq


def test_continue_here_that_fails(store: SQLiteStore) -> None:
    """If nothing was published, nothing was confirmed either."""
    store.unconfirm(ME.public)

    def broken() -> object:
        yield b"1"
        raise OSError(5, "read error")

    with pytest.raises(OSError, match="read error"):
        store.append(ME, 7, broken(), continue_here=True)  # type: ignore[arg-type]
    assert not store.is_confirmed(LOG)


def test_continue_here_is_no_way_around_the_rest(store: SQLiteStore) -> None:
    """A log that is forked, has ended, or lacks its path takes no entry, whatever the caller says."""
    forked, gapped = a_log(3), LogBuilder(ME, 8)
    for seq in range(1, 8):
        gapped.append(b"%d" % seq)
    store.add([*forked.items(), (forked.make(2, b"x"), None), (gapped.entries[6], None)])
    store.append(ME, 9, [b"end"], is_end=True)
    store.unconfirm(ME.public)
    for log_id, error in ((7, ForkDetected), (8, StoreError), (9, AfterEndOfLog)):
        with pytest.raises(error):
            store.append(ME, log_id, [b"x"], continue_here=True)


def test_what_a_file_brings(store: SQLiteStore) -> None:
    """Entries that are added do not take the mark away: a file says nothing of what was published after it."""
    store.unconfirm(ME.public)
    store.add(a_log(5).items())
    with pytest.raises(UnconfirmedLog):
        store.append(ME, 7, [b"6"])


@pytest.mark.parametrize("newest", [1, 5])
def test_what_a_peer_has_shown(store: SQLiteStore, newest: int) -> None:
    """A peer that has sent the newest entry held confirms the log, and no other."""
    builder = a_log(newest)
    store.add(builder.items())
    store.unconfirm(ME.public)
    assert store.confirm_by(builder.entries[-1])
    assert newest + 1 == store.append(ME, 7, [b"next"]).seq
    assert not store.is_confirmed((ME.public, 8))


def test_what_confirms_nothing(store: SQLiteStore) -> None:
    """No log is confirmed by an entry below the newest, one not held, a forged one, or one of somebody else."""
    builder, theirs = a_log(6), LogBuilder(OTHER, 7)
    theirs.append(b"x")
    store.add([*builder.items()[:5], *theirs.items()])
    store.unconfirm(ME.public)
    twin = a_log(4)
    assert not store.confirm_by(builder.entries[3])
    assert not store.confirm_by(builder.entries[5])
    assert not store.confirm_by(twin.append(b"another 5"))
    assert store.confirm_by(theirs.entries[0])  # an author without a mark
    assert not store.is_confirmed(LOG)


def test_a_newer_entry_that_waits(store: SQLiteStore) -> None:
    """While a newer entry waits for its path, the newest verified one confirms nothing."""
    builder = a_log(9)
    store.add([*builder.items()[:5], builder.items()[8]])
    store.unconfirm(ME.public)
    assert not store.confirm_by(builder.entries[4])

    store.add(builder.items())
    assert store.confirm_by(builder.entries[8])


def test_marking_again(store: SQLiteStore) -> None:
    """Marking an author again forgets what was confirmed before: that was before the loss."""
    store.append(ME, 7, [b"1"])
    store.unconfirm(ME.public)
    store.append(ME, 7, [b"2"], continue_here=True)
    store.unconfirm(ME.public)
    with pytest.raises(UnconfirmedLog):
        store.append(ME, 7, [b"3"])


def test_marks_that_culm_never_writes(store: SQLiteStore) -> None:
    """Marks of a wrong type are damage, and reported by verify."""
    store.unconfirm(ME.public)
    assert [] == store.verify().problems
    with database_of(store).transaction() as connection:
        connection.execute("INSERT INTO unconfirmed VALUES ('text')")
    with pytest.raises(StoreError, match="damaged"):
        store.verify()


def test_an_earlier_store(place: Path) -> None:
    """In a store of version 4 nobody was marked, and its authors go on."""
    with SQLiteStore(place) as store:
        store.append(ME, 7, [b"1"])
        with database_of(store).transaction() as connection:
            age(connection, 4)
    with SQLiteStore(place) as store:
        assert frozenset() == store.unconfirmed_authors()
        assert 2 == store.append(ME, 7, [b"2"]).seq
