"""Sets of ranges: few, complete, and as bytes.

Specification: docs/specs/ranges.md, "Sets".
"""

from __future__ import annotations

import random

import pytest

from culm.bamboo import MAX_U64
from culm.errors import EncodingError
from culm.ranges import EMPTY, Range, RangeSet, UnreadRanges, merge, normalise, window
from culm.ranges.sets import _are_apart as are_apart
from tests.ranges.oracle import a_range, items

LENGTHS = range(22)


def union(ranges: object, newest: int) -> frozenset[tuple[object, ...]]:
    """The items of several ranges."""
    return frozenset().union(*(items(item, newest) for item in ranges))  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_set_denotes_the_union() -> None:
    """Whatever is added in whatever order, the set denotes just that."""
    rng = random.Random(1)
    for _ in range(300):
        ranges = [a_range(rng) for _ in range(rng.randint(0, 7))]
        one, other = RangeSet(ranges), RangeSet()
        for item in ranges:
            other = other.add(item)
        assert len(one) <= len(ranges)
        for newest in LENGTHS:
            assert union(one, newest) == union(other, newest) == union(ranges, newest)
            for seq in range(1, 13):
                wanted = union(ranges, newest)
                assert one.contains_metadata(seq, newest) == (("m", seq) in wanted)
                assert one.contains_payload(seq, 2, newest) == (("p", seq, 2) in wanted)


def test_a_range_that_excludes_all_it_names_is_not_in_a_set() -> None:
    """Payloads 3 to 5 without 3, 4 and 5 are nothing, so the set is empty, and its bytes are those of the empty set."""
    found = RangeSet([Range(3, 5, metadata=False, forbidden=(3, 4, 5))])
    assert list(found) == []
    assert found.encode() == b"\x00"
    assert RangeSet.decode(found.encode()) == found


def test_the_ends_of_ranges_belong_to_them() -> None:
    """In a set of ranges with gaps, each number is asked for exactly if a range has it: first and last ones, too."""
    spans = [(3, 3), (7, 9), (20, 40), (22, 23), (50, 50), (60, 61), (90, 99)]
    found = RangeSet(Range(low, high, payloads=low % 2 == 0) for low, high in spans)
    for seq in range(1, 110):
        within = [(low, high) for low, high in spans if low <= seq <= high]
        assert found.contains_metadata(seq) is bool(within), seq
        assert found.contains_payload(seq, 2) is any(low % 2 == 0 for low, _ in within), seq


def test_neighbours_become_one() -> None:
    """Entries one after the other are one range, however they came."""
    numbers = list(range(1, 2000))
    random.Random(2).shuffle(numbers)
    assert list(RangeSet(Range(seq, seq) for seq in numbers)) == [Range(1, 1999)]
    assert list(RangeSet([EMPTY, EMPTY])) == []


@pytest.mark.parametrize(
    ("ranges", "joined"),
    [
        (
            [Range(1, 10), Range(13, 20), Range(40, 41), Range(50, 60, payloads=False)],
            [
                [Range(1, 20), Range(40, 41, sparse=True), Range(50, 60, payloads=False)],
                [Range(1, 20), Range(40, 60)],
                [Range(1, 60)],
            ],
        ),
        (
            [Range(seq, seq) for seq in (1, 5, 100, 102, 200)],
            [
                [Range(1, 5, sparse=True), Range(100, 100), Range(102, 102), Range(200, 200)],
                [Range(1, 5, sparse=True), Range(100, 102, sparse=True), Range(200, 200)],
                [Range(1, 5, sparse=True), Range(100, 200)],
                [Range(1, 200)],
            ],
        ),
    ],
)
def test_the_smallest_gaps_are_closed_first(ranges: list[Range], joined: list[list[Range]]) -> None:
    """With one range less each time, those are joined that ask for the fewest entries more, counted on sparse paths."""
    assert len(RangeSet(ranges)) == len(RangeSet(ranges, most=len(ranges))) == len(ranges)
    for less, expected in enumerate(joined, 1):
        assert expected == list(RangeSet(ranges, most=len(ranges) - less))


