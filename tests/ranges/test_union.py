"""The union of many encoded ranges, merged as bytes.

Specification: docs/specs/ranges.md, "Operations on bytes".
"""

from __future__ import annotations

import random

import pytest

from culm.errors import EncodingError
from culm.ranges import RangeSet, UnreadRanges
from culm.ranges.union import ranges_in, union_of
from tests.ranges.oracle import a_range, items

LENGTHS = range(0, 22, 3)


def test_ranges_of_a_set() -> None:
    """A set is taken apart into the bytes of its ranges: entry 5, the path from 13 to 1, everything from 1000 on."""
    data = bytes.fromhex("03 e005 a0010d 00f903e8")
    assert ["e005", "a0010d", "00f903e8"] == [item.hex() for item in ranges_in(UnreadRanges(data))]
    assert [] == ranges_in(UnreadRanges(b"\0"))


@pytest.mark.parametrize("data", ["01 c005", "01 0000", "01 800505", "01 81010a00", "02 e005 80"])
def test_malformed_sets(data: str) -> None:
    """What a peer sends is checked once, before anything is merged as bytes."""
    with pytest.raises(EncodingError):
        ranges_in(UnreadRanges(bytes.fromhex(data)))


@pytest.mark.parametrize(
    ("ranges", "union"),
    [
        ((), "00"),
        (("ff", "ff"), "00"),
        (("e006", "e005", "e005"), "01 a00506"),  # entries 5 and 6
        (("80060a", "800105"), "01 80010a"),  # neighbours
        (("80070a", "800103"), "02 800103 80070a"),  # with a gap between them, which nobody wants
        (("81010a0105", "800103"), "01 81010a0105"),  # payload 5 stays forbidden
        (("82010a0a00", "82010a000a"), "01 80010a"),  # small payloads, and large ones
        (("0001", "f805", "a0010d"), "01 0001"),  # everything
    ],
)
def test_unions(ranges: tuple[str, ...], union: str) -> None:
    """The examples of the page, merged by hand."""
    assert bytes.fromhex(union) == union_of(map(bytes.fromhex, ranges), 8).encode()


def test_too_many_ranges() -> None:
    """Entries 1, 3, 5, 7 and 9 in at most two ranges: neighbours are joined, and nothing is lost."""
    found = union_of((bytes((0xE0, seq)) for seq in (9, 1, 7, 3, 5)), 2)
    assert "02800107e009" == found.encode().hex()


def test_nothing_is_lost() -> None:
    """The union has each item of each range; and no other item, if enough ranges are allowed."""
    rng = random.Random(1)
    for _ in range(100):
        ranges = [a_range(rng) for _ in range(rng.randint(0, 6))]
        most = rng.choice((1, 2, 6))
        found = RangeSet.decode(union_of([item.encode() for item in ranges], most).encode())
        assert len(found) <= most
        for newest in LENGTHS:
            expected = frozenset().union(*(items(item, newest) for item in ranges))
            united = frozenset().union(*(items(item, newest) for item in found))
            assert united >= expected
            assert most < 6 or united == expected
