"""Whether a merge denotes exactly the union of what was merged (docs/specs/ranges.md, "Exactness").

A merge has one span and one set of filters, so it can ask for entries that neither range asked for. There are three
ways to gain something: numbers in a gap between the spans, metadata of the range that wanted payloads only, and
payloads of a size, or of a forbidden number, that only the other range wanted. Each is checked by itself, and the merge
is exact if none gains anything *in any log*: a range that is open and sparse takes another path in a longer log, so a
number counts as covered only if it is on every such path.

The checks never look at numbers one by one over a long span. A path has few neighbours in a row, so a longer gap
between dense spans cannot be filled by one.
"""

from collections.abc import Iterable, Iterator

from culm.bamboo import MAX_U64
from culm.ranges.model import Range
from culm.ranges.paths import path, step, unavoidable

# More neighbours than any path has in a row: about 11 below 1,000, and one more for each further power of three, so
# about 45 below 2^64. A larger value would only make the checks slower, a smaller one would call exact merges inexact.
LONGEST_RUN = 100


def is_exact(a: Range, b: Range, joined: Range) -> bool:
    """Whether ``joined``, the merge of two ranges that are not empty, denotes their union in every log."""
    return _span(a, b, joined) and _metadata(a, b, joined) and _payloads(a, b, joined)


def _same_span(one: Range, other: Range) -> bool:
    return (one.start, one.end, one.sparse) == (other.start, other.end, other.sparse)


# -- the numbers ----------------------------------------------------------------------------------------------------


def _span(a: Range, b: Range, joined: Range) -> bool:
    if _same_span(joined, a) or _same_span(joined, b):
        return True
    if joined.is_open:
        return _open_span(a, b, joined)
    upper, lower = (a, b) if a.last == joined.last else (b, a)
    if joined.sparse:
        return upper.start <= lower.last or step(upper.start, joined.start) == lower.last
    if a.sparse or b.sparse:
        return _dense_span(a, b, joined)
    return upper.start <= lower.last + 1


def _dense_span(a: Range, b: Range, joined: Range) -> bool:
    """Whether every number of a dense join is in one of the two ranges, at least one of them sparse."""
    if a.sparse and b.sparse:
        rest = [range(joined.start, joined.last + 1)]
    else:
        dense = b if a.sparse else a
        rest = [range(joined.start, dense.start), range(dense.last + 1, joined.last + 1)]
    if any(part.stop - part.start > 2 * LONGEST_RUN for part in rest):
        return False
    return all((a.sparse and a.covers(seq)) or (b.sparse and b.covers(seq)) for part in rest for seq in part)


def _open_span(a: Range, b: Range, joined: Range) -> bool:
    for one, other in ((a, b), (b, a)):
        if one.is_open and one.sparse == joined.sparse:
            return _has_all(other, joined.start, one.start - 1)
    return False


def _has_all(item: Range, low: int, high: int) -> bool:
    """Whether the span has all numbers from ``low`` to ``high``, in every log that has them."""
    if low > high:
        return True
    if not item.sparse:
        return item.start <= low and high <= item.last
    return high - low < LONGEST_RUN and all(_surely_covers(item, seq) for seq in range(low, high + 1))


def _surely_covers(item: Range, seq: int) -> bool:
    """Whether the span has a number in every log that has it."""
    if item.is_open and item.sparse:
        return unavoidable(seq, item.start)
    return item.covers(seq)


def _may_cover(item: Range, seq: int) -> bool:
    """Whether the span can have a number: whether there is a log in which it does."""
    if item.is_open:
        return seq >= item.start
    return item.covers(seq)


# -- what is asked for of them --------------------------------------------------------------------------------------


def _metadata(a: Range, b: Range, joined: Range) -> bool:
    return a.metadata == b.metadata or _same_span(joined, a if a.metadata else b)


def _payloads(a: Range, b: Range, joined: Range) -> bool:
    if not (a.payloads or b.payloads):
        return True
    if a.payloads != b.payloads:
        one, other = (a, b) if a.payloads else (b, a)
        return _same_span(joined, one) or other.is_single
    with_limits = [item for item in (a, b) if _sizes(item) == _sizes(joined)]
    if len(with_limits) == 2:
        return joined.sparse or (_forbids_what_it_must(a, b) and _forbids_what_it_must(b, a))
    if with_limits:
        (one,) = with_limits
        return _asks_within(b if one is a else a, one)
    touch = (not b.size_limit or a.least_size <= b.size_limit) and (not a.size_limit or b.least_size <= a.size_limit)
    return touch and _asks_within(a, b) and _asks_within(b, a)


def _sizes(item: Range) -> tuple[int, int]:
    return item.least_size, item.size_limit


def _forbids_what_it_must(item: Range, other: Range) -> bool:
    """Whether numbers that only ``other`` forbids are on every path of ``item``, if that is open and sparse.

    Otherwise some log has a path without such a number, and the merge would forbid or ask for it wrongly.
    """
    if not (item.is_open and item.sparse):
        return True
    only = (seq for seq in other.forbidden if seq >= item.start and not item.forbids(seq))
    return all(unavoidable(seq, item.start) for seq in only)


def _asks_within(item: Range, other: Range) -> bool:
    """Whether every entry whose payload ``item`` may ask for is one whose payload ``other`` asks for."""
    if any(_may_cover(item, seq) and not item.forbids(seq) for seq in other.forbidden):
        return False
    if not other.sparse:
        return _least_asked(item) >= other.start and _greatest_asked(item) <= other.last
    if item.is_open:
        if not (other.is_open and item.sparse):
            return False
        return unavoidable(item.start, other.start)
    return all(_surely_covers(other, seq) for seq in _asked(item))


def _asked(item: Range) -> Iterator[int]:
    """The numbers of a closed range that are not forbidden, descending."""
    numbers: Iterable[int] = path(item.last, item.start) if item.sparse else range(item.last, item.start - 1, -1)
    return (seq for seq in numbers if not item.forbids(seq))


def _least_asked(item: Range) -> int:
    if item.sparse and not item.is_open:
        return min(_asked(item), default=MAX_U64)
    seq = item.start
    while item.forbids(seq):
        seq += 1
    return seq


def _greatest_asked(item: Range) -> int:
    return MAX_U64 if item.is_open else next(_asked(item), 0)
