"""Two endpoints: forks, confirmations, unverified responses, filters, credit, fairness, stateless peers.

Specification: docs/specs/intervals.md, "Verified and unverified responses", "Sizes", "Expected hashes",
"Fork proofs in responses", "Partial fork proofs", "Confirmations", "Stateless responders", "Credit",
"Fairness and bounds".
"""

from __future__ import annotations

from typing import Any

import pytest

from culm.bamboo import Entry, ForkProof, Identity, yamf_hash
from culm.errors import LocalProtocolError
from culm.intervals import (
    Announced,
    At,
    Doubted,
    Ended,
    EntryDropped,
    Forks,
    FromGreatest,
    Limits,
    MetadataOnly,
    PayloadFailed,
    PayloadReceived,
    Reason,
    Regular,
    Request,
    RequestEnded,
    Single,
)
from culm.intervals.codec import push_message
from culm.intervals.exchanged import Exchanged
from culm.intervals.messages import Activate, End, RequestCredit
from culm.intervals.proofs import doubtful, partial_proof
from culm.testing.builders import LogBuilder, build_log
from tests.intervals.pair import Pair, Side
from tests.memory import Held, MemoryStore

EVERYTHING = Regular(At(1, 0), FromGreatest(0))


def key(log: LogBuilder) -> tuple[bytes, int]:
    """Author and id."""
    return log.identity.public, log.log_id


def holders(log: LogBuilder, *, a: int = 0, b: int = 0, **sides: Any) -> Pair:
    """Two sides with the first so many entries of a log."""
    pair = Pair(sides.get("left"), sides.get("right"))
    pair.a.put_log(log, range(1, a + 1), range(1, a + 1))
    pair.b.put_log(log, range(1, b + 1), range(1, b + 1))
    return pair


# -- forks ----------------------------------------------------------------------------------------------------------


def forked(log: LogBuilder, position: int, *sides: Side) -> Entry:
    """Sides learn of another entry of a number; that entry."""
    other = log.make(position, b"another branch")
    for side in sides:
        side.store.looks_for_forks = True
        side.put(other, b"another branch")
    return other


def only(pair: Pair) -> Ended:
    """The one response that ended."""
    (event,) = pair.a.ended()
    return event


def test_a_fork_is_proved_at_once() -> None:
    """By default a fork proof ends a response before anything else of it is sent."""
    log = build_log(8)
    pair = holders(log, b=8)
    other = forked(log, 5, pair.b)
    pair.a.connection.request(*key(log), EVERYTHING)
    pair.settle()
    assert only(pair).reason is Reason.FULL_PROOF
    assert {other, log.entries[4]} == set(only(pair).proof)
    assert pair.a.items == []


@pytest.mark.parametrize(("start", "lazy", "items"), [(1, False, 8), (1, True, 8), (5, False, 0), (6, False, 0)])
def test_local_forks(start: int, lazy: bool, items: int) -> None:
    """With local forks everything before the fork is sent, or announced, and then the proof."""
    log = build_log(8)
    pair = holders(log, b=8)
    forked(log, 5, pair.b)
    pair.a.connection.request(*key(log), Regular(At(start, 0), FromGreatest(0)), forks=Forks.LOCAL, lazy=lazy)
    pair.settle()
    if start <= 5:
        assert only(pair).reason is Reason.FULL_PROOF
    announced = sum(event.items for event in pair.a.events if isinstance(event, Announced))
    assert items == (announced if lazy else len(pair.a.items))


@pytest.mark.parametrize(("seq", "expected"), [(3, [3, 2, 1]), (4, [4, 1]), (5, [])])
def test_down_from_below_a_fork(seq: int, expected: list[int]) -> None:
    """With local forks, what goes down from below a fork never comes to it: it is sent, and no proof."""
    log = build_log(8)
    pair = holders(log, b=8)
    forked(log, 5, pair.b)
    pair.a.connection.request(*key(log), MetadataOnly(seq, ascending=False), forks=Forks.LOCAL)
    pair.settle()
    assert only(pair).reason is (None if expected else Reason.FULL_PROOF)
    assert [("m", number) for number in expected] == pair.a.items


