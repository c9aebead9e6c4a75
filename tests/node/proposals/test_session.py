"""Proposal sessions between stores: what is proposed, what arrives."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Entry, path
from culm.errors import Place, StoreFull
from culm.node.interests.policy import Policy
from culm.node.proposals.options import ProposalOptions
from culm.proposals import EVERYTHING, Adjust, Endpoint, Offered, Proposal, Setup, Skipped
from culm.proposals.control import push_control
from culm.proposals.messages import Grant
from culm.proposals.states import Said
from culm.ranges import RangeSet, read_range
from culm.store import ImportReport, SQLiteStore
from culm.testing.builders import LogBuilder, build_log
from culm.transfer import EntryReceived
from tests.memory import MemoryStore
from tests.node.links import run, stream_pair
from tests.node.peers import key, sync, until
from tests.node.quiet import ProposalEnd

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.node.proposing import ProposalPeer


def test_everything_arrives(peers: list[ProposalPeer]) -> None:
    """A log that is named comes whole, and so does what the peer lacks: it asks for the log in turn."""
    alice, bob, _ = peers
    log, own = build_log(300), build_log(20, seed=2)
    bob.store.add(log.items())
    alice.store.add([*log.items(log.entries[:100]), *own.items()])
    session = sync(alice, bob, [key(log), key(own)])
    assert alice.numbers(key(log)) == list(range(1, 301))
    assert bob.numbers(key(own)) == list(range(1, 21))
    assert (session.stats.entries_received, session.stats.entries_sent) == (200, 20)
    assert session.connection.is_over
    session = sync(alice, bob, [key(log), key(own)])
    assert (session.stats.entries_received, session.stats.entries_sent) == (0, 0)


def test_gaps_are_filled(peers: list[ProposalPeer]) -> None:
    """Gaps in what is held come, entries and payloads, each once."""
    alice, bob, _ = peers
    log = build_log(60, payload_size=50)
    bob.store.add(log.items())
    alice.store.add(log.items([entry for entry in log.entries if entry.seq not in (20, 21, 40)]))
    alice.store.forget(Place(*key(log), 30))
    alice.store.want_again(Place(*key(log), 30))
    session = sync(alice, bob, [key(log)])
    assert alice.numbers(key(log)) == list(range(1, 61))
    assert session.stats.payload_bytes <= 4 * 50
    assert session.stats.entries_received <= 6  # the path to what is behind the last gap, too


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ProposalOptions(greatest_size=100), [seq for seq in range(1, 31) if seq % 7]),
        (ProposalOptions(least_size=100), [seq for seq in range(1, 31) if not seq % 7]),
        (ProposalOptions(notify_above=100), [seq for seq in range(1, 31) if seq % 7]),
        (ProposalOptions(window=65536), list(range(1, 31))),
        (ProposalOptions(small=True), list(range(1, 31))),
        (ProposalOptions(greedy=True, mandatory=True), list(range(1, 31))),
    ],
    ids=["max", "min", "notify above", "window", "small", "greedy, mandatory"],
)
def test_options(peers: list[ProposalPeer], options: ProposalOptions, expected: list[int]) -> None:
    """Payloads that are not wanted do not come, their entries do; the other options change the way, not the result."""
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    for seq in range(1, 31):
        log.append(b"%d " % seq * (1 if seq % 7 else 100))
    bob.store.add(log.items())
    session = sync(alice, bob, [key(log)], options=options, their_options=options)
    assert alice.numbers(key(log)) == expected
    assert len(list(alice.store.entries(key(log)))) == 30
    assert not session.stats.refused


def test_notices_only(peers: list[ProposalPeer]) -> None:
    """Who only wants to be told learns how much there is, and gets nothing."""
    alice, bob, _ = peers
    log = build_log(25)
    bob.store.add(log.items())
    session = sync(alice, bob, [key(log)], options=ProposalOptions(notify_only=True))
    assert session.stats.missing == 25
    assert session.stats.bytes_received < 500
    assert not list(alice.store.logs())


def test_interests(peers: list[ProposalPeer]) -> None:
    """Only what is of interest is asked for, with the path it needs to be verified."""
    alice, bob, _ = peers
    log = build_log(120)
    bob.store.add(log.items())
    interest = RangeSet([read_range("100..")])
    sync(alice, bob, [key(log)], interest=lambda _: interest)
    assert alice.numbers(key(log)) == list(range(100, 121))
    held = {stored.entry.seq for stored in alice.store.entries(key(log))}
    assert held == {*path(100, 1), *range(100, 121)}
    sparse = RangeSet([read_range("1..60 sparse")])
    sync(alice, bob, [key(log)], interest=lambda _: sparse)
    assert set(alice.numbers(key(log))) == {*path(60, 1), *range(100, 121)}


@pytest.mark.slow
@pytest.mark.parametrize(("size", "rest"), [(900_000, 256 * 8000 - 900_000), (256 * 8000, 1)])
def test_payloads_go_on_where_they_were(peers: list[ProposalPeer], size: int, rest: int) -> None:
    """A payload of which a part is held is asked for from there, one that was never checked from its last byte."""
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    payload = bytes(range(256)) * 8000
    log.append(payload)
    log.append(b"after")
    bob.store.add(log.items())
    alice.store.add([(log.entries[0], None)])
    sink = alice.store.payload_sink(log.entries[0].place)
    sink.write(payload[:size])
    sink.close()
    session = sync(alice, bob, [key(log)])
    assert session.stats.payload_bytes == rest + 5
    assert [b"".join(alice.store.payload(stored)) for stored in alice.store.entries(key(log))] == [payload, b"after"]


def test_news_go_both_ways_and_on(peers: list[ProposalPeer]) -> None:  # noqa: C901 - a story
    """Along a line of peers what is new anywhere arrives everywhere, and nothing comes back."""
    logs = [build_log(4, seed=seed) for seed in (1, 2)]
    names = [key(log) for log in logs]

    async def main() -> None:  # noqa: C901
        tasks, sessions = [], []
        for log in logs:
            for peer in peers:
                await peer.on_its_thread(peer.store.add, log.items(log.entries[:2]))
        for left, right in ((0, 1), (1, 2)):
            near, far = await stream_pair()
            sessions += [peers[left].session(near, names, called=True), peers[right].session(far, names)]
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        await asyncio.sleep(0.3)
        await peers[0].on_its_thread(peers[0].store.add, logs[0].items(logs[0].entries[2:]))
        await peers[2].on_its_thread(peers[2].store.add, logs[1].items(logs[1].entries[2:]))
        for session in sessions:
            session.store_changed()

        async def everywhere() -> bool:
            for peer in peers:
                for name in names:
                    if await peer.on_its_thread(peer.numbers, name) != [1, 2, 3, 4]:
                        return False
            return True

        while not await everywhere():
            await asyncio.sleep(0.02)
        assert sum(session.stats.entries_received for session in sessions) == 2 * 2 * 2
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


@pytest.mark.parametrize("newer", [0, 1])
def test_a_fork_without_news(peers: list[ProposalPeer], newer: int) -> None:
    """Two that hold different entries of one number find out, though neither has anything new."""
    alice, bob, _ = peers
    log = build_log(5)
    other = log.make(5, b"another branch")
    alice.store.add(log.items())
    bob.store.add([*log.items(log.entries[:4]), (other, b"another branch")])
    asking, answering = (alice, bob) if newer else (bob, alice)
    sync(asking, answering, [key(log)])
    assert [proof.position for proof in asking.store.fork_proofs()] == [5]


def test_the_end_of_a_log_is_seen(peers: list[ProposalPeer]) -> None:
    """T91: who wants only what is behind the end of a log gets the entry that ends it, and asks no more."""
    alice, bob, _ = peers
    log = build_log(4)
    log.append(b"farewell", is_end=True)
    bob.store.add(log.items())
    interest = RangeSet([read_range("8..")])
    session = sync(alice, bob, [key(log)], interest=lambda _: interest)
    held = {stored.entry.seq for stored in alice.store.entries(key(log))}
    assert held == {*path(5, 1)}
    assert session.stats.bytes_sent < 2000


def test_a_log_that_ends_where_ours_goes_on(peers: list[ProposalPeer]) -> None:
    """The peer says that a log ends where we hold another entry, and more: it is asked for, and the fork shows."""
    alice, bob, _ = peers
    log = build_log(7)
    other = log.make(5, b"farewell", is_end=True)
    alice.store.add(log.items())
    bob.store.add([*log.items(log.entries[:4]), (other, b"farewell")])
    session = sync(alice, bob, [key(log)])
    assert 5 in {proof.position for proof in alice.store.fork_proofs()}
    assert session.stats.bytes_sent < 2000


def test_what_is_before_a_fork_comes(peers: list[ProposalPeer]) -> None:
    """From a peer that knows a log to be forked come all entries before the fork, and the proof."""
    alice, bob, _ = peers
    log = build_log(20)
    bob.store.add([*log.items(), (log.make(15, b"another"), b"another")])
    sync(alice, bob, [key(log)])
    assert alice.numbers(key(log)) == list(range(1, 15))
    assert [proof.position for proof in alice.store.fork_proofs()] == [15]


@pytest.mark.parametrize("theirs", [0, 2, 7])
def test_a_sync_ends_although_the_peer_cannot_fill_a_gap(peers: list[ProposalPeer], theirs: int) -> None:
    """Entries 5 to 12 are missing: what the peer has of them comes, and the sync ends without the rest."""
    alice, bob, _ = peers
    log = build_log(13)
    alice.store.add(log.items([*log.entries[:4], log.entries[12]]))
    bob.store.add(log.items(log.entries[:theirs]))
    sync(alice, bob, [key(log)])
    assert alice.numbers(key(log)) == [*range(1, max(4, theirs) + 1), 13]


def test_what_is_on_its_way_to_the_store_is_expected(
    peers: list[ProposalPeer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until payloads that came are stored, they count as being fetched, so that no peer is told that we lack them."""
    alice, bob, _ = peers
    log = build_log(40, payload_size=50)
    bob.store.add(log.items())
    add = alice.store.add
    expected: list[int] = []

    def watched(items: list[tuple[Entry, bytes]], **options: bool) -> ImportReport:
        expected.extend(entry.seq for entry, _ in items if alice.sources[0].expects(entry.log, entry.seq))
        return add(items, **options)

    monkeypatch.setattr(alice.store, "add", watched)
    sync(alice, bob, [key(log)])

    assert list(range(1, 41)) == sorted(expected)
    assert [seq for seq in range(1, 41) if alice.sources[0].expects(key(log), seq)] == []