@pytest.mark.slow
def test_a_bound() -> None:
    """Where there are too many ranges, some are joined, and nothing is lost."""
    rng = random.Random(3)
    for _ in range(200):
        some = [a_range(rng) for _ in range(8)]
        few = RangeSet(some, most=rng.randint(1, 4))
        assert len(few) <= few.most
        for newest in LENGTHS:
            assert union(some, newest) <= union(few, newest)


@pytest.mark.slow
def test_what_is_missing() -> None:
    """What is wanted and not held, each item once."""
    rng = random.Random(4)
    for _ in range(300):
        wanted = RangeSet(a_range(rng) for _ in range(3))
        held = [a_range(rng) for _ in range(3)]
        newest = rng.randint(1, 20)
        left = wanted.missing(held, newest)
        lengths = [newest] if any(one.is_open and one.sparse for one in [*wanted, *held]) else LENGTHS
        for length in lengths:
            assert union(left, length) == union(wanted, length) - union(held, length)


def test_sets_as_bytes() -> None:
    """A set reads as it was written; counts that are too large, cut sets and bytes behind are refused."""
    rng = random.Random(5)
    for _ in range(300):
        some = RangeSet(a_range(rng) for _ in range(rng.randint(0, 6)))
        assert RangeSet.decode(some.encode()) == some
        assert hash(RangeSet.decode(some.encode())) == hash(some)
    for wrong in (b"", b"\x01", b"\x02\xe0\x05", b"\x01\xe0\x05\x00", b"\xff" + b"\xff" * 8, b"\x05" + b"\xe0\x01" * 5):
        with pytest.raises(EncodingError):
            RangeSet.decode(wrong, max_ranges=4)
    assert "1..10 sparse" in repr(RangeSet([Range(1, 10, sparse=True)]))


def test_a_rolling_window() -> None:
    """A fixed amount of future at a time, up to the last number there is."""
    assert window(0, 100) == Range(1, 100)
    assert window(100, 1) == Range(101, 101)
    assert window(MAX_U64 - 2, 100) == Range(MAX_U64 - 1, MAX_U64)
    with pytest.raises(ValueError, match="at least one"):
        window(5, 0)
    with pytest.raises(ValueError, match="not a range"):
        window(MAX_U64, 5)


@pytest.mark.slow
def test_ranges_that_are_apart_are_not_merged() -> None:
    """Two ranges are passed over only where their merge would ask for more than they do."""
    some = [
        normalise(Range(start, end, sparse=sparse))
        for start in LENGTHS[1:]
        for end in range(start, LENGTHS[-1])
        for sparse in (False, True)
    ]
    pairs = [(a, b) for a in some for b in some if are_apart(a, b)]
    assert len(pairs) > len(some)
    assert not any(merge(a, b)[1] for a, b in pairs)


def test_unread_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that came as bytes is the same as a read one, and is not read before it has to be."""
    some = RangeSet([Range(1, 5), Range(9, 9), Range(20, sparse=True)])
    unread = UnreadRanges(memoryview(some.encode()))
    read: list[int] = []
    decode = RangeSet.decode

    def noted(data: bytes) -> RangeSet:
        read.append(1)
        return decode(data)

    monkeypatch.setattr(RangeSet, "decode", staticmethod(noted))
    assert unread
    assert unread == UnreadRanges(some.encode())
    assert unread.encode() == some.encode()
    assert not UnreadRanges(b"\0")
    assert read == []
    assert unread == some
    assert some == unread
    assert list(unread) == list(some)
    assert len(unread) == 3
    assert hash(unread) == hash(some)
    assert unread.contains_metadata(4)
    assert read == [1]


@pytest.mark.parametrize("data", [b"", b"\x02\x00", b"\x00\x00", b"\xf9\x04\x01" + bytes(2000), b"\xf8\x01"])
def test_unread_sets_of_too_many(data: bytes) -> None:
    """More ranges than are taken, or than the bytes can hold, are refused at once."""
    with pytest.raises(EncodingError):
        UnreadRanges(data)


def test_unread_sets_that_are_none() -> None:
    """Bytes that are no ranges are refused when they are read."""
    unread = UnreadRanges(b"\x01\x7e")
    with pytest.raises(EncodingError):
        list(unread)
    with pytest.raises(AttributeError):
        _ = unread.nothing