def test_anchors() -> None:
    """A proof is sent only if the fork is beyond the anchor, and on a path from it."""
    log = build_log(8)
    for seq, value, reason in (
        (4, log.entries[3].hash, Reason.FULL_PROOF),
        (4, log.entries[2].hash, Reason.OTHER),  # an entry that we do not hold, so no branch is trusted
        (6, log.entries[5].hash, None),  # beyond the fork: the branch of the anchor comes
    ):
        pair = holders(log, b=8)
        forked(log, 5, pair.b)
        pair.a.connection.request(*key(log), EVERYTHING, forks=Forks.LOCAL, anchor=(seq, value))
        pair.settle()
        assert [reason] * (reason is not None) == [event.reason for event in pair.a.ended()]


def test_a_fork_shows_without_news() -> None:
    """An expected hash that is not ours is answered with our entry, though there is nothing new on either side."""
    log = build_log(5)
    pair = holders(log, a=5, b=4)
    other = log.make(5, b"another branch")
    pair.b.put(other, b"another branch")
    pair.a.connection.request(*key(log), MetadataOnly(5, ascending=False, dist=0, own=log.entries[4].hash), lazy=True)
    pair.settle()
    assert only(pair).reason is Reason.PARTIAL_PROOF
    assert (other,) == only(pair).proof
    assert ForkProof.of(other, log.entries[4]) is not None
    doubts = [event.doubted for event in pair.b.events if isinstance(event, RequestEnded)]
    assert doubts == [5]


def test_a_partial_proof_by_a_link() -> None:
    """Whoever holds only what links to the expected entry proves the fork with that."""
    log = build_log(5)
    branch = LogBuilder(log.identity, log.log_id)
    for seq in range(1, 6):
        branch.append(log.payloads[log.entries[seq - 1].hash] if seq < 4 else b"branch")
    pair = holders(log, a=4)
    pair.b.put(branch.entries[4], b"branch")
    pair.a.connection.request(*key(log), MetadataOnly(4, ascending=False, dist=0, own=log.entries[3].hash), lazy=True)
    pair.settle()
    assert (branch.entries[4],) == only(pair).proof


def test_hashes_that_fall_together() -> None:
    """Two different hashes that turn out to be of one number, once the start is resolved, end the response."""
    log = build_log(5)
    pair = holders(log, b=5)
    end = At(5, 0, outer=log.entries[0].hash, own=log.entries[4].hash)
    request = Request(0, *key(log), Regular(FromGreatest(2), end))
    list(pair.b.connection.receive_data(push_message(request), 0.0))
    list(pair.b.connection.receive_data(b"\xb0\x00", 0.0))
    pair.b.connection.respond(1000)
    assert pair.b.connection.data_to_send().endswith(b"\xae")


def test_end_of_log() -> None:
    """After the entry that ends a log the response ends, too: nothing can follow."""
    log = LogBuilder(build_log(1).identity)
    log.append(b"first")
    log.append(b"last", is_end=True)
    pair = holders(log, b=2)
    pair.a.connection.request(*key(log), EVERYTHING)
    pair.settle()
    assert only(pair).reason is Reason.OTHER
    assert len(pair.a.items) == 4


# -- confirmations --------------------------------------------------------------------------------------------------


def test_no_echo() -> None:
    """What came from the requester is confirmed to it, not sent back; both go on from there."""
    log = build_log(12)
    pair = holders(log, a=10, b=10)
    requests = [side.connection.request(*key(log), Regular(At(11, 0), FromGreatest(0))) for side in (pair.a, pair.b)]
    pair.settle()
    entry = log.entries[10]
    pair.a.put(entry, log.payloads[entry.hash])
    pair.settle()
    assert pair.b.items == [("m", 11), ("p", 11)]
    assert pair.a.items == []
    assert [(event.items, event.seq) for event in pair.a.drain() if isinstance(event, Announced)] == [(2, 11)]
    assert (
        pair.a.connection.ours.requests[requests[0]].position == pair.b.connection.ours.requests[requests[1]].position
    )
    entry = log.entries[11]
    pair.b.put(entry, log.payloads[entry.hash])
    pair.settle()
    assert pair.a.items == [("m", 12), ("p", 12)]


@pytest.mark.parametrize("came", ["the entry", "the entry and its payload"])
def test_another_entry_is_not_confirmed(came: str) -> None:
    """An entry of ours came, but the peer then got another one of that number: that one is sent, with its payload."""
    log = build_log(9)
    pair = holders(log, a=9, b=9)
    ours = log.make(10, b"ours")
    pair.a.put(ours, b"ours")
    is_alone = came == "the entry"
    interval = MetadataOnly(10, ascending=True, dist=0) if is_alone else Regular(At(10, 0), FromGreatest(0))
    pair.b.connection.request(*key(log), interval)
    pair.settle()
    assert ("m", 10) in pair.b.items
    pair.b.store = pair.b.connection.theirs.source = MemoryStore()
    pair.b.put_log(log, range(1, 10), range(1, 10))
    theirs = log.make(10, b"another branch, with a longer payload")
    pair.b.put(theirs, b"another branch, with a longer payload")
    pair.a.connection.request(*key(log), Regular(At(10, 0), At(10, 0)))
    pair.settle()
    assert [("m", 10), ("p", 10)] == pair.a.items


