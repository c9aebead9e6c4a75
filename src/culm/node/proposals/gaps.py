"""Gaps: what is missing of a log, cut into pieces for one proposal each.

A proposal is about one stretch of numbers, or about a path through them, and has one least and one greatest size of
payloads. An interest can be a patchwork of such ranges that overlap. Two proposals that overlap would bring the same
twice. So the interest is taken apart at all borders of its ranges, as coloured sheets of paper laid on each other are
cut along every edge. Where several ranges want payloads of different sizes of the same entries, the widest sizes are
proposed. More may come than is wanted then, never less.

For example, "payloads up to 1 KB from 1 on" and "all payloads from 100 to 200" become three ranges: up to 1 KB for 1 to
99, all for 100 to 200, up to 1 KB from 201 on.

A gap's proposal begins behind the last entry that is held below it, or inside that entry's payload. A path whose end is
the newest entry cannot be named in advance, so it is asked for together with everything in between.

Specification: docs/specs/proposals.md, "What a node proposes".
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple

from culm.bamboo import MAX_U64, PayloadHasher, path
from culm.node.interests.missing import lacking, lacking_members, lacking_tails, stranded
from culm.node.proposals.options import ProposalOptions
from culm.node.storage.source import StoreSource
from culm.proposals import Proposal
from culm.ranges import Range, RangeSet
from culm.ranges.text import inclusive_sizes
from culm.types import Log

_PAGE = 64  # Gaps looked up in the store at once: few are proposed at a time, so that more would be looked up in vain.


class Gap(NamedTuple):
    """Numbers from ``low`` to ``high``, both included, with something missing, and the range that wants it.

    ``upper``: the entries of the path from this number down to ``high`` are missing, too; 0: none are.
    """

    low: int
    high: int
    item: Range
    upper: int = 0


def parts(interest: Iterable[Range]) -> list[Range]:
    """Ranges that do not overlap and together want all that an interest wants; paths with an end come last."""
    ranges = [replace(item, sparse=False) if item.is_open else item for item in interest if not item.is_empty]
    whole = [item for item in ranges if not item.sparse]
    paths: list[Range] = []
    for item in ranges:
        # No proposal for a path can leave out some of its members, so such a path is taken apart into its numbers.
        if item.sparse and (item.forbidden or _overlaps(item, ranges)):
            whole += [replace(item, start=seq, end=seq) for seq in item.numbers(item.last)]
        elif item.sparse:
            paths.append(item)
    borders = {item.start for item in whole} | {item.last + 1 for item in whole}
    borders |= {border for item in whole for seq in item.forbidden for border in (seq, seq + 1)}
    found: list[Range] = []
    for low, end in pairwise(sorted(borders)):
        wanted = _widest(low, end - 1, [item for item in whole if item.start <= low <= item.last])
        if wanted.is_empty:
            continue
        if found and found[-1].last + 1 == low and _alike(found[-1], wanted):
            wanted = replace(wanted, start=found.pop().start, sparse=False)
        found.append(wanted)
    return found + paths


def _overlaps(item: Range, others: list[Range]) -> bool:
    return any(other is not item and other.start <= item.last and item.start <= other.last for other in others)


def _widest(low: int, high: int, items: list[Range]) -> Range:
    """What any of ``items`` wants of the numbers from ``low`` to ``high``; none of the items has a border inside."""
    with_payloads = [item for item in items if item.payloads and not item.forbids(low)]
    limits = [item.size_limit for item in with_payloads]
    return Range(
        low,
        None if high == MAX_U64 else high,
        metadata=any(item.metadata for item in items),
        payloads=bool(with_payloads),
        least_size=min((item.least_size for item in with_payloads), default=0),
        size_limit=max(limits, default=0) if all(limits) else 0,
    )


def _alike(one: Range, other: Range) -> bool:
    """Whether two ranges want the same of their numbers."""
    return replace(one, start=1, end=None, sparse=False) == replace(other, start=1, end=None, sparse=False)


class Gaps:
    """Finds what is missing in a store, and makes the proposals for it."""

    def __init__(self, source: StoreSource, options: ProposalOptions) -> None:
        self._source = source
        self._options = options
        self._sizes = options.least_size, options.greatest_size

    def of(self, log: Log, interest: RangeSet) -> Iterator[Gap]:
        """The gaps of a log, in order of their proposing.

        First come single entries that the interest does not name, but that held entries need for their path. The tails
        of certificate pools go with the gap that ends below them. Last come those without one, as paths of their own.
        """
        ranges = parts(interest)
        without_open_paths = RangeSet(replace(item, sparse=item.sparse and not item.is_open) for item in interest)
        tails = {chain.below: chain for chain in self._source.ask(lacking_tails, log, without_open_paths)}
        for seq in self._source.ask(stranded, log, interest, 0):
            if not any(item.covers(seq) for item in ranges):
                yield Gap(seq, seq, Range(seq, seq, payloads=False))
        lookup = self._source.lookup(log)
        for item in ranges:
            for gap in self._along(log, item) if item.sparse and not item.is_single else self._spans(log, item):
                has_tail = gap.high in tails and lookup.entries_around(gap.high) is None
                yield gap._replace(upper=tails.pop(gap.high).high) if has_tail else gap
        for _, low, high in tails.values():
            yield Gap(low, high, Range(low, high, sparse=True, payloads=False))

    def _along(self, log: Log, item: Range) -> Iterator[Gap]:
        """The gaps of a path: runs of neighbouring members with something missing."""
        missing = self._source.ask(lacking_members, log, item, 0, *self._sizes)
        for is_gap, members in groupby(item.numbers(item.last), missing.__contains__):
            if is_gap:
                seqs = list(members)
                yield Gap(seqs[0], seqs[-1], replace(item, start=seqs[0], end=seqs[-1]))

    def _spans(self, log: Log, item: Range) -> Iterator[Gap]:
        low = item.start
        while low <= item.last:
            page = self._source.ask(lacking, log, item, low, _PAGE, *self._sizes)
            yield from (Gap(first, last, item) for first, last in page)
            if len(page) < _PAGE:
                return
            low = page[-1][1] + 1

    def proposal(self, log: Log, gap: Gap) -> tuple[Proposal, PayloadHasher | None] | None:
        """A proposal for a gap, and the hash state of the payload that it goes on with (None: it begins no payload).

        None if the store has changed so that the gap cannot be proposed any more.
        """
        source, options = self._source, self._options
        low, high, item, _ = gap
        end = None if high == MAX_U64 else high
        least, greatest = inclusive_sizes(item) if item.payloads else (0, 0)
        start, lower, value, offset, begun = low, 1 if low == 1 else None, None, None, None
        lookup = source.lookup(log)
        run = lookup.entries_around(low)
        payload_only = run is not None and end is not None and end <= run[1] and not item.sparse and item.payloads
        if run is not None and item.payloads:  # The entry is held: its payload is missing, or a part of that.
            stored = source.get(log, low)
            if stored is None:
                return None
            value, lower = stored.entry.hash, None
            begun = source.ask(lambda store: store.payload_begun(stored))
            offset = begun.size
        elif low > 1 and not item.sparse and lookup.entries_around(low - 1) is not None:
            before = source.get(log, low - 1)
            if before is None:
                return None
            start, value, offset, lower = low - 1, before.entry.hash, before.entry.size, None
        elif low > 1:
            lower, value = self._pool(log, low)
        wish, least, greatest = options.eagerness, max(least, options.least_size), min(greatest, options.greatest_size)
        is_path, mandatory = item.sparse and end is not None, options.mandatory
        upper = gap.upper or end
        proposal = Proposal(
            0, *log, start, lower, end, upper, value, offset, wish, least, greatest, payload_only, is_path, mandatory
        )
        return proposal, begun

    def _pool(self, log: Log, low: int) -> tuple[int, bytes | None]:
        """The lowest number of the path below an entry that is missing, and the hash of the held entry below that.

        None in place of the hash if no entry of the path is held.
        """
        lookup, lower = self._source.lookup(log), low
        for member in path(low, 1)[1:]:
            if lookup.entries_around(member) is not None and (stored := self._source.get(log, member)) is not None:
                return lower, stored.entry.hash
            lower = member
        return lower, None
