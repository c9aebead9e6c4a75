"""Sessions with peers that behave otherwise than a Culm node: deployed, forging, silent, slow, or cut off."""

from __future__ import annotations

import asyncio

import pytest

from culm import native
from culm.bushbaby import (
    HaveItem,
    WantItem,
)
from culm.bushbaby.messages import BAMBOO
from culm.errors import CulmError, NetworkError, Place, RemoteProtocolError, StoreFull
from culm.node.bushbaby.session import BushbabySession
from culm.node.config import NodeLimits
from culm.node.interests.policy import Policy
from culm.node.sessions.stats import PeerSilent
from culm.testing import build_log
from culm.testing.builders import tampered
from culm.wire.places import place_text
from culm.wire.stlv import encode_header
from tests.bushbaby.peers import send_items
from tests.nativecalls import accepted_in_batches
from tests.node.bushbaby.deployed import Deployed
from tests.node.links import Party, run, stream_pair, sync
from tests.node.peers import until
from tests.store.below import database_of


async def met(party: Party, other: Party, *, called: bool) -> tuple[BushbabySession, asyncio.Task[None], Deployed]:
    """A session of a party, the task that runs it, and the deployed peer at its other end."""
    near, far = await stream_pair()
    session = await party.session(near, called=called)
    return session, asyncio.create_task(session.run()), Deployed(other, far)


def test_the_deployed_peer_is_served_its_way(parties: list[Party]) -> None:
    """It asks for the pool of an entry, having nothing, and gets the log up to there; and no HAVE behind an answer."""
    alice, bob, _ = parties
    log = build_log(60, seed=41)
    alice.store.add(log.items())
    author = log.identity.public

    async def talk() -> Deployed:
        _, task, peer = await met(alice, bob, called=False)
        await peer.until(lambda: peer.haves)
        assert peer.haves == [HaveItem(author, 0, 60)]
        peer.connection.send_want([WantItem(author, 0, 23)])
        await peer.until(lambda: len(peer.entries) >= 23)
        peer.connection.send_want(
            [WantItem(author, 0, None, 1, 60), WantItem(bob.identity.public), WantItem(author, 9)]
        )
        await peer.until(lambda: len(peer.entries) >= 60)
        assert [seq for seq, _ in peer.entries] == list(range(1, 61))  # Those that were sent are not sent again.
        assert len(peer.haves) == 1
        peer.writer.close()
        await task
        return peer

    run(talk)


def test_an_empty_payload_never_ends_an_item_for_the_deployed_peer(parties: list[Party]) -> None:
    """A log that ends with empty payloads is sent with an earlier entry behind them."""
    alice, bob, _ = parties
    log = build_log(3, seed=42)
    log.append(b"")
    log.append(b"")
    alice.store.add(log.items())

    async def talk() -> list[tuple[int, bytes]]:
        _, task, peer = await met(alice, bob, called=False)
        await peer.until(lambda: peer.haves)
        peer.connection.send_want([WantItem(log.identity.public, 0)])
        await peer.until(lambda: peer.entries)
        peer.writer.close()
        await task
        return peer.entries

    found = run(talk)
    assert [seq for seq, _ in found] == [1, 2, 3, 4, 5, 3]
    assert found[-1][1]


def test_a_sync_with_the_deployed_peer_ends_by_itself(parties: list[Party]) -> None:
    """A peer that never answers an announcement and sends no fence: the sync is over after some silence."""
    alice, bob, _ = parties
    log = build_log(10, seed=43)

    async def talk() -> None:
        session, task, peer = await met(alice, bob, called=True)
        await peer.until(lambda: peer.connection.replicating)
        peer.connection.send_have([HaveItem(log.identity.public, 0, 10)])
        await peer.until(lambda: peer.wants)
        assert peer.wants == [WantItem(log.identity.public, 0, None, 1, 10)]
        items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
        writer = peer.connection.start_bamboo([len(b"".join(items))])  # all in one item, as the document allows
        writer.write(b"".join(items))
        writer.send()
        peer.writer.write(peer.connection.data_to_send())
        await session.done.wait()
        task.cancel()

    run(talk)
    assert list(alice.holds().values()) == [list(range(1, 11))]


