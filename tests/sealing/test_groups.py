"""Lists of readers, in a log of their own (docs/specs/sealed.md, "A group list")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm import Place
from culm.errors import ConfigError, NotHeld
from culm.sealing import MAX_READERS, Group, newest_group, readers_of
from culm.sealing.groups import MAX_LIST_BYTES, parse_list
from culm.testing import LogBuilder
from culm.wire.places import log_text
from tests.blank import blank_store
from tests.sealing.keys import AGE_KEY, ALICE, BOB, CAROL, NAMES, pyrage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from culm import SQLiteStore

LOG = ALICE.public, 5
PLACE = Place(ALICE.public, 5, 1)
LIST = f"culm-group 1\n{NAMES[BOB]}\n{AGE_KEY}\n".encode()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """An empty store."""
    with blank_store(tmp_path / "store.db") as made:
        yield made


def test_the_bytes_of_a_list() -> None:
    """A list is written as the specification shows it, and read again."""
    group = Group(LOG, 1, (NAMES[BOB], AGE_KEY))
    assert LIST == group.encode()
    assert group.readers == parse_list(LIST, PLACE)
    assert () == parse_list(b"culm-group 1\n", PLACE)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "is no list of a group"),
        (b"culm-group 1", "is no list of a group"),
        (b"culm-group 2\n", "is no list of a group"),
        (LIST[:-1], "is no list of a group"),
        (LIST.replace(b"\n", b"\r\n"), "is no list of a group"),
        (LIST + b"\xff\n", "is no list of a group"),
        (LIST + b"\n", "line 4 of the list .* names no reader"),
        (LIST + b"alice\n", "line 4 of the list .* names no reader"),
        (LIST + NAMES[ALICE].encode() + b"/5\n", "line 4 of the list .* names no reader"),
        (LIST + bytes(32).hex().encode() + b"\n", "line 4 of the list .* it is not the public key"),
        (LIST + ALICE.public.hex().encode() + b"\n", "line 4 of the list .* is no reader in the form of a list"),
        (LIST + NAMES[BOB].encode() + b"\n", "line 4 of the list .* comes twice"),
        (LIST + b"x\n" * 2000, "has 2,002 readers; accepted: up to 1,000"),
        (b"age-encryption.org/v1\n", "is sealed, so it is no list"),
    ],
)
def test_what_is_no_list(payload: bytes, why: str) -> None:
    """Anything else is refused, with the line."""
    with pytest.raises(ConfigError, match=why):
        parse_list(payload, PLACE)


def test_a_list_that_is_too_long() -> None:
    """No list is published that nobody would take, and the longest one fits."""
    with pytest.raises(ConfigError, match="a group has up to 1,000 readers, and this would be 1,001"):
        Group(LOG, 1, (AGE_KEY,) * (MAX_READERS + 1)).encode()
    assert len(Group(LOG, 1, (AGE_KEY,) * MAX_READERS).encode()) <= MAX_LIST_BYTES


def test_the_newest_list_counts(store: SQLiteStore) -> None:
    """A new list takes the place of the one before, in whole."""
    for readers in ((NAMES[BOB], NAMES[CAROL]), (NAMES[CAROL],)):
        store.append(ALICE, 5, [Group(LOG, 0, readers).encode()])
    group = newest_group(store, LOG)
    assert (2, (NAMES[CAROL],)) == (group.seq, group.readers)


def test_no_list(store: SQLiteStore) -> None:
    """A log without entries is no group, except where the first list is made."""
    with pytest.raises(NotHeld, match="the store has no list of the group"):
        newest_group(store, LOG)
    assert Group(LOG, 0, ()) == newest_group(store, LOG, may_be_new=True)


def test_an_old_list_is_not_used(store: SQLiteStore) -> None:
    """Where the newest list has not arrived, the one before is not used: it could have a reader who was taken out."""
    log = LogBuilder(ALICE, 5)
    first, second = (log.append(Group(LOG, 0, (NAMES[one],)).encode()) for one in (BOB, CAROL))
    store.add([(first, log.payloads[first.hash]), (second, None)])
    with pytest.raises(NotHeld, match=r"the newest list of the group, .*/5/2, has not arrived: sync first"):
        readers_of(store, [log_text(LOG)])


def test_a_forked_group(store: SQLiteStore) -> None:
    """A forked log has no list, not even from before the fork."""
    log = LogBuilder(ALICE, 5)
    payload = Group(LOG, 0, (NAMES[BOB],)).encode()
    entries = [log.append(payload), log.append(payload), log.make(2, b"another")]
    store.add([(entry, payload if entry is not entries[2] else b"another") for entry in entries])
    assert store.lookup(LOG).is_forked
    for may_be_new in (False, True):
        with pytest.raises(ConfigError, match="is forked: its author has published two lists of one number"):
            newest_group(store, LOG, may_be_new=may_be_new)


def test_a_huge_list(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload that is too large for a list is refused by its size, and not read."""
    store.append(ALICE, 5, [b"culm-group 1\n", bytes(MAX_LIST_BYTES)])
    monkeypatch.setattr(type(store), "payload", None)
    with pytest.raises(ConfigError, match="has 64,077 bytes, and a list of a group up to 64,064"):
        newest_group(store, LOG)


def test_names_and_groups_together(store: SQLiteStore) -> None:
    """Readers of names and groups come once each, in order; too many together are refused."""
    store.append(ALICE, 5, [LIST])
    name = log_text(LOG)
    assert [NAMES[ALICE], NAMES[BOB], AGE_KEY] == readers_of(store, [NAMES[ALICE], name, BOB.public, name])
    many = [str(pyrage.x25519.Identity.generate().to_public()) for _ in range(MAX_READERS)]
    with pytest.raises(ConfigError, match="1,002 readers are too many: accepted are up to 1,000"):
        readers_of(store, [name, *many])