def test_a_confirmation_of_another_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer confirms what we sent with the hash of another entry, from somebody else: it is asked for that one."""
    monkeypatch.setattr(Exchanged, "is_from_peer", lambda *_: True)
    log = build_log(5)
    pair = holders(log, a=5)
    pair.b.connection.request(*key(log), EVERYTHING)
    pair.settle()
    other = log.make(5, b"another branch")
    pair.b.store = pair.b.connection.theirs.source = MemoryStore()
    pair.b.put_log(log, range(1, 5), range(1, 5))
    pair.b.put(other, b"another branch")
    pair.a.connection.request(*key(log), EVERYTHING)
    pair.settle()
    assert [Doubted(key(log), 5)] == [event for event in pair.a.events if isinstance(event, Doubted)]
    pair.a.connection.request(*key(log), MetadataOnly(5, ascending=True, dist=0, own=log.entries[4].hash))
    pair.settle()
    assert (other,) == only(pair).proof


def test_announcements_are_mirrored() -> None:
    """Both announce lazily: what one heard of from the other it does not wait for."""
    log = build_log(11)
    pair = holders(log, a=10, b=10)
    for side in (pair.a, pair.b):
        side.connection.request(*key(log), Regular(At(11, 0), FromGreatest(0)), lazy=True)
    pair.settle()
    pair.a.drain()
    pair.b.drain()
    entry = log.entries[10]
    pair.a.put(entry, log.payloads[entry.hash])
    pair.settle()
    assert [event.items for event in pair.b.drain() if isinstance(event, Announced)] == [2]
    pair.b.connection.wake([key(log)])
    pair.settle()
    assert [event.items for event in pair.a.drain() if isinstance(event, Announced)] in ([2], [])


# -- what is not verified -------------------------------------------------------------------------------------------


def test_unverified_prefixes() -> None:
    """An unverified response brings the beginning of a payload, and the rest when it comes."""
    log = build_log(1, payload_size=300)
    (entry,) = log.entries
    pair = Pair()
    pair.b.put(entry, log.payloads[entry.hash][:100])
    pair.a.connection.request(*key(log), Single(1, 0, 0), verified=False)
    pair.settle()
    assert [len(event.data) for event in pair.a.drain() if isinstance(event, PayloadReceived)] == [100]
    pair.b.put(entry, log.payloads[entry.hash])
    pair.settle()
    assert pair.a.items == [("m", 1), ("p", 1)]


@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("size", [0, 300])
def test_a_wrong_payload(verified: bool, size: int) -> None:
    """A payload that is not the entry's is reported, and the response goes on (D19, D20): a disk may be damaged."""
    log = LogBuilder(build_log(1).identity)
    first = log.make(1, b"x" * 300, size=size)
    log.entries.append(first)
    second = log.append(b"second")
    pair = holders(log, b=0)
    pair.b.put(first, bytes(size))
    pair.b.put(second, b"second")
    pair.a.connection.request(*key(log), EVERYTHING, verified=verified)
    pair.settle()
    assert PayloadFailed(0, first) in pair.a.events
    assert pair.a.items[-1] == ("p", 2)


@pytest.mark.parametrize("is_right", [True, False])
def test_a_large_payload_is_compared_by_who_stores_it(is_right: bool) -> None:
    """Who takes events together gets the end of a payload of more than a mebibyte with its hash, and waits for that."""
    log = LogBuilder(build_log(1).identity)
    payload = bytes(1 << 20) + b"end"
    log.append(payload)
    for together in (True, False):
        pair = holders(log, b=1, left=Side(together=together))
        if not is_right:
            pair.b.put(log.entries[0], payload[:-1] + b"X")
        pair.a.connection.request(*key(log), EVERYTHING)
        pair.settle()
        found = [event for event in pair.a.events if isinstance(event, PayloadReceived) and event.complete]
        hashes = [event.hasher.hash for event in found if event.hasher is not None]
        if together:
            assert [False] == [event.checked for event in found]
            assert [is_right] == [value == log.entries[0].payload_hash for value in hashes]
        else:
            assert [True] * is_right == [event.checked for event in found]
            assert [] == hashes


