"""What a proposal session makes of a peer's bytes, with bytes that no encoder of ours has made.

Specification: docs/specs/proposals.md, "Greedy sending", "Session", "Cancellations".
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import Place, RemoteProtocolError
from culm.node.interests.policy import Policy
from culm.node.proposals.options import ProposalOptions
from culm.node.surroundings import clock
from culm.proposals import HeldUp
from culm.ranges import RangeSet, read_range
from culm.testing.builders import build_log
from tests.node.links import run, stream_pair
from tests.node.peers import Rogue, key, until
from tests.proposals import byhand as hand
from tests.proposals.examples import KEY, LOG

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.node.proposals.session import ProposalSession
    from tests.node.proposing import ProposalPeer

APOLOGY = bytes.fromhex("10")
BAD_M1 = hand.M1[:-1] + b"\x01"
ITEMS = hand.M2 + hand.P2 + hand.M3 + hand.P3


CANCELLED = {code: bytes.fromhex(f"200002{code}00") for code in ("80", "81", "82", "83", "84")}
MARKED = bytes.fromhex("2000")


class Heard:
    """All bytes that a rogue's peer sends."""

    def __init__(self, rogue: Rogue) -> None:
        self.bytes = b""
        self._task = asyncio.create_task(self._read(rogue))

    async def _read(self, rogue: Rogue) -> None:
        while data := await rogue.reader.read(65536):
            self.bytes += data


async def against(
    peer: ProposalPeer, talk: Callable[[Rogue, ProposalSession], Any], *, greedy: bool = False, **settings: Any
) -> ProposalSession:
    """A session that asks for the example log, against a peer that says what ``talk`` writes."""
    near, far = await stream_pair()
    options = settings.pop("options", ProposalOptions(greedy=greedy))
    session = peer.session(near, [key(LOG)], called=True, options=options, **settings)
    rogue = Rogue(far)
    task = asyncio.create_task(session.run())
    rogue.send((hand.GREEDY if greedy else hand.SAFE) + hand.GRANTS)
    await until(lambda: bool(session.connection.endpoint.exchanges))
    try:
        await talk(rogue, session)
        rogue.writer.close()
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return session


@pytest.mark.parametrize("apart", [False, True], ids=["at once", "apart"])
@pytest.mark.parametrize(
    "parts",
    [
        (hand.M1, bytes.fromhex("0805") + b"wrong", APOLOGY, hand.P1, ITEMS),
        (hand.M1, bytes.fromhex("0802") + b"wr", bytes.fromhex("0803") + b"ong", APOLOGY, hand.P1, ITEMS),
        (hand.M1, bytes.fromhex("0814") + b"wrong wrong wrong wr", APOLOGY, hand.P1, ITEMS),
        (BAD_M1, APOLOGY, hand.M1, hand.P1, ITEMS),
        (hand.M1, hand.P1, hand.M2, bytes.fromhex("0801") + b"T", APOLOGY, hand.P2, hand.M3, hand.P3),
    ],
    ids=["a beginning", "two pieces", "a whole payload", "metadata", "another entry"],
)
def test_an_apology_takes_back_nothing_else(peers: list[ProposalPeer], parts: tuple[bytes, ...], apart: bool) -> None:
    """What a greedy peer takes back counts as never sent: the right item behind it is kept, and nobody is blamed."""
    alice, *_ = peers

    async def talk(rogue: Rogue, _: ProposalSession) -> None:
        rogue.send(hand.control(hand.CONFIRMED))
        for part in parts if apart else [b"".join(parts)]:
            rogue.send(hand.data(hand.SWITCH, part))
            await asyncio.sleep(0)
        await until(lambda: alice.numbers(key(LOG)) == [1, 2, 3])

    session = run(lambda: against(alice, talk, greedy=True))
    assert session.stats.refused == []


