"""Entries that were refused: whether and when the peer that sent them is asked for them again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from culm.bushbaby import HaveItem, WantItem
from culm.errors import BadSignature, HoldingAreaFull, Place
from culm.node.bushbaby.refusals import Refusals
from culm.testing import build_log
from tests.bushbaby.peers import send_items
from tests.node.bushbaby.deployed import Deployed
from tests.node.links import run, stream_pair
from tests.node.peers import until
from tests.store.below import let_nothing_wait

if TYPE_CHECKING:
    from tests.node.links import Party

AUTHOR = b"a" * 32


def test_only_wrong_entries_are_left_out_for_ever() -> None:
    """What had no room is asked for again once it is forgiven; what was wrong is not."""
    refusals = Refusals()
    refusals.note(Place(AUTHOR, 0, 3), BadSignature("no"))
    refusals.note(Place(AUTHOR, 0, 5), HoldingAreaFull("no"))
    assert [(1, 2), (4, 4), (6, 9)] == refusals.leave_out((AUTHOR, 0), [(1, 5), (6, 9)])
    assert [(1, 5)] == refusals.leave_out((AUTHOR, 1), [(1, 5)])
    assert [(AUTHOR, 0)] == refusals.forgive()
    assert [] == refusals.forgive()
    assert [(1, 2), (4, 9)] == refusals.leave_out((AUTHOR, 0), [(1, 9)])


def test_a_flood_of_refused_entries_is_not_remembered() -> None:
    """A peer may send any number of entries without a path, so only 4,096 are remembered, until they are forgiven."""
    refusals = Refusals()
    for _ in range(2):
        for log_id in range(5000):
            refusals.note(Place(AUTHOR, log_id, 3), HoldingAreaFull("no"))
        assert [(1, 2), (4, 4)] == refusals.leave_out((AUTHOR, 4095), [(1, 4)])
        assert [(1, 4)] == refusals.leave_out((AUTHOR, 4096), [(1, 4)])
        assert 4096 == len(refusals.forgive())


def test_what_had_no_room_is_asked_for_again(parties: list[Party]) -> None:
    """A live session gets an entry for which the store had no room, once it has."""
    alice, bob, _ = parties
    log = build_log(3, seed=44)
    third = log.entries[2].encoded + log.payloads[log.entries[2].hash]
    let_nothing_wait(alice.store)

    async def talk() -> list[WantItem]:
        near, far = await stream_pair()
        session = await alice.session(near, called=True)
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
        await peer.until(lambda: peer.connection.replicating)
        peer.connection.send_have([HaveItem(log.identity.public, 0, 3)])
        await peer.until(lambda: peer.wants)
        send_items(peer.connection, [third])
        peer.writer.write(peer.connection.data_to_send())
        await until(lambda: bool(session.stats.refused))
        peer.wants.clear()
        await session.poll()
        await peer.until(lambda: peer.wants)
        task.cancel()
        return peer.wants

    assert [WantItem(log.identity.public, 0, None, 1, 3)] == run(talk)
