"""Two nodes over a stream: what arrives, what does not, and when it is over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import certificate_pool
from culm.bushbaby import (
    BambooReceived,
    Connection,
    Dialect,
    HaveItem,
    HaveReceived,
    Options,
    WantItem,
    WantReceived,
)
from culm.bushbaby.messages import BAMBOO
from culm.errors import CulmError, NetworkError, Place, RemoteProtocolError, StoreFull
from culm.node.config import NodeLimits
from culm.node.interests.missing import EVERYTHING, wanted
from culm.node.interests.policy import Policy
from culm.node.sessions.stats import PeerRefused, PeerSilent
from culm.ranges import RangeSet, read_range
from culm.testing import build_log
from culm.testing.builders import tampered
from culm.wire.places import place_text
from culm.wire.stlv import encode_header
from tests.bushbaby.peers import send_items
from tests.node.links import Party, run, stream_pair, until_done
from tests.node.peers import until
from tests.store.below import database_of

if TYPE_CHECKING:
    from collections.abc import Sequence


async def sync(
    one: Party, other: Party, ours: dict[str, Any] | None = None, theirs: dict[str, Any] | None = None
) -> Any:
    """One party calls the other; the caller's session, and why each side ended."""
    near, far = await stream_pair()
    caller = await one.session(near, called=True, **(ours or {}))
    callee = await other.session(far, called=False, **(theirs or {}))
    return caller, await until_done(caller, callee)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_both_sides_end_with_everything(parties: list[Party], dialect: Dialect) -> None:
    """After a sync both hold all logs of both, in either dialect, and the caller knows that it is over."""
    alice, bob, _ = parties
    for party, seeds in ((alice, (11, 12)), (bob, (12, 13))):
        for seed in seeds:
            length = 700 if seed == 11 else 40 if party is alice else 25
            party.store.add(build_log(length, seed=seed, payload_size=100).items())
    session, ends = run(lambda: sync(bob, alice, {"dialect": dialect}, {"dialect": dialect}))

    assert ends == [None, None]
    assert alice.holds() == bob.holds()
    assert sorted(map(len, bob.holds().values())) == [25, 40, 700]
    assert session.stats.entries_received == 700 + 15
    assert session.stats.entries_sent == 25


def test_two_empty_nodes_are_done_at_once(parties: list[Party]) -> None:
    """A sync of nothing with nothing ends."""
    session, ends = run(lambda: sync(parties[0], parties[1]))
    assert ends == [None, None]
    assert session.stats.entries_received == 0


def test_gaps_are_filled_and_nothing_comes_twice(parties: list[Party]) -> None:
    """What is held is not fetched again: only the gaps of a log travel."""
    alice, bob, _ = parties
    log = build_log(200, seed=5)
    alice.store.add(log.items())
    bob.store.add(log.items(log.entries[:50]) + log.items(log.entries[100:120]))
    session, _ = run(lambda: sync(bob, alice))
    assert session.stats.entries_received == 130
    assert alice.holds() == bob.holds()


def test_empty_and_large_payloads(parties: list[Party]) -> None:
    """Empty payloads at every place of a log, and one of 3 MiB, arrive."""
    alice, bob, _ = parties
    log = build_log(3, seed=6)
    for payload in (b"", b"", b"x" * 3_000_000, b"", b"end", b""):
        log.append(payload)
    alice.store.add(log.items())
    run(lambda: sync(bob, alice))
    assert bob.holds() == alice.holds()


def test_what_has_no_payload_is_not_offered(parties: list[Party]) -> None:
    """An entry whose payload is not held is not sent, those above it are; that is the end of it, without asking on."""
    alice, bob, _ = parties
    log = build_log(20, seed=6)
    alice.store.add(log.items())
    alice.store.forget(log.entries[9].place)
    session, ends = run(lambda: sync(bob, alice))
    assert ends == [None, None]
    assert list(bob.holds().values()) == [[*range(1, 10), *range(12, 21)]]  # The path of entry 11 leads over 10.
    assert session.stats.entries_received == 19


def test_a_forgotten_payload_is_not_fetched_again(parties: list[Party]) -> None:
    """Bob forgot a payload on purpose: a sync leaves it so."""
    alice, bob, _ = parties
    log = build_log(20, seed=6)
    for party in (alice, bob):
        party.store.add(log.items())
    bob.store.forget(log.entries[9].place)
    session, _ = run(lambda: sync(bob, alice))
    assert session.stats.entries_received == 0


