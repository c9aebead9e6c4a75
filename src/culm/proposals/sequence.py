"""What a proposal sends, in which order (docs/specs/proposals.md, "Items").

First the lower certificate pool (metadata), then the range (metadata and payload of each entry), then the upper pool
(metadata). A range may be of 2^64 entries, so the sequence is never made: everything is computed from an item's index.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

from culm.bamboo import MAX_U64, lipmaa, path, spine
from culm.proposals.messages import Proposal


class Item(NamedTuple):
    """The metadata of an entry, or its payload."""

    seq: int
    is_payload: bool


@dataclass(frozen=True)
class Sequence:
    """The items of a proposal.

    ``lower`` and ``upper``: entries whose metadata is sent before and after the range from ``start`` to ``last``.
    ``path``: of a sparse range, its entries, ascending. ``begins_with_payload``: the start's metadata is left out.
    """

    start: int
    last: int
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    path: tuple[int, ...] | None = None
    begins_with_payload: bool = False
    payload_only: bool = False

    @classmethod
    def of(cls, proposal: Proposal, end: int | None, upper: int | None) -> Self:
        """The items of a proposal whose range ends at ``end`` and whose upper pool at ``upper`` (None: never)."""
        start, offset = proposal.start, proposal.offset
        last = MAX_U64 if end is None else end
        most = MAX_U64 if upper is None else upper
        below: tuple[int, ...] = ()
        if offset is None and proposal.lower is not None:
            below = tuple(reversed([seq for seq in path(start, 1)[1:] if seq >= proposal.lower]))
        above: tuple[int, ...] = ()
        if end is not None:
            above = tuple(sorted(seq for seq in path(spine(end), end)[:-1] if seq <= min(most, MAX_U64)))
        if proposal.payload_only:
            below = above = ()
        sparse = tuple(reversed(path(last, start))) if proposal.sparse and end is not None else None
        return cls(start, last, below, above, sparse, offset is not None, proposal.payload_only)

    @cached_property
    def _entries(self) -> int:
        return self.last - self.start + 1 if self.path is None else len(self.path)

    @cached_property
    def range_end(self) -> int:
        """The index behind the last item of the range."""
        each = 1 if self.payload_only else 2
        return len(self.lower) + each * self._entries - (self.begins_with_payload and not self.payload_only)

    @cached_property
    def total(self) -> int:
        """The number of items; of an endless range, up to the greatest number there can be."""
        return self.range_end + len(self.upper)

    def item(self, index: int) -> Item:
        """The item of an index below ``total``."""
        pool = len(self.lower)
        if index < pool:
            return Item(self.lower[index], is_payload=False)
        if index >= self.range_end:
            return Item(self.upper[index - self.range_end], is_payload=False)
        if self.payload_only:
            at, is_payload = index - pool, 1
        else:
            at, is_payload = divmod(index - pool + self.begins_with_payload, 2)
        return Item(self.start + at if self.path is None else self.path[at], bool(is_payload))

    def index_of(self, seq: int, *, is_payload: bool) -> int | None:
        """The index of an item, None if it is not in the sequence."""
        at: int | None = None
        if self.start <= seq <= self.last:
            if self.path is None:
                at = seq - self.start
            elif seq in self.path:
                at = self.path.index(seq)
        if at is not None:
            if self.payload_only:
                return at if is_payload else None
            index = len(self.lower) + 2 * at + is_payload - self.begins_with_payload
            return index if index >= len(self.lower) else None
        if is_payload:
            return None
        if seq in self.lower:
            return self.lower.index(seq)
        return self.range_end + self.upper.index(seq) if seq in self.upper else None


def is_self_contained(proposal: Proposal) -> bool:
    """Whether all links that are not sent lead to items, or to the entry of the expected hash."""
    outer = outer_seq(proposal)
    below = (spine(proposal.start) - 1) // 3  # the greatest spine number below the start
    return outer is None or outer <= below


def outer_seq(proposal: Proposal) -> int | None:
    """The number of the entry whose hash a proposal expects; None if there is none."""
    if proposal.lower is None:
        return proposal.start
    return None if proposal.lower == 1 else lipmaa(proposal.lower)
