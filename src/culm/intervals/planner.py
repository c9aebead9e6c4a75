"""The response planner: an interval and what is held, to the items that are sent.

Pure, and separate from the connection, which uses the same functions step by step: ``resolve`` for bounds relative to
what is held, ``Horizon`` for how far a response may go now, and ``plan`` for all of it at once.

Specification: docs/specs/intervals.md, "Intervals", "Relative bounds".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from culm.bamboo import MAX_U64
from culm.intervals.interval import At, Bound, FromLeast, Regular, Request, has_absolute_end, start_of
from culm.intervals.stream import Stream, StreamItem, stream_of
from culm.transfer import Held


def resolve(bound: Bound, held: Held) -> int | None:
    """The number that a bound stands for now; None while no payload is held."""
    if isinstance(bound, At):
        return bound.seq
    extent = held.payload_extent()
    if extent is None:
        return None
    least, greatest = extent
    if isinstance(bound, FromLeast):
        run = held.payloads_around(least)
        return min(least + bound.offset, MAX_U64, (run[1] if run else least) + 1)
    run = held.payloads_around(greatest)
    return max(greatest - bound.offset, 1, (run[0] if run else greatest) - 1)


class Stop(Enum):
    """Why a response goes no further."""

    END = "all was sent"
    BLOCKED = "the next item is not held"
    OPEN_END = "what the interval ends with was sent"
    UNRESOLVED = "no payload is held that a bound could be relative to"


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far the response to a request may go at the moment, as far as that is a matter of the interval."""

    stream: Stream
    last: int | None  # of an open range: the last number that may be sent now; None if no item may

    @classmethod
    def of(cls, request: Request, stream: Stream, held: Held) -> Horizon:
        """The horizon now; that of an open range moves when what is held changes."""
        if not stream.is_open or not isinstance(request.interval, Regular):
            return cls(stream, None)
        return cls(stream, resolve(request.interval.end, held))

    def admits(self, index: int) -> bool:
        """Whether an item may be sent now, if it is held."""
        if not self.stream.is_open:
            return True
        if self.last is None:
            return False
        if not self.stream.in_range(index):  # the pool of an interval that is empty for now waits with it
            return self._is_at_or_before(self.stream.start)
        return self._is_at_or_before(self.stream.item(index).seq)

    def _is_at_or_before(self, seq: int) -> bool:
        assert self.last is not None  # noqa: S101 - asked for above
        return seq <= self.last if self.stream.ascending else seq >= self.last

    def reach(self, index: int, held: Held) -> int:
        """How many items from ``index`` on are held and may be sent now, at least those of one run.

        0 if the next one is not held, or not to be sent.
        """
        stream = self.stream
        if index >= stream.total or not self.admits(index) or stream.item(index).seq > MAX_U64:
            return 0
        seq, is_payload = stream.item(index)
        if is_payload:  # the entries behind it are another matter
            return int(held.payloads_around(seq) is not None)
        entries = held.entries_around(seq)
        if entries is None:
            return 0
        payloads = held.payloads_around(seq) if stream.in_range(index) else None
        if payloads is None:
            return 1
        bound = stream.last if self.last is None else self.last
        if stream.ascending:
            last = min(entries[1], payloads[1], MAX_U64 if bound is None else bound)
            return 2 * (last - seq + 1)
        last = max(entries[0], payloads[0], 1 if bound is None else bound)
        return 2 * (seq - last + 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be sent now: the resolved start (None: unresolved), the items, and why there are no more.

    ``next`` is the item that is not held, if that is the reason.
    """

    start: int | None
    items: tuple[StreamItem, ...]
    stop: Stop
    ascending: bool | None = None
    next: StreamItem | None = None


def plan(request: Request, held: Held, sizes: Callable[[int], int] = lambda _: 0) -> Plan:
    """The items that the response to a request consists of now. ``sizes`` gives those of payloads, in bytes.

    The list is made, so use this where it is known not to be long.
    """
    start = resolve(start_of(request.interval), held)
    if start is None:
        return Plan(None, (), Stop.UNRESOLVED)
    stream = stream_of(request, start)
    horizon = Horizon.of(request, stream, held)
    items: list[StreamItem] = []
    while (count := horizon.reach(len(items), held)) > 0:
        for index in range(len(items), len(items) + count):
            item = stream.item(index)
            if item.is_payload and request.has_filter and not request.fits(sizes(item.seq)):
                return Plan(start, tuple(items), Stop.BLOCKED, stream.ascending, item)
            items.append(item)
    if len(items) == stream.total:
        stop = Stop.END if has_absolute_end(request.interval) else Stop.OPEN_END
        return Plan(start, tuple(items), stop, stream.ascending)
    if not horizon.admits(len(items)):
        return Plan(start, tuple(items), Stop.OPEN_END, stream.ascending)
    return Plan(start, tuple(items), Stop.BLOCKED, stream.ascending, stream.item(len(items)))