def test_items_in_front_of_a_fault_are_stored(peers: list[ProposalPeer]) -> None:
    """S9: entries that were complete are kept, although the same write breaks the rules of the control channel."""
    alice, *_ = peers

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        rogue.send(hand.control(hand.CONFIRMED))
        await until(lambda: session.connection.endpoint.exchanges[0].may_send)
        rogue.send(hand.data(hand.SWITCH, hand.M1, hand.P1, hand.M2, hand.P2) + hand.control(b"\x88"))
        await until(lambda: alice.numbers(key(LOG)) == [1, 2])

    with pytest.raises(RemoteProtocolError, match="no message begins with 88"):
        run(lambda: against(alice, talk))


def test_what_a_peer_does_not_want_to_be_asked_is_not_asked_again(peers: list[ProposalPeer]) -> None:
    """80: "should not propose this synchronization again": not after ``interval`` either, however often."""

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        session.config = replace(session.config, interval=0.5)
        heard = Heard(rogue)
        rogue.send(hand.control(bytes.fromhex("8000")), hand.data(MARKED))
        await until(lambda: not session.connection.endpoint.exchanges)
        await asyncio.sleep(5)
        assert 1 == heard.bytes.count(KEY)

    run(lambda: against(peers[0], talk))


def test_a_log_that_was_refused_and_is_shared_later(peers: list[ProposalPeer]) -> None:
    """80 is said of a log that is not shared. Who shares it later has to bring it up, since the peer must not."""
    alice, bob, _ = peers
    log = build_log(4)
    bob.store.add(log.items())
    kept_back = Policy(unshared=frozenset({key(log)}), interests={key(build_log(1, seed=5)): RangeSet()})

    async def main() -> None:
        near, far = await stream_pair()
        asking, serving = alice.session(near, [key(log)], called=True), bob.session(far, policy=kept_back)
        tasks = [asyncio.create_task(session.run()) for session in (asking, serving)]
        await until(lambda: bool(asking.asker.logs[key(log)].given_up))
        shared = replace(kept_back, unshared=frozenset())
        bob.sources[-1].policy = shared
        await serving.change_policy(shared)
        await until(lambda: alice.numbers(key(log)) == [1, 2, 3, 4])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_what_a_peer_has_no_room_for_is_asked_again(peers: list[ProposalPeer]) -> None:
    """81: "maybe cancel another request and try again": after ``interval`` it is."""

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        session.config = replace(session.config, interval=0.5)
        heard = Heard(rogue)
        rogue.send(hand.control(bytes.fromhex("8100")), hand.data(MARKED))
        await until(lambda: 2 == heard.bytes.count(KEY))

    run(lambda: against(peers[0], talk))


def test_the_end_of_a_sync_forbids_nothing(peers: list[ProposalPeer]) -> None:
    """A one-time sync that has all ends with 82. A peer that is told 80 would never propose the log again."""

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        heard = Heard(rogue)
        rogue.send(hand.control(hand.CONFIRMED), hand.data(hand.SWITCH, hand.M1, hand.P1))
        await until(lambda: session.stats.entries_received == 1)
        pings = 0
        while CANCELLED["82"] not in heard.bytes:
            answers, pings = heard.bytes.count(b"\x50") - pings, heard.bytes.count(b"\x50")
            rogue.send(answers * b"\x70")
            await asyncio.sleep(0.01)
        assert CANCELLED["80"] not in heard.bytes

    run(lambda: against(peers[0], talk, live=False))


def test_a_peer_that_does_not_wait_for_a_payload(peers: list[ProposalPeer]) -> None:
    """84: the same range is proposed again, and this time a payload may be left out, so that the rest comes."""

    async def talk(rogue: Rogue, _: ProposalSession) -> None:
        heard = Heard(rogue)
        rogue.send(hand.control(hand.CONFIRMED, bytes.fromhex("8400")), hand.data(MARKED))
        await until(lambda: 2 == heard.bytes.count(KEY))
        first, second = (heard.bytes[at - 2 : at - 1] for at in _places(heard.bytes, KEY))
        assert (b"\xe1", b"\xe0") == (first, second)

    run(lambda: against(peers[0], talk, options=ProposalOptions(mandatory=True)))


