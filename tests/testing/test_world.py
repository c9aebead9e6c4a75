"""A world for tests of applications: its clock, its nodes, and the faults between them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from culm import Entry, Node
from culm.errors import ConfigError
from culm.node.config import NodeConfig, NodeLimits
from culm.testing import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.testing import WorldNode

Pair = tuple["WorldNode", "WorldNode"]
LIMITED = NodeConfig(b"", limits=NodeLimits(first_retry_seconds=7, max_retry_seconds=7))
"""Made outside of any world, as the constants of a program are."""


@pytest.fixture
def world() -> Iterator[World]:
    """A world."""
    with World() as made:
        yield made


async def _has(world: World, node: Node, entry: Entry) -> bytes:
    """Wait until a node has an entry; its payload."""
    await world.arrived(entry, node, seconds=600)
    return await node.payload(entry)


@pytest.mark.slow
def test_minutes_take_a_moment(world: World) -> None:
    """The clock jumps, also while nodes are connected and look after their connections."""

    async def main() -> None:
        alice, bob = await world.node("alice"), await world.node("bob")
        await bob.connect(alice.url)
        await asyncio.sleep(300)

    began, shown = time.process_time(), world.time()
    world.run(main())
    assert 300 <= world.time() - shown < 310
    assert time.process_time() - began < 30


async def test_two_nodes(culm_world: World, culm_pair: Pair) -> None:
    """What one node publishes is at the other, without a call for it."""
    alice, bob = culm_pair
    assert b"hello" == await _has(culm_world, bob, await alice.append(1, "hello"))
    assert b"welcome" == await _has(culm_world, alice, await bob.append(1, "welcome"))


async def test_a_cut(culm_world: World, culm_pair: Pair) -> None:
    """Nothing gets through while two nodes are cut off from each other. After that the node goes on by itself."""
    alice, bob = culm_pair
    culm_world.cut(alice, bob)
    entry = await alice.append(1, "hello")
    await asyncio.sleep(5)
    assert await bob.entry((alice.author, 1), 1) is None
    assert await alice.entry(1, 1) == entry

    culm_world.mend(alice, bob)
    assert b"hello" == await _has(culm_world, bob, entry)


async def test_one_node_cut_off_from_all(culm_world: World, culm_pair: Pair) -> None:
    """Without a second node, a cut is between the node and all others; these reach each other."""
    alice, bob = culm_pair
    carol = await culm_world.node("carol")
    await carol.connect(bob.url)
    culm_world.cut(alice)
    entry, other = await alice.append(1, "from alice"), await bob.append(1, "from bob")
    assert b"from bob" == await _has(culm_world, carol, other)
    assert [] == [log for node in (bob, carol) for log in await node.logs() if log.author == alice.author]

    culm_world.mend(alice)
    assert b"from alice" == await _has(culm_world, carol, entry)


async def test_a_delay(culm_world: World, culm_pair: Pair) -> None:
    """Bytes take as long as the test says, on the connection that is open and on new ones."""
    alice, bob = culm_pair
    culm_world.delay(alice, bob, seconds=1)
    for number in (1, 2):
        began = culm_world.time()
        await _has(culm_world, bob, await alice.append(number, "hello"))
        assert culm_world.time() - began >= 1
        culm_world.drop(alice, bob)


async def test_a_dropped_connection(culm_world: World, culm_pair: Pair) -> None:
    """A connection breaks within a payload; the rest of it comes over the next one."""
    alice, bob = culm_pair
    assert 1 == culm_world.drop(alice, bob, after=100_000)
    entry = await alice.append(1, b"leaf" * 100_000)
    await culm_world.until(lambda: not any(peer.connected for peer in bob.peers()))
    with pytest.raises(TimeoutError, match=rf"{entry.name} has not arrived after 0\.01 s on the world's clock$"):
        await culm_world.arrived(entry, alice, bob, seconds=0.01)
    assert b"leaf" * 100_000 == await _has(culm_world, bob, entry)


async def test_an_unknown_fate(culm_world: World, culm_pair: Pair) -> None:
    """What cannot happen to a connection is refused, with what can."""
    with pytest.raises(ConfigError, match="'melted'; there are reset, end, "):
        culm_world.drop(*culm_pair, fate="melted")


async def test_a_programs_own_node(culm_world: World, culm_node: WorldNode) -> None:
    """A node that a program opens is in the world, too, with a configuration from before; it is cut off as others."""
    async with Node.open(culm_world.folder / "home", clump="tests", config=LIMITED) as own:
        await own.connect(culm_node.url)
        assert b"mine" == await _has(culm_world, culm_node, await own.append(1, "mine"))
        culm_world.cut(culm_node)
        entry = await own.append(1, "later")
        await asyncio.sleep(5)
        assert await culm_node.entry((own.author, 1), 2) is None
        culm_world.mend(culm_node)
        assert b"later" == await _has(culm_world, culm_node, entry)
        assert (await own.sync(culm_node.url)).entries_received == 0


async def test_a_node_that_starts_again(culm_world: World, culm_node: WorldNode) -> None:
    """A name is one identity and one store. Two nodes of a name at the same time would fork their logs."""
    entry = await culm_node.append(1, "before")
    with pytest.raises(ConfigError, match="a node named alice is open"):
        await culm_world.node("alice")

    await culm_node.close()
    again = await culm_world.node("alice")
    assert b"before" == await again.payload(entry)
    assert (entry.author, 2) == (again.author, (await again.append(1, "after")).seq)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [378, 381, 384])
async def test_a_long_cut(culm_world: World, culm_node: WorldNode, seconds: int) -> None:
    """However long a program's node was cut off, ``arrived`` is patient until the node calls again."""
    async with Node.open(culm_world.folder / "home", clump="tests") as program:
        await program.connect(culm_node.url)
        await culm_world.arrived(await culm_node.append(1, "before"), program)
        culm_world.cut(culm_node)
        entry = await culm_node.append(1, "behind the cut")
        await asyncio.sleep(seconds)
        culm_world.mend(culm_node)
        await culm_world.arrived(entry, program)


def test_patience(world: World) -> None:
    """What never comes ends the test, by the world's clock; the error says whose patience it was."""

    async def main() -> None:
        await world.node()
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"not done after 60 s on the world's clock; World\.run\(..., seconds=N\)"):
        world.run(main(), seconds=60)
    with pytest.raises(TimeoutError, match=r"^still not true after 120 s on the world's clock$"):
        world.run(world.until(lambda: False))

    async def of_its_own() -> None:
        async with asyncio.timeout(1):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"^$"):
        world.run(of_its_own())


def test_errors_that_nothing_handled() -> None:
    """A task that a program forgot, and that failed, fails the test."""

    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(RuntimeError, match="an error that nothing handled") as caught, World() as world:
        world.run(main())
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_error_of_the_test_comes_first() -> None:
    """If the test itself fails, that is what it tells, and the nodes are closed."""

    async def main() -> None:
        nodes.append(await world.node())
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)
        raise KeyError

    nodes: list[WorldNode] = []
    with pytest.raises(KeyError), World() as world:
        world.run(main())
    assert nodes[0].is_closed
    assert not world.folder.exists()