def test_bad_signature_without_verification() -> None:
    """An entry of a bad signature is dropped with its payload and with those that link to it; the response goes on."""
    log = build_log(2, payload_size=300)
    pair = holders(log, b=2)
    entry = log.entries[0]
    forged = Entry.decode(entry.encoded[:-1] + bytes([entry.encoded[-1] ^ 1]))
    pair.b.store.entries[key(log), 1] = [forged]
    pair.b.store.bytes[forged.hash] = log.payloads[entry.hash]
    pair.a.connection.request(*key(log), EVERYTHING, verified=False)
    pair.settle()
    assert [EntryDropped(0, 1), EntryDropped(0, 2)] == pair.a.drain()
    assert pair.a.items == []
    pair.a.connection.ours.cancel(0)
    pair.settle()
    assert only(pair).index == 4


def test_a_resumed_payload_is_checked() -> None:
    """A payload that goes on at an offset is checked as a whole; a wrong beginning is nobody's fault here."""
    from culm.bamboo import PayloadHasher

    log = build_log(1, payload_size=300)
    entry, payload = log.entries[0], log.payloads[log.entries[0].hash]
    for beginning, good in ((payload[:100], True), (bytes(100), False)):
        pair = holders(log, b=1)
        hasher = PayloadHasher()
        hasher.update(beginning)
        pair.a.put(entry, beginning)
        pair.a.connection.request(*key(log), Single(1, 0, 0), payload_offset=100, begun=(entry, hasher))
        pair.settle()
        failed = [event for event in pair.a.events if isinstance(event, PayloadFailed)]
        assert good == (not failed)
        assert only(pair).reason is None


# -- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True])
def test_payloads_that_are_not_wanted(lazy: bool) -> None:
    """A response ends right before a payload of a size that is not wanted, since it never will be."""
    log = LogBuilder(build_log(1).identity)
    for size in (10, 20, 500, 10):
        log.append(bytes(size))
    pair = holders(log, b=4)
    pair.a.connection.request(*key(log), EVERYTHING, greatest_size=100, lazy=lazy)
    pair.settle()
    assert only(pair).reason is Reason.OTHER
    assert (only(pair).next_seq, only(pair).index) == (3, 5)  # five items passed, so the next is the payload
    if not lazy:
        assert pair.a.items[-1] == ("m", 3)


def test_empty_payloads() -> None:
    """Payloads without a byte pass with their entries, and where nothing else follows, alone."""
    log = LogBuilder(build_log(1).identity)
    for size in (0, 5, 0):
        log.append(bytes(size))
    pair = holders(log, b=3)
    pair.a.connection.request(*key(log), Regular(At(1, 0), At(3, 0)))
    pair.settle()
    assert only(pair).reason is None
    assert len(pair.a.items) == 6
    pair.a.drain()
    pair.a.connection.request(*key(log), Single(3, 0, 0), payload_offset=0)
    pair.settle()
    assert only(pair).reason is None


def test_an_offset_beyond_the_payload() -> None:
    """An offset beyond the payload's end cannot be satisfied: the response ends."""
    log = build_log(1, payload_size=10)
    pair = holders(log, a=1, b=1)
    pair.a.connection.request(*key(log), Single(1, 0, 0), payload_offset=11)
    pair.settle()
    assert only(pair).reason is Reason.OTHER


@pytest.mark.parametrize("offset", [0, 5])
def test_the_payload_of_a_named_entry(offset: int) -> None:
    """A peer that goes along the branch of an anchor sends no payload if the named entry is of the other branch."""
    one, two = (LogBuilder(Identity(bytes(32))) for _ in range(2))
    for seq in range(1, 7):
        one.append(b"the same" if seq < 3 else b"one, and longer")
        two.append(b"the same" if seq < 3 else b"of two")
    pair = Pair(Side(), Side())
    for side, log in ((pair.a, two), (pair.b, one), (pair.b, two)):
        side.store.looks_for_forks = True
        side.put_log(log, range(1, 7), range(1, 7))
    start = At(6, 0, own=two.entries[5].hash)
    anchor = 4, one.entries[3].hash
    interval = Regular(start, FromGreatest(0))
    pair.a.connection.request(*key(one), interval, forks=Forks.LOCAL, anchor=anchor, payload_offset=offset)
    pair.settle()
    assert only(pair).reason is Reason.OTHER
    assert not any(isinstance(event, PayloadReceived | PayloadFailed) for event in pair.a.events)