def test_what_nobody_wants_is_narrowed_away(peers: list[ProposalPeer]) -> None:
    """C10: of a proposal without an end, a node that follows 1 to 3 confirms 1 to 3, and gets nothing behind it."""
    alice, *_ = peers
    wanted = RangeSet([read_range("1..3")])

    async def main() -> None:
        near, far = await stream_pair()
        session = alice.session(near, called=True, interest=lambda _: wanted)
        rogue = Rogue(far)
        task = asyncio.create_task(session.run())
        heard = Heard(rogue)
        rogue.send(hand.SAFE + hand.GRANTS)
        rogue.send(hand.control(bytes.fromhex("e001") + hand.REQUEST_1_FOR_EVER[2:]))
        await until(lambda: bytes.fromhex("200003 780103") in heard.bytes)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main)


def test_what_the_holder_has_behind_is_not_narrowed_away(peers: list[ProposalPeer]) -> None:
    """C10: the end is shared. A node that holds more than it follows goes on to serve that."""
    alice, bob, _ = peers
    log = build_log(6)
    alice.store.add(log.items())
    bob.store.add(log.items(log.entries[:2]))
    wanted = RangeSet([read_range("1..3")])

    async def main() -> None:
        near, far = await stream_pair()
        sessions = bob.session(near, [key(log)], called=True), alice.session(far, interest=lambda _: wanted)
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        await until(lambda: bob.numbers(key(log)) == [1, 2, 3, 4, 5, 6])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def _places(data: bytes, part: bytes) -> list[int]:
    return [at for at in range(len(data)) if data.startswith(part, at)]


@pytest.mark.parametrize("live", [False, True])
def test_a_payload_that_is_forgotten_does_not_hold_up_the_rest(peers: list[ProposalPeer], live: bool) -> None:
    """84 between two nodes: payload 3 is mandatory and forgotten; all others come."""
    alice, bob, _ = peers
    log = build_log(6, payload_size=50)
    bob.store.add(log.items())
    bob.store.forget(Place(*key(log), 3))

    async def main() -> None:
        near, far = await stream_pair()
        asking = alice.session(near, [key(log)], called=True, live=live, options=ProposalOptions(mandatory=True))
        tasks = [asyncio.create_task(session.run()) for session in (asking, bob.session(far))]
        await until(lambda: alice.numbers(key(log)) == [1, 2, 4, 5, 6])
        if not live:
            await asking.done.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


@pytest.mark.parametrize(("said", "least", "most"), [(b"", 0.25, 0.6), (b"\x40\x01", 0.0, 0.1), (b"\x50", 0.25, 0.6)])
def test_a_peer_that_has_sent_all_ends_a_sync_at_once(
    peers: list[ProposalPeer], said: bytes, least: float, most: float
) -> None:
    """After a ping on the data channel a one-time sync asks for the last sign at once, else after a quarter second."""

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        heard = Heard(rogue)
        rogue.send(hand.control(hand.CONFIRMED), hand.data(hand.SWITCH, hand.M1, hand.P1) + said)
        await until(lambda: session.stats.entries_received == 1)
        began = clock()
        while b"\x50" not in heard.bytes:
            await asyncio.sleep(0.01)
        assert least <= clock() - began <= most
        rogue.send(b"\x70")
        await until(lambda: CANCELLED["82"] in heard.bytes)

    run(lambda: against(peers[0], talk, live=False))


def test_what_composing_shows_is_dealt_with_at_once(peers: list[ProposalPeer]) -> None:
    """That a proposal is held up shows while a message is composed; what to offer then is not left to the next look."""

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        rogue.send(hand.control(hand.CONFIRMED), hand.data(hand.SWITCH, hand.M1, hand.P1))
        await until(lambda: session.stats.entries_received == 1 and session.asker.is_done and session.arrivals.idle)
        endpoint = session.connection.endpoint
        (exchange,) = endpoint.exchanges.values()
        endpoint.take_events = lambda: [HeldUp(exchange.proposal)]  # type: ignore[method-assign]
        session.driver.wake()
        await until(lambda: not session.asker.is_done)
        del endpoint.take_events
        began = clock()
        await until(lambda: session.asker.is_done)
        assert clock() - began < 0.1

    run(lambda: against(peers[0], talk))


