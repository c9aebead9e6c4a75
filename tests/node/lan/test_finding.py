"""Nodes that find each other: docs/specs/neighbours.md, "Finding", "Calling"."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import EncodingError, NetworkError
from culm.node.interests.policy import Policy
from culm.node.lan.finding import MAX_CONTACTS, Finding
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.testing import build_log
from culm.wire.announcement import HOUR_SECONDS, Announcement, clump_key, seal, unseal
from tests.node.links import CONFIG, HERE, run
from tests.node.peers import key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tests.node.links import Party

CLUMP, NOW = bytes(range(16)), 1_800_000_000.0
KEY = clump_key(CLUMP)
LOG = build_log(3)


class Air:
    """A network on which all hear what one announces, at once; ``said`` has it in the order in which it was said."""

    def __init__(self) -> None:
        self.ears: list[Callable[[bytes], object]] = []
        self.said: dict[object, bytes] = {}
        self.history: list[bytes] = []
        self.asked = 0
        self.is_down = False

    def transport(self, heard: Callable[[bytes], object]) -> Any:
        """What a node announces and asks by."""
        return _Speaker(self, heard)

    def say(self, speaker: object, data: bytes) -> None:
        """Announce this instead of what the speaker announced before."""
        self.said[speaker] = data
        self.history.append(data)
        for hear in list(self.ears):
            hear(data)


class _Speaker:
    def __init__(self, air: Air, heard: Callable[[bytes], object]) -> None:
        self._air, self._heard = air, heard

    async def open(self, _: Sequence[str]) -> None:
        if self._air.is_down:
            raise NetworkError("no network")
        self._air.ears.append(self._heard)

    def ask(self) -> None:
        self._air.asked += 1
        for data in self._air.said.values():
            self._heard(data)

    async def announce(self, data: bytes, _: object) -> None:
        self._air.say(self, data)

    async def close(self) -> None:
        if self._heard in self._air.ears:
            self._air.ears.remove(self._heard)
        self._air.said.pop(self, None)


@asynccontextmanager
async def finding(
    party: Party,
    air: Air,
    policy: Policy | None = None,
    clump: bytes = CLUMP,
    *,
    listens: bool = True,
    begins: float = NOW,
) -> AsyncIterator[NodeService]:
    """A node that finds neighbours; ``begins`` is the time of day at which it starts."""
    clock = asyncio.get_running_loop().time
    since = clock()
    stop, config = asyncio.Event(), replace(CONFIG, clump=clump, policy=policy or Policy())
    node = NodeService(party.identity, config, party.store)
    finds = Finding(node, [HERE], wall=lambda: begins + clock() - since, transport=air.transport)
    listen = [PeerUrl("culm", HERE, 0)] if listens else []
    task = asyncio.create_task(node.run(listen, [], stop=stop, beside=finds.run))
    await asyncio.sleep(0.5)
    try:
        yield node
    finally:
        stop.set()
        await task


def connected(node: NodeService) -> list[bytes | None]:
    """The peers that have proved their keys."""
    return [session.proved for session in node.sessions]


def smaller_first(parties: Sequence[Party]) -> list[Party]:
    """Two parties, the one that calls at once first."""
    return sorted(parties[:2], key=lambda party: party.identity.public)


def by_member(key: bytes, host: str = HERE, port: int = 9, now: float = NOW) -> bytes:
    """What a member of the clump announces in the name of a key."""
    return seal(Announcement(key, ((ip_address(host), port),)), KEY, now)


def test_two_nodes(parties: list[Party]) -> None:
    """Two nodes find each other, connect once, and exchange what they have."""
    alice, bob = smaller_first(parties)
    alice.store.add(LOG.items())

    async def main() -> None:
        air = Air()
        async with finding(alice, air) as here, finding(bob, air) as there:
            await asyncio.sleep(20)
            assert bob.holds() == {key(LOG): [1, 2, 3]}
            assert connected(here) == [bob.identity.public]
            assert connected(there) == [alice.identity.public]
            assert [session.is_called for session in here.sessions] == [True]

    run(main)


def test_the_other_one_calls_after_a_while(parties: list[Party]) -> None:
    """If the node with the smaller key does not call, because it hears nothing, the other one does."""
    alice, bob = smaller_first(parties)

    async def main() -> None:
        air, silence = Air(), Air()
        async with finding(alice, silence) as here, finding(bob, air) as there:
            await asyncio.sleep(1)
            air.say("alice", next(iter(silence.said.values())))
            await asyncio.sleep(3)
            assert connected(there) == []
            await asyncio.sleep(4)
            assert connected(here) == [bob.identity.public]
            assert connected(there) == [alice.identity.public]

    run(main)


def test_another_clump(parties: list[Party]) -> None:
    """A node of another clump is not called."""
    alice, bob = smaller_first(parties)

    async def main() -> None:
        air = Air()
        async with finding(alice, air) as here, finding(bob, air, clump=bytes(16)) as there:
            await asyncio.sleep(20)
            assert len(air.history) == 2
            assert here.roster.begun == there.roster.begun == {}
            assert here.roster.troubles == there.roster.troubles == {}

    run(main)


@pytest.mark.parametrize("which", ["block_peers", "allow_peers"])
def test_policy_applies(parties: list[Party], which: str) -> None:
    """A neighbour that is blocked, or not on the list of allowed peers, is not called."""
    alice, bob = smaller_first(parties)
    keys = {"block_peers": bob.identity.public, "allow_peers": bytes(32)}
    policy = Policy(**{which: frozenset({keys[which]})})  # type: ignore[arg-type]

    async def main() -> None:
        air = Air()
        async with finding(alice, air, policy) as here, finding(bob, air):
            await asyncio.sleep(4)
            assert here.roster.troubles == {}
            assert here.roster.begun == {}

    run(main)


def test_a_neighbour_that_is_blocked_later(parties: list[Party]) -> None:
    """When a neighbour is blocked, the contact with it ends."""
    alice, bob = smaller_first(parties)

    async def main() -> None:
        air = Air()
        async with finding(alice, air) as here, finding(bob, air):
            await asyncio.sleep(3)
            assert connected(here) == [bob.identity.public]
            await here.change_policy(Policy(block_peers=frozenset({bob.identity.public})))
            await asyncio.sleep(3)
            assert connected(here) == []
            assert here.roster.troubles == {}

    run(main)


def test_a_key_that_is_not_proved(parties: list[Party]) -> None:
    """A member that announces another's key gets calls, and no session."""
    alice, bob = smaller_first(parties)
    victim = b"\xff" * 32

    async def main() -> None:
        air = Air()
        async with finding(bob, Air()) as there, finding(alice, air) as here:
            port = there.roster.listeners[0].port
            air.say("member", by_member(victim, port=port))
            await asyncio.sleep(10)
            assert here.roster.begun == {}
            (trouble,) = here.roster.troubles.values()
            assert trouble is not None
            assert "another node answers" in trouble

    run(main)


