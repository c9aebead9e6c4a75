"""Proposal sessions: what a small or hostile peer costs."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Entry
from culm.errors import RemoteProtocolError
from culm.node.proposals.options import ProposalOptions
from culm.node.sessions import pointtopoint
from culm.node.sessions.stats import PeerSilent
from culm.proposals import (
    EVERYTHING,
    Adjust,
    Cancel,
    Code,
    Proposal,
    Setup,
)
from culm.proposals.control import push_control
from culm.proposals.data import Marker, Metadata, Raw, Switch, push_data
from culm.proposals.messages import Grant
from culm.store import PayloadState
from culm.testing.builders import LogBuilder, build_log, tampered
from culm.wire.bymux import INFINITE, packet
from tests.node.links import QUICK, run, stream_pair
from tests.node.peers import Rogue, key, reads_nothing, sync, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.node.proposals.session import ProposalSession
    from tests.node.proposing import ProposalPeer


def greeting(credit: int = 2**40) -> bytes:
    """What a rogue says first: setup (it may compress), credit for proposals, credit for data."""
    control = push_control(Grant(50))
    return Setup(send_window=65536).encode() + packet(1, 0, len(control)) + control + packet(0, 1, credit)


def says(*messages: Any) -> bytes:
    """Control messages in a packet."""
    data = b"".join(push_control(message) for message in messages)
    return packet(1, 0, len(data)) + data


def sends(*parts: bytes) -> bytes:
    """Data in packets."""
    data = b"".join(parts)
    return b"".join(
        packet(1, 1, len(data[at : at + 60_000])) + data[at : at + 60_000] for at in range(0, len(data), 60_000)
    )


async def _against(
    peer: ProposalPeer, log: LogBuilder, talk: Callable[[Rogue, ProposalSession], Any], **settings: Any
) -> Any:
    """Run a session that asks for a log against a rogue; what it ended with."""
    near, far = await stream_pair()
    session = peer.session(near, [key(log)], **settings)
    rogue = Rogue(far)
    task = asyncio.create_task(session.run())
    rogue.send(greeting())
    await until(lambda: bool(session.connection.endpoint.exchanges))
    await talk(rogue, session)
    try:
        return await asyncio.wait_for(asyncio.shield(task), 10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_peer_that_has_no_room(peers: list[ProposalPeer]) -> None:
    """What a peer has no room for is proposed again when it has ended another proposal, and not at once for ever."""
    alice, *_ = peers
    log = build_log(8)
    alice.store.add([*log.items(log.entries[:3]), *log.items(log.entries[5:])])

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        def proposed() -> list[tuple[int, int | None]]:
            exchanges = session.connection.endpoint.exchanges.values()
            return sorted((exchange.proposal.start, exchange.proposal.end) for exchange in exchanges)

        def end(start: int, code: Code) -> None:
            (number,) = [
                number
                for number, exchange in session.connection.endpoint.exchanges.items()
                if exchange.proposal.start == start
            ]
            rogue.send(says(Cancel(number, code)), sends(push_data(Marker(number))))

        await until(lambda: len(proposed()) == 2)
        (gap, behind) = proposed()
        end(behind[0], Code.RESOURCE_LIMIT)
        await until(lambda: proposed() == [gap])
        for _ in range(20):
            await asyncio.sleep(0)
            assert proposed() == [gap]
        end(gap[0], Code.DO_NOT_RETRY)
        await until(lambda: proposed() == [behind])
        rogue.writer.close()

    run(lambda: _against(alice, log, talk))


def _metadata(entry: Entry) -> bytes:
    return push_data(Metadata(entry.is_end, None, entry.size, entry.payload_hash, entry.signature))


@pytest.mark.parametrize("what", ["forged entry", "wrong payload", "no message", "no packet", "a new stream"])
def test_lies_end_the_session(peers: list[ProposalPeer], what: str) -> None:
    """An entry or payload that is not what it says ends the session, and does not reach the store."""
    log = build_log(2, payload_size=100_000)
    first = log.entries[0]

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        (proposal_id,) = session.connection.endpoint.exchanges
        rogue.send(says(Adjust(proposal_id, EVERYTHING)))
        entry = Entry.decode(tampered(first)) if what == "forged entry" else first
        bad = {"no message": sends(b"\x0a"), "no packet": b"\xff", "a new stream": b"\x30\x02"}
        whole = (push_data(Switch(proposal_id)), _metadata(entry), push_data(Raw(100_000)), bytes(100_000))
        rogue.send(bad.get(what, sends(*whole)))

    with pytest.raises(RemoteProtocolError):
        run(lambda: _against(peers[0], log, talk))
    assert [stored.payload_state for stored in peers[0].store.entries(key(log))] in ([], [PayloadState.ABSENT])


def test_a_claim_reserves_nothing(peers: list[ProposalPeer]) -> None:
    """An entry that claims a payload of 2^63 bytes costs what comes of it."""
    log = LogBuilder(build_log(1).identity)
    entry = log.make(1, b"", size=2**63)

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        (proposal_id,) = session.connection.endpoint.exchanges
        tracemalloc.start()
        rogue.send(says(Adjust(proposal_id, EVERYTHING)))
        rogue.send(sends(push_data(Switch(proposal_id)), _metadata(entry), push_data(Raw(2**62)), bytes(100_000)))
        await until(lambda: session.stats.payload_bytes >= 90_000)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
        tracemalloc.stop()
        rogue.send(b"\xff")

    with pytest.raises(RemoteProtocolError):
        run(lambda: _against(peers[0], log, talk))


@pytest.mark.slow
def test_too_many_proposals(peers: list[ProposalPeer]) -> None:
    """A peer may have only so many proposals live."""

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        limit = session.connection.endpoint.limits.proposals
        rogue.send(*(says(Proposal(2 * number, bytes(32), number, 1)) for number in range(limit + 2)))

    with pytest.raises(RemoteProtocolError, match="credit"):
        run(lambda: _against(peers[0], build_log(1), talk, limits=replace(QUICK, max_logs=10)))


def test_a_peer_that_never_reads_is_dropped(peers: list[ProposalPeer]) -> None:
    """Whoever asks for much and reads nothing holds up itself, and is dropped; others get on meanwhile."""
    reads_nothing(peers, greeting(INFINITE - 1) + says(Proposal(0, *key(build_log(1)), 1)))


def test_a_bomb(peers: list[ProposalPeer]) -> None:
    """A short message that decodes to 2^62 bytes costs a bounded amount, and ends where the size we take does."""
    log = LogBuilder(build_log(1).identity)
    entry = log.make(1, b"", size=2**62)
    bomb = b"\x01a" + b"\xff" + (2**62 - 1).to_bytes(8, "big") + b"\x01"

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        (proposal_id,) = session.connection.endpoint.exchanges
        rogue.send(says(Adjust(proposal_id, EVERYTHING)))
        head = b"\x09\xff" + (2**62).to_bytes(8, "big") + bytes((len(bomb),))
        rogue.send(sends(push_data(Switch(proposal_id)), _metadata(entry), head, bomb))

    with pytest.raises(RemoteProtocolError, match="not asked for"):
        run(lambda: _against(peers[0], log, talk, options=ProposalOptions(greatest_size=10**6)))


@pytest.mark.slow
def test_a_bomb_that_was_asked_for(peers: list[ProposalPeer]) -> None:
    """Of a payload of any size in a few bytes, no more is decoded than is dealt with, and not for ever."""
    log = LogBuilder(build_log(1).identity)
    entry = log.make(1, b"", size=2**40)
    bomb = b"\x01a" + b"\xff" + (2**40 - 1).to_bytes(8, "big") + b"\x01"

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        (proposal_id,) = session.connection.endpoint.exchanges
        rogue.send(says(Adjust(proposal_id, EVERYTHING)))
        head = b"\x09\xff" + (2**40).to_bytes(8, "big") + bytes((len(bomb),))
        rogue.send(sends(push_data(Switch(proposal_id)), _metadata(entry), head, bomb))

    tracemalloc.start()
    try:
        with pytest.raises(PeerSilent):
            run(lambda: _against(peers[0], log, talk, limits=replace(QUICK, idle_seconds=1)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16_000_000


def test_a_wrong_beginning_is_dropped(peers: list[ProposalPeer]) -> None:
    """If the beginning that was held is wrong, nobody is blamed, and all of the payload is asked for again."""
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    log.append(bytes(range(256)) * 1000)
    bob.store.add(log.items())
    alice.store.add([(log.entries[0], None)])
    sink = alice.store.payload_sink(log.entries[0].place)
    sink.write(bytes(100_000))
    sink.close()
    session = sync(alice, bob, [key(log)])
    assert (len(session.stats.refused), session.stats.offences) == (1, 0)
    sync(alice, bob, [key(log)])
    assert alice.numbers(key(log)) == [1]


@pytest.mark.slow
def test_a_small_profile(peers: list[ProposalPeer]) -> None:
    """With the small profile the protocol's state stays small, however much a normal node sends."""
    alice, bob, _ = peers
    log = build_log(400, payload_size=200)
    large = LogBuilder(build_log(1, seed=9).identity)
    large.append(random.Random(1).randbytes(2_000_000))
    bob.store.add([*log.items(), *large.items()])
    most = 0

    def watched(session: ProposalSession) -> int:
        return _size_of(session.connection)

    async def main() -> None:
        nonlocal most
        near, far = await stream_pair()
        options = ProposalOptions(small=True)
        asking = alice.session(near, [key(log), key(large)], called=True, live=False, mirrors=False, options=options)
        tasks = [asyncio.create_task(session.run()) for session in (asking, bob.session(far))]
        while not asking.done.is_set():
            most = max(most, watched(asking))
            await asyncio.sleep(0.002)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)
    assert alice.numbers(key(log)) == list(range(1, 401))
    assert alice.numbers(key(large)) == [1]
    assert most < 256 * 1024


