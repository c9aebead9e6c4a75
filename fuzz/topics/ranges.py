"""Bamboo Ranges: single ones, sets, and operations on their bytes."""

from __future__ import annotations

from culm.errors import EncodingError
from culm.ranges import (
    Range,
    RangeSet,
    decode_prefix,
    intersect,
    intersect_bytes,
    merge,
    merge_bytes,
    read_range,
    write_range,
)
from fuzz.target import Target


def _range(data: bytes) -> None:
    item, end = decode_prefix(data)
    assert item.encode() == data[:end]
    assert read_range(write_range(item)) == item
    other = Range(40, 121, sparse=True, forbidden=(45,))
    for operation, on_bytes in ((merge, merge_bytes), (intersect, intersect_bytes)):
        found, exact = operation(item, other)
        assert on_bytes(data[:end], other.encode()) == (found.encode(), exact)


def _range_set(data: bytes) -> None:
    some = RangeSet.decode(data)
    assert RangeSet.decode(some.encode()) == some


_TEXTS = ("5", "1..", "1..10 sparse", "8..10 head 4 tail 13", "300..400 sizes 11..999 without 310,333", "nothing")
_RANGES = tuple(map(read_range, _TEXTS))
TARGETS = (
    Target("ranges.range", _range, (EncodingError,), tuple(item.encode() for item in _RANGES)),
    Target("ranges.set", _range_set, (EncodingError,), (RangeSet(_RANGES).encode(), RangeSet().encode())),
)
