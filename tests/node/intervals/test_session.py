"""Interval sessions between stores: what is asked for, what arrives, what a hostile peer costs.

Specification: docs/specs/intervals.md, "What a node does not use".
"""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.errors import Place
from culm.intervals import Forks
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.intervals.followed import FollowOptions
from culm.node.intervals.session import IntervalSession
from culm.ranges import RangeSet, read_range
from culm.testing.builders import LogBuilder, build_log
from tests.node.links import QUICK, run, stream_pair
from tests.node.peers import Peer, Rogue, key, sync, syncs, until

if TYPE_CHECKING:
    from collections.abc import Iterable


def test_everything_arrives(peers: list[Peer]) -> None:
    """A log that is named comes whole, and so does what the peer lacks: it asks for the log in turn."""
    alice, bob, _ = peers
    log, own = build_log(300), build_log(20, seed=2)
    bob.store.add(log.items())
    alice.store.add([*log.items(log.entries[:100]), *own.items()])
    session = sync(alice, bob, [key(log), key(own)])
    assert alice.numbers(key(log)) == list(range(1, 301))
    assert bob.numbers(key(own)) == list(range(1, 21))
    assert (session.stats.entries_received, session.stats.entries_sent) == (200, 20)
    assert session.stats.missing == 200
    session = sync(alice, bob, [key(log), key(own)])
    assert (session.stats.entries_received, session.stats.entries_sent) == (0, 0)


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_a_short_log_needs_no_waiting(peers: list[Peer], entries: int) -> None:
    """A sync is over when all has come. It does not wait until the peer, which has all, has been quiet for long."""
    alice, bob, _ = peers
    log = build_log(entries)
    bob.store.add(log.items())

    async def main() -> float:
        began = asyncio.get_running_loop().time()
        await syncs(alice, bob, [key(log)])
        return asyncio.get_running_loop().time() - began

    assert run(main) < QUICK.settle_seconds / 10
    assert alice.numbers(key(log)) == list(range(1, entries + 1))


def test_gaps_are_filled(peers: list[Peer]) -> None:
    """Gaps in what is held are asked for, and what the peer has behind a gap of its own."""
    alice, bob, _ = peers
    log = build_log(60)
    bob.store.add(log.items([entry for entry in log.entries if entry.seq != 41]))
    alice.store.add(log.items([entry for entry in log.entries if entry.seq <= 13 or entry.seq == 40]))
    sync(alice, bob, [key(log)])
    # Entries 42 and 43 have no path to the beginning without 41.
    assert alice.numbers(key(log)) == bob.numbers(key(log)) == [*range(1, 41), *range(44, 61)]


def test_what_waits_on_both_sides_is_not_asked_for_without_end(peers: list[Peer]) -> None:
    """Both hold entries that wait for one which neither has: each asks for it once, and the sync ends."""
    alice, bob, _ = peers
    log = build_log(13)
    alice.store.add(log.items([log.entries[seq - 1] for seq in (1, 2, 3, 4, 5, 6, 9, 10, 13)]))
    bare = [(log.entries[seq - 1], None) for seq in (3, 9)]
    bob.store.add([*log.items([log.entries[seq - 1] for seq in (1, 4, 5, 10, 13)]), *bare])
    session = sync(alice, bob, [key(log)])
    assert alice.numbers(key(log)) == bob.numbers(key(log)) == [1, 2, 3, 4, 5, 6, 13]
    assert session.stats.bytes_received + session.stats.bytes_sent < 6000


def test_a_gap_of_the_peer_is_filled_later(peers: list[Peer]) -> None:
    """Who stays connected gets what the peer lacked at first, and meanwhile what is behind that."""
    alice, bob, _ = peers
    log = build_log(60)
    bob.store.add(log.items([entry for entry in log.entries if entry.seq != 41]))

    async def main() -> None:
        near, far = await stream_pair()
        sessions = alice.session(near, [key(log)]), bob.session(far)
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        while not await alice.on_its_thread(alice.store.get, Place(*key(log), 60)):
            await asyncio.sleep(0.005)
        await bob.on_its_thread(bob.store.add, log.items([log.entries[40]]))
        sessions[1].store_changed()
        while not await alice.on_its_thread(alice.store.get, Place(*key(log), 43)):
            await asyncio.sleep(0.005)
        await sessions[0].arrivals.flush()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)
    assert alice.numbers(key(log)) == list(range(1, 61))