def _size_of(root: object) -> int:
    """Bytes of an object and all it refers to, but for what it shares with the node."""
    import sys

    seen: set[int] = set()
    total, todo = 0, [root]
    while todo:
        item = todo.pop()
        kind = type(item).__module__.split(".")[:2]
        if id(item) in seen or isinstance(item, type) or kind == ["culm", "node"]:
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        if isinstance(item, dict):
            todo += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset) or type(item).__name__ == "deque":
            todo += list(item)  # type: ignore[call-overload]
        elif type(item).__module__.startswith("culm"):
            todo += list(getattr(item, "__dict__", {}).values())
            todo += [getattr(item, name) for name in getattr(type(item), "__slots__", ()) if hasattr(item, name)]
    return total


@pytest.mark.slow
def test_proposals_of_ever_new_logs_are_forgotten(peers: list[ProposalPeer], monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer may propose, narrow and cancel logs of nobody for ever; what is over leaves nothing behind."""
    monkeypatch.setattr(pointtopoint, "MIRRORED_LOGS", 10)
    rounds = 800

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        for number in range(rounds):
            author = number.to_bytes(32, "big")
            rogue.send(says(Proposal(0, author, 0, 1, 1, 10, 10, None, None, EVERYTHING)))
            await until(lambda: 0 in session.connection.endpoint.exchanges)
            await until(lambda: session.connection.endpoint.exchanges[0].may_send)
            rogue.send(says(Adjust(0, end=5, upper=5), Cancel(0, Code.END_OF_RANGE)), sends(push_data(Marker(0))))
            await until(lambda: 0 not in session.connection.endpoint.exchanges)
            await rogue.reader.read(1 << 16)
            if number == rounds // 2:
                tracemalloc.start()
        gc.collect()  # Sessions have circles of objects, which are no leak.
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert grown < 200_000
        rogue.send(b"\xc0")  # To end it: no packet begins so.

    with pytest.raises(RemoteProtocolError):
        run(lambda: _against(peers[0], build_log(8), talk))
