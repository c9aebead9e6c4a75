"""``Node.peer_events``: a program hears when peers come, have settled, go, or are refused, and why."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm import author_text
from culm.app import PeerEvent
from culm.app.peerevents import PeerEvents
from culm.errors import ConfigError

if TYPE_CHECKING:
    from culm.testing import World


async def kinds(events: PeerEvents, count: int) -> list[tuple[str, bytes | None]]:
    """The next events: what happened, and with which peer."""
    async with asyncio.timeout(60):
        return [(event.kind, event.peer) for event in [await anext(events) for _ in range(count)]]


@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
async def test_a_contact(culm_world: World, scheme: str) -> None:
    """Both sides hear of the connection, that all has come, and of the end; the caller knows the address it called."""
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    log = (alice.author, 1)
    await alice.append(1, "hello")
    url = await alice.listen(f"{scheme}://{alice.host.address}:0")
    called, calling = alice.peer_events(), bob.peer_events()
    proves = scheme in ("culm", "bushbaby")
    await bob.connect(url, [log] if not proves else [])

    mine = [await anext(calling), await anext(calling)]
    assert [("connected", url), ("settled", url)] == [(event.kind, event.url) for event in mine]
    assert {alice.author if proves else None} == {event.peer for event in mine}
    assert {scheme} == {event.scheme for event in mine}
    assert await bob.entry(log, 1) is not None
    assert [("connected", bob.author if proves else None), ("settled", bob.author if proves else None)] == await kinds(
        called, 2
    )

    await bob.disconnect(url)
    lost = await anext(calling)
    assert ("lost", url, "this node closed the connection") == (lost.kind, lost.url, lost.reason)
    assert [("lost", bob.author if proves else None)] == await kinds(called, 1)


async def test_a_refused_peer(culm_world: World) -> None:
    """A blocked peer is refused, and both sides are told why as far as they may know."""
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    await alice.change_policy(lambda policy: replace(policy, block_peers=frozenset({bob.author})))
    called, calling = alice.peer_events(), bob.peer_events()
    await bob.connect(alice.url)
    refused = await anext(called)
    assert ("refused", bob.author, None) == (refused.kind, refused.peer, refused.url)
    assert "blocked" in refused.reason
    turned_away = await anext(calling)
    assert ("refused", alice.url) == (turned_away.kind, turned_away.url)
    assert "hung up during the handshake" in turned_away.reason


async def test_a_peer_that_is_not_reached(culm_world: World) -> None:
    """A contact that nobody answers is reported once, and again only after it was reached."""
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    events, url = bob.peer_events(), alice.url
    await alice.close()
    await bob.connect(url)
    failed = await anext(events)
    assert ("failed", url, None) == (failed.kind, failed.url, failed.peer)
    assert failed.reason == bob.peers()[0].problem
    await asyncio.sleep(120)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await anext(events)


async def test_a_lost_connection(culm_world: World) -> None:
    """A connection that breaks is lost, with the reason, and the next one is told of, too."""
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    events = bob.peer_events()
    await bob.connect(alice.url)
    assert [("connected", alice.author), ("settled", alice.author)] == await kinds(events, 2)
    culm_world.drop(alice, bob)
    lost = await anext(events)
    assert ("lost", alice.author) == (lost.kind, lost.peer)
    assert lost.reason
    assert [("connected", alice.author)] == await kinds(events, 1)


@pytest.mark.usefixtures("culm_world")
async def test_a_slow_program() -> None:
    """Events that nobody reads take bounded memory: the oldest are dropped and counted."""
    events = PeerEvents(most=3)
    for number in range(5):
        events.take(PeerEvent("connected", "culm", "10.0.0.2:1", None, None, str(number), 0.0))
    assert ["2", "3", "4"] == [(await anext(events)).reason for _ in range(3)]
    assert 2 == events.missed
    events.close()
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_the_end(culm_world: World) -> None:
    """The iteration ends when the node closes, also for a program that waits; a closed node gives none."""
    alice = await culm_world.node("alice")

    async def read() -> list[PeerEvent]:
        return [event async for event in alice.peer_events()]

    reading = asyncio.create_task(read())
    await asyncio.sleep(1)
    await alice.close()
    assert [] == await reading
    with pytest.raises(ConfigError, match="closed"):
        alice.peer_events()


def test_how_an_event_shows_itself() -> None:
    """As text an event is a line for people."""
    event = PeerEvent("refused", "culm", "10.0.0.2:1", None, bytes(32), "blocked", 0.0)
    assert f"refused {author_text(bytes(32))} (culm, 10.0.0.2:1): blocked" == str(event)
    event = PeerEvent("settled", "culm", "10.0.0.2:1", "culm://x", None, "", 0.0)
    assert "settled culm://x (culm, 10.0.0.2:1)" == str(event)
