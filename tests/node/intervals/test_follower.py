"""What is asked for by intervals in situations that storms have found: plain cases, step by step."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from culm.intervals import Announced
from culm.node.culm.offers import offer_of
from culm.node.interests.missing import EVERYTHING
from culm.ranges import RangeSet, read_range
from culm.testing.builders import LogBuilder, build_log
from tests.node.holdings import a_store, key
from tests.node.quiet import IntervalEnd, talk

if TYPE_CHECKING:
    from culm.store import SQLiteStore


@pytest.mark.parametrize("newest", [3, 4, 5])
def test_a_fork_shows_wherever_the_peer_ends(newest: int) -> None:
    """Two hold different branches, and only one of them asks. It finds out, wherever the branch of the peer ends.

    A peer that does not want the log asks nothing itself. So it is not enough to name our newest entry: the peer may
    hold no entry of that number.
    """
    log = build_log(4)
    other = LogBuilder(log.identity, log.log_id)
    other.entries, other.payloads = log.entries[:1], dict(log.payloads)
    for _ in range(2, newest + 1):
        other.append(b"another branch")
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        near.add(log.items())
        far.add(other.items())
        asks, serves = IntervalEnd(near, EVERYTHING, live=True), IntervalEnd(far, RangeSet(()), live=True)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.follower.add([key(log)])
        talk(asks, serves)
        assert list(near.fork_proofs(key(log)))


def test_the_beginning_of_a_log_that_is_known_by_its_fork_only() -> None:
    """Of a log whose fork at 3 is all that is held, a path to the newest entry is wanted: entries 1 and 2 come.

    The peer's newest payload lies on a branch, so that it answers the question for that with the proof, and with
    nothing else.
    """
    log = build_log(5)
    fork = (log.make(3, b"another"), b"another")
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        near.add([log.items()[2], fork])
        far.add([*log.items(), fork])
        asks, serves = (
            IntervalEnd(near, RangeSet([read_range("1.. sparse")]), live=True),
            IntervalEnd(far, EVERYTHING, live=True),
        )
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.follower.add([key(log)])
        talk(asks, serves)
        assert [1, 2] == [stored.entry.seq for stored in near.entries(key(log))]


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_gap_of_the_peer_hides_nothing_behind_an_entry_that_came_otherwise(when: str) -> None:
    """The peer lacks the payloads of 3 and 9. Once entry 6 is there from elsewhere, 7 to 9 are asked for on their own.

    A request that waits at 3 covers 7 to 9, too, but would bring them only when the peer has that payload.
    """
    log = build_log(12)
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        near.add(log.items(log.entries[:2]))
        far.add((entry, None if entry.seq in (3, 9) else payload) for entry, payload in log.items())
        asks, serves = IntervalEnd(near, EVERYTHING, live=True), IntervalEnd(far, EVERYTHING, live=True)
        stack.callback(asks.close)
        stack.callback(serves.close)

        def comes_from_elsewhere() -> None:
            near.add(log.items(log.entries[3:6]))
            asks.arriving.changed.add(key(log))

        if when == "before":
            comes_from_elsewhere()
        asks.follower.add([key(log)])
        if when == "during":
            serves.hear(asks.say())
            comes_from_elsewhere()
        talk(asks, serves)
        if when == "after":
            comes_from_elsewhere()
        talk(asks, serves)
        held = {stored.entry.seq: stored.payload_complete for stored in near.entries(key(log))}
        assert held == {seq: seq not in (3, 9) for seq in range(1, 13)}

        far.add([log.items()[2], log.items()[8]])  # the requests that wait for these are still open
        serves.arriving.changed.add(key(log))
        talk(asks, serves)
        assert all(stored.payload_complete for stored in near.entries(key(log)))
        assert max(asks.arriving.payloads.values()) == 1


def test_an_open_path_follows_a_log_that_grows_from_one_entry() -> None:
    """A live session that wants the path from the newest entry down to 2 gets entry 2, once the peer has it.

    Both have told each other of entry 1. So the peer confirms that entry first, and announces what follows after it.
    """
    log = build_log(2)
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        near.add(log.items(log.entries[:1]))
        far.add(log.items(log.entries[:1]))
        path = RangeSet([read_range("2.. sparse")])
        asks, serves = IntervalEnd(near, path, live=True), IntervalEnd(far, EVERYTHING, live=True)
        stack.callback(asks.close)
        stack.callback(serves.close)
        for side in (asks, serves):
            side.follower.add([key(log)])
        talk(asks, serves)
        far.add(log.items(log.entries[1:]))
        serves.arriving.changed.add(key(log))
        asks.follower.poll()
        talk(asks, serves)
        assert [1, 2] == [stored.entry.seq for stored in near.entries(key(log))]


@pytest.mark.parametrize("kept", [(1, 2), (1,)], ids=["with payloads", "of entries only"])
@pytest.mark.parametrize("asking", ["few", "many"])
def test_a_fork_shows_between_parts_without_a_common_newest_entry(asking: str, kept: tuple[int, ...]) -> None:
    """One holds 1 and 4 of a branch, without payloads, the other one 1 and 2 of another: they differ at entry 1.

    Neither holds an entry of the other's newest number. The paths down from there have entry 1 in common.
    """
    log, other = build_log(4), build_log(2, payload_size=9)
    with ExitStack() as stack:
        few, many = (stack.enter_context(a_store()) for _ in range(2))
        few.add((log.entries[seq - 1], None) for seq in (1, 4))
        many.add((entry, payload if len(kept) > 1 else None) for entry, payload in other.items())
        sides = {"few": few, "many": many}
        near = sides.pop(asking)
        (far,) = sides.values()
        interest = EVERYTHING if asking == "many" else RangeSet([read_range("8..11 sparse")])
        asks, serves = IntervalEnd(near, interest, live=True), IntervalEnd(far, RangeSet(()), live=True)
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.follower.add([key(log)])
        talk(asks, serves)
        asks.follower.settle()  # A peer without any payload does not say which is its newest.
        talk(asks, serves)
        assert list(near.fork_proofs(key(log)))


def offered(stack: ExitStack, log: LogBuilder) -> tuple[IntervalEnd, IntervalEnd, SQLiteStore]:
    """A side that asks for a log that the other one has offered whole, and the other one's store."""
    near, far = (stack.enter_context(a_store()) for _ in range(2))
    far.add(log.items())
    asks, serves = IntervalEnd(near, EVERYTHING), IntervalEnd(far, EVERYTHING)
    stack.callback(asks.close)
    stack.callback(serves.close)
    held = offer_of(far, key(log)).held
    asks.follower.add_offered(key(log), held, held)
    return asks, serves, far


