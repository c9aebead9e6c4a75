"""``Node.peer_events``: a program hears when peers come, have settled, go, or are refused, and why."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm import author_text
from culm.app import PeerEvent
from culm.app.peerevents import PeerEvents
from culm.errors import ConfigError, NetworkError
from culm.node.negentropy.comparison import compare
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from culm.store import View
from culm.testing import memory_store

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


@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
async def test_a_sync(culm_world: World, scheme: str) -> None:
    """A one-time sync is told of as a contact is, on both sides: it connects, has settled, and ends in order.

    The caller leaves once it has settled, perhaps before the other side knows.
    """
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    await alice.append(1, "hello")
    url = await alice.listen(f"{scheme}://{alice.host.address}:0")
    called, calling = alice.peer_events(), bob.peer_events()
    proves = scheme in ("culm", "bushbaby")
    await bob.sync(url, [] if proves else [(alice.author, 1)])
    async with asyncio.timeout(60):
        mine = [await anext(calling) for _ in range(3)]
    assert ["connected", "settled", "lost"] == [event.kind for event in mine]
    assert {(url, scheme, alice.author if proves else None, "")} == {
        (event.url, event.scheme, event.peer, event.reason) for event in mine
    }
    assert ["connected", "lost"] == await until_lost(called)


async def until_lost(events: PeerEvents) -> list[str]:
    """What happens until a peer is lost, without what may come or not."""
    kinds: list[str] = []
    async with asyncio.timeout(60):
        while "lost" not in kinds:
            event = await anext(events)
            kinds += [event.kind] if event.kind != "settled" else []
            assert "" == event.reason
    return kinds


@pytest.mark.parametrize("scheme", ["culm", "intervals"])
async def test_fetches(culm_world: World, scheme: str) -> None:
    """A fetch of entries is told of, and one of a part of a payload."""
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    entry = await alice.append(1, "hello")
    url = await alice.listen(f"{scheme}://{alice.host.address}:0")
    events = bob.peer_events()
    await bob.fetch(url, [entry])
    assert ["connected", "settled", "lost"] == [kind for kind, _ in await kinds(events, 3)]
    assert b"ell" == await bob.fetch_bytes(url, entry, 1, 3)
    assert ["connected", "lost"] == await until_lost(events)


async def test_a_sync_that_fails(culm_world: World) -> None:
    """A peer that is not reached, or refuses, is told of with the reason that the call raises."""
    alice, bob = await culm_world.node("alice"), await culm_world.node("bob")
    url, events = alice.url, bob.peer_events()
    await alice.change_policy(lambda policy: replace(policy, block_peers=frozenset({bob.author})))
    with pytest.raises(NetworkError) as refused:
        await bob.sync(url)
    event = await anext(events)
    assert ("refused", url, str(refused.value)) == (event.kind, event.url, event.reason)
    await alice.close()
    with pytest.raises(NetworkError) as failed:
        await bob.sync(url)
    event = await anext(events)
    assert ("failed", url, str(failed.value)) == (event.kind, event.url, event.reason)


async def test_callers_that_compare(culm_world: World) -> None:
    """A caller by ``negentropy://`` is told of: it connects when it has got an answer, and is lost at its end."""
    alice = await culm_world.node("alice")
    await alice.append(1, "hello")
    place = PeerUrl.parse(await alice.listen(f"negentropy://{alice.host.address}:0"), schemes=LISTENER_SCHEMES)
    events = alice.peer_events()
    with memory_store() as store:
        streams = await asyncio.open_connection(place.host, place.port)
        found = await compare(store, View.ENTRIES, streams)
        streams[1].close()
    assert found is not None
    assert 1 == len(found.need)
    reader, writer = await asyncio.open_connection(place.host, place.port)
    writer.close()
    reader, writer = await asyncio.open_connection(place.host, place.port)
    writer.write(b"\x01\xff")
    assert b"" == await reader.read()
    writer.close()
    async with asyncio.timeout(60):
        told = [await anext(events) for _ in range(4)]
    assert {("negentropy", None, None)} == {(event.scheme, event.url, event.peer) for event in told}
    assert ["connected", "lost", "failed", "failed"] == [event.kind for event in told]
    assert ["", "", "the peer hung up at once"] == [event.reason for event in told[:3]]
    assert "not a negentropy message" in told[3].reason


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
