"""What is asked for by intervals in situations that storms have found: plain cases, step by step."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from culm.node.interests.missing import EVERYTHING
from culm.ranges import RangeSet
from culm.testing.builders import LogBuilder, build_log
from tests.node.holdings import a_store, key
from tests.node.quiet import IntervalEnd, talk


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
