"""Two nodes over a stream: what arrives, what does not, and when it is over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import certificate_pool
from culm.bushbaby import (
    Dialect,
)
from culm.errors import ConfigError
from culm.node.bushbaby.ledger import Ledger
from culm.node.interests.missing import EVERYTHING, wanted
from culm.node.interests.policy import Policy
from culm.node.sessions.session import Context
from culm.node.sessions.stats import REFUSALS_KEPT, PeerRefused, SessionStats
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import StoreWorker
from culm.ranges import RangeSet, read_range
from culm.testing import build_log
from tests.node.links import CONFIG, Party, run, stream_pair, sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from culm.types import Log


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


def test_a_first_contact_loses_no_second(parties: list[Party]) -> None:
    """Both listen first for the other's dialect; who was called gives in after a quarter of a second."""

    async def seconds() -> float:
        began = asyncio.get_running_loop().time()
        await sync(parties[0], parties[1])
        return asyncio.get_running_loop().time() - began

    assert run(seconds) < 0.5


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


def test_what_is_unfinished_is_asked_on_the_stores_thread(
    parties: list[Party], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's thread begins and ends requests, so it alone looks through them when a peer is quiet."""
    bob = parties[1]
    seen: list[str] = []
    run_there, unfinished = StoreWorker.run, Ledger.unfinished

    async def noting(self: StoreWorker, function: Any, *arguments: Any) -> Any:
        if getattr(function, "__name__", "") == "unfinished":
            seen.append("sent there")
        return await run_there(self, function, *arguments)

    def called(self: Ledger) -> list[Log]:
        seen.append("called")
        return unfinished(self)

    called.__name__ = "unfinished"
    monkeypatch.setattr(StoreWorker, "run", noting)
    monkeypatch.setattr(Ledger, "unfinished", called)

    async def settle() -> None:
        near, _ = await stream_pair()
        await (await bob.session(near, called=True)).settle()

    run(settle)
    assert seen == ["sent there", "called"]


def test_without_an_identity(parties: list[Party]) -> None:
    """A protocol that proves identities cannot begin without one, and says so."""
    party = parties[0]
    context = Context(None, CONFIG, party.worker, StoreSource(party.view, CONFIG.policy))
    with pytest.raises(ConfigError, match="identities"):
        context.needed_identity()


def test_forks_that_are_remembered_are_bounded() -> None:
    """Of a hundred forked logs a session remembers where, also when a fork turns out to be lower; of no more."""
    stats = SessionStats()
    logs = [(bytes([number]) * 32, 1) for number in range(REFUSALS_KEPT + 1)]
    for log in logs:
        stats.note_fork(log, 9)
    stats.note_fork(logs[0], 5)
    stats.note_fork(logs[0], 7)
    assert stats.forked == {logs[0]: 5, **dict.fromkeys(logs[1:-1], 9)}
