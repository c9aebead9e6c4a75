"""What a node answers while a penalty runs: the refused call does not prolong the penalty, and is told of it."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm.errors import CulmError
from culm.node.interests.policy import Policy
from culm.node.network.transport import connect
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.session import Purpose
from culm.node.sessions.stats import PeerRefused
from culm.node.sync import sync
from culm.testing import build_log
from tests.node.links import CONFIG, run
from tests.node.peers import key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from culm.node.sync import SyncSummary
    from tests.node.links import Party

PENALTIES = replace(CONFIG.limits, penalty_seconds=10, max_penalty_seconds=3600)
LOG = build_log(5)


@asynccontextmanager
async def serving(party: Party, scheme: str, policy: Policy | None = None) -> AsyncIterator[PeerUrl]:
    """A node that listens, and punishes for ten seconds at first."""
    stop = asyncio.Event()
    places: asyncio.Queue[PeerUrl] = asyncio.Queue()
    node = NodeService(party.identity, replace(CONFIG, limits=PENALTIES, policy=policy or Policy()), party.store)
    listen = [PeerUrl.parse(f"{scheme}://127.0.0.1:0", may_be_zero=True)]
    task = asyncio.create_task(node.run(listen, [], stop=stop, listening=places.put_nowait))
    yield await places.get()
    stop.set()
    await task


async def call(party: Party, url: PeerUrl, clump: bytes = b"Quagga") -> SyncSummary | CulmError:
    """Sync once; what came of it."""
    try:
        return await sync(
            party.identity, replace(CONFIG, clump=clump), party.store, url, Purpose(is_live=False, logs=(key(LOG),))
        )
    except CulmError as error:
        return error


async def offend(party: Party, url: PeerUrl) -> None:
    """Break the rules: with a wrong clump over ``culm://``, and with nonsense elsewhere."""
    if url.scheme == "culm":
        assert isinstance(await call(party, url, b"Zebra"), CulmError)
        return
    reader, writer = await connect(url)
    writer.write(b"\x7f" + bytes(range(256)) * 8)
    await reader.read()
    writer.close()


@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
def test_a_refused_call_prolongs_nothing(parties: list[Party], scheme: str) -> None:
    """After an offence the node punishes for ten seconds, and two calls meanwhile, right or wrong, change nothing.

    A quarter of the penalty after the offence one call gets through, as one does after a first offence. If a refused
    call counted as an offence, it would be refused.
    """
    alice, bob = parties[:2]
    bob.store.add(LOG.items())

    async def main() -> None:
        async with serving(bob, scheme) as url:
            await offend(alice, url)
            await asyncio.sleep(1)
            assert isinstance(await call(alice, url), PeerRefused)
            if scheme == "culm":
                assert isinstance(await call(alice, url, b"Zebra"), PeerRefused)
            await asyncio.sleep(1.6)
            result = await call(alice, url)
            assert not isinstance(result, CulmError), result
            assert result.entries_received == 5

    run(main)


def test_a_refused_caller_is_told_how_long(parties: list[Party]) -> None:
    """By culm:// the caller learns the seconds that are left, and the usual reason: a wrong clump, then or before.

    The words are the same with a right clump and with a wrong one, so that nobody can try clumps meanwhile.
    """
    alice, bob = parties[:2]
    told: list[int] = []
    words: list[str] = []

    async def main() -> None:
        async with serving(bob, "culm") as url:
            await offend(alice, url)
            for clump in (b"Quagga", b"Zebra"):
                await asyncio.sleep(1)
                error = str(await call(alice, url, clump))
                found = re.search(r"refuses this node for another (\d+) s", error)
                assert found is not None
                told.append(int(found[1]))
                words.append(error.replace(found[0], ""))

    run(main)
    assert words[0] == words[1]
    assert "compare the clump with the peer's" in words[0]
    assert 10 >= told[0] > told[1] >= 7


@pytest.mark.parametrize("scheme", ["culm", "bushbaby"])
def test_who_is_not_allowed_has_done_nothing_wrong(parties: list[Party], scheme: str) -> None:
    """A caller that is not on the allow list is not punished for calling: those behind its address are let in."""
    alice, bob, carol = parties
    bob.store.add(LOG.items())

    async def main() -> None:
        async with serving(bob, scheme, Policy(allow_peers=frozenset([carol.identity.public]))) as url:
            assert isinstance(await call(alice, url), PeerRefused)
        async with serving(bob, scheme, Policy(block_peers=frozenset([alice.identity.public]))) as url:
            for _ in range(3):
                error = await call(alice, url)
                assert isinstance(error, PeerRefused)
                assert "another" not in str(error).replace("another clump", "")
            assert not isinstance(await call(carol, url), CulmError)

    run(main)