def test_news_behind_a_rest(peers: list[ProposalPeer]) -> None:
    """A peer that sends an entry after it said that it had sent all may send more: the sync waits for its moment."""

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        heard = Heard(rogue)
        items = hand.data(hand.SWITCH, hand.M1, hand.P1) + b"\x40\x01" + hand.data(hand.M2, hand.P2)
        rogue.send(hand.control(hand.CONFIRMED), items)
        await until(lambda: session.stats.entries_received == 2)
        await asyncio.sleep(0.2)
        assert b"\x50" not in heard.bytes

    run(lambda: against(peers[0], talk, live=False))


def test_a_node_says_once_that_it_has_sent_all(peers: list[ProposalPeer]) -> None:
    """The ping comes behind the last entry, once for a proposal, and not again for news."""
    alice, *_ = peers

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        heard = Heard(rogue)
        rogue.send(hand.SAFE + hand.GRANTS + hand.control(hand.REQUEST_1_FOR_EVER))
        await until(lambda: heard.bytes.endswith(hand.P2 + b"\x40\x01"))
        await alice.on_its_thread(alice.store.add, LOG.items(LOG.entries[2:4]))
        session.store_changed()
        await until(lambda: heard.bytes.endswith(hand.P4))
        await asyncio.sleep(0.5)
        assert 1 == heard.bytes.count(b"\x40\x01")

    run(lambda: served(alice, talk))


def test_a_node_without_credit_has_not_sent_all(peers: list[ProposalPeer]) -> None:
    """What waits for the peer's credit is still to be sent: the ping comes behind it, and not before."""

    async def talk(rogue: Rogue, _: ProposalSession) -> None:
        heard = Heard(rogue)
        rogue.send(hand.SAFE + hand.GRANTS[:5] + hand.control(hand.REQUEST_1_FOR_EVER))  # credit for proposals alone
        await asyncio.sleep(1)
        assert b"\x40\x01" not in heard.bytes
        rogue.send(hand.GRANTS[5:])
        await until(lambda: heard.bytes.endswith(hand.P2 + b"\x40\x01"))

    run(lambda: served(peers[0], talk))


@pytest.mark.parametrize("before", [hand.P1[7:], bytes.fromhex("06")], ids=["a payload", "a payload left out"])
def test_a_payload_that_comes_is_not_called_lacking(peers: list[ProposalPeer], before: bytes) -> None:
    """The end of a payload, or that it is left out, says nothing of the next one, whose entry came along with it."""
    alice, *_ = peers
    begin = hand.P1[:7] if before == hand.P1[7:] else b""

    async def talk(rogue: Rogue, session: ProposalSession) -> None:
        heard = Heard(rogue)
        rogue.send(hand.control(hand.CONFIRMED), hand.data(hand.SWITCH, hand.M1, begin))
        await until(lambda: session.stats.entries_received == 1)
        rogue.send(hand.data(before, hand.M2))
        await until(lambda: [entry.entry.seq for entry in alice.store.entries(key(LOG))] == [1, 2])
        await until(lambda: session.arrivals.idle and not session.driver.is_taking)
        session.driver.wake()
        rogue.send(b"\x40\x01")
        await until(lambda: b"\x60\x01" in heard.bytes)
        assert alice.sources[0].expects(key(LOG), 2)

    run(lambda: against(alice, talk, options=ProposalOptions(mandatory=False)))


async def served(peer: ProposalPeer, talk: Callable[[Rogue, ProposalSession], Any]) -> None:
    """A session of a peer that holds entries 1 and 2 of the example log, with what ``talk`` writes to it."""
    peer.store.add(LOG.items(LOG.entries[:2]))
    near, far = await stream_pair()
    session = peer.session(near)
    task = asyncio.create_task(session.run())
    try:
        await talk(Rogue(far), session)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
