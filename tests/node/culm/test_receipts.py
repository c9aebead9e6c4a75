"""Receipts: what waits for a peer that takes none is bounded, and goes as soon as there is room.

Specification: docs/specs/culm.md, "News".
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from culm.bamboo import Identity
from culm.node.culm.offers import offer_of
from culm.node.culm.receipts import Receipts
from culm.node.held import HeldByPeers
from culm.ranges import Range, RangeSet
from culm.session import Offer
from culm.store import SQLiteStore
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ME, PEER = Identity(bytes([1]) * 32), build_log(0).identity


class Line:
    """A connection that takes note of offers, and holds so many bytes of them."""

    def __init__(self) -> None:
        self.peer = PEER.public
        self.their_interests = SimpleNamespace(wants=lambda _: True)
        self.offers_queued = 0
        self.offered: list[Offer] = []

    def offer(self, offers: Iterable[Offer]) -> None:
        """Note them."""
        some = list(offers)
        self.offered += some
        self.offers_queued += 100 * len(some)


def receipts(line: Line, held: HeldByPeers | None = None) -> Receipts:
    """The receipts of a session on a line."""
    return Receipts(cast("Any", line), held or HeldByPeers(), ME.public, "here", lambda _: True)


@pytest.mark.slow
def test_a_peer_that_takes_nothing(tmp_path: Path) -> None:
    """Ten thousand offers of a peer that reads nothing cost bounded memory; what waits is sent when it reads again."""
    line = Line()
    mine = receipts(line)
    with SQLiteStore(tmp_path / "store.db") as store:
        for log_id in range(10_000):
            mine.settled(store, Offer(PEER.public, log_id, RangeSet()))
            if log_id % 100 == 0:
                mine.send()
    queued = len(line.offered)
    assert queued < 1000
    assert mine.is_pending
    while mine.is_pending:
        line.offers_queued = 0
        mine.send()
    assert queued < len(line.offered) < 6000
    assert len({offer.log for offer in line.offered}) == len(line.offered)


def test_logs_of_others_and_our_own(tmp_path: Path) -> None:
    """A receipt goes to the author alone, and none goes for our own log, also if the peer has the same identity."""
    line = Line()
    with SQLiteStore(tmp_path / "store.db") as store:
        receipts(line).settled(store, Offer(bytes(32), 1, RangeSet()))
        mine = Receipts(cast("Any", line), HeldByPeers(), PEER.public, "here", lambda _: True)
        mine.settled(store, Offer(PEER.public, 1, RangeSet()))
        assert not mine.is_pending
    assert line.offered == []


@pytest.mark.slow
def test_a_log_with_many_gaps(tmp_path: Path) -> None:
    """A receipt names no entry that is not held, however many gaps the log has: it names the first parts of it."""
    log, line = build_log(400), Line()
    with SQLiteStore(tmp_path / "store.db") as store:
        for number, item in enumerate(log.items()):
            store.add([item if number % 3 else (item[0], None)])
        mine = receipts(line)
        mine.settled(store, offer_of(store, log.entries[0].log))
        mine.send()
        (receipt,) = line.offered
        assert len(receipt.held) <= 64
        sizes = {entry.seq: entry.size for entry in log.entries}
        for stored in store.entries(log.entries[0].log):
            seq = stored.entry.seq
            assert stored.payload_complete or not receipt.held.contains_payload(seq, sizes[seq])
        newest = max(item.last for item in receipt.held)
        assert receipt.tip == log.entries[newest - 1].hash[2:10]


def test_a_peer_on_another_branch(tmp_path: Path) -> None:
    """A peer whose newest entry is another one than ours of that number holds nothing of what we wrote."""
    held = HeldByPeers()
    with SQLiteStore(tmp_path / "store.db") as store:
        entry = store.append(ME, 1, [b"mine"])
        mine = receipts(Line(), held)
        whole = RangeSet([Range(1, 1)])
        mine.hear(store, Offer(ME.public, 1, whole, b"another."))
        mine.note()
        assert held.of((ME.public, 1)) == []
        mine.hear(store, Offer(ME.public, 1, whole, entry.hash[2:10]))
        mine.note()
        assert [(each.newest, each.complete) for each in held.of((ME.public, 1))] == [(1, 1)]


def test_what_is_compared(tmp_path: Path) -> None:
    """Logs that were compared and not named are held alike; those that changed meanwhile perhaps are not."""
    held = HeldByPeers()
    mine = receipts(Line(), held)
    with SQLiteStore(tmp_path / "store.db") as store:
        for log_id in (1, 2, 3, 4):
            store.append(ME, log_id, [b"before"])
        mine.begin_comparison(store)
        store.append(ME, 2, [b"meanwhile"])
        mine.end_comparison(store, {(ME.public, 3)}, lambda log: log[1] != 4)
        assert [[each.complete for each in held.of((ME.public, log_id))] for log_id in (1, 2, 3, 4)] == [
            [1],
            [],
            [],
            [],
        ]
        mine.end_comparison(store, set(), lambda _: True)
        assert held.of((ME.public, 3)) == []
