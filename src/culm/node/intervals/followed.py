"""How to ask a peer for a log, and how far asking has come: what ``culm.node.intervals.follower`` remembers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import NamedTuple

from culm.bamboo import MAX_U64, Entry
from culm.intervals import Forks, Interval
from culm.ranges import RangeSet
from culm.ranges.paths import on_path
from culm.types import Log


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How to ask. Sizes are of payloads, in bytes, both included; None: no bound.

    ``verified``: the peer may send only what it has checked. ``newest``: ask only for so many of the newest entries.
    ``newest_first``: ask for the newest entries first. ``anchor``: sequence number and hash of an entry that is
    trusted, so that only forks behind it matter.
    """

    verified: bool = True
    forks: Forks = Forks.DEFAULT
    anchor: tuple[int, bytes] | None = None
    least_size: int | None = None
    greatest_size: int | None = None
    newest: int | None = None
    newest_first: bool = False


class Content(NamedTuple):
    """Which payloads a span asks for: those of these sizes in bytes, both included (None: any), or none at all."""

    least_size: int | None = None
    greatest_size: int | None = None
    metadata_only: bool = False

    @property
    def is_bounded(self) -> bool:
        """Whether payloads of some sizes are not asked for."""
        return self.least_size is not None or self.greatest_size is not None

    def fits(self, size: int) -> bool:
        """Whether a payload of this size is asked for."""
        return (self.least_size or 0) <= size and (self.greatest_size is None or size <= self.greatest_size)


METADATA = Content(metadata_only=True)
_FEW = 64  # Entries that may wait for their path: far fewer than the store's holding area takes.


@dataclass(slots=True)
class Span:
    """Numbers of a log that are asked for, by two requests: an eager and a lazy one (see the follower)."""

    low: int
    high: int | None  # None: the span has no end.
    content: Content
    descending: bool = False
    of_newest: int | None = None  # So many newest entries; ``low`` is 1 until the peer says where they begin.
    is_chain: bool = False  # Only the numbers on the path of links from ``high`` down to ``low``.
    eager: int = -1  # The id of the eager request; -1 before it is sent.
    lazy: int = -1  # The id of the lazy request; -1 before it is sent, and after it was answered.
    announced: int | None = None  # Items of the stream that the peer has; None until it says so.
    interval: Interval | None = None  # What the eager request asks for.
    newest: Entry | None = None  # The entry that came last, of a span whose payloads are bounded in size.
    passed: int = 0  # Items in front of the eager request: earlier ones ended at payloads of other sizes.
    over: bool = False  # All that the peer has of the span for now has come.

    @property
    def is_small(self) -> bool:
        """Whether so few entries come that they may wait in the store for what another span brings of their path."""
        return self.high is not None and self.high - self.low < _FEW and not self.descending

    def covers(self, seq: int) -> bool:
        """Whether a number is in the span."""
        if self.is_chain and self.high is not None:
            return on_path(seq, self.high, self.low)
        return self.low <= seq and (self.high is None or seq <= self.high)

    def behind_misfit(self, lacked: int) -> int:
        """The number to ask on from, if the response stopped at ``lacked`` because of its payload's size; else 0."""
        newest = self.newest
        if newest is None or newest.seq != lacked or self.content.fits(newest.size):
            return 0
        return lacked - 1 if self.descending else lacked + 1

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
    """Where a log is in its round. A round goes from READY to STORING; then the next one begins, or the log is DONE."""

    READY = auto()  # The round has to be planned.
    ASKING = auto()  # Spans are asked for, or wait for their turn.
    STORING = auto()  # All has come. What is still missing is known once it is stored.
    DONE = auto()  # The last round found nothing to ask for. Open requests stay, for news.


@dataclass(slots=True)
class Followed:
    """A log that is asked for, and how far asking has come.

    There can be sixteen thousand of them that a peer has named, so what most of them never need takes no memory.
    """

    log: Log
    interest: RangeSet
    offered: RangeSet | None = None  # What the peer holds, where it has said so.
    phase: Phase = Phase.READY
    lowest: int = 1  # Nothing below this number is missing, so that a round need not look there again.
    waiting: list[Span] = field(default_factory=list)  # Planned, and not asked for yet.
    spans: list[Span] = field(default_factory=list)  # Asked for.
    exhausted: set[tuple[int, Content]] = field(default_factory=set)  # Where spans begin that the peer has no more of.
    newest: int | None = None  # The number of the peer's newest payload, 0 if it has none; None while it is not known.
    unsure: int = -1  # The question for it, kept open while the answer may tell of entry 1 only, or go on with entry 2.
    questions: dict[int, str] = field(default_factory=dict)  # Questions (see the follower) without an answer, by id.
    were_asked: frozenset[str] = frozenset()  # The names of all questions that were asked.
    is_compared: bool = False  # The peer has said whether its entry of our newest number is ours.
    started: dict[str, int] = field(default_factory=dict)  # The number at which the answer to a question begins.
    pools: set[int] = field(default_factory=set)  # Members of certificate pools that were asked for in this round.
    gaps: set[tuple[int, Content]] = field(default_factory=set)  # Numbers at which the peer's answers stopped.
    fork_seen: bool = False  # The peer has shown a fork, so that requests ask for what is before it.
    again: frozenset[int] = frozenset()  # Entries whose payload was lost, to be asked for once more.
    is_last_round: bool = False  # Nothing was asked for in this round.
    brought: int = 0  # Bytes that have come.
    whole: RangeSet | None = None  # The interest with what is not worth asking for just now; None before any round.
    doubted: int | None = None  # The peer's entry of this number may differ from ours, and is to be asked for.
    had_no_room: bool = False  # A quota has refused something of it.
    compared: int | None = None  # The number of an entry that both hold; the peer is to say whether it is the same.

    def may_have(self, seq: int) -> bool:
        """Whether the peer may hold an entry that only verifies others.

        What follows a missing entry was missing too, unless the peer's log goes on there.
        """
        if self.offered is not None and not self.offered.contains_metadata(seq):
            return False
        newest = self.newest or 0
        return not any(content == METADATA and (at == seq or newest < at < seq) for at, content in self.exhausted)

    def has_offered(self, span: Span) -> bool:
        """Whether the peer has said that it holds all that a span asks for. Then the response ends by itself."""
        if span.high is None or span.is_chain or span.descending or span.content != Content():
            return False
        return self.offered is not None and any(
            item.metadata
            and item.payloads
            and not (item.sparse or item.forbidden or item.least_size or item.size_limit)
            and item.start <= span.low
            and span.high <= item.last
            for item in self.offered
        )

    def exhaust(self, span: Span, seq: int) -> None:
        """Note that the peer has nothing more of a span, whose answer came as far as ``seq``.

        If ``seq`` is outside the span, it is a member of the certificate pool in front of it. The answer then does
        not say what the peer has of that number for another span; but without its path the peer lacks the first entry.
        """
        if span.covers(seq) or not span.descending:
            self.gaps.add((seq if span.covers(seq) else span.low, span.content))
        if not (span.descending and span.covers(seq)):  # Below a gap, its low end is asked for once more, going up.
            self.exhausted |= {(at, span.content) for at in (span.low, seq) if span.covers(at)}
