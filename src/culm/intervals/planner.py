"""The response planner: ``resolve`` for bounds relative to what is held, ``Horizon`` for how far a response may go now.

Specification: docs/specs/intervals.md, "Intervals", "Relative bounds".
"""

from __future__ import annotations

from dataclasses import dataclass

from culm.bamboo import MAX_U64
from culm.intervals.interval import At, Bound, FromLeast, Regular, Request
from culm.intervals.stream import Stream
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
        stream = self.stream
        if not stream.is_open:
            return True
        if self.last is None:
            return False
        # The pool of an interval that is empty for now waits with it.
        seq = stream.item(index).seq if stream.in_range(index) else stream.start
        return seq <= self.last if stream.ascending else seq >= self.last

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