def test_a_forged_entry_is_refused_and_the_rest_kept(parties: list[Party]) -> None:
    """An entry that a peer forged is reported and does not get in; the others do."""
    alice, bob, _ = parties
    log = build_log(5, seed=44)
    items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
    at = len(log.entries[2].encoded) - 1
    items[2] = items[2][:at] + bytes([items[2][at] ^ 1]) + items[2][at + 1 :]

    async def talk() -> list[str]:
        session, task, peer = await met(alice, bob, called=True)
        await peer.until(lambda: peer.connection.replicating)
        writer = peer.connection.start_bamboo([len(item) for item in items])
        for item in items:
            writer.write(item)
        writer.send()
        peer.writer.write(peer.connection.data_to_send())
        peer.writer.close()
        await asyncio.gather(task, return_exceptions=True)
        return session.stats.refused

    (refused,) = run(talk)
    assert refused.startswith(f"{place_text(log.entries[2].place)}: ")
    assert "signature" in refused
    # Entry 4 links to entry 1, so that 4 and 5 have a path of their own.
    assert list(alice.holds().values()) == [[1, 2, 4, 5]]
    assert alice.store.get(Place(log.identity.public, 0, 3)) is None


@pytest.mark.skipif(native.core is None, reason="the native core is not built (make native)")
@pytest.mark.parametrize("size", [20, 200])
def test_behind_a_bad_signature_each_is_checked_by_itself(
    parties: list[Party], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A peer makes us pay for a batch with a bad signature once, in a small group and in a large one."""
    alice, bob, _ = parties
    forged, good = build_log(size, seed=44), build_log(size, seed=45)
    calls = accepted_in_batches(monkeypatch)

    async def talk() -> int:
        session, task, peer = await met(alice, bob, called=True)
        await peer.until(lambda: peer.connection.replicating)
        items = [entry.encoded + forged.payloads[entry.hash] for entry in forged.entries]
        items[-3] = tampered(forged.entries[-3]) + forged.payloads[forged.entries[-3].hash]
        send_items(peer.connection, items)
        peer.writer.write(peer.connection.data_to_send())
        await until(lambda: bool(session.stats.refused))
        before = len(calls)
        send_items(peer.connection, [entry.encoded + good.payloads[entry.hash] for entry in good.entries])
        peer.writer.write(peer.connection.data_to_send())
        peer.writer.close()
        await asyncio.gather(task, return_exceptions=True)
        return before

    before = run(talk)
    assert 0 < before == len(calls)
    assert size == len(alice.holds()[good.identity.public, 0])


def test_a_refused_entry_is_asked_for_once(parties: list[Party], caplog: pytest.LogCaptureFixture) -> None:
    """What a peer sent wrong is not asked for again on the connection; the log has a line, and the count no entry."""
    alice, bob, _ = parties
    log = build_log(20, seed=44)
    items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
    for seq in (3, 6, 7):
        items[seq - 1] = tampered(log.entries[seq - 1]) + log.payloads[log.entries[seq - 1].hash]

    async def talk() -> tuple[int, list[WantItem]]:
        near, far = await stream_pair()
        session = await alice.session(near, called=True, limits=NodeLimits())
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
        await peer.until(lambda: peer.connection.replicating)
        peer.connection.send_have([HaveItem(log.identity.public, 0, 20)])
        await peer.until(lambda: peer.wants)
        send_items(peer.connection, items)
        peer.writer.write(peer.connection.data_to_send())
        await session.done.wait()
        task.cancel()
        return session.stats.entries_received, peer.wants

    received, wants = run(talk)
    assert received == 17
    assert wants == [WantItem(log.identity.public, 0, None, 1, 20)]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["refused an entry"]


def test_what_is_held_can_be_kept_secret(parties: list[Party]) -> None:
    """With HAVE withheld a peer gets what it asks for by name, and with WANT ignored nothing but what is promoted."""
    alice, bob, carol = parties
    logs = [build_log(5, seed=seed) for seed in (21, 22)]
    for log in logs:
        alice.store.add(log.items())
    promoted = Policy(promote=frozenset({(logs[0].identity.public, 0)}))
    _, ends = run(lambda: sync(bob, alice, None, {"withhold_have": True}))
    assert (ends, bob.holds()) == ([None, None], {})
    _, ends = run(lambda: sync(carol, alice, None, {"ignore_want": True, "policy": promoted}))
    assert (ends, list(carol.holds())) == ([None, None], [(logs[0].identity.public, 0)])


def test_half_a_message_is_let_go(parties: list[Party]) -> None:
    """What had come of a message is let go when the session is over, before others get the room that it had."""
    alice, bob, _ = parties

    async def talk() -> tuple[int, int]:
        session, task, peer = await met(alice, bob, called=True)
        await peer.until(lambda: peer.connection.replicating)
        peer.writer.write(encode_header(BAMBOO, 1_000_000) + bytes(500_000))
        await until(lambda: session.connection.unfinished == 500_000)
        before = session.connection.unfinished
        peer.writer.close()
        await asyncio.gather(task, return_exceptions=True)
        return before, session.connection.unfinished

    assert (500_000, 0) == run(talk)


def test_a_flood_of_forgeries_ends_the_session(parties: list[Party]) -> None:
    """More forged entries than anybody can send in good faith are a breach of the protocol; what is right is kept."""
    alice, bob, _ = parties
    log = build_log(200, seed=44)
    items = [log.entries[0].encoded + log.payloads[log.entries[0].hash]]
    items += [tampered(entry) + log.payloads[entry.hash] for entry in log.entries[1:]]

    async def talk() -> BaseException | None:
        session, task, peer = await met(alice, bob, called=True)
        await peer.until(lambda: peer.connection.replicating)
        for _ in range(2):
            writer = peer.connection.start_bamboo([len(item) for item in items])
            for item in items:
                writer.write(item)
            writer.send()
            peer.writer.write(peer.connection.data_to_send())
            while not session.stats.offences:
                await asyncio.sleep(0.005)
        (failure,) = await asyncio.gather(task, return_exceptions=True)
        return failure

    assert isinstance(run(talk), RemoteProtocolError)
    assert list(alice.holds().values()) == [[1]]


def test_a_quiet_deployed_peer_has_done_nothing_wrong(parties: list[Party]) -> None:
    """It says nothing when it lacks nothing: the session ends on purpose, and without a word in between."""
    alice, bob, _ = parties

    async def talk() -> tuple[str, float]:
        near, far = await stream_pair()
        session = await alice.session(near, called=False, limits=NodeLimits(idle_seconds=20))
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
        await peer.until(lambda: peer.connection.replicating)
        began, sent = session.driver.heard_at, session.stats.bytes_sent
        await task
        assert session.stats.bytes_sent - sent < 50
        return session.over_because, session.driver.heard_at - began

    reason, silence = run(talk)
    assert "quiet" in reason
    assert silence < 0.1


def test_what_a_silent_peer_owes_ends_the_session(parties: list[Party]) -> None:
    """A peer that announces a log and sends nothing of it is waited for, then it counts as not having it."""
    alice, bob, _ = parties

    async def talk() -> bool:
        near, far = await stream_pair()
        session = await alice.session(near, called=True, limits=NodeLimits())
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
        await peer.until(lambda: peer.connection.replicating)
        peer.connection.send_have([HaveItem(b"a" * 32, 0, 10)])
        await peer.until(lambda: peer.wants)
        await session.done.wait()
        task.cancel()
        return len(peer.wants) == 1

    assert run(talk)


def test_a_peer_that_stalls_is_dropped(parties: list[Party]) -> None:
    """A peer that never finishes the handshake is dropped after its time."""
    alice = parties[0]

    async def talk() -> CulmError:
        near, far = await stream_pair()
        limits = NodeLimits(handshake_seconds=0.3, idle_seconds=0.5)
        session = await alice.session(near, called=False, limits=limits)
        task = asyncio.create_task(session.run())
        with pytest.raises(CulmError) as caught:
            await task
        far[1].close()
        return caught.value

    assert isinstance(run(talk), PeerSilent)


@pytest.mark.slow
def test_a_peer_that_never_reads_holds_up_nobody(parties: list[Party]) -> None:
    """A peer that asks for 40 MiB and does not read costs a bounded amount of memory and is dropped."""
    alice, bob, _ = parties
    log = build_log(1, seed=45)
    for _ in range(20):
        log.append(bytes(2 * 1024 * 1024))
    alice.store.add(log.items())

    async def talk() -> tuple[CulmError, int]:
        near, far = await stream_pair()
        session = await alice.session(near, called=False, limits=NodeLimits(idle_seconds=0.5))
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
        await peer.until(lambda: peer.haves)
        peer.connection.send_want([WantItem(log.identity.public)])
        peer.writer.write(peer.connection.data_to_send())
        with pytest.raises(CulmError) as caught:
            await task
        peer.writer.close()
        return caught.value, session.stats.bytes_sent

    error, sent = run(talk)
    assert isinstance(error, PeerSilent)
    assert sent < 4 * 1024 * 1024


def test_too_many_requests_end_the_session(parties: list[Party]) -> None:
    """A flood of requests is not queued for ever."""
    alice, bob, _ = parties
    alice.store.add(build_log(3, seed=46).items())

    async def talk() -> BaseException | None:
        near, far = await stream_pair()
        session = await alice.session(near, called=False, limits=NodeLimits(max_wants=10, idle_seconds=5))
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
        await peer.until(lambda: peer.connection.replicating)
        peer.connection.send_want([WantItem(bob.identity.public, number) for number in range(100)])
        peer.writer.write(peer.connection.data_to_send())
        (result,) = await asyncio.gather(task, return_exceptions=True)
        peer.writer.close()
        return result

    assert isinstance(run(talk), RemoteProtocolError)


@pytest.mark.slow
def test_a_full_disk_ends_the_session_and_loses_nothing(parties: list[Party]) -> None:
    """If the store cannot take more, the session ends with that reason, and what was stored stays."""
    alice, bob, _ = parties
    alice.store.add(build_log(2000, seed=47, payload_size=2000).items())
    pages = database_of(bob.store).connection
    pages.execute("PRAGMA max_page_count = 200")
    _, ends = run(lambda: sync(bob, alice))
    assert isinstance(ends[0], StoreFull)
    pages.execute("PRAGMA max_page_count = 1073741823")
    report = bob.store.verify()
    assert (report.verified, report.problems) == (report.entries, [])
    _, ends = run(lambda: sync(bob, alice))
    assert ends == [None, None]
    assert bob.holds() == alice.holds()


def test_a_broken_connection_is_a_network_error(parties: list[Party]) -> None:
    """A peer that goes away in the middle of a message leaves an end, not a traceback; whole messages are kept."""
    alice, bob, _ = parties
    log = build_log(5, seed=48)

    async def talk() -> BaseException | None:
        _, task, peer = await met(alice, bob, called=True)
        await peer.until(lambda: peer.connection.replicating)
        for entry in log.entries:
            writer = peer.connection.start_bamboo([len(entry.encoded) + entry.size])
            writer.write(entry.encoded + log.payloads[entry.hash])
            writer.send()
        stream = peer.connection.data_to_send()
        peer.writer.write(stream[:-30])
        await peer.writer.drain()
        peer.writer.close()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        return result

    result = run(talk)
    assert result is None or isinstance(result, NetworkError)
    assert list(alice.holds().values()) == [[1, 2, 3, 4]]
