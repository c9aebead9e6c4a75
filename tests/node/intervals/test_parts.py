"""Holders of parts of a log as sources: all that they have comes by intervals, and once.

Specification: docs/specs/intervals.md, "What a node asks for".
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import path
from culm.node.intervals.followed import FollowOptions
from culm.ranges import RangeSet, read_range
from culm.testing.builders import LogBuilder, build_log
from tests.node.links import Party, run, stream_pair
from tests.node.peers import Peer, key, sync
from tests.quick import rounds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


PARTS = [(1, 1), (4, 10), (13, 13), (17, 26), (30, 33)]


def in_runs(log: LogBuilder, runs: Iterable[tuple[int, int]]) -> list[Any]:
    """The entries of some runs of a log, with their payloads."""
    return [item for first, last in runs for item in log.items(log.entries[first - 1 : last])]


@pytest.mark.parametrize("options", [FollowOptions(), FollowOptions(newest_first=True)])
def test_everything_comes_from_a_partial_holder(peers: list[Peer], options: FollowOptions) -> None:
    """From a holder of some runs of a log a fresh node gets all of them, wherever the gaps are."""
    alice, bob, _ = peers
    log = build_log(40)
    bob.store.add(in_runs(log, PARTS))
    session = sync(alice, bob, [key(log)], options=options)
    assert sorted({seq for first, last in PARTS for seq in range(first, last + 1)}) == alice.numbers(key(log))
    assert session.stats.entries_received == 23
    assert session.connection.ours.next_id < 20  # requests


def test_what_a_partial_holder_gets_later_comes_too(peers: list[Peer]) -> None:
    """Requests for the gaps stay open in a live session, so what fills one of them comes at once, and once."""
    alice, bob, _ = peers
    log = build_log(40)
    bob.store.add(in_runs(log, PARTS))

    async def main() -> int:
        near, far = await stream_pair()
        sessions = alice.session(near, [key(log)], mirrors=False), bob.session(far)
        tasks = [asyncio.create_task(session.run()) for session in sessions]

        async def holds(count: int) -> None:
            while len(await alice.on_its_thread(alice.numbers, key(log))) < count:
                await asyncio.sleep(0.1)

        await holds(23)
        for run_of_numbers, count in (((27, 29), 26), ((11, 12), 28), ((2, 3), 30), ((14, 16), 33), ((34, 40), 40)):
            await bob.on_its_thread(bob.store.add, in_runs(log, [run_of_numbers]))
            sessions[1].store_changed()
            await holds(count)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return int(sessions[0].stats.entries_received)

    assert run(main) == 40


@pytest.mark.slow
@pytest.mark.parametrize("seed", rounds(8))
def test_whatever_a_holder_has_comes(peers: list[Peer], seed: int) -> None:
    """Parts of a log at random, with payloads missing here and there: all that the holder has verified comes."""
    alice, bob, _ = peers
    rng, log = Random(seed), build_log(120)
    wanted = {at for first in rng.sample(range(1, 110), 9) for at in range(first, first + rng.randrange(1, 12))}
    numbers = wanted | {member for seq in wanted for member in path(seq, 1)}
    bare = {seq for seq in numbers if rng.random() < 0.1}
    items = (item for item in log.items() if item[0].seq in numbers)
    bob.store.add((entry, None if entry.seq in bare else payload) for entry, payload in items)
    session = sync(alice, bob, [key(log)])
    assert sorted(numbers - bare) == alice.numbers(key(log))
    assert session.stats.entries_received <= 1.1 * len(numbers)  # a long part brings its path, so that nothing waits


@pytest.mark.slow
def test_four_partial_holders_fill_a_fifth_node(peers: list[Peer], tmp_path: Path) -> None:
    """What four holders of different parts of a log have together, a fifth node gets from one after the other."""
    alice, log = peers[0], build_log(40)
    for number, runs in enumerate([[(1, 8), (30, 33)], [(9, 13)], [(14, 26), (40, 40)], [(26, 29), (34, 39)]]):
        holder = Party(tmp_path, 10 + number)
        paths = {at for first, last in runs for seq in range(first, last + 1) for at in path(seq, 1)}
        holder.store.add([(log.entries[seq - 1], None) for seq in paths])
        holder.store.add(in_runs(log, runs))
        peer = Peer(holder)
        sync(alice, peer, [key(log)])
        for source in peer.sources:
            source.close()
        holder.close()
    assert list(range(1, 41)) == alice.numbers(key(log))


@pytest.mark.parametrize("text", ["5..26 sparse", "10..30 sparse", "2..38 sparse", "7..9, 20..22", "5, 9, 23"])
def test_no_entry_comes_twice(peers: list[Peer], text: str) -> None:
    """A member of a certificate pool that another request brings already is asked for once."""
    alice, bob, _ = peers
    log = build_log(45)
    bob.store.add(log.items())
    interest = RangeSet(read_range(part) for part in text.split(", "))
    session = sync(alice, bob, [key(log)], interest=lambda _: interest)
    held = list(alice.store.entries(key(log)))
    assert len(held) == session.stats.entries_received
    assert all(interest.contains_metadata(stored.entry.seq) <= stored.payload_complete for stored in held)
    assert next(iter(alice.store.logs())).waiting == 0