@pytest.mark.parametrize(("own", "held"), [(None, 0), (yamf_hash(b""), 0), (yamf_hash(b""), 2)])
def test_the_payload_of_an_entry_that_is_not_held(own: bytes | None, held: int) -> None:
    """A request that begins with a payload is refused at once if no entry could tell where the payload ends."""
    log = build_log(2)
    pair = holders(log, a=held, b=2)
    with pytest.raises(LocalProtocolError, match="payload of entry 2"):
        pair.a.connection.request(*key(log), Regular(At(2, 0, own=own), FromGreatest(0)), payload_offset=0)
    assert not pair.a.connection.data_to_send()
    assert pair.a.connection.request(*key(log), EVERYTHING) == 0


# -- credit and fairness --------------------------------------------------------------------------------------------


def test_data_waits_for_credit() -> None:
    """No more data is sent than there is credit for, and requests wait for theirs."""
    log = build_log(3, payload_size=300)
    right = Side(limits=Limits(requests=1))
    left = Side(limits=Limits(window=100))
    pair = holders(log, b=3, left=left, right=right)
    assert pair.a.connection.ours.credit == 1
    pair.a.connection.request(*key(log), Regular(At(1, 0), At(3, 0)))
    pair.step(pair.a, pair.b)
    pair.b.connection.respond(1 << 20)
    assert pair.b.connection.theirs.data_credit == 0
    assert len(pair.b.connection.data_to_send()) < 120


def test_no_more_requests_are_open_than_we_may_hold() -> None:
    """A peer that grants 2^60 requests does not make us open more than our own limit; one that ends makes room."""
    left = Side(limits=Limits(asked=3))
    left.take(push_message(RequestCredit(1 << 60)))
    numbers = [left.connection.request(bytes(32), log_id, EVERYTHING) for log_id in range(3)]
    with pytest.raises(LocalProtocolError, match="no credit"):
        left.connection.request(bytes(32), 3, EVERYTHING)
    left.take(push_message(Activate(numbers[1])) + push_message(End(Reason.OTHER, grants=True)))
    left.connection.request(bytes(32), 3, EVERYTHING)
    assert left.connection.ours.credit == 0


def test_small_responses_overtake_large_payloads() -> None:
    """A response of one small entry comes in between the chunks of a large payload."""
    large, small = build_log(1, payload_size=3_000_000), build_log(1, seed=2)
    pair = holders(large, b=1)
    pair.b.put_log(small, [1], [1])
    pair.a.connection.request(*key(large), Single(1, 0, 0))
    pair.a.connection.request(*key(small), Single(1, 0, 0))
    pair.step(pair.a, pair.b)
    received = 0
    while ("p", 1) not in pair.a.items:
        pair.step(pair.b, pair.a)
        pair.step(pair.a, pair.b)
        received = sum(len(event.data) for event in pair.a.events if isinstance(event, PayloadReceived))
    assert received < 1_500_000


@pytest.mark.slow
def test_the_window_grows_until_news_come() -> None:
    """The window is 1 MiB at first, 4 MiB while one payload comes alone, and short once news came beside it."""
    large, news = build_log(1, payload_size=50_000_000), build_log(2, seed=2)
    pair = holders(large, b=1)
    windows = [pair.a.connection.ours.window]
    for log, interval in ((large, Single(1, 0, 0)), (news, EVERYTHING)):
        pair.a.connection.request(*key(log), interval)

    def transfer(bytes_in_all: int) -> None:
        while sum(len(event.data) for event in pair.a.events if isinstance(event, PayloadReceived)) < bytes_in_all:
            pair.step(pair.a, pair.b)
            pair.step(pair.b, pair.a)
            windows.append(pair.a.connection.ours.window)

    transfer(40_000_000)
    assert (windows[0], max(windows)) == (1 << 20, 4 << 20)
    for seq in (1, 2):
        pair.b.put_log(news, [seq], [seq])
        pair.step(pair.b, pair.a)
    transfer(44_000_000)
    windows.clear()
    transfer(45_000_000)
    assert max(windows) < 1 << 20
    pair.settle()
    assert {("p", 1), ("m", 2), ("p", 2)} <= set(pair.a.items)


