"""Bamboo Ranges: single ones, sets, operations on their bytes, text."""

from __future__ import annotations

from culm.errors import ConfigError, EncodingError
from culm.ranges import (
    Feature,
    Range,
    RangeSet,
    UnreadRanges,
    decode_prefix,
    difference,
    extend,
    extend_bytes,
    hull,
    hull_bytes,
    intersect,
    intersect_bytes,
    merge,
    merge_bytes,
    read_range,
    trim,
    trim_bytes,
    write_range,
)
from culm.ranges.features import first_used, set_as_it_is, without
from fuzz.target import Target

_OTHER = Range(40, 121, sparse=True, forbidden=(45,))
_NEWEST = 64


def single(data: bytes) -> None:
    """A range has one form, as bytes and as text, and what it denotes does not depend on which part is asked."""
    item, end = decode_prefix(data)
    assert item.encode() == data[:end]
    assert read_range(write_range(item)) == item
    numbers = [seq for seq in item.numbers(_NEWEST) if seq <= _NEWEST]
    covered = [seq for seq in range(1, _NEWEST + 1) if not item.is_empty and item.covers(seq, _NEWEST)]
    assert numbers == covered
    wanted = [found.seq for found in item.wanted(_NEWEST, lambda seq: seq)]
    assert wanted == sorted(wanted)


def pair(data: bytes) -> None:
    """Operations on bytes give what those on values give."""
    one, at = decode_prefix(data)
    other, end = decode_prefix(data, at) if at < len(data) else (_OTHER, at)
    first, second = data[:at], other.encode()
    assert at == end or second == data[at:end]
    for operation, on_bytes in ((merge, merge_bytes), (intersect, intersect_bytes)):
        found, exact = operation(one, other)
        assert on_bytes(first, second) == (found.encode(), exact)
        assert RangeSet.decode(RangeSet([found]).encode()) == RangeSet([found])
    assert hull_bytes(first, second) == hull(one, other).encode()
    if not other.is_empty:
        low, high = other.start, other.end
        trimmed, exact = trim(one, low, high)
        assert trim_bytes(first, low, high) == (trimmed.encode(), exact)
        assert extend_bytes(first, low, high) == extend(one, low, high).encode()


def set_(data: bytes) -> None:
    """A set that is read is written and read as the same; what it lacks of itself is nothing."""
    some = RangeSet.decode(data)
    assert RangeSet.decode(some.encode()) == some
    if len(some) <= 8:
        assert not len(some.missing(some, _NEWEST))
        for item in some:
            assert not difference(item, [item], _NEWEST)


def restricted(data: bytes) -> None:
    """Where open or sparse ranges are refused each of them is found, and no other; it can be said without them."""
    item, end = decode_prefix(data)
    features = {Feature.OPEN, Feature.SPARSE}
    found = first_used(UnreadRanges(b"\x01" + data[:end]), features)
    assert (found is not None) == (item.is_open or (item.sparse and not item.is_single))
    assert first_used(set_as_it_is([without(item, features, _NEWEST, 10)]), features) is None
    assert first_used(set_as_it_is([without(item, set(Feature), _NEWEST, 10)]), set(Feature)) is None
    try:
        decode_prefix(data, max_forbidden_bytes=20)
    except EncodingError:
        assert len(item.forbidden) > 2


def text(data: bytes) -> None:
    """Text is read as a range that is written and read as the same."""
    item = read_range(data.decode(errors="replace"))
    assert read_range(write_range(item)) == item
    assert decode_prefix(item.encode()) == (item, len(item.encode()))


_TEXTS = (
    "5",
    "1..",
    "1..10 sparse",
    "8..10 head 4 tail 13",
    "300..400 sizes 11..999 without 310,333",
    "nothing",
    "1..40 payloads max 64kB",
    "9..40 metadata sparse head 1 tail 40",
    "3.. min 1MiB without 7",
)
_RANGES = tuple(map(read_range, _TEXTS))
_BYTES = tuple(item.encode() for item in _RANGES)
_PAIRS = tuple(one + other for one, other in zip(_BYTES, (*_BYTES[1:], _BYTES[0]), strict=True))
_APART = RangeSet(map(read_range, ("1..3", "9..40 sparse", "50 metadata", "60..70 payloads without 64", "100..")))
_SETS = _APART.encode(), RangeSet().encode(), RangeSet(_RANGES[2:4]).encode()
TARGETS = (
    Target("ranges.single", single, (EncodingError,), _BYTES),
    Target("ranges.pair", pair, (EncodingError,), _PAIRS),
    Target("ranges.set", set_, (EncodingError,), _SETS),
    Target("ranges.restricted", restricted, (EncodingError,), _BYTES, share=0.5),
    Target("ranges.text", text, (ConfigError,), tuple(item.encode() for item in _TEXTS), longest=6000, share=0.5),
)
