"""A node that stays in contact with the deployed Bushbaby peer, as ``tests.interop.deployed`` models it.

Specification: docs/specs/bushbaby.md, "The deployed peer", "Connections without use".
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm.node.service import NodeService
from culm.testing.builders import build_log
from culm.wire.places import author_text
from tests.interop.deployed import DeployedPeer
from tests.interop.meeting import REAL, Meeting, give
from tests.node.links import Party, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@pytest.fixture
def alice(tmp_path: Path) -> Party:
    """A person with a store, which the node closes."""
    return Party(tmp_path, 1)


def beside_a_node(alice: Party, met: Meeting, work: Callable[[NodeService], Awaitable[None]]) -> None:
    """Do something while a node keeps contact with the peer."""

    async def main() -> None:
        node = NodeService(alice.identity, replace(REAL, interval=30.0), alice.store)
        stop = asyncio.Event()
        async with met.listening() as url:
            running = asyncio.create_task(node.run([], [url], stop=stop))
            await work(node)
            stop.set()
            await running

    run(main, 4000)


@pytest.mark.slow
def test_a_quiet_peer_is_called_again_for_its_news(alice: Party, caplog: pytest.LogCaptureFixture) -> None:
    """A peer that is quiet for five minutes is no failure; each interval a new connection hears its news."""
    caplog.set_level(logging.INFO, "culm.node")
    met = Meeting(DeployedPeer(b"\x20" * 32, b"Quagga"))
    log = build_log(10, seed=5)
    give(met.peer, log)

    async def work(_: NodeService) -> None:
        await asyncio.sleep(300)
        log.append(b"news")
        give(met.peer, log)
        await asyncio.sleep(45)

    beside_a_node(alice, met, work)
    connected = [record.getMessage() for record in caplog.records if record.getMessage().startswith("connected")]
    assert len(connected) == len(met.began)
    assert f"it is {author_text(met.peer.public)}" in connected[0]
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
    assert 9 <= len(met.began) <= 13
    waits = [later - ended for later, (ended, _) in zip(met.began[1:], met.ends, strict=False)]
    assert max(waits) < 1
    assert alice.holds()[log.identity.public, 0] == list(range(1, 12))


@pytest.mark.slow
def test_news_for_a_slow_peer_go_out_at_once_and_once(alice: Party) -> None:
    """Entries appended while the peer stores the first ones are sent, and the first ones are not sent again."""
    met = Meeting(DeployedPeer(b"\x20" * 32, b"Quagga"))

    async def work(node: NodeService) -> None:
        for number in range(60):
            await node.append(alice.identity, 0, [b"entry %d" % number * 10])
        await asyncio.sleep(10)
        for number in range(5):
            await node.append(alice.identity, 0, [b"news %d" % number * 10])
            await asyncio.sleep(2)
        await asyncio.sleep(60)

    beside_a_node(alice, met, work)
    log = met.peer.store[alice.identity.public, 0]
    assert sorted(log) == list(range(1, 66))
    assert met.peer.size() < 1.3 * sum(map(len, log.values()))
    assert met.lost == 0