def test_a_payload_that_is_deleted_while_it_is_sent(parties: list[Party], monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner forgets a large payload while a message with it is put together: all others come."""
    alice, bob, _ = parties
    log = build_log(5, seed=6)
    for payload in (b"x" * 100_000, b"seven", b"eight"):
        log.append(payload)
    alice.store.add(log.items())
    large = log.entries[5].place
    read = type(alice.store).payload_rest

    def forget_first(store: Any, entry: Any) -> Any:
        store.forget(large)
        return read(store, entry)

    monkeypatch.setattr(type(alice.store), "payload_rest", forget_first)
    _, ends = run(lambda: sync(bob, alice))
    assert ends == [None, None]
    assert list(bob.holds().values()) == [[1, 2, 3, 4, 5, 8]]  # The path of entry 7 leads over 6.


def test_a_fork_is_found_by_both(parties: list[Party]) -> None:
    """Two nodes that hold different branches find where they part, and trust nothing from there on."""
    alice, bob, _ = parties
    log = build_log(30, seed=6)
    alice.store.add(log.items())
    other = build_log(20, seed=6)
    for number in range(20, 26):
        other.append(b"another %d" % number)
    bob.store.add(other.items())
    session, ends = run(lambda: sync(bob, alice))
    assert ends[0] is None
    assert session.stats.forks
    for party in (alice, bob):
        (summary,) = party.view.logs()
        assert (summary.forked_at, summary.newest) == (21, 20)


async def _until_held(party: Party, expected: object, tasks: list[asyncio.Task[None]]) -> None:
    """Wait until somebody holds just that, while sessions run: a store is used by its worker's thread then."""
    while await party.worker.run(party.holds) != expected:
        failed = [task for task in tasks if task.done()]
        assert not failed, failed
        await asyncio.sleep(0.005)


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_new_entries_are_passed_on_live(parties: list[Party]) -> None:
    """In a line A-B-C an entry appended at A reaches C while all are connected, and does not come back to A."""
    alice, bob, carol = parties

    async def line() -> tuple[int, int]:
        first, second = await stream_pair(), await stream_pair()
        sessions = [
            await alice.session(first[0], called=True),
            await bob.session(first[1], called=False),
            await bob.session(second[0], called=True),
            await carol.session(second[1], called=False),
        ]
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        for number in range(3):
            await alice.worker.run(alice.store.append, alice.identity, 1, [b"news %d" % number])
            sessions[0].store_changed()
            expected = {(alice.identity.public, 1): list(range(1, number + 2))}
            await _until_held(carol, expected, tasks)
        await _stop(tasks)
        return sessions[0].stats.entries_received, sessions[3].stats.entries_sent

    assert run(line) == (0, 0)


@pytest.mark.parametrize("lacking", ["who asks", "who is asked", "both"])
def test_what_fills_a_gap_later_is_passed_on(parties: list[Party], lacking: str) -> None:
    """Two of one length, or one of them, lack entries in the middle: when these come to one, the other gets them."""
    alice, bob, _ = parties
    log = build_log(12, seed=7)
    gapped = log.items(log.entries[:9] + log.entries[11:])
    alice.store.add(gapped if lacking != "who asks" else log.items(log.entries[:9]))
    bob.store.add(gapped if lacking != "who is asked" else log.items(log.entries[:9]))
    full = {(log.identity.public, 0): list(range(1, 13))}

    async def together() -> None:
        near, far = await stream_pair()
        sessions = [await alice.session(near, called=True), await bob.session(far, called=False)]
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        await asyncio.gather(*(session.done.wait() for session in sessions))
        assert await alice.worker.run(alice.holds) == await bob.worker.run(bob.holds) != full
        await alice.worker.run(alice.store.add, log.items(log.entries[9:11]))
        sessions[0].store_changed()
        await _until_held(bob, full, tasks)
        await _stop(tasks)

    run(together)


# -- policy ---------------------------------------------------------------------------------------------------------


def test_a_peer_outside_the_allow_list_learns_nothing(parties: list[Party]) -> None:
    """A caller that is not allowed gets no byte: not even the HELLO."""
    alice, bob, carol = parties
    policy = Policy(allow_peers=frozenset({carol.identity.public}))
    session, ends = run(lambda: sync(bob, alice, None, {"policy": policy}))
    assert isinstance(ends[1], PeerRefused)
    assert session.stats.bytes_received == 0
    _, ends = run(lambda: sync(carol, alice, None, {"policy": policy}))
    assert ends == [None, None]


def test_a_blocked_peer_is_refused(parties: list[Party]) -> None:
    """A blocked peer is refused though everybody else is welcome."""
    alice, bob, _ = parties
    policy = Policy(block_peers=frozenset({bob.identity.public}))
    _, ends = run(lambda: sync(bob, alice, None, {"policy": policy}))
    assert isinstance(ends[1], PeerRefused)


def test_what_is_taken_and_given_is_a_choice(parties: list[Party]) -> None:
    """Blocked authors, unshared logs and interests narrow what travels; hoarding widens it again."""
    alice, bob, carol = parties
    logs = {seed: build_log(5, seed=seed) for seed in (21, 22, 23)}
    for log in logs.values():
        alice.store.add(log.items())
    authors = {seed: log.identity.public for seed, log in logs.items()}

    def fetched(party: Party, ours: Policy, theirs: Policy) -> set[int]:
        run(lambda: sync(party, alice, {"policy": ours}, {"policy": theirs}))
        return {seed for seed, author in authors.items() if (author, 0) in party.holds()}

    blocked = Policy(
        block_authors=frozenset({authors[21]}), interests={authors[21]: EVERYTHING, authors[22]: EVERYTHING}
    )
    assert fetched(bob, blocked, Policy()) == {22}
    assert fetched(bob, Policy(interests={(authors[23], 7): EVERYTHING}), Policy()) == {22}
    assert fetched(carol, Policy(), Policy(unshared=frozenset({(authors[21], 0), (authors[23], 0)}))) == {22}
    assert fetched(bob, Policy(interests={authors[22]: EVERYTHING}, hoard=True), Policy()) == {21, 22, 23}


@pytest.mark.parametrize(
    ("interest", "numbers"),
    [
        ("20..25", range(20, 26)),
        ("30.. metadata", range(30, 46)),
        ("1.. sparse", [1, 4, 13, 40, 44, 45]),
        ("7 payloads max 1", [7]),
        ("100..", []),
    ],
)
def test_ranges_of_a_log(parties: list[Party], interest: str, numbers: Sequence[int]) -> None:
    """Of a log only a range is fetched, with what verifies it, and nothing when it is there."""
    fetched = sorted({member for seq in numbers for member in certificate_pool(seq, 45)})
    alice, bob, _ = parties
    log = build_log(45, seed=41)
    alice.store.add(log.items())
    ranges = RangeSet([read_range(interest)])
    policy = Policy(interests={(log.identity.public, 0): ranges})
    session, ends = run(lambda: sync(bob, alice, {"policy": policy}))
    assert ends == [None, None]
    assert bob.holds().get((log.identity.public, 0), []) == fetched
    assert session.stats.entries_received == len(fetched)
    assert [seq for low, high in wanted(ranges, 45) for seq in range(low, high + 1)] == fetched
    again, _ = run(lambda: sync(bob, alice, {"policy": policy}))
    assert again.stats.entries_received == 0
    for item in ranges:
        held = bob.store.held(log.identity.public, 0)
        assert all(held.contains_metadata(seq) for seq in item.numbers(45))


def test_promoted_logs_come_unasked_and_can_be_turned_down(parties: list[Party]) -> None:
    """A promoted log is sent to a peer that asks for nothing; a curating callback keeps what it likes of it."""
    alice, bob, carol = parties
    log = build_log(6, seed=31)
    alice.store.add(log.items())
    promote = Policy(promote=frozenset({(log.identity.public, 0)}))
    nothing = Policy(interests={})
    run(lambda: sync(bob, alice, {"policy": nothing}, {"policy": promote}))
    assert list(bob.holds().values()) == [[1, 2, 3, 4, 5, 6]]
    choosy = Policy(interests={}, curate=lambda entry, payload: entry.seq < 4 and len(payload) > 0)
    run(lambda: sync(carol, alice, {"policy": choosy}, {"policy": promote}))
    assert list(carol.holds().values()) == [[1, 2, 3]]


# -- peers that behave otherwise ------------------------------------------------------------------------------------


class Deployed:
    """A hand-driven peer that behaves like the deployed one: not marked, silent when it wants nothing."""

    def __init__(self, party: Party, streams: Any, dialect: Dialect = Dialect.DEPLOYED) -> None:
        self.reader, self.writer = streams
        numbers = iter(range(1, 10_000))
        self.connection = Connection(
            party.identity,
            b"Quagga",
            random_bytes=lambda size: next(numbers).to_bytes(size, "big"),
            options=Options(dialect, mark=False),
        )
        self.entries: list[tuple[int, bytes]] = []
        self.messages: list[int] = []
        self.haves: list[HaveItem] = []
        self.wants: list[WantItem] = []

    async def step(self) -> object:
        """Write what is due, then take what comes; the last event."""
        self.writer.write(self.connection.data_to_send())
        event: object = None
        for event in self.connection.receive_data(await self.reader.read(1 << 16), 0.0):
            if isinstance(event, BambooReceived):
                got = [(entry.seq, bytes(payload)) for entry, payload in event.entries]
                self.entries += got
                self.messages.append(len(got))
            elif isinstance(event, HaveReceived):
                self.haves += event.items
            elif isinstance(event, WantReceived):
                self.wants += event.items
        self.writer.write(self.connection.data_to_send())
        return event

    async def until(self, condition: Any) -> None:
        """Go on until something holds."""
        while not condition():
            await self.step()


def test_the_deployed_peer_is_served_its_way(parties: list[Party]) -> None:
    """It asks for the pool of an entry, having nothing, and gets the log up to there; and no HAVE behind an answer."""
    alice, bob, _ = parties
    log = build_log(60, seed=41)
    alice.store.add(log.items())
    author = log.identity.public

    async def talk() -> Deployed:
        near, far = await stream_pair()
        session = await alice.session(near, called=False)
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
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
        near, far = await stream_pair()
        session = await alice.session(near, called=False)
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
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
        near, far = await stream_pair()
        session = await alice.session(near, called=True)
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
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
        near, far = await stream_pair()
        session = await alice.session(near, called=True)
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
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
        near, far = await stream_pair()
        session = await alice.session(near, called=True)
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
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
        near, far = await stream_pair()
        session = await alice.session(near, called=True)
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
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
        near, far = await stream_pair()
        session = await alice.session(near, called=True)
        task = asyncio.create_task(session.run())
        peer = Deployed(bob, far)
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
