"""Interests in every protocol: what is asked for comes, as little else as can be said, and changes on the way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from culm.node.interests.missing import wanted
from culm.node.interests.policy import Policy
from culm.node.proposals.session import ProposalSession
from culm.ranges import RangeSet, read_range
from culm.testing.builders import LogBuilder, build_log
from tests.node.links import Party, run, stream_pair, until_done
from tests.node.peers import Peer, key, sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Proposing(Peer):
    """A party with proposal sessions."""

    kind = ProposalSession
    as_caller = {"called": True}  # noqa: RUF012 - as in the class above

    def session(self, streams: Any, logs: Any = (), **settings: Any) -> Any:
        """A session over some streams."""
        settings.setdefault("called", False)
        return super().session(streams, logs, **settings)


@pytest.fixture
def closing() -> Iterator[list[Peer]]:
    """Peers whose sources are closed at the end."""
    made: list[Peer] = []
    yield made
    for peer in made:
        for source in peer.sources:
            source.close()


def bushbaby(parties: list[Party], closing: list[Peer], log: LogBuilder, policy: Policy) -> None:  # noqa: ARG001
    """Alice syncs with Bob by Bushbaby."""
    alice, bob, _ = parties

    async def main() -> None:
        near, far = await stream_pair()
        ends = await until_done(
            await alice.session(near, called=True, policy=policy), await bob.session(far, called=False)
        )
        assert ends == [None, None]

    run(main)


def point_2_point(kind: type[Peer]) -> Callable[..., None]:
    """Alice syncs with Bob by another protocol."""

    def syncing(parties: list[Party], closing: list[Peer], log: LogBuilder, policy: Policy) -> None:
        alice, bob = kind(parties[0]), kind(parties[1])
        closing += [alice, bob]
        sync(alice, bob, [key(log)], policy=policy)

    return syncing


PROTOCOLS = {"bushbaby": bushbaby, "intervals": point_2_point(Peer), "proposals": point_2_point(Proposing)}


def beyond(protocol: str, text: str, interest: RangeSet) -> set[int]:
    """The payloads that come beyond what is asked for, where the protocol cannot say it."""
    if protocol == "bushbaby":  # entries come whole, certificates included
        return {seq for low, high in wanted(interest, 40) for seq in range(low, high + 1)}
    if protocol == "proposals" and text == "10.. sparse":
        return set(range(10, 41))
    return set()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "text",
    [
        "1..",
        "20..30",
        pytest.param("1.. max 10", marks=pytest.mark.slow),
        "1.. without 3,20,21",
        pytest.param("5..30 without 7", marks=pytest.mark.slow),
        pytest.param("1..20 metadata", marks=pytest.mark.slow),
        pytest.param("4..13 sparse", marks=pytest.mark.slow),
        "10.. sparse",
    ],
)
def test_what_is_asked_for_comes(parties: list[Party], closing: list[Peer], protocol: str, text: str) -> None:
    """All items of an interest come; no others, as far as the protocol can say so; and a second sync brings nothing."""
    log = LogBuilder(build_log(1).identity)
    for seq in range(1, 41):
        log.append(bytes(5 if seq % 7 else 50))
    parties[1].store.add(log.items())
    interest = RangeSet([read_range(text)])
    policy = Policy(interests={key(log): interest})
    PROTOCOLS[protocol](parties, closing, log, policy)
    held = {stored.entry.seq: stored.payload_complete for stored in parties[0].store.entries(key(log))}
    sizes = {entry.seq: entry.size for entry in log.entries}
    asked = {seq for seq in sizes if interest.contains_payload(seq, sizes[seq], 40)}
    assert {seq for seq in sizes if interest.contains_metadata(seq, 40)} <= set(held)
    payloads = {seq for seq, complete in held.items() if complete}
    assert asked <= payloads
    assert payloads <= asked | beyond(protocol, text, interest)
    assert next(iter(parties[0].store.logs())).waiting == 0
    before = parties[0].store.change()
    PROTOCOLS[protocol](parties, closing, log, policy)
    assert parties[0].store.change() == before


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("text", ["7..", "7..9", "7..9 sparse", "7..9 metadata"])
def test_the_path_of_what_waits_comes(parties: list[Party], closing: list[Peer], protocol: str, text: str) -> None:
    """Entries that are wanted and held, payloads and all, but wait for a path that is not wanted: the path comes."""
    log = build_log(9)
    parties[1].store.add(log.items())
    parties[0].store.add(log.items(log.entries[6:]))
    assert next(iter(parties[0].store.logs())).waiting == 3
    PROTOCOLS[protocol](parties, closing, log, Policy(interests={key(log): RangeSet([read_range(text)])}))
    held = [stored.entry.seq for stored in parties[0].store.entries(key(log)) if stored.payload_complete]
    assert held[-3:] == [7, 8, 9]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_followed_later_comes_at_once(parties: list[Party], closing: list[Peer], protocol: str) -> None:
    """A running session asks for what is of interest from now on, and no more for what is not."""
    one, two = build_log(5, seed=1), build_log(5, seed=2)
    everything = RangeSet([read_range("1..")])
    alice, bob, _ = parties
    bob.store.add([*one.items(), *two.items()])

    async def main() -> None:
        near, far = await stream_pair()
        policy = Policy(interests={key(one): everything})
        asking: Any
        answering: Any
        if protocol == "bushbaby":
            asking = await alice.session(near, called=True, policy=policy)
            answering = await bob.session(far, called=False)
        else:
            kind = Peer if protocol == "intervals" else Proposing
            peers = kind(alice), kind(bob)
            closing.extend(peers)
            asking = peers[0].session(near, [key(one)], policy=policy, **kind.as_caller)
            answering = peers[1].session(far)
        tasks = [asyncio.create_task(session.run()) for session in (asking, answering)]

        async def holds(log: LogBuilder, count: int) -> None:
            while len((await alice.worker.run(alice.holds)).get(key(log), [])) < count:
                await asyncio.sleep(0.005)

        await holds(one, 5)
        await asking.change_policy(Policy(interests={key(two): everything}))
        await holds(two, 5)
        for log in (one, two):
            entry = log.append(b"late")
            await bob.worker.run(bob.store.add, [(entry, b"late")])
        answering.store_changed()
        await holds(two, 6)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)
    assert alice.holds()[key(one)] == [1, 2, 3, 4, 5]
