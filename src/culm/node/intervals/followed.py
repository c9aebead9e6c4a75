"""A log that a peer is asked for, and where asking for it is: what ``culm.node.intervals.follower`` remembers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from culm.bamboo import MAX_U64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.ranges import RangeSet
    from culm.types import Log


class Content(NamedTuple):
    """What of its entries a span asks for: payloads of these sizes in bytes (None: any), or no payloads at all."""

    least_size: int | None = None
    greatest_size: int | None = None
    metadata_only: bool = False


METADATA = Content(metadata_only=True)


@dataclass(slots=True)
class Span:
    """A span that is asked for: the eager request for it, and the lazy one until it was answered.

    ``high`` is None for an open one. ``announced`` counts items of the stream, None while that is not known. ``over``:
    all came that the peer has of it for now.
    """

    low: int
    high: int | None
    content: Content
    descending: bool = False
    eager: int = -1
    lazy: int | None = None
    announced: int | None = None
    counted: int = 0
    over: bool = False

    def covers(self, seq: int) -> bool:
        """Whether a number is in the span."""
        return self.low <= seq and (self.high is None or seq <= self.high)

    def without(self, other: Span) -> Iterator[Span]:
        """The parts of the span that another one does not cover."""
        last, end = MAX_U64 if self.high is None else self.high, MAX_U64 if other.high is None else other.high
        if other.low > last or end < self.low:
            yield self
            return
        if self.low < other.low:
            yield replace(self, high=other.low - 1)
        if end < last:
            yield replace(self, low=end + 1)


class Phase(Enum):
    """Where asking for a log is. Asking goes in rounds, until nothing is missing that the peer has."""

    READY = auto()  # to be planned
    ASKING = auto()  # spans are asked for, or wait for their turn
    STORING = auto()  # all came; what is missing is known once it is stored
    DONE = auto()


@dataclass(slots=True)
class Followed:
    """A log and where asking for it is."""

    log: Log
    interest: RangeSet
    phase: Phase = Phase.READY
    lowest: int = 1  # what is below is no longer asked for
    waiting: deque[Span] = field(default_factory=deque)
    spans: list[Span] = field(default_factory=list)
    exhausted: set[tuple[int, Content]] = field(default_factory=set)  # where spans begin of which the peer has no more
    newest: int | None = None  # the peer's newest payload, 0 if it has none; None while that is not known
    questions: dict[int, str] = field(default_factory=dict)  # lazy requests that are not about a span
    were_asked: set[str] = field(default_factory=set)
    started: dict[str, int] = field(default_factory=dict)
    pools: set[int] = field(default_factory=set)  # members of certificate pools that were asked for
    gap_end: int = 0  # the last number that the peer lacks; what is behind it is asked for on its own
    fork_seen: bool = False
    is_last_round: bool = False  # nothing was asked for in this round
    brought: int = 0  # bytes that came
    doubted: int | None = None  # the peer's entry of this number may be another than ours

    def exhaust(self, span: Span, seq: int) -> None:
        """The peer has nothing more of a span, whose answer came as far as a number.

        Where that is a member of its pool, it says nothing of what another span asks of that number.
        """
        self.exhausted |= {(at, span.content) for at in (span.low, seq) if span.covers(at)}