def test_what_could_not_be_stored_is_not_waited_for(peers: list[ProposalPeer], monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that ends because the disk is full leaves no payload behind that the node seems to be fetching."""
    alice, bob, _ = peers
    log = build_log(5)
    bob.store.add(log.items())

    def full(*_: object, **__: object) -> None:
        raise StoreFull("the disk is full")

    async def main() -> None:
        near, far = await stream_pair()
        asking, answering = alice.session(near, [key(log)], called=True), bob.session(far)
        tasks = [asyncio.create_task(session.run()) for session in (asking, answering)]
        with pytest.raises(StoreFull):
            await tasks[0]
        await asyncio.gather(*tasks, return_exceptions=True)

    monkeypatch.setattr(alice.store, "add", full)
    run(main)
    assert [seq for seq in range(1, 6) if alice.sources[0].expects(key(log), seq)] == []


@pytest.mark.parametrize("how", ["is not there", "the session ends"])
def test_who_waited_for_a_payload_goes_on_without(peers: list[ProposalPeer], how: str) -> None:
    """Bob fetches a payload that Carol wants, too; when he gives up, she gets what comes behind it."""
    alice, bob, carol = peers
    log = build_log(5)
    bob.store.add([(entry, None if entry.seq == 1 else payload) for entry, payload in log.items()])

    async def main() -> None:
        first, second = await stream_pair(), await stream_pair()
        fetching = bob.session(first[1])
        fetching._begin_fetching(0, log.entries[0])
        sessions = [alice.session(first[0], called=True), fetching]
        sessions += [carol.session(second[0], [key(log)], called=True), bob.session(second[1])]
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        while await carol.on_its_thread(lambda: [entry.entry.seq for entry in carol.store.entries(key(log))]) != [1]:
            await asyncio.sleep(0.01)
        if how == "the session ends":
            tasks[0].cancel()
        else:
            fetching._follow(Skipped(0, 1, is_available=False))
            fetching.driver.wake()
        while await carol.on_its_thread(carol.numbers, key(log)) != [2, 3, 4, 5]:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_neither_can_rebuild_what_the_other_begins_with(peers: list[ProposalPeer]) -> None:
    """One holds the end of a log and a path to it, one its beginning: they do not refuse each other's for ever."""
    alice, bob, _ = peers
    log = build_log(10)
    alice.store.add([(entry, None) for entry in log.entries if entry.seq in (1, 4, 5, 6, 7)])
    alice.store.add(log.items(log.entries[7:]))
    bob.store.add(log.items(log.entries[:3]))
    policy = Policy(interests={key(log): RangeSet([read_range("8..")])})

    async def main() -> None:
        near, far = await stream_pair()
        asking, answering = bob.session(near, [key(log)], called=True), alice.session(far, policy=policy)
        tasks = [asyncio.create_task(session.run()) for session in (asking, answering)]
        exchanges = asking.connection.endpoint.exchanges
        await until(lambda: any(item.is_ours and item.has(Said.ANSWERED) for item in exchanges.values()))
        assert max(exchanges) < 10  # their ids count what was proposed
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_a_payload_that_comes_late(peers: list[ProposalPeer]) -> None:
    """A payload that the peer lacked when its entry came is asked for again while the session lives, and then comes."""
    alice, bob, _ = peers
    log = build_log(5)
    late = log.entries[2]
    bob.store.add([(entry, None if entry is late else payload) for entry, payload in log.items()])

    async def main() -> None:
        near, far = await stream_pair()
        asking, answering = alice.session(near, [key(log)], called=True), bob.session(far)
        asking.config = replace(asking.config, interval=0.1)
        tasks = [asyncio.create_task(session.run()) for session in (asking, answering)]

        async def has(numbers: list[int]) -> None:
            while await alice.on_its_thread(lambda: alice.numbers(key(log))) != numbers:
                await asyncio.sleep(0.01)

        await has([1, 2, 4, 5])
        await bob.on_its_thread(bob.store.add, log.items([late]))
        answering.store_changed()
        await has([1, 2, 3, 4, 5])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_a_known_fork_is_told(peers: list[ProposalPeer]) -> None:
    """Who knows a log to be forked lacks nothing of it, and lets the other side know all the same."""
    alice, bob, _ = peers
    log = build_log(7)
    bob.store.add([*log.items(), (log.make(6, b"another"), b"another")])
    alice.store.add(log.items())
    sync(bob, alice, [key(log)])
    assert {proof.position for proof in alice.store.fork_proofs()} == {6}
    assert alice.numbers(key(log)) == list(range(1, 6))


@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize("position", [1, 3])
def test_the_lower_of_two_forks_is_told(peers: list[ProposalPeer], lower: int, position: int) -> None:
    """Two that know different forks of a log both know the lower one in the end, whoever calls."""
    alice, bob, _ = peers
    log = build_log(7)
    alice.store.add([*log.items(), (log.make(6, b"another"), b"another")])
    bob.store.add([*log.items(log.entries[:4]), (log.make(position, b"yet another"), b"yet another")])
    asking, answering = (bob, alice) if lower else (alice, bob)
    sync(asking, answering, [key(log)])
    for peer in (alice, bob):
        assert min(proof.position for proof in peer.store.fork_proofs()) == position
        assert peer.numbers(key(log)) == list(range(1, position))


def test_a_fork_that_comes_to_light_is_told(peers: list[ProposalPeer]) -> None:
    """While two are connected and lack nothing, one learns of a lower fork: so does the other, and then it is quiet."""
    alice, bob, _ = peers
    log = build_log(7)
    for peer in (alice, bob):
        peer.store.add([*log.items(), (log.make(6, b"another"), b"another")])

    async def main() -> None:
        near, far = await stream_pair()
        sessions = [alice.session(near, [key(log)], called=True), bob.session(far)]
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        await until(lambda: not any(session.connection.endpoint.exchanges for session in sessions))
        await alice.on_its_thread(alice.store.add, [(log.make(3, b"lower"), b"lower")])
        sessions[0].store_changed()
        while await bob.on_its_thread(lambda: len(bob.numbers(key(log)))) != 2:
            await asyncio.sleep(0.01)
        await until(lambda: not any(session.connection.endpoint.exchanges for session in sessions))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_unshared_logs_stay(peers: list[ProposalPeer]) -> None:
    """Of a log that is not for others nothing is shown."""
    alice, bob, _ = peers
    log = build_log(3)
    bob.store.add(log.items())
    sync(alice, bob, [key(log)], their_policy=Policy(unshared=frozenset({key(log)})))
    assert alice.numbers(key(log)) == []


def test_a_changed_interest(peers: list[ProposalPeer]) -> None:
    """A running session is told of a changed interest: what is not wanted any more stops, what is comes."""
    alice, bob, _ = peers
    one, two = build_log(3, seed=1), build_log(3, seed=2)
    bob.store.add([*one.items(), *two.items()])
    everything = RangeSet([read_range("1..")])

    async def main() -> None:
        near, far = await stream_pair()
        policy = Policy(interests={key(one): everything})
        asking = alice.session(near, [key(one), key(two)], called=True, policy=policy)
        answering = bob.session(far)
        tasks = [asyncio.create_task(session.run()) for session in (asking, answering)]
        while await alice.on_its_thread(alice.numbers, key(one)) != [1, 2, 3]:
            await asyncio.sleep(0.01)
        await asking.change_policy(Policy(interests={key(two): everything}))
        while await alice.on_its_thread(alice.numbers, key(two)) != [1, 2, 3]:
            await asyncio.sleep(0.01)
        for log in (one, two):
            entry = log.append(b"late")
            await bob.on_its_thread(bob.store.add, [(entry, b"late")])
        answering.store_changed()
        while await alice.on_its_thread(alice.numbers, key(two)) != [1, 2, 3, 4]:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)
    assert alice.numbers(key(one)) == [1, 2, 3]