@pytest.mark.slow
def test_a_flood_of_a_member(parties: list[Party]) -> None:
    """A member can invent keys; a bounded number is called at a time, and all are forgotten when the hour is over."""
    alice = parties[0]

    async def main() -> None:
        air = Air()
        async with finding(alice, air, listens=False, begins=NOW - 30) as here:
            for at in range(1000):
                air.say("member", by_member(b"\xff" + at.to_bytes(31, "big"), now=NOW - HOUR_SECONDS - 1))
            await asyncio.sleep(10)
            assert len(here.roster.troubles) == MAX_CONTACTS
            await asyncio.sleep(30)
            assert here.roster.troubles == {}
            assert here.roster.names == {}

    run(main, patience=100)


def test_each_hour_anew(parties: list[Party]) -> None:
    """A node announces itself with the MAC of the new hour when one begins, so that it stays a neighbour."""
    alice = parties[0]

    async def main() -> None:
        air = Air()
        async with finding(alice, air, begins=NOW - 10):
            await asyncio.sleep(20)
        before, after = air.history
        assert unseal(after, KEY, NOW + HOUR_SECONDS).key == alice.identity.public
        with pytest.raises(EncodingError, match="hour"):
            unseal(before, KEY, NOW + HOUR_SECONDS)

    run(main)


def test_a_neighbour_that_moved(parties: list[Party]) -> None:
    """A neighbour with another address is called there."""
    alice, bob = smaller_first(parties)

    async def main() -> None:
        air = Air()
        async with finding(alice, air) as here, finding(bob, Air()) as there:
            air.say("bob", by_member(bob.identity.public, port=9))
            await asyncio.sleep(5)
            assert connected(here) == []
            air.say("bob", by_member(bob.identity.public, port=there.roster.listeners[0].port))
            await asyncio.sleep(5)
            assert connected(here) == [bob.identity.public]
            assert len(here.roster.troubles) == 1

    run(main)


def test_a_neighbour_that_never_stays(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that announces a key here and there, again and again, gets a call now and then, not one each time."""
    alice, _ = smaller_first(parties)
    called: list[Sequence[PeerUrl]] = []

    async def dial(urls: Sequence[PeerUrl]) -> Any:
        called.append(urls)
        raise NetworkError("nobody answers")

    async def main() -> None:
        air = Air()
        async with finding(alice, air):
            for at in range(200):
                air.say("member", by_member(b"\xff" * 32, port=9 + at % 2))
                await asyncio.sleep(0.1)

    monkeypatch.setattr("culm.node.lan.finding.connect_any", dial)
    run(main, patience=100)
    assert 4 <= len(called) <= 20


def test_a_network_that_comes_later(parties: list[Party]) -> None:
    """Without a network the node runs, and is found when there is one."""
    alice = parties[0]

    async def main() -> None:
        air = Air()
        air.is_down = True
        async with finding(alice, air):
            await asyncio.sleep(30)
            air.is_down = False
            await asyncio.sleep(60)
            assert len(air.history) == 1

    run(main, patience=200)


@pytest.mark.slow
def test_a_node_that_cannot_be_called(parties: list[Party]) -> None:
    """A node without a listener announces nothing, and still asks: 4 times in the first seconds, then each minute."""
    alice = parties[0]

    async def main() -> None:
        air = Air()
        async with finding(alice, air, listens=False):
            await asyncio.sleep(15)
            assert air.asked == 4
            await asyncio.sleep(110)
            assert air.asked == 6
            assert air.history == []

    run(main, patience=200)