@pytest.mark.slow
def test_a_payload_beside_another_is_no_news() -> None:
    """Two large payloads that come in turns do not make the window short."""
    logs = [build_log(1, payload_size=12_000_000, seed=seed) for seed in (1, 2)]
    pair = holders(logs[0], b=1)
    pair.b.put_log(logs[1], [1], [1])
    for log in logs:
        pair.a.connection.request(*key(log), Single(1, 0, 0))
    windows = [pair.a.connection.ours.window]
    while len(pair.a.ended()) < len(logs):
        pair.step(pair.a, pair.b)
        pair.step(pair.b, pair.a)
        windows.append(pair.a.connection.ours.window)
    assert max(windows) > 3 << 20


class Asked(MemoryStore):
    """Counts how often it is asked what it holds of a log."""

    times = 0

    def held(self, log: tuple[bytes, int]) -> Held:
        """What is held of a log."""
        self.times += 1
        return super().held(log)


def test_the_middle_of_a_payload_asks_nothing() -> None:
    """Chunks of a payload follow each other without planning, a mebibyte at a time, until the log changes."""
    log, side = build_log(1, payload_size=3_000_000), Side()
    side.store = side.connection.theirs.source = store = Asked()
    pair = holders(log, b=1, left=Side(limits=Limits(window=512 * 1024)), right=side)
    pair.a.connection.request(*key(log), Single(1, 0, 0))
    pair.step(pair.a, pair.b)
    pair.step(pair.b, pair.a)
    store.times = 0
    pair.step(pair.a, pair.b)
    pair.step(pair.b, pair.a)
    assert store.times == 0
    pair.b.connection.wake([key(log)])
    pair.step(pair.a, pair.b)
    pair.step(pair.b, pair.a)
    assert store.times > 0
    pair.settle()
    assert pair.a.items == [("m", 1), ("p", 1)]
    assert store.times <= 8


def test_many_paused_requests_cost_nothing() -> None:
    """Requests that wait are not looked at until their log changes."""
    pair = Pair()
    logs = [build_log(1, seed=seed) for seed in range(2, 60)]
    for log in logs:
        pair.a.connection.request(*key(log), EVERYTHING)
    pair.settle()
    assert len(pair.b.connection.theirs.turns) == 0
    pair.b.put_log(logs[3], [1], [1])
    assert len(pair.b.connection.theirs.turns) == 1
    pair.settle()
    assert pair.a.items == [("m", 1), ("p", 1)]


def test_stateless_peers_poll() -> None:
    """A stateless responder ends where it has no more; asked again it goes on. It needs no confirmations."""
    log = build_log(4)
    pair = holders(log, b=2, right=Side(stateless=True))
    pair.a.connection.request(*key(log), EVERYTHING)
    pair.settle()
    assert only(pair).reason is Reason.OTHER
    assert only(pair).next_seq == 3
    pair.b.put_log(log, [3, 4], [3, 4])
    pair.a.connection.request(*key(log), Regular(At(3, 0), FromGreatest(0)))
    pair.settle()
    assert len(pair.a.items) == 8


@pytest.mark.slow
def test_a_long_response_keeps_little() -> None:
    """What is remembered of a response does not grow with it."""
    log = build_log(3000, payload_size=0)
    pair = holders(log, b=3000)
    request_id = pair.a.connection.request(*key(log), EVERYTHING)
    pair.settle()
    ours = pair.a.connection.ours.requests[request_id]
    assert len(pair.a.items) == 6000
    assert 0 < len(ours.agreement) < 1200


def test_refusing() -> None:
    """A request can be refused, and another one be made then."""
    log = build_log(1)
    pair = holders(log)
    request_id = pair.a.connection.request(*key(log), EVERYTHING)
    pair.settle()
    pair.b.connection.theirs.refuse(request_id)
    pair.b.connection.theirs.refuse(request_id)
    pair.settle()
    assert only(pair).reason is Reason.OTHER
    assert pair.a.connection.ours.credit == pair.b.connection.limits.requests


def test_an_entry_that_comes_while_hashes_are_compared() -> None:
    """A hash that was doubted is no reason for a proof if the right entry was stored a moment before it is made."""
    log = build_log(5)
    store = MemoryStore()
    for entry in log.entries[:4]:
        store.put(entry)
    expected = {5: log.entries[4].hash}
    assert doubtful(key(log), expected, store, store.held(key(log))) == expected
    store.put(log.entries[4])

    assert partial_proof(key(log), expected, store, store.held(key(log))) is None
    other = log.make(5, b"another")
    assert partial_proof(key(log), {5: other.hash}, store, store.held(key(log))) == (log.entries[4], 5, 5)
