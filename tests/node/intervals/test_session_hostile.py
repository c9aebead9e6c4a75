"""Interval sessions with a peer that lies, overdraws, or does not read: what it costs, and what is kept.

Specification: docs/specs/intervals.md, "What a node asks for".
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Entry, encode_varu64
from culm.errors import RemoteProtocolError
from culm.intervals.codec import push_message
from culm.intervals.interval import At, FromGreatest, MetadataOnly, Regular, Request
from culm.intervals.items import encode_item
from culm.intervals.messages import Activate, Eager, RequestCredit, ResponseCredit
from culm.node.sessions.stats import PeerSilent
from culm.testing.builders import LogBuilder, build_log, tampered
from tests.node.links import QUICK, run, stream_pair
from tests.node.peers import Peer, Rogue, key, reads_nothing, syncs, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.node.intervals.session import IntervalSession


def test_a_fork_in_the_hash_of_an_announcement_is_recorded(peers: list[Peer]) -> None:
    """A peer that sends no proof by itself announces another entry 5: it is asked for that, and the fork is kept."""
    log = build_log(5)
    other = log.make(5, b"another branch")
    peers[0].store.add(log.items())

    async def main() -> None:
        near, far = await stream_pair()
        session = peers[0].session(near, [key(log)], mirrors=False)
        rogue = Rogue(far)
        task = asyncio.create_task(session.run())
        rogue.send(GRANT)
        requests = session.connection.ours.requests
        await until(lambda: len(requests) >= 2)
        # The first request asks for the newest payload. Its answer: start 4, the pool and both entries, the hash.
        rogue.send(bytes.fromhex("90 04 05 00") + other.hash)

        def asked() -> list[int]:
            wanted = MetadataOnly(5, ascending=True, dist=0, own=log.entries[4].hash)
            return [at for at, ours in requests.items() if ours.request.interval == wanted and not ours.lazy]

        await until(lambda: bool(asked()))
        (request_id,) = asked()
        entry = bytes.fromhex("00 05") + (other.lipmaalink or b"") + (other.backlink or b"") + bytes([other.size])
        proof = b"\xa4" + entry + other.payload_hash + other.signature
        rogue.send(b"\xe0" + bytes([request_id]) + proof)  # The active id is 0 so far.
        await until(lambda: session.stats.forks == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main)
    assert [proof.position for proof in peers[0].store.fork_proofs(key(log))] == [5]


GRANT = push_message(RequestCredit(50)) + push_message(ResponseCredit(2**32))


def _first_eager(session: IntervalSession) -> int | None:
    """The first request of a session that asks for data."""
    return next((number for number, ours in session.connection.ours.requests.items() if not ours.lazy), None)


async def _against(peer: Peer, log: LogBuilder, talk: Callable[[Rogue, IntervalSession], Any], **settings: Any) -> Any:
    """Run a session that asks for a log against a rogue; what it ended with."""
    near, far = await stream_pair()
    session = peer.session(near, [key(log)], **settings)
    rogue = Rogue(far)
    task = asyncio.create_task(session.run())
    rogue.send(GRANT)
    await until(lambda: _first_eager(session) is not None)
    await talk(rogue, session)
    try:
        return await asyncio.wait_for(asyncio.shield(task), 10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _activate(session: IntervalSession) -> bytes:
    request_id = _first_eager(session)
    assert request_id is not None
    return push_message(Activate(request_id)) if request_id else b""


@pytest.mark.parametrize("what", ["forged entry", "no message"])
def test_lies_end_the_session(peers: list[Peer], what: str) -> None:
    """An entry that is not what it says ends the session, and does not reach the store."""
    log = build_log(2, payload_size=100_000)
    first = log.entries[0]

    async def talk(rogue: Rogue, session: IntervalSession) -> None:
        item = encode_item(first, lambda _: True)
        if what == "forged entry":
            item = encode_item(Entry.decode(tampered(first)), lambda _: True)
        data = item + bytes(100_000)
        rogue.send(b"\x81" if what == "no message" else _activate(session) + push_message(Eager(len(data))) + data)

    with pytest.raises(RemoteProtocolError):
        run(lambda: _against(peers[0], log, talk))
    assert [stored.payload_held for stored in peers[0].store.entries(key(log))] in ([], [0])


@pytest.mark.parametrize("after", ["nothing", "nonsense", "a cut", "a forged entry"])
@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("live", [True, False])
def test_metadata_before_a_wrong_payload_is_kept(peers: list[Peer], after: str, size: int, live: bool) -> None:
    """Entries and payloads are separate items: a wrong payload 2, and what follows it, takes no entry with it."""
    log = build_log(3, payload_size=size)

    async def talk(rogue: Rogue, session: IntervalSession) -> None:
        # Of an ascending response from entry 1 no item has links: tag, size, payload hash, signature.
        items = [b"\x00" + encode_varu64(size) + entry.payload_hash + entry.signature for entry in log.entries]
        data = items[0] + log.payloads[log.entries[0].hash] + items[1] + bytes(size)
        if after == "a cut":
            data = data[:-5]
        if after == "a forged entry":
            data += items[2][:-1] + bytes([items[2][-1] ^ 1])
        rogue.send(_activate(session), b"\x80", encode_varu64(len(data)), data)
        if after == "nonsense":
            rogue.send(b"\x81")
        else:
            rogue.writer.write_eof()

    with suppress(RemoteProtocolError):
        run(lambda: _against(peers[0], log, talk, live=live))
    assert [1, 2] == [stored.entry.seq for stored in peers[0].store.entries(key(log))]
    assert [1] == peers[0].numbers(key(log))


def test_a_claim_reserves_nothing(peers: list[Peer]) -> None:
    """An entry that claims a payload of 2^63 bytes costs what comes of it."""
    import tracemalloc

    log = LogBuilder(build_log(1).identity)
    entry = log.make(1, b"", size=2**63)

    async def talk(rogue: Rogue, session: IntervalSession) -> None:
        data = encode_item(entry, lambda _: True) + bytes(100_000)
        tracemalloc.start()
        rogue.send(_activate(session), push_message(Eager(len(data))), data)
        await until(lambda: session.stats.payload_bytes == 100_000)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
        tracemalloc.stop()
        rogue.send(b"\x81")

    with pytest.raises(RemoteProtocolError):
        run(lambda: _against(peers[0], log, talk))


def test_requests_without_credit(peers: list[Peer]) -> None:
    """A peer may have only so many requests open."""
    log = build_log(1)
    request = push_message(Request(0, log.identity.public, 0, Regular(At(1, 0), FromGreatest(0))))

    async def talk(rogue: Rogue, session: IntervalSession) -> None:
        limit = session.connection.limits.requests
        for number in range(limit + 1):
            rogue.send(push_message(Request(number, bytes(32), number, Regular(At(1), FromGreatest(0)))))

    assert request[0] == 2
    with pytest.raises(RemoteProtocolError, match="credit"):
        run(lambda: _against(peers[0], log, talk))


def test_a_peer_that_never_reads_is_dropped(peers: list[Peer]) -> None:
    """Whoever asks for much and reads nothing holds up itself, and is dropped; others get on meanwhile."""
    reads_nothing(peers, GRANT + push_message(Request(0, *key(build_log(1)), Regular(At(1, 0), At(1, 0)))))


@pytest.mark.parametrize("half", [b"", bytes.fromhex("02 05")])
def test_a_peer_that_only_waits_for_news_stays(peers: list[Peer], half: bytes) -> None:
    """The document has no sign of life: a peer with a live request may be silent for long, but not inside a message."""
    alice, *_ = peers
    log = build_log(3)
    alice.store.add(log.items(log.entries[:2]))

    async def main() -> bytes:
        near, far = await stream_pair()
        session = alice.session(near)
        task = asyncio.create_task(session.run())
        far[1].write(GRANT + bytes.fromhex("02 05 00") + key(log)[0] + bytes.fromhex("00 0100 00"))  # (1<0>, 0...)
        far[1].write(half)
        await until(lambda: session.stats.entries_sent == 2)
        await asyncio.sleep(4 * QUICK.idle_seconds)
        await far[0].read(100_000)
        await alice.on_its_thread(alice.store.add, log.items(log.entries[2:]))
        session.store_changed()
        await asyncio.sleep(1)
        if task.done():
            await task
        task.cancel()
        return bytes(await far[0].read(100_000))

    if half:
        with pytest.raises(PeerSilent):
            run(main)
    else:
        assert log.payloads[log.entries[2].hash] in run(main)


def test_a_peer_that_grants_only_once_all_is_used(peers: list[Peer]) -> None:
    """A large payload reaches a peer that gives no credit while any is left."""
    log = LogBuilder(build_log(1).identity)
    log.append(bytes(300_000))
    peers[0].store.add(log.items())

    async def main() -> None:
        near, (reader, writer) = await stream_pair()
        task = asyncio.create_task(peers[0].session(near).run())
        writer.write(bytes.fromhex("b00a 02 00 00") + key(log)[0] + bytes.fromhex("00 0100 0100"))
        granted = received = 0
        while received < 300_000:
            if received >= granted:
                writer.write(bytes.fromhex("c0fa0186a0"))
                granted += 100_000
            received += len(await asyncio.wait_for(reader.read(100_000), 2 * QUICK.keepalive_seconds))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main)


def test_a_peer_of_one_byte_at_a_time(peers: list[Peer]) -> None:
    """Bytes that drip in cost nothing and hold up nobody."""
    alice, bob, _ = peers
    log, small = build_log(1, payload_size=300), build_log(5, seed=3)
    bob.store.add(small.items())
    data = encode_item(log.entries[0], lambda _: True) + log.payloads[log.entries[0].hash]

    async def talk(rogue: Rogue, session: IntervalSession) -> None:
        message = _activate(session) + push_message(Eager(len(data))) + data
        for at in range(len(message)):
            rogue.send(message[at : at + 1])
            await asyncio.sleep(0)
            if at == 200:
                await syncs(alice, bob, [key(small)])
        await until(lambda: session.stats.payload_bytes == 300)
        await session.arrivals.flush()
        rogue.send(b"\x81")

    with pytest.raises(RemoteProtocolError):
        run(lambda: _against(alice, log, talk))
    assert alice.numbers(key(log)) == [1]
    assert alice.numbers(key(small)) == [1, 2, 3, 4, 5]


def test_only_so_many_logs_are_mirrored(peers: list[Peer]) -> None:
    """A peer that asks for ever more logs is not asked for all of them in turn."""
    log = build_log(1)

    async def talk(rogue: Rogue, session: IntervalSession) -> None:
        for number in range(20):
            rogue.send(push_message(Request(number, bytes(32), number, Regular(At(1), FromGreatest(0)))))
        await until(lambda: len(session.connection.theirs.requests) == 20)
        assert len(session.asker.logs) == 5
        rogue.send(b"\x81")

    with pytest.raises(RemoteProtocolError):
        run(lambda: _against(peers[0], log, talk, limits=replace(QUICK, max_logs=5)))
