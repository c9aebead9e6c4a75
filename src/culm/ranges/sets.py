"""Many ranges of one log, kept few (docs/specs/ranges.md, "Sets").

A set denotes the union of its ranges. People and peers add to it for months, so it must not grow without bound. A new
range is merged with those in the set wherever the merge is exact. If the set still has more than ``most`` ranges, it
merges the neighbours that gain the fewest numbers, although that asks for entries that nobody wanted. It never loses an
item: too much costs some bytes, too little would never be noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from culm.bamboo import MAX_U64, decode_varu64, encode_varu64
from culm.errors import EncodingError
from culm.ranges.algebra import difference, merge, normalise
from culm.ranges.encoding import MAX_FORBIDDEN_BYTES, decode_prefix
from culm.ranges.model import Range
from culm.ranges.paths import path, step
from culm.types import Buffer

# Ranges in a set by default, and the most that are read from bytes. Building a set costs time in proportion, so a
# larger number would let a peer keep us busy with one small message.
MAX_RANGES = 1024
# Earlier ranges that a new one is compared with. Comparing with all would cost the square of their number; more than
# one is needed, because ranges of the same span can differ in their filters.
_LOOK_BACK = 4


class RangeSet:
    """At most ``most`` ranges of one log, sorted by start, none empty. A value: operations give new sets."""

    __slots__ = ("_farthest", "_ranges", "most")

    def __init__(self, ranges: Iterable[Range] = (), *, most: int = MAX_RANGES) -> None:
        self.most = most
        normal = (normalise(item) for item in ranges)  # which empties a range that excludes all it names
        self._ranges = _kept_few([item for item in normal if not item.is_empty], most)
        # An interval tree over the sorted list: each middle element has the greatest end of its part. It lets a search
        # skip every part that ends before a number.
        self._farthest = [0] * len(self._ranges)
        self._note_farthest(0, len(self._ranges))

    def _note_farthest(self, low: int, high: int) -> int:
        if low >= high:
            return 0
        middle = (low + high) // 2
        farthest = max(
            self._ranges[middle].last, self._note_farthest(low, middle), self._note_farthest(middle + 1, high)
        )
        self._farthest[middle] = farthest
        return farthest

    def __iter__(self) -> Iterator[Range]:
        return iter(self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and self._ranges == other._ranges

    def __hash__(self) -> int:
        return hash(tuple(self._ranges))

    def __repr__(self) -> str:
        from culm.ranges.text import write_range  # noqa: PLC0415 - for people only

        return f"RangeSet({'; '.join(map(write_range, self._ranges))})"

    def add(self, *ranges: Range) -> RangeSet:
        """A new set with more ranges."""
        return RangeSet([*self._ranges, *ranges], most=self.most)

    def _near(self, seq: int) -> Iterator[Range]:
        """The ranges whose span includes a number, looking at O(log k) others of the k ranges."""
        stack = [(0, len(self._ranges))]
        while stack:
            low, high = stack.pop()
            middle = (low + high) // 2
            if low >= high or self._farthest[middle] < seq:
                continue
            stack.append((low, middle))
            item = self._ranges[middle]
            if item.start <= seq:
                stack.append((middle + 1, high))
                if seq <= item.last:
                    yield item

    def contains_metadata(self, seq: int, newest: int | None = None) -> bool:
        """Whether the metadata of an entry is asked for."""
        return any(item.contains_metadata(seq, newest) for item in self._near(seq))

    def contains_payload(self, seq: int, size: int, newest: int | None = None) -> bool:
        """Whether the payload of an entry is asked for."""
        return any(item.contains_payload(seq, size, newest) for item in self._near(seq))

    def missing(self, held: Iterable[Range], newest: int | None = None) -> RangeSet:
        """What the set denotes and ``held`` does not; ``newest`` as for ``difference``."""
        have = list(held)
        pieces: list[Range] = []
        for item in self._ranges:
            # The pieces so far count as held, so that overlapping ranges of the set give no item twice.
            pieces += difference(item, [*have, *pieces], newest)
        return RangeSet(pieces, most=max(self.most, len(pieces)))

    # -- as bytes ----------------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """The number of ranges, a VarU64, and the ranges one behind the other."""
        return encode_varu64(len(self._ranges)) + b"".join(item.encode() for item in self._ranges)

    @staticmethod
    def decode(data: bytes, *, max_ranges: int = MAX_RANGES) -> RangeSet:
        """The set that ``data`` is the encoding of; ``EncodingError`` if it is none, or has too many ranges."""
        return RangeSet(decode_each(data, max_ranges), most=max_ranges)


class UnreadRanges(RangeSet):
    """A set from a peer that is decoded at its first use, because most such sets are stored and never looked at.

    ``EncodingError`` at once if it has too many ranges, or more than the bytes can hold; for other faults at the first
    use.
    """

    __slots__ = ("_data",)

    def __init__(self, data: Buffer) -> None:
        self._data = bytes(data)
        count, at = _pull_count(self._data, MAX_RANGES)
        if count > len(self._data) - at or (not count and at < len(self._data)):
            raise EncodingError(f"{count} ranges cannot be in {len(self._data) - at} bytes", at)

    def __getattr__(self, name: str) -> object:
        if name not in RangeSet.__slots__:
            raise AttributeError(name)
        read = RangeSet.decode(self._data)
        for slot in RangeSet.__slots__:
            setattr(self, slot, getattr(read, slot))
        return getattr(self, name)

    def __bool__(self) -> bool:
        """Whether its number of ranges is above 0; nothing is decoded for that."""
        return self._data[0] > 0

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, UnreadRanges) and self._data == other._data) or super().__eq__(other)

    __hash__ = RangeSet.__hash__

    def encode(self) -> bytes:
        """The bytes, as they came."""
        return self._data


def decode_each(data: bytes, most: int, *, max_forbidden_bytes: int = MAX_FORBIDDEN_BYTES) -> list[Range]:
    """The ranges in the encoding of a set, as they stand there; ``EncodingError`` if it is none, or has too many."""
    count, at = _pull_count(data, most)
    ranges = []
    for _ in range(count):
        item, at = decode_prefix(data, at, max_forbidden_bytes=max_forbidden_bytes)
        ranges.append(item)
    if at != len(data):
        raise EncodingError(f"{len(data) - at} bytes follow the ranges", at)
    return ranges


def _pull_count(data: bytes, most: int) -> tuple[int, int]:
    count, at = decode_varu64(data)
    if count > most:
        raise EncodingError(f"{count} ranges; at most {most} are taken, so divide them among several sets", 0)
    return count, at


def _kept_few(ranges: list[Range], most: int) -> list[Range]:
    """Merge neighbours where that is exact; then the cheapest pairs until ``most`` ranges are left."""
    kept: list[Range] = []
    for item in _in_order(ranges):
        _push(kept, item)
    kept = _in_order(kept)
    if len(kept) <= most:
        return kept
    pairs = sorted(range(len(kept) - 1), key=lambda at: _cost(kept[at], kept[at + 1]))
    joined_to_next = set(pairs[: len(kept) - most])
    few = [kept[0]]
    for at, item in enumerate(kept[1:]):
        if at in joined_to_next:
            few[-1] = normalise(merge(few[-1], item)[0])
        else:
            few.append(item)
    return _in_order(few)


def _in_order(ranges: list[Range]) -> list[Range]:
    """Sorted by start. Ranges that others sent are sorted already, nearly always, and looking is cheaper."""
    if all(before.start < item.start for before, item in pairwise(ranges)):
        return ranges
    return sorted(ranges, key=_order)


def _order(item: Range) -> tuple[int, int, bytes]:
    return item.start, item.last, item.encode()


def _push(kept: list[Range], item: Range) -> None:
    """Add a range that starts at or after all others; merge it with the last few as long as that is exact."""
    back = 1
    while back <= min(len(kept), _LOOK_BACK):
        joined, exact = (item, False) if _are_apart(kept[-back], item) else merge(kept[-back], item)
        if exact:
            del kept[-back]
            item, back = normalise(joined), 1
        else:
            back += 1
    kept.append(item)


def _are_apart(a: Range, b: Range) -> bool:
    """Whether a merge of two closed ranges would gain numbers between them: a cheap test before the real merge."""
    lower, upper = (a, b) if a.start <= b.start else (b, a)
    if lower.end is None or upper.end is None or upper.start <= lower.end + 1:
        return False
    return not (a.sparse and b.sparse) or step(upper.start, lower.start) != lower.end


def _content(item: Range) -> tuple[object, ...]:
    return item.metadata, item.payloads, item.least_size, item.size_limit, item.forbidden


def _cost(before: Range, after: Range) -> tuple[int, bool]:
    """A rough cost of merging two ranges, for sorting: numbers gained, then whether their filters differ."""
    return max(0, _count(merge(before, after)[0]) - _count(before) - _count(after)), _content(before) != _content(after)


def _count(item: Range) -> int:
    if item.sparse and not item.is_open:
        return len(path(item.last, item.start))
    return item.last - item.start + 1


def window(reached: int, ahead: int) -> Range:
    """A bounded part of the future to ask for: the ``ahead`` entries after ``reached``.

    An open range lets a peer send without end. A reader that asks for the next window after half of this one decides
    itself how much may arrive, and still never waits.

    Specification: docs/specs/ranges.md, "Restricted feature sets".
    """
    if ahead < 1:
        raise ValueError("the window is empty; expected at least one entry")
    start = reached + 1
    return Range(start, min(start + ahead - 1, MAX_U64))