@pytest.mark.slow
def test_a_greedy_line(peers: list[ProposalPeer]) -> None:
    """A greedy peer passes on a large payload before all of it came, never showing it as complete."""
    alice, bob, carol = peers
    log = LogBuilder(build_log(1).identity)
    payload = random.Random(4).randbytes(6_000_000)
    log.append(payload)
    alice.store.add(log.items())
    options = ProposalOptions(greedy=True)

    async def main() -> None:
        first, second = await stream_pair(), await stream_pair()
        sessions = [
            alice.session(first[0], options=options),
            bob.session(first[1], [key(log)], called=True, options=options, policy=SHARED),
            bob.session(second[0], options=options, policy=SHARED),
            carol.session(second[1], [key(log)], called=True, options=options),
        ]
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        early = 0
        while not await carol.on_its_thread(carol.numbers, key(log)):
            if sessions[3].stats.payload_bytes and not await bob.on_its_thread(bob.numbers, key(log)):
                early = max(early, sessions[3].stats.payload_bytes)
            await asyncio.sleep(0.001)
        assert early > 100_000
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)
    (stored,) = carol.store.entries(key(log))
    assert b"".join(carol.store.payload(stored)) == payload


SHARED = Policy()


@pytest.mark.slow
def test_a_link_that_is_cut(peers: list[ProposalPeer]) -> None:
    """Over a link that is cut again and again everything arrives, with little sent twice."""
    alice, bob, _ = peers
    log = build_log(200, payload_size=100)
    large = LogBuilder(build_log(1, seed=7).identity)
    large.append(random.Random(3).randbytes(1_500_000))
    bob.store.add([*log.items(), *large.items()])
    total = 0

    async def attempt() -> int:
        near, far = await stream_pair()
        asking = alice.session(near, [key(log), key(large)], called=True, live=False, mirrors=False)
        answering = bob.session(far)
        tasks = [asyncio.create_task(asking.run()), asyncio.create_task(answering.run())]
        while not asking.done.is_set() and asking.stats.bytes_received < 256 * 1024 and not tasks[0].done():
            await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return asking.stats.bytes_received

    for _ in range(60):
        total += run(attempt)
        if alice.numbers(key(log)) == list(range(1, 201)) and alice.numbers(key(large)) == [1]:
            break
    assert alice.numbers(key(log)) == list(range(1, 201))
    assert alice.numbers(key(large)) == [1]
    assert total < 1.5 * (1_500_000 + 200 * 400)


