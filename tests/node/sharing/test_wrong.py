"""What is remembered of payloads that peers sent wrong."""

from __future__ import annotations

import pytest

from culm.node.sharing.wrong import WrongPayloads
from culm.ranges import Range, RangeSet

LOG = bytes(32), 1
EVERYTHING = RangeSet([Range(1)])


@pytest.mark.parametrize(
    ("interest", "left"),
    [
        ([Range(1)], "1..6; 8..12; 14.."),
        ([Range(7, 7)], ""),
        ([Range(8, 12)], "8..12"),
        ([Range(1, sparse=True)], "1.. sparse without 7,13"),
        ([Range(14, sparse=True)], "14.. sparse"),
        ([Range(1, 20, size_limit=100)], "1..6 sizes ..99; 8..12 sizes ..99; 14..20 sparse sizes ..99"),
    ],
)
def test_what_is_left_of_an_interest(interest: list[Range], left: str) -> None:
    """A peer is asked for all of an interest but what it sent wrong; for another peer nothing changes."""
    wrong = WrongPayloads()
    for seq in (13, 7):
        wrong.note("peer", LOG, seq, 0.0)
    asked = wrong.without("peer", LOG, RangeSet(interest), 1.0)

    assert f"RangeSet({left})" == str(asked)
    assert not any(item.contains_payload(seq, 50, 100) for item in asked for seq in (7, 13))
    assert RangeSet(interest) == wrong.without("other", LOG, RangeSet(interest), 1.0)
    assert RangeSet(interest) == wrong.without("peer", (bytes(32), 2), RangeSet(interest), 1.0)


def test_an_hour_later() -> None:
    """After an hour the peer may be asked again, because it may have mended its copy."""
    wrong = WrongPayloads()
    wrong.note("peer", LOG, 7, 10.0)

    assert EVERYTHING != wrong.without("peer", LOG, EVERYTHING, 3609.0)
    assert EVERYTHING == wrong.without("peer", LOG, EVERYTHING, 3611.0)


def test_bounded_memory() -> None:
    """However many peers lie, and however often: the logs remembered last stay, and the first payloads of each."""
    wrong = WrongPayloads()
    for number in range(5000):
        wrong.note(f"peer {number}", LOG, 1, 0.0)
    for seq in range(2, 1000):
        wrong.note("peer 4999", LOG, seq, 0.0)

    assert EVERYTHING == wrong.without("peer 0", LOG, EVERYTHING, 1.0)
    assert EVERYTHING != wrong.without("peer 1000", LOG, EVERYTHING, 1.0)
    assert next(iter(wrong.without("peer 4999", LOG, EVERYTHING, 1.0))).start == 257


def test_fetching_alone() -> None:
    """One session fetches a payload alone; it stays with the first, until that fails, leaves, or takes too long."""
    wrong, one, other = WrongPayloads(), object(), object()
    wrong.fetch_alone(one, LOG, 7, 0.0)
    wrong.fetch_alone(other, LOG, 7, 1.0)

    assert "RangeSet(1..6; 8..)" == str(wrong.without("peer", LOG, EVERYTHING, 1.0, other))
    assert EVERYTHING == wrong.without("peer", LOG, EVERYTHING, 1.0, one)
    assert (True, False) == (wrong.is_for_another(other, LOG, 7, 1.0), wrong.is_for_another(one, LOG, 7, 1.0))
    assert not wrong.is_for_another(other, LOG, 8, 1.0)
    assert not wrong.is_for_another(other, LOG, 7, 601.0)
    wrong.leave(other)
    assert wrong.is_for_another(other, LOG, 7, 1.0)
    wrong.leave(one, LOG, 7)
    wrong.fetch_alone(other, LOG, 7, 2.0)
    assert wrong.is_for_another(one, LOG, 7, 2.0)
    wrong.leave(other)
    assert not wrong.is_for_another(one, LOG, 7, 2.0)
