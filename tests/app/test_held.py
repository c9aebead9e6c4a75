"""``Node.held_by`` and ``Node.until_held``: what peers say and show that they hold of a node's own logs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from culm import Identity, Node
from culm.app import Holding
from culm.errors import ConfigError
from culm.node.sharing.turns import Share

if TYPE_CHECKING:
    from culm.testing import World, WorldNode


def by(node: Node, log: int = 1) -> dict[bytes | None, tuple[int, int]]:
    """What the peers of a node say that they hold: the newest entry, and up to which entry everything."""
    return {held.peer: (held.newest, held.complete) for held in node.held_by(log)}


async def test_alice_and_bob(culm_world: World) -> None:
    """Two contacts say what they hold once they have stored it, the newest entry of a moment ago included."""
    carol = await culm_world.node("carol")
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    assert [] == carol.held_by(1)
    await alice.connect(carol.url)
    await bob.connect(carol.url)
    entries = await carol.append_many(1, [f"{number}" for number in range(11)])
    held = await carol.until_held(entries[-1], peers=2)
    assert {alice.author: (11, 11), bob.author: (11, 11)} == by(carol) == {each.peer: (11, 11) for each in held}
    entry = await carol.append(1, "twelve")
    await carol.until_held(entry, peers=2)
    assert await alice.payload(entry) == b"twelve" == await bob.payload(entry)
    assert {alice.author: (12, 12), bob.author: (12, 12)} == by(carol)
    assert {0} == {each.shown for each in carol.held_by(1)}


async def test_a_peer_that_got_it_from_another(culm_world: World) -> None:
    """A peer says that it holds an entry, although another peer brought it."""
    carol, alice, bob = [await culm_world.node(name) for name in ("carol", "alice", "bob")]
    entry = await carol.append(1, b"x" * 1000)
    await alice.sync(carol.url)
    await bob.sync(alice.url)
    await culm_world.until(lambda: by(carol) == {alice.author: (1, 1)})
    await bob.connect(carol.url)
    assert {alice.author, bob.author} == {held.peer for held in await carol.until_held(entry, peers=2)}


@pytest.mark.parametrize("calls", [False, True])
async def test_a_sync(culm_world: World, calls: bool) -> None:
    """A one-time sync tells both sides before it ends, whichever of them called; so does one without news."""
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    await alice.append(1, "mine")
    await bob.append(2, "theirs")
    await (alice.sync(bob.url) if calls else bob.sync(alice.url))
    await culm_world.until(lambda: (by(alice), by(bob, 2)) == ({bob.author: (1, 1)}, {alice.author: (1, 1)}))
    await alice.close()
    alice = await culm_world.node("alice")
    assert {} == by(alice)
    await (alice.sync(bob.url) if calls else bob.sync(alice.url))
    await culm_world.until(lambda: by(alice) == {bob.author: (1, 1)})


async def test_parts(culm_world: World) -> None:
    """A peer that wants a part, or no large payloads, does not hold everything, and nobody says that it does."""
    carol, alice = await culm_world.node("carol"), await culm_world.node("alice")
    await alice.follow(carol.author, 1, max_payload=10)
    await carol.append(1, "small")
    large = await carol.append(1, b"large" * 100)
    last = await carol.append(1, "small")
    await alice.connect(carol.url)
    await culm_world.until(lambda: by(carol) == {alice.author: (3, 1)})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await carol.until_held(large)
    assert await carol.until_held(await carol.append(2, "another log"), peers=0) == []
    assert last.seq == 3


@pytest.mark.slow
async def test_what_a_receipt_costs(
    culm_world: World, culm_pair: tuple[WorldNode, WorldNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry that is offered, fetched and acknowledged takes ten turns on threads at both nodes together."""
    alice, bob = culm_pair
    entry = await alice.append(1, "first")
    await culm_world.arrived(entry, bob)
    await asyncio.sleep(5)
    turns, run = [0], Share.run

    async def counted(self: Share, *call: Any) -> Any:
        turns[0] += 1
        return await run(self, *call)

    monkeypatch.setattr(Share, "run", counted)
    for _ in range(20):
        entry = await alice.append(1, bytes(200))
        await asyncio.sleep(1)
    await alice.until_held(entry)
    assert turns[0] / 20 <= 10


async def test_a_log_of_another(culm_world: World) -> None:
    """Peers tell an author alone, so there is nothing to ask of the logs of others."""
    carol, alice = await culm_world.node("carol"), await culm_world.node("alice")
    entry = await alice.append(1, "hers")
    await carol.sync(alice.url)
    for ask in (lambda: carol.held_by((alice.author, 1)), lambda: carol.until_held(entry)):
        with pytest.raises(ConfigError, match="own logs"):
            found = ask()
            assert not isinstance(found, list)
            await found


async def test_the_node_closes(culm_world: World) -> None:
    """Waiting ends with the node."""
    carol = await culm_world.node("carol")
    entry = await carol.append(1, "alone")
    waiting = asyncio.create_task(carol.until_held(entry))
    await asyncio.sleep(1)
    await carol.close()
    with pytest.raises(ConfigError, match="closed"):
        await waiting


@pytest.mark.parametrize("scheme", ["bushbaby", "intervals", "proposals"])
async def test_other_protocols(culm_world: World, scheme: str) -> None:
    """By other protocols a peer says at most how far it is, and not that it holds all before that."""
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    await alice.append(1, "hello")
    await bob.sync(alice.url)
    await alice.close()
    alice = await culm_world.node("alice")
    url = await bob.listen(f"{scheme}://{bob.host.address}:0")
    await alice.sync(url, [1] if scheme != "bushbaby" else [])
    (held,) = alice.held_by(1)
    assert (1, 0) == (held.newest, held.complete)
    assert (bob.author if scheme == "bushbaby" else None) == held.peer


async def test_shown(culm_world: World) -> None:
    """A peer that sends an entry of ours back has shown that it holds it, whatever it says."""
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    await alice.append(1, "lost")
    await bob.sync(alice.url)
    again: WorldNode = Node.open(  # type: ignore[assignment]
        store=culm_world.folder / "again.db", identity=alice.identity, clump="tests"
    )
    await alice.close()
    async with again:
        await again.sync(bob.url)
        (held,) = again.held_by(1)
        assert (bob.author, 1, 1, 1) == (held.peer, held.newest, held.complete, held.shown)


def test_how_a_holding_shows_itself() -> None:
    """As text it is what a person wants to read."""
    author = Identity(bytes(32)).public
    assert str(Holding(author, "10.0.0.2", 12, 12, 0, 0.0)).endswith(" holds everything up to 12")
    assert str(Holding(author, "10.0.0.2", 12, 3, 0, 0.0)).endswith(" holds everything up to 3, and has 12")
    assert str(Holding(None, "10.0.0.2", 12, 0, 0, 0.0)) == "10.0.0.2 has 12"
