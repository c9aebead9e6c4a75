"""Streams: all items that a request asks for, in the order in which they are sent.

A stream is a list of the start's side of the certificate pool, then the entries of the range (metadata, then payload),
then the end's side of the pool. It may be of 2^64 entries, so it is never made; everything is computed from an item's
index. Descending means falling sequence numbers, with the metadata of each entry before its payload: a receiver could
not find the end of the payload otherwise (docs/specs/intervals.md, "Order").

Specification: docs/specs/intervals.md, "Intervals", "Expected hashes".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from culm.bamboo import MAX_U64, lipmaa, path, spine
from culm.intervals.interval import (
    FULL_POOL,
    At,
    FromGreatest,
    FromLeast,
    MetadataOnly,
    Regular,
    Request,
    Single,
    SingleOffset,
    start_of,
)


class StreamItem(NamedTuple):
    """The metadata of an entry, or its payload."""

    seq: int
    is_payload: bool


class Position(NamedTuple):
    """A place in a stream: the index of the next item, and the bytes of it that are behind (in payloads only)."""

    at: int
    offset: int = 0


@dataclass(frozen=True)
class Stream:
    """The items of a request whose start is known.

    ``before`` and ``after`` are the numbers of the two sides of the pool, in the order of the stream. The range goes
    from ``start`` to ``last``, both included; there is none in a stream of metadata alone (``last`` is None).
    ``is_open``: the range ends where the log does. ``begins_with_payload``: the metadata of ``start`` is left out.
    """

    ascending: bool
    start: int
    last: int | None
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    is_open: bool = False
    begins_with_payload: bool = False

    @cached_property
    def _entries(self) -> int:
        return 0 if self.last is None else abs(self.last - self.start) + 1

    @cached_property
    def _range_end(self) -> int:
        return len(self.before) + 2 * self._entries - self.begins_with_payload

    @property
    def range_indexes(self) -> range:
        """The indexes of the items of the range, those that are not of the pool."""
        return range(len(self.before), self._range_end)

    @cached_property
    def total(self) -> int:
        """The number of items; of an open stream, up to the greatest sequence number there can be (or down to 1)."""
        return self._range_end + len(self.after)

    def item(self, index: int) -> StreamItem:
        """The item of an index below ``total``."""
        pool = len(self.before)
        if index < pool:
            return StreamItem(self.before[index], is_payload=False)
        if index < self._range_end:
            at, is_payload = divmod(index - pool + self.begins_with_payload, 2)
            return StreamItem(self.start + at if self.ascending else self.start - at, bool(is_payload))
        return StreamItem(self.after[index - self._range_end], is_payload=False)

    def index_of(self, seq: int, *, is_payload: bool) -> int | None:
        """The index of an item, None if it is not in the stream."""
        if self.last is not None and min(self.start, self.last) <= seq <= max(self.start, self.last):
            index = len(self.before) + 2 * abs(seq - self.start) + is_payload - self.begins_with_payload
            return index if index >= len(self.before) else None
        if not is_payload:
            if seq in self.before:
                return self.before.index(seq)
            if seq in self.after:
                return self._range_end + self.after.index(seq)
        return None

    def first_at(self, seq: int) -> int:
        """The index of the first item that is of number ``seq`` or behind it in the stream's direction."""
        low, high = 0, self.total
        while low < high:
            middle = (low + high) // 2
            at = self.item(middle).seq
            low, high = (middle + 1, high) if (at < seq if self.ascending else at > seq) else (low, middle)
        return low

    def in_range(self, index: int) -> bool:
        """Whether an item is one of the range, not of the pool."""
        return index in self.range_indexes

    def metadata_extent(self) -> tuple[int, int]:
        """The least and the greatest number whose metadata is in the stream; 0 and 0 if there is none."""
        found = [*self.before, *self.after]
        if self.last is not None and not self.begins_with_payload:
            found += (self.start, self.last)
        elif self.last is not None and self._entries > 1:
            found += (self.start + (1 if self.ascending else -1), self.last)
        return min(found, default=0), max(found, default=0)