@pytest.mark.slow
def test_pieces_of_a_payload_are_nothing_to_speak_about(peers: list[Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece that comes or is stored has a session look for something to say, which costs nothing if there is none.

    What a session that only takes has to say is its requests, and what it answers when the log has changed.
    """
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    log.append(bytes(8_000_000))
    bob.store.add(log.items())
    composed: list[IntervalSession] = []
    compose = IntervalSession._compose

    def noting(self: IntervalSession) -> bool:
        composed.append(self)
        return compose(self)

    monkeypatch.setattr(IntervalSession, "_compose", noting)
    session = sync(alice, bob, [key(log)])
    assert alice.numbers(key(log)) == [1]
    assert composed.count(session) < 12


@pytest.mark.parametrize(("size", "rest"), [(900_000, 256 * 4000 - 900_000), (256 * 4000, 1)])
def test_payloads_go_on_where_they_were(peers: list[Peer], size: int, rest: int) -> None:
    """A payload of which a part is held is asked for from there, one that was never checked from its last byte."""
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    payload = bytes(range(256)) * 4000
    log.append(payload)
    bob.store.add(log.items())
    alice.store.add([(log.entries[0], None)])
    sink = alice.store.payload_sink(log.entries[0].place)
    sink.write(payload[:size])
    sink.close()
    session = sync(alice, bob, [key(log)])
    assert session.stats.payload_bytes == rest
    (stored,) = alice.store.entries(key(log))
    assert b"".join(alice.store.payload(stored)) == payload


def test_a_wrong_beginning_is_dropped(peers: list[Peer]) -> None:
    """If the beginning that was held is wrong, nobody is blamed, and all of the payload is asked for again."""
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    payload = bytes(range(256)) * 1000
    log.append(payload)
    bob.store.add(log.items())
    alice.store.add([(log.entries[0], None)])
    sink = alice.store.payload_sink(log.entries[0].place)
    sink.write(bytes(100_000))
    sink.close()
    session = sync(alice, bob, [key(log)])
    assert (len(session.stats.refused), session.stats.offences) == (1, 0)
    sync(alice, bob, [key(log)])
    assert alice.numbers(key(log)) == [1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20..", list(range(20, 41))),
        ("20..30", list(range(20, 31))),
        ("5..5", [5]),
        ("1..40 sparse", [1, 4, 13, 40]),
        ("10.. sparse", [10, 11, 12, 13, 40]),
        ("1..20 metadata", []),
        ("1.. min 10 max 15", list(range(1, 41))),
        ("1.. without 3", [seq for seq in range(1, 41) if seq != 3]),
    ],
)
def test_interests(peers: list[Peer], text: str, expected: list[int]) -> None:
    """Ranges of a log come with their payloads, and the certificates they need without."""
    alice, bob, _ = peers
    log = build_log(40, payload_size=12)
    bob.store.add(log.items())
    interest = RangeSet([read_range(text)])
    sync(alice, bob, [key(log)], interest=lambda _: interest)
    assert alice.numbers(key(log)) == expected
    summary = next(iter(alice.store.logs()))
    assert summary.waiting == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (FollowOptions(newest=5), range(26, 31)),
        (FollowOptions(newest_first=True), range(1, 31)),
        (FollowOptions(newest=7, newest_first=True), range(24, 31)),
        (FollowOptions(verified=False), range(1, 31)),
        (FollowOptions(forks=Forks.LOCAL), range(1, 31)),
        (FollowOptions(greatest_size=100), [seq for seq in range(1, 31) if seq % 7]),
        (FollowOptions(least_size=100), [seq for seq in range(1, 31) if not seq % 7]),
    ],
)
def test_options(peers: list[Peer], options: FollowOptions, expected: Iterable[int]) -> None:
    """How a log is asked for decides which payloads come; all entries that come are verified."""
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    for seq in range(1, 31):
        log.append(bytes(20 if seq % 7 else 200))
    bob.store.add(log.items())
    sync(alice, bob, [key(log)], options=options)
    assert alice.numbers(key(log)) == list(expected)
    assert next(iter(alice.store.logs())).waiting == 0


def test_a_fork_shows_without_news(peers: list[Peer]) -> None:
    """Two that hold different newest entries find out, both of them, though neither has news."""
    alice, bob, _ = peers
    log = build_log(5)
    other = log.make(5, b"another branch")
    alice.store.add(log.items())
    bob.store.add([*log.items(log.entries[:4]), (other, b"another branch")])

    async def main() -> list[int]:
        near, far = await stream_pair()
        sessions = alice.session(near, [key(log)], mirrors=False), bob.session(far)
        tasks = [asyncio.create_task(session.run()) for session in sessions]

        async def forks(peer: Peer) -> list[int]:
            proofs = await peer.on_its_thread(lambda: list(peer.store.fork_proofs(key(log))))
            return [proof.position for proof in proofs]

        while not (await forks(alice) and (found := await forks(bob))):
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return found

    assert run(main) == [5]


def test_a_lower_fork_shows_without_news(peers: list[Peer]) -> None:
    """Two that know a log to be forked and hold different entries below that find out, though neither has news."""
    alice, bob, _ = peers
    log = build_log(6)
    other = LogBuilder(log.identity, log.log_id)
    other.entries, other.payloads = log.entries[:3], dict(log.payloads)
    for _ in range(3):
        other.append(b"another branch")
    alice.store.add([*log.items(), (log.make(6, b"one"), b"one")])
    bob.store.add([*other.items(), (other.make(6, b"two"), b"two")])
    assert alice.numbers(key(log)) == bob.numbers(key(log)) == [1, 2, 3, 4, 5]

    async def main() -> None:
        near, far = await stream_pair()
        sessions = alice.session(near, [key(log)]), bob.session(far)
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        for peer in (alice, bob):
            while len(await peer.on_its_thread(peer.numbers, key(log))) > 3:
                await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_what_is_before_a_fork_comes(peers: list[Peer]) -> None:
    """From a peer that knows a log to be forked come the proof, and all entries before the fork."""
    alice, bob, _ = peers
    log = build_log(20)
    bob.store.add([*log.items(), (log.make(15, b"another"), b"another")])
    session = sync(alice, bob, [key(log)])
    assert alice.numbers(key(log)) == list(range(1, 15))
    assert [proof.position for proof in alice.store.fork_proofs()] == [15]
    assert session.stats.forks == 1


def test_an_anchor_in_a_log_that_is_known_to_be_forked(peers: list[Peer]) -> None:
    """The question for the lowest fork goes without the trusted entry, which makes sense with local forks only."""
    alice, bob, _ = peers
    log = build_log(20)
    bob.store.add(log.items())
    alice.store.add([*log.items(log.entries[:15]), (log.make(15, b"another"), b"another")])
    how = FollowOptions(forks=Forks.LOCAL, anchor=(4, log.entries[3].hash))
    sync(alice, bob, [key(log)], options=how)
    assert alice.numbers(key(log)) == list(range(1, 15))


def test_what_waits_is_verified_past_a_gap_of_the_peer(peers: list[Peer]) -> None:
    """What is held and waits needs an entry behind one that the peer lacks: that is asked for, and all is verified."""
    alice, bob, _ = peers
    log = build_log(8)
    alice.store.add([*log.items(log.entries[:2]), *log.items(log.entries[4:])])
    bob.store.add([*log.items(log.entries[:1]), (log.entries[3], None), *log.items(log.entries[4:])])
    sync(alice, bob, [key(log)])
    assert [1, 2, 5, 6, 7, 8] == alice.numbers(key(log))


def test_unshared_logs_stay(peers: list[Peer]) -> None:
    """Of a log that is not for others nothing is shown, not even that it is there."""
    alice, bob, _ = peers
    log = build_log(3)
    bob.store.add(log.items())

    async def main() -> None:
        near, far = await stream_pair()
        asking = alice.session(near, [key(log)], live=False, mirrors=False)
        answering = bob.session(far, policy=Policy(unshared=frozenset({key(log)})))
        tasks = [asyncio.create_task(session.run()) for session in (asking, answering)]
        await asyncio.wait_for(asking.done.wait(), 20)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)
    assert alice.numbers(key(log)) == []


def test_news_travel_both_ways_and_on(peers: list[Peer]) -> None:
    """What one appends, the others get, over one in between; nothing is sent back to where it came from."""
    alice, bob, carol = peers
    log = build_log(1)
    alice.store.add(log.items())

    async def main() -> None:
        first, second = await stream_pair(), await stream_pair()
        sessions = [
            alice.session(first[0], [key(log)]),
            bob.session(first[1]),
            bob.session(second[0], [key(log)]),
            carol.session(second[1], [key(log)]),
        ]
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        for number in range(5):
            entry = await alice.on_its_thread(alice.store.append, log.identity, 0, [b"%d" % number])
            sessions[0].store_changed()
            while not await carol.on_its_thread(carol.store.get, entry.place):
                await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        assert sessions[0].stats.entries_received == 0
        assert sessions[2].stats.entries_received == 0
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)
    assert carol.numbers(key(log)) == list(range(1, 7))


def test_forgotten_payloads_are_not_fetched_until_wanted(peers: list[Peer]) -> None:
    """A payload that was forgotten stays away from syncs, and comes when it is wanted again."""
    alice, bob, _ = peers
    log = build_log(10)
    bob.store.add(log.items())
    alice.store.add(log.items())
    place = Place(*key(log), 4)
    alice.store.forget(place)
    sync(alice, bob, [key(log)])
    assert 4 not in alice.numbers(key(log))
    assert alice.store.want_again(place)
    assert not alice.store.want_again(place)
    sync(alice, bob, [key(log)], interest=lambda _: RangeSet([read_range("4")]))
    assert alice.numbers(key(log)) == list(range(1, 11))


def test_behind_a_large_payload_one_request_goes_on(peers: list[Peer]) -> None:
    """Payloads up to 100 bytes are wanted, and that of entry 2 has 200. A single eager request asks for what is behind.

    All requests and answers are written by hand. The lazy request names no size, so its answer counts all eight items,
    and nothing is asked twice.
    """
    log = LogBuilder(build_log(1).identity, 7)
    for payload in (b"one", bytes(200), b"three", b"four"):
        log.append(payload)
    m1, m2, m3, m4 = (bytes([entry.size]) + entry.payload_hash + entry.signature for entry in log.entries)
    named = log.identity.public.hex() + "07"
    asked = ["032d00" + named + "0100", "030501" + named + "010000", "0a0502" + named + "64 010000"]

    async def main() -> None:
        near, far = await stream_pair()
        session = peers[0].session(
            near, [key(log)], mirrors=False, live=False, options=FollowOptions(greatest_size=100)
        )
        rogue = Rogue(far)
        task = asyncio.create_task(session.run())
        rogue.send(bytes.fromhex("b00a"))
        said = b"".join(map(bytes.fromhex, asked))
        assert await rogue.reader.readexactly(9 + len(said)) == bytes.fromhex("b0f90400 c0fa100000") + said
        newest = log.entries[3].hash
        rogue.send(bytes.fromhex("90 03 06 00") + newest, bytes.fromhex("e001 90 08 00") + newest)
        data = b"\0" + m1 + b"one" + b"\0" + m2  # Entry 2 has one link, to entry 1, which was just sent.
        rogue.send(bytes.fromhex("e001 80 f9"), len(data).to_bytes(2, "big"), data, b"\xae")
        behind = bytes.fromhex("0a0503" + named + "64 030000")
        said = b""
        while not said.endswith(behind):
            said += await rogue.reader.read(1)
        assert said == bytes.fromhex("d000 d001") + behind
        links = log.entries[2].backlink or b"", log.entries[3].lipmaalink or b""
        data = b"\0" + links[0] + m3 + b"three" + b"\0" + links[1] + m4 + b"four"
        rogue.send(bytes.fromhex("e802 aa e001 aa e002 80 f9"), len(data).to_bytes(2, "big"), data)
        await session.done.wait()
        assert session.stats.missing == session.stats.entries_received == 4
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main)
    assert peers[0].numbers(key(log)) == [1, 3, 4]


@pytest.mark.parametrize(
    ("options", "before", "expected"),
    [
        (FollowOptions(greatest_size=100), 5, [1, 2, 3, 4, 6, 7, 9]),
        (FollowOptions(newest=3), 5, range(3, 10)),
        (FollowOptions(newest=3), 0, range(1, 10)),
    ],
)
def test_news_come_at_once(peers: list[Peer], options: FollowOptions, before: int, expected: Iterable[int]) -> None:
    """Entries 5 and 8 are large. What the peer gets entry by entry comes behind each of them without another poll.

    A peer that holds nothing of the log cannot say where its newest entries begin: the request waits for the first one.
    """
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    for seq in range(1, 10):
        log.append(bytes(200 if seq in (5, 8) else 20))
    bob.store.add(log.items(log.entries[:before]))

    async def main() -> None:
        near, far = await stream_pair()
        sessions = alice.session(near, [key(log)], mirrors=False, options=options), bob.session(far, mirrors=False)
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        await asyncio.sleep(3)  # Of the simulated clock: longer than ``settle_seconds``.
        for known in range(before + 1, 10):
            await bob.on_its_thread(bob.store.add, log.items(log.entries[:known]))
            sessions[1].store_changed()
            await asyncio.sleep(1)
        assert alice.numbers(key(log)) == list(expected)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


@pytest.mark.parametrize("stateless", [False, True])
def test_a_large_payload_that_the_peer_lacks_hides_nothing(peers: list[Peer], *, stateless: bool) -> None:
    """The lazy response stops at such a payload, too, so it says nothing of what the peer has behind it."""
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    for seq in range(1, 13):
        log.append(bytes(200 if seq in (4, 5, 9) else 20))
    bob.store.add((entry, None if entry.seq in (5, 9) else payload) for entry, payload in log.items())
    sync(alice, bob, [key(log)], options=FollowOptions(greatest_size=100), their_stateless=stateless)
    assert alice.numbers(key(log)) == [1, 2, 3, 6, 7, 8, 10, 11, 12]


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        (FollowOptions(greatest_size=100), 13),
        (FollowOptions(least_size=100), 92),
        (FollowOptions(greatest_size=100, newest_first=True), 16),
    ],
)
def test_each_payload_of_an_unwanted_size_costs_one_request(
    peers: list[Peer], options: FollowOptions, requests: int
) -> None:
    """Of 100 entries, 10 have 200 bytes and 90 have 20: the first three requests are those of any log."""
    alice, bob, _ = peers
    log = LogBuilder(build_log(1).identity)
    for seq in range(1, 101):
        log.append(bytes([seq]) * (200 if seq % 10 == 5 else 20))
    bob.store.add(log.items())
    session = sync(alice, bob, [key(log)], options=options)
    assert session.connection.ours.next_id <= requests
    wanted = [seq for seq in range(1, 101) if (seq % 10 == 5) == (options.least_size is not None)]
    assert alice.numbers(key(log)) == wanted
    assert len(list(alice.store.entries(key(log)))) == 100


def test_the_newest_entries_come_without_waiting_for_the_end_of_the_log(peers: list[Peer]) -> None:
    """The newest three of a log of which nothing is held: they are asked for by their distance from the end, at once.

    All requests and answers are written by hand. The log has four entries; one round trip brings 2 to 4 and their path.
    """
    log = build_log(4, log_id=7)
    named = log.identity.public.hex() + "07"

    async def main() -> None:
        near, far = await stream_pair()
        session = peers[0].session(near, [key(log)], mirrors=False, live=False, options=FollowOptions(newest=3))
        rogue = Rogue(far)
        task = asyncio.create_task(session.run())
        rogue.send(bytes.fromhex("b00a"))
        asked = bytes.fromhex(f"032d00 {named} 0100 032d01 {named} 0200 022d02 {named} 0200")
        assert await rogue.reader.readexactly(9 + len(asked)) == bytes.fromhex("b0f90400 c0fa100000") + asked
        newest = log.entries[3].hash
        rogue.send(bytes.fromhex("90 03 06 00") + newest, bytes.fromhex("e001 90 02 07 00") + newest)
        items = [b"\0" + bytes([entry.size]) + entry.payload_hash + entry.signature for entry in log.entries]
        bodies = [b"", *(log.payloads[entry.hash] for entry in log.entries[1:])]
        data = b"".join(item + body for item, body in zip(items, bodies, strict=True))
        rogue.send(bytes.fromhex("e001 80 02 f9"), len(data).to_bytes(2, "big"), data)
        await session.done.wait()
        assert (session.connection.ours.next_id, session.stats.missing) == (3, 4)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main)
    assert peers[0].numbers(key(log)) == [2, 3, 4]


@pytest.mark.parametrize("stateless", [False, True])
def test_a_stateless_session_ends_its_answer(peers: list[Peer], *, stateless: bool) -> None:
    """All of the log of the specification's examples is asked for, and what is new. Stateless, ``ae`` follows the data.

    The request and the answer's head, length and hash are those of the page; 972 bytes are ``f903cc``.
    """
    log = LogBuilder(Identity(bytes(range(32))), 7)
    for payload in (b"one", b"two", b"", b"four", b"5" * 300):
        log.append(payload)
    peers[0].store.add(log.items())
    author = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"

    async def main() -> None:
        near, far = await stream_pair()
        rogue = Rogue(far)
        task = asyncio.create_task(peers[0].session(near, mirrors=False, stateless=stateless).run())
        rogue.send(bytes.fromhex("b00a c0fa0f4240 020500" + author + "07 010000"))
        assert await rogue.reader.readexactly(9) == bytes.fromhex("b0f90400 c0fa100000")
        assert await rogue.reader.readexactly(4) == bytes.fromhex("80f903cc")
        assert blake2b(await rogue.reader.readexactly(972)).hexdigest()[:32] == "1db0c693007c266ad8aac2d546d276a9"
        following = await rogue.reader.readexactly(1)
        assert following == (b"\xae" if stateless else b"\xc0")  # The latter begins a keep-alive: a grant of nothing.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main)


@pytest.mark.slow
def test_a_live_session_polls_a_stateless_peer(peers: list[Peer]) -> None:
    """A stateless peer never brings news by itself: it is asked again every ``interval``, from what is missing on."""
    alice, bob, _ = peers
    log = build_log(12)
    bob.store.add(log.items(log.entries[:10]))

    async def main() -> None:
        near, far = await stream_pair()
        sessions = alice.session(near, [key(log)], mirrors=False), bob.session(far, mirrors=False, stateless=True)
        tasks = [asyncio.create_task(session.run()) for session in sessions]
        await until(lambda: len(alice.numbers(key(log))) == 10)
        await bob.on_its_thread(bob.store.add, log.items())
        sessions[1].store_changed()
        await until(lambda: len(alice.numbers(key(log))) == 12)
        assert sessions[0].stats.entries_received == 12
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def test_curation(peers: list[Peer]) -> None:
    """What the operator's function turns down is not kept."""
    alice, bob, _ = peers
    log = build_log(5)
    bob.store.add(log.items())
    sync(alice, bob, [key(log)], policy=Policy(curate=lambda entry, _: entry.seq != 5))
    assert alice.numbers(key(log)) == [1, 2, 3, 4]


def test_interests_default_to_everything(peers: list[Peer]) -> None:
    """Without interests a log is wanted whole."""
    assert Policy().interest(key(build_log(1))) == EVERYTHING
    assert peers[0].numbers(key(build_log(1))) == []
