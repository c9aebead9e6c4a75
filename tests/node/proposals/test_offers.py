"""Partial holders as sources: everything that a node holds of a log comes over, whatever it lacks in between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import path
from culm.errors import Place
from culm.node.proposals.options import ProposalOptions
from culm.ranges import RangeSet, read_range
from culm.testing.builders import build_log
from tests.node.links import run, stream_pair
from tests.node.peers import key, sync, until
from tests.node.proposing import ProposalPeer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.testing.builders import LogBuilder

HELD = [1, 4, *range(5, 11), 13, *range(17, 27), *range(30, 34)]
LOG = build_log(40, payload_size=30)


def put(peer: ProposalPeer, numbers: Iterable[int], log: LogBuilder = LOG) -> None:
    """Have a party hold some entries with their payloads."""
    peer.store.add(log.items([log.entries[seq - 1] for seq in numbers]))


@pytest.mark.parametrize("mandatory", [False, True])
@pytest.mark.parametrize("holder_calls", [False, True])
def test_all_that_a_partial_holder_has(peers: list[ProposalPeer], *, holder_calls: bool, mandatory: bool) -> None:
    """A fresh node gets all 23 entries of a holder with five gaps, whoever of the two has opened the connection."""
    holder, fresh, _ = peers
    put(holder, HELD)
    assert holder.numbers(key(LOG)) == HELD
    options = ProposalOptions(mandatory=mandatory)

    async def main() -> None:
        near, far = await stream_pair()
        asking = fresh.session(near, [key(LOG)], called=not holder_calls, options=options)
        serving = holder.session(far, called=holder_calls)
        tasks = [asyncio.create_task(session.run()) for session in (asking, serving)]
        await until(lambda: fresh.numbers(key(LOG)) == HELD)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_a_one_time_sync_with_a_partial_holder(peers: list[ProposalPeer]) -> None:
    """A sync does not end before the offers have come, and a second one brings nothing twice."""
    holder, fresh, _ = peers
    put(holder, HELD)
    session = sync(fresh, holder, [key(LOG)])
    assert fresh.numbers(key(LOG)) == HELD
    assert session.stats.payload_bytes == 23 * 30
    session = sync(fresh, holder, [key(LOG)])
    assert session.stats.payload_bytes == 0


def test_what_the_holder_gets_later(peers: list[ProposalPeer]) -> None:
    """News behind a gap come in a session that lives, and the pool below them is not sent again for each."""
    holder, fresh, _ = peers
    put(holder, HELD)

    async def main() -> None:
        near, far = await stream_pair()
        asking, serving = fresh.session(near, [key(LOG)], called=True), holder.session(far)
        tasks = [asyncio.create_task(session.run()) for session in (asking, serving)]
        await until(lambda: fresh.numbers(key(LOG)) == HELD)
        received = asking.stats.entries_received
        for seq in (34, 35, 36):
            await holder.on_its_thread(holder.store.add, LOG.items([LOG.entries[seq - 1]]))
            serving.store_changed()
            await until(lambda seq=seq: fresh.numbers(key(LOG))[-1] == seq)  # type: ignore[misc]
        assert asking.stats.entries_received - received <= 3 * 4
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_a_payload_that_a_partial_holder_lacks(peers: list[ProposalPeer]) -> None:
    """A run is offered with its entries; a payload that was forgotten is left out, and all behind it comes."""
    holder, fresh, _ = peers
    put(holder, HELD)
    holder.store.forget(Place(*key(LOG), 20))
    sync(fresh, holder, [key(LOG)], options=ProposalOptions(mandatory=True))
    assert fresh.numbers(key(LOG)) == [seq for seq in HELD if seq != 20]


def test_members_of_a_path(peers: list[ProposalPeer]) -> None:
    """Of a path that is wanted with some members missing, the other members come, and nothing between them."""
    holder, fresh, _ = peers
    put(holder, [*path(26, 1)[::-1], 5, 8, 9, 12, *range(27, 34)])  # 6 and 7 are on the path, too.
    assert {6, 7} < set(path(33, 5))
    wanted = RangeSet([read_range("5..33 sparse")])
    sync(fresh, holder, [key(LOG)], interest=lambda _: wanted)
    assert [5, 8, 12, 13, 26, *range(30, 34)] == fresh.numbers(key(LOG))


def test_partial_holders_fill_a_node_together(peers: list[ProposalPeer]) -> None:
    """Two holders of different parts and a third that has neither: syncs one after the other bring it all."""
    one, other, fresh = peers
    put(one, HELD)
    put(other, [*path(16, 1), 2, 3, 11, 12, 14, 15, 16, *path(29, 16), 27, 28, 29, *range(34, 41), *path(34, 29)])
    for holder in (one, other):
        sync(fresh, holder, [key(LOG)])
    expected = sorted({*one.numbers(key(LOG)), *other.numbers(key(LOG))})
    assert expected == fresh.numbers(key(LOG))