def pool_below(seq: int, dist: int) -> tuple[int, ...]:
    """The numbers on the path from ``seq`` down to 1, at distances 1 to ``dist``; descending."""
    return tuple(path(seq, 1)[1 : dist + 1]) if dist else ()


def pool_above(seq: int, dist: int) -> tuple[int, ...]:
    """The numbers on the path from the spine down to ``seq``, at distances 1 to ``dist`` from it; ascending.

    The last of them may be beyond 2^64 - 1: there is no such entry, and it is never available.
    """
    return tuple(reversed(path(spine(seq), seq)))[1 : dist + 1] if dist else ()


def is_ascending(interval: Regular, start: int) -> bool:
    """The direction of an interval whose start is known.

    The requester learns where a relative start is, never where a relative end is. So with a relative end the direction
    follows from how the interval was written (docs/specs/intervals.md, "Direction").
    """
    first, last = interval.start, interval.end
    if isinstance(last, At):
        return start < last.seq
    if isinstance(first, At) or type(first) is not type(last):
        return isinstance(last, FromGreatest)
    return first.offset < last.offset if isinstance(last, FromLeast) else first.offset > last.offset


def stream_of(request: Request, start: int) -> Stream:
    """The stream of a request whose start is, or was resolved to, the number ``start``."""
    immediate = request.is_immediate
    match request.interval:
        case MetadataOnly(seq, ascending, dist):
            pool = pool_above(seq, dist) if ascending else pool_below(seq, dist)
            return Stream(ascending, seq, None, (seq, *pool))
        case Single(_, dist_low, dist_high):
            low = () if immediate else tuple(reversed(pool_below(start, dist_low)))
            return Stream(True, start, start, low, pool_above(start, dist_high), begins_with_payload=immediate)
        case SingleOffset():
            low = tuple(reversed(pool_below(start, FULL_POOL)))
            return Stream(True, start, start, low, pool_above(start, FULL_POOL))
        case Regular() as interval:
            return _regular(interval, start, immediate=immediate)


def _regular(interval: Regular, start: int, *, immediate: bool) -> Stream:
    ascending = is_ascending(interval, start)
    dist = 0 if immediate else interval.start.dist if isinstance(interval.start, At) else FULL_POOL
    before = tuple(reversed(pool_below(start, dist) if ascending else pool_above(start, dist)))
    end = interval.end
    if not isinstance(end, At):
        last = MAX_U64 if ascending else 1
        return Stream(ascending, start, last, before, is_open=True, begins_with_payload=immediate)
    after = pool_above(end.seq, end.dist) if ascending else pool_below(end.seq, end.dist)
    return Stream(ascending, start, end.seq, before, after, begins_with_payload=immediate)


def expected_hashes(request: Request, stream: Stream | None) -> dict[int, bytes]:
    """The hashes that a request gives, by the sequence numbers they are of; ``ValueError`` if two of them disagree.

    Without a stream (the start is not resolved yet) those whose number would depend on it are left out.
    """
    found: dict[int, bytes] = {}

    def note(seq: int, value: bytes | None) -> None:
        if value is not None and seq and found.setdefault(seq, value) != value:
            raise ValueError(f"two different hashes are expected of entry {seq}")

    least, greatest = stream.metadata_extent() if stream else (0, 0)
    target = lipmaa(least) if least else 0
    match request.interval:
        case MetadataOnly() as interval:
            note(interval.seq, interval.own)
            note(greatest if interval.ascending else target, interval.outer)
        case Single() as interval:
            note(interval.seq, interval.own)
            note(target, interval.low_outer)
            note(greatest, interval.high_outer)
        case Regular(start, end) if stream:
            for bound, outer in ((start, not stream.ascending), (end, stream.ascending)):
                if isinstance(bound, At):
                    note(bound.seq, bound.own)
                    note(greatest if outer else target, bound.outer)
        case Regular(_, At() as end):
            note(end.seq, end.own)
    return found


def resolved_start(request: Request) -> int | None:
    """The start of a request if it does not depend on what the responder holds."""
    start = start_of(request.interval)
    return start.seq if isinstance(start, At) else None
