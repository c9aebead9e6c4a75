"""Spans: what is missing of a log, cut into pieces for one request each.

*Missing* is what the interest names and the store does not hold: entries, and payloads of the sizes that are wanted. An
entry that is held but waits for its path (it cannot be verified before the entries that it links to are there) is not
missing itself. The first entries of its path are, whether or not the interest names them.

The path below a span comes with it. The other half of the certificate pool, the path from the next spine number down to
the end of a range, is a span of its own: a *chain*, asked for as one metadata interval. It is asked for even if
the peer's log may not be that long yet; the open request then brings its entries as they are written.

An interest may be a patchwork, for instance "payloads up to 1 KB of everything, and all payloads from 1000 on". One
request asks for one stretch of numbers and one range of sizes. The spans of one round must not overlap, because the
overlap would come twice. So what two parts of the interest want differently is asked for in two rounds: the second
round asks for as much as is still missing then. Parts with payloads come first, since entries come along with them.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from culm.bamboo import MAX_U64
from culm.node.interests.missing import lacking, lacking_members, lacking_tails, resumptions, stranded
from culm.node.intervals.followed import METADATA, Content, Followed, FollowOptions, Span
from culm.node.storage.source import StoreSource
from culm.ranges import Range, RangeSet
from culm.ranges.runs import runs_of
from culm.ranges.text import inclusive_sizes

MOST_SPANS = 64
"""Spans of one log that are asked for at once. Each takes two requests, and credit for requests is limited."""

_MOST_GAPS = 128  # Payloads that a peer lacks and that are found out one by one: a few kilobytes of requests a session.
_CHUNK = 256  # Entries in a span if the newest are to come first: such spans are answered one or two at a time.
_METADATA_SPAN = 1024  # Numbers up to which entries without payloads are asked for one by one: the protocol knows no
# span without payloads. A longer span is asked for with payloads, because as many single requests would take too long.


class Missing:
    """Says what is missing. ``live``: spans without an end are wanted, for news."""

    def __init__(self, source: StoreSource, options: FollowOptions, *, live: bool) -> None:
        self._source = source
        self._options = options
        self._live = live

    def spans(self, followed: Followed, interest: RangeSet) -> list[Span]:
        """The spans of a log to ask for now; ``interest`` is all that we want of it, whatever the peer has."""
        found: list[Span] = []
        least_missing = MAX_U64
        for item in sorted(followed.interest, key=lambda item: not item.payloads):
            if not item.is_empty:
                least_missing = min(least_missing, self._add_item(found, followed, item))
        if found:  # Nothing is missing below these, so the next round need not look there again.
            followed.lowest = max(followed.lowest, least_missing)
        # Next, the first entries of paths that held entries wait for. They go to the front: a span behind the peer's
        # newest entry is not answered before there is such an entry, and would bring no path.
        needed = self._source.ask(stranded, followed.log, interest, followed.newest or 0)
        chains = self._chains(followed, interest)
        alone = [seq for seq in needed if not any(span.covers(seq) for span in found + chains)]
        first: list[Span] = []
        _add(first, followed, (Span(seq, seq, METADATA) for seq in alone))
        return (first + found + chains)[:MOST_SPANS]

    def _chains(self, followed: Followed, interest: RangeSet) -> list[Span]:
        """The tails of certificate pools that are missing, unless they are asked for already."""
        tails = self._source.ask(lacking_tails, followed.log, interest, followed.newest or 0, followed.may_have)
        open_ones = [span for span in followed.spans if span.is_chain]
        return [
            Span(low, high, METADATA, is_chain=True)
            for _, low, high in tails
            if not any(span.covers(low) for span in open_ones)
        ]

    def has_holes(self, followed: Followed, span: Span) -> bool:
        """Whether what is missing of a span is more than one run of numbers, because something inside it is held."""
        last = MAX_U64 if span.high is None else span.high
        for item in followed.interest:
            if not item.sparse and self._content(item) == span.content and item.start <= span.low <= item.last:
                runs = self._page(followed, item, span.low, span.content)
                return sum(first <= last for first, _ in runs) > 1
        return False

    def _add_item(self, found: list[Span], followed: Followed, item: Range) -> int:
        """Add the first spans of a range to ``found``; the least number that is missing of it, or ``MAX_U64``."""
        options, content = self._options, self._content(item)
        low, least_missing = followed.lowest, MAX_U64
        if options.newest is not None:
            low = max(low, (followed.newest or 0) - options.newest + 1)
        while True:
            page = self._page(followed, item, low, content)
            least_missing = min([least_missing, *(first for first, _ in page[:1])])
            for first, last in page:
                for part in self._parts(followed, first, last, content):
                    _add(found, followed, self._cut(followed, item, *part, content))
            is_last = item.sparse or len(page) < MOST_SPANS or page[-1][1] >= item.last
            if is_last or len(found) >= MOST_SPANS:
                return least_missing
            low = page[-1][1] + 1

    def _parts(self, followed: Followed, low: int, high: int, content: Content) -> Iterator[tuple[int, int]]:
        """The run from ``low`` to ``high``, cut where the peer can hold something again behind what it lacks."""
        cuts = self.goes_on(followed, low, high) if (low, content) in followed.gaps else []
        yield low, (cuts[0] - 1 if cuts else high)
        for first, following in pairwise([*cuts, high + 1]):
            yield from self._parts(followed, first, following - 1, content)

    def goes_on(self, followed: Followed, lacked: int, high: int) -> list[int]:
        """The numbers up to ``high`` from which to ask on behind one that the peer lacks."""
        has_entry = len(followed.gaps) < _MOST_GAPS and bool(self._source.variants(followed.log, lacked))
        return resumptions(lacked, min(high, followed.newest or 0), has_entry=has_entry)

    def _content(self, item: Range) -> Content:
        """The payloads that are wanted: those within both the range's bounds and the session's."""
        options = self._options
        least, greatest = inclusive_sizes(item)
        least = max(least, options.least_size or 0)
        greatest = min(greatest, MAX_U64 if options.greatest_size is None else options.greatest_size)
        return Content(least or None, None if greatest == MAX_U64 else greatest)

    def _page(self, followed: Followed, item: Range, low: int, content: Content) -> list[tuple[int, int]]:
        """The first missing runs of one range, ascending. Payloads that are not wanted are not missing."""
        source, log = self._source, followed.log
        sizes = content.least_size, content.greatest_size
        if not item.sparse:
            return source.ask(lacking, log, item, low, MOST_SPANS, *sizes)
        members = source.ask(lacking_members, log, item, followed.newest or 0, *sizes)
        return list(runs_of(seq for seq in members if seq >= low))  # Neighbours in a run, to be asked for together.

    def _cut(self, followed: Followed, item: Range, low: int, high: int, content: Content) -> list[Span]:
        """A missing run, cut where forbidden numbers and missing payloads require it, as spans to ask for."""
        if not item.payloads and high - low < _METADATA_SPAN:
            return [Span(seq, seq, METADATA) for seq in range(low, high + 1)]
        if self._options.newest_first and followed.newest is not None and not followed.gaps:
            return self._newest_first(followed.newest, low, high, content)
        spans = []
        for seq in item.forbidden:
            if low <= seq <= high:
                if low < seq:
                    spans.append(Span(low, seq - 1, content))
                if item.metadata:
                    spans.append(Span(seq, seq, METADATA))
                low = seq + 1
        if low <= high:
            spans.append(Span(low, None if high == MAX_U64 else high, content))
        return spans

    def _newest_first(self, newest: int, low: int, high: int, content: Content) -> list[Span]:
        """A missing run in spans of ``_CHUNK`` entries, the newest first."""
        spans, top = [], min(high, newest)
        while top >= low:
            bottom = max(low, top - _CHUNK + 1)
            spans.append(Span(bottom, top, content, descending=True))
            top = bottom - 1
        if high == MAX_U64 and self._live:
            spans.append(Span(max(low, newest + 1), None, content))
        return spans


def _add(found: list[Span], followed: Followed, spans: Iterable[Span]) -> None:
    """Add the parts of spans that no span in ``found`` brings, unless the peer is known to have no more of them."""
    for span in spans:
        if len(found) >= MOST_SPANS:
            return
        parts = [span]
        for other in found:
            parts = [rest for part in parts for rest in part.without(other)]
        for part in parts:
            is_asked = any(other.content == part.content and other.covers(part.low) for other in followed.spans)
            if not is_asked and (part.low, part.content) not in followed.exhausted:
                found.append(part)
