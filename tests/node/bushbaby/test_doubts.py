"""What is asked of a peer that holds a log differently, or claims to.

Specification: docs/specs/bushbaby.md, "Forks".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.bushbaby import HaveItem
from culm.node.bushbaby.doubts import Doubts
from culm.store import SQLiteStore
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = build_log(9)
NAME = LOG.entries[0].log
TIPS = {entry.seq: entry.hash[2:10] for entry in LOG.entries}
WRONG = b"8 bytes."


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """A store that holds the log."""
    with SQLiteStore(tmp_path / "store.db") as made:
        made.add(LOG.items())
        yield made


def said(newest: int, tip: bytes = b"", fork: int = 0) -> HaveItem:
    """What a peer says of the log."""
    return HaveItem(*NAME, newest, tip, fork)


@pytest.mark.parametrize(
    ("item", "spans"),
    [
        (said(9), []),
        (said(9, TIPS[9]), []),
        (said(5, TIPS[5]), []),
        (said(5, WRONG), [(5, 5)]),
        (said(12, WRONG), []),
        (said(3, TIPS[3], 4), [(4, 4)]),
        (said(3, WRONG, 4), [(4, 4)]),
    ],
)
def test_what_is_asked_for(store: SQLiteStore, item: HaveItem, spans: list[tuple[int, int]]) -> None:
    """An entry that we hold differently is asked for, and the cause of a fork; nothing where the peer agrees."""
    doubts = Doubts()
    doubts.hear(item)
    assert spans == doubts.spans(store, NAME, is_shown=True)


def test_a_claim_is_looked_into_once(store: SQLiteStore) -> None:
    """A peer that repeats what it said has answered: a fork that it only claims is asked for once."""
    doubts = Doubts()
    for item, spans in ((said(9, fork=4), [(4, 4)]), (said(9, fork=4), []), (said(9, fork=3), [(3, 3)])):
        doubts.hear(item)
        assert spans == doubts.spans(store, NAME, is_shown=True)


def test_a_fork_that_we_know_is_asked_for_no_more(store: SQLiteStore) -> None:
    """Once we know a fork as low as the peer's, and the peer ours, there is no doubt left."""
    doubts = Doubts()
    doubts.hear(said(6, WRONG, 7))
    assert [(7, 7)] == doubts.spans(store, NAME, is_shown=True)
    store.add([(LOG.make(6, b"another"), None)])
    doubts.hear(said(5, TIPS[5], 6))
    assert [] == doubts.spans(store, NAME, is_shown=True)


def test_who_goes_on_behind_a_fork_is_asked_before_it(store: SQLiteStore) -> None:
    """A peer whose log goes on behind a fork as if nothing were may hold another branch: our newest is compared."""
    store.add([(LOG.make(8, b"another"), None)])
    for item, spans in ((said(12, WRONG), [(7, 7)]), (said(7, TIPS[7]), []), (said(7, TIPS[7], 8), [])):
        doubts = Doubts()
        doubts.hear(item)
        assert spans == doubts.spans(store, NAME, is_shown=True)


def test_a_peer_is_shown_each_lower_fork_once(store: SQLiteStore) -> None:
    """The proof goes to a peer that knows none as low, once, and only of logs that are shared."""
    doubts, other = Doubts(), Doubts()
    store.add([(LOG.make(8, b"another"), None)])
    assert [] == doubts.unknown(store, [NAME], lambda _: False)
    assert [[8], []] == [[proof.position for proof in doubts.unknown(store, [NAME], lambda _: True)] for _ in range(2)]
    store.add([(LOG.make(5, b"another"), None)])
    doubts.hear(said(5, fork=6))
    other.hear(said(4, fork=5))
    assert [5] == [proof.position for proof in doubts.unknown(store, [NAME], lambda _: True)]
    assert [] == other.unknown(store, [NAME], lambda _: True)
