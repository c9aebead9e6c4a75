"""What acknowledgements cost in a live session: CPU time of two nodes for a change of a log, with receipts and without.

Both nodes are in one process, in the simulated world of ``culm.testing``, so that nothing but their work counts: the
author appends, the other one fetches and says that it holds the entry. Appends are so far apart that each one is
offered, fetched and acknowledged by itself, which is the dearest case.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING
from unittest.mock import patch

from bench.harness import Figure, median_ratio, say
from culm.node.culm.receipts import Receipts
from culm.testing import World

if TYPE_CHECKING:
    from culm import Node

CHANGES = 200
_ROUNDS = 15
_PAUSE = 0.2  # Simulated seconds between two appends, more than the time for which offers are gathered.


async def _changes(world: World, alice: Node, bob: Node) -> float:
    entry = await alice.append(1, bytes(200))
    await world.arrived(entry, bob)
    await asyncio.sleep(5)
    began = time.process_time()
    for _ in range(CHANGES):
        entry = await alice.append(1, bytes(200))
        await asyncio.sleep(_PAUSE)
    await world.arrived(entry, bob)
    return time.process_time() - began


def _measured() -> float:
    with World() as world:

        async def main() -> float:
            alice, bob = await world.node("alice"), await world.node("bob")
            await bob.connect(alice.url)
            return await _changes(world, alice, bob)

        return world.run(main())


def _without(*_: object) -> None:
    """Say nothing to the author."""


def run() -> list[Figure]:
    """Measure, in turns."""
    say(f"{CHANGES} changes of a log in a live session, with receipts and without")
    with_them, without = [], []
    for number in range(_ROUNDS + 1):  # The first round is warming up.
        mine = _measured()
        with patch.object(Receipts, "settled", _without):
            bare = _measured()
        if number:
            with_them.append(mine)
            without.append(bare)
    each = [cpu / CHANGES * 1000 for cpu in with_them]
    spread = min(each), max(each)
    return [
        Figure(
            "live: a change, CPU of both nodes",
            median(each),
            "ms",
            "without receipts",
            median_ratio(with_them, without),
            spread=spread,
        )
    ]