def test_an_offered_log_takes_one_request() -> None:
    """The peer has said that it holds all of a log, so it is not asked how much it has."""
    log = build_log(5)
    with ExitStack() as stack:
        asks, serves, _ = offered(stack, log)
        talk(asks, serves)
        assert asks.is_done
        assert [False] == [request.lazy for request in serves.requested]
        assert 5 == sum(asks.arriving.payloads.values())


def test_an_offer_that_holds_no_more() -> None:
    """A payload that was offered is gone when it is asked for. Once the peer is quiet, the rest comes all the same."""
    log = build_log(12)
    with ExitStack() as stack:
        asks, serves, far = offered(stack, log)
        far.forget(log.entries[4].place)
        talk(asks, serves)
        assert not asks.is_done
        for _ in range(3):
            asks.follower.settle()
            talk(asks, serves)
        assert asks.is_done
        assert {*range(1, 13)} - {5} == {seq for _, seq in asks.arriving.payloads}


def test_silence_in_the_middle_of_a_payload() -> None:
    """A peer that stops in the middle of a payload has more to say, however long it is silent."""
    log = build_log(3, payload_size=100_000)
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        far.add(log.items())
        asks, serves = IntervalEnd(near, EVERYTHING), IntervalEnd(far, RangeSet(()))
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.follower.add([key(log)])
        while len(said := serves.say()) < 50_000:
            asks.hear(said)
            serves.hear(asks.say())
        asks.hear(said[:50_000])
        asks.follower.settle()
        asks.say()
        assert not asks.is_done
        asks.hear(said[50_000:])
        talk(asks, serves)
        assert asks.is_done
        assert {1, 2, 3} == {seq for _, seq in asks.arriving.payloads}


def test_a_peer_that_is_only_slow() -> None:
    """A peer that has said of one log that it has nothing more is only slow when it does not answer of others.

    Of the first log all is held, so that the peer answers emptily. Then it is silent for long, and goes on.
    """
    whole, lacking = build_log(3, seed=1), build_log(3, seed=2)
    with ExitStack() as stack:
        near, far = (stack.enter_context(a_store()) for _ in range(2))
        near.add(whole.items())
        far.add([*whole.items(), *lacking.items()])
        asks, serves = IntervalEnd(near, EVERYTHING), IntervalEnd(far, RangeSet(()))
        stack.callback(asks.close)
        stack.callback(serves.close)
        asks.follower.add([key(whole)])
        talk(asks, serves)
        asks.follower.add([key(lacking)])
        asked = asks.say()
        for _ in range(3):
            asks.follower.settle()
            asked += asks.say()
        assert not asks.is_done
        serves.hear(asked)
        talk(asks, serves)
        assert asks.is_done
        assert {1, 2, 3} == {seq for log, seq in asks.arriving.payloads if log == key(lacking)}


def test_a_part_of_a_payload_is_no_empty_answer() -> None:
    """A peer that announces only a part of a payload has not shown that it answers where it has nothing."""
    with ExitStack() as stack:
        asks, serves = (IntervalEnd(stack.enter_context(a_store()), EVERYTHING) for _ in range(2))
        stack.callback(asks.close)
        stack.callback(serves.close)
        talk(asks, serves)  # So that requests may be sent.
        asks.follower.add([key(build_log(1, seed=1)), key(build_log(1, seed=2))])
        asks.say()
        lazy = next(at for at, ours in asks.connection.ours.requests.items() if ours.lazy)
        asks.follower.handle(Announced(lazy, 0, 7, 1))
        for _ in range(3):
            asks.follower.settle()
            asks.say()
        assert asks.is_done