def test_two_sockets() -> None:  # noqa: C901 - a small node
    """Without bymux: each channel over a connection of its own, the setup first on the control channel."""
    log = build_log(50, payload_size=3000)
    store, other = MemoryStore(), MemoryStore()
    for entry in log.entries:
        store.put(entry, log.payloads[entry.hash])
    setup = Setup(send_window=1000, receive_window=1000)

    async def talk(connection: Endpoint, own: MemoryStore, control: Any, data: Any, ends: Callable[[], bool]) -> None:
        control[1].write(setup.encode())
        control[1].write(connection.control_to_send())
        theirs, _ = Setup.pull(await control[0].readexactly(len(setup.encode())))
        connection.peer_setup(theirs)

        def handle(events: list[Any]) -> None:
            for event in events:
                if isinstance(event, Offered) and connection.is_offered(event.proposal.id):
                    connection.confirm(Adjust(event.proposal.id, EVERYTHING, may_skip=True))
                elif isinstance(event, EntryReceived):
                    own.put(event.entry)
                elif hasattr(event, "data"):
                    own.put(event.entry, own.bytes.get(event.entry.hash, b"")[: event.offset] + event.data)
            connection.respond(10**6)
            control[1].write(connection.control_to_send())
            data[1].write(connection.data_to_send())

        async def read(reader: Any, take: Callable[[bytes], list[Any]]) -> None:
            while piece := await reader.read(5000):
                handle(take(piece))

        handle([])
        tasks = [
            asyncio.create_task(read(control[0], connection.receive_control)),
            asyncio.create_task(read(data[0], connection.receive_data)),
        ]
        await until(ends)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def main() -> None:
        control, data = await stream_pair(), await stream_pair()
        one = Endpoint(store, proactive=False, setup=setup)
        two = Endpoint(other, proactive=True, setup=setup)
        two.receive_control(push_control(Grant(1)))
        two.propose(Proposal(0, *key(log), 1, 1, 50, 50))

        def ends() -> bool:
            return not one.exchanges and not two.exchanges and len(other.bytes) == 50

        await asyncio.wait_for(
            asyncio.gather(talk(one, store, control[0], data[0], ends), talk(two, other, control[1], data[1], ends)), 20
        )

    run(main)
    assert other.bytes == store.bytes


def test_a_log_that_is_not_wanted_before_it_was_asked_for(tmp_path: Path) -> None:
    """What was to be asked for, and is not wanted any more, is not asked for."""
    log = build_log(3)
    with SQLiteStore(tmp_path / "store.db") as store:
        end = ProposalEnd(store, RangeSet([read_range("1..")]), calls=True)
        end.proposer.add([key(log)])
        end.proposer.reconsider(Policy(interests={}))
        assert not end.proposer.todo
        end.say()
        assert not end.session.endpoint.exchanges
        end.close()
