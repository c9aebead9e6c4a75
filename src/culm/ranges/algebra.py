"""Operations on ranges. None of them ever loses an item; the laws are in the tests.

A range is one span with one set of filters, so most operations cannot be exact: the union of 1 to 5 and 8 to 9 is not a
range. The way out is always to the safe side. ``hull`` and ``merge`` may ask for more than the two ranges did, never
for less, because an entry that nobody asks for is missing for ever while an extra one only costs its bytes. Each
operation says in a second value whether its result is exact, so that the caller can keep two ranges where one would
waste too much.

In the numbers 0 stands for "no limit" (``size_limit``, ``tail_min``), so that a limit of a missing field is the
loosest.

Specification: docs/specs/ranges.md, "hull", "merge", "intersect and trim", "extend", "resolve", "difference",
"normalise", "Laws".
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from culm.bamboo import MAX_U64
from culm.ranges.exactness import is_exact
from culm.ranges.model import EMPTY, Range
from culm.ranges.paths import last_before_gap, meet_head, meet_tail, next_on_path, on_path, path, spine, unavoidable

_LONGEST_PATH = 256  # More numbers than any path between two sequence numbers has; longer spans cannot be a path.


def upper(one: int, other: int) -> int:
    """The looser of two upper limits, where 0 means no limit."""
    return max(one, other) if one and other else 0


def lower(one: int, other: int) -> int:
    """The stricter of two upper limits, where 0 means no limit."""
    return min(one, other) if one and other else one or other


# -- hull and merge (sections 5.2, 5.3) -----------------------------------------------------------------------------


def hull(a: Range, b: Range) -> Range:
    """The join of two ranges: a restriction stays only if both have it. Associative, commutative, idempotent."""
    with_payloads = [item for item in (a, b) if item.payloads]
    listed = {*a.forbidden, *b.forbidden}
    return _join(a, b, tuple(seq for seq in listed if all(item.forbids(seq) for item in with_payloads)))


def merge(a: Range, b: Range) -> tuple[Range, bool]:
    """The join with as many forbidden numbers as can be kept, and whether it denotes just the union of both."""
    if a.is_empty or b.is_empty:
        return (b if a.is_empty else a), True
    kept = tuple(seq for seq in {*_listed(a), *_listed(b)} if _without_payload(a, seq) and _without_payload(b, seq))
    joined = _join(a, b, kept)
    return joined, is_exact(a, b, joined)


def _listed(item: Range) -> tuple[int, ...]:
    """The forbidden numbers; a single entry's metadata lists its own."""
    return (item.start,) if item.is_single and not item.payloads else item.forbidden


def _without_payload(item: Range, seq: int) -> bool:
    """Whether a number's payload is certainly not asked for."""
    if not item.payloads or item.forbids(seq):
        return True
    if item.sparse and item.is_open:
        return seq < item.start
    return not item.covers(seq)


def _join(a: Range, b: Range, forbidden: tuple[int, ...]) -> Range:
    if a.is_empty or b.is_empty:
        return b if a.is_empty else a
    start = min(a.start, b.start)
    end = None if a.end is None or b.end is None else max(a.end, b.end)
    least, limit = min(a.least_size, b.least_size), upper(a.size_limit, b.size_limit)
    if a.payloads != b.payloads:
        one = a if a.payloads else b
        least, limit = one.least_size, one.size_limit
    head, tail = min(_head(a), _head(b)), upper(_tail(a), _tail(b))
    return Range(
        start,
        end,
        sparse=_stays_sparse(a, b, start, end),
        metadata=a.metadata or b.metadata,
        payloads=a.payloads or b.payloads,
        least_size=least,
        size_limit=limit,
        forbidden=forbidden,
        head_max=head,
        tail_min=tail,
    )


def _head(item: Range) -> int:
    """``head_max``; a range without metadata asks for no certificates, as if the limit were its own start."""
    return item.head_max if item.metadata else item.start


def _tail(item: Range) -> int:
    return item.tail_min if item.metadata else item.last


def _stays_sparse(a: Range, b: Range, start: int, end: int | None) -> bool:
    if not (a.sparse and b.sparse):
        return False
    if (a.start, a.end) == (b.start, b.end):
        return True
    return _are_on_path([a.start, b.start, a.end, b.end], start, end)


def _are_on_path(corners: Iterable[int | None], start: int, end: int | None) -> bool:
    finite = {corner for corner in corners if corner is not None}
    if end is None:
        return all(unavoidable(corner, start) for corner in finite)
    return all(on_path(corner, end, start) for corner in finite)


# -- intersect and trim ---------------------------------------------------------------------------------------------


def intersect(a: Range, b: Range) -> tuple[Range, bool]:
    """What both denote, and whether the result is exact.

    It is not for an open sparse range and a closed one: which entries the open one's path has between the ends of the
    other depends on the newest entry of the log. The result then has all that could be common.
    """
    if a.is_empty or b.is_empty:
        return EMPTY, True
    start, last = max(a.start, b.start), min(a.last, b.last)
    end = None if a.is_open and b.is_open else last
    if start > last:
        return EMPTY, True
    sparse, exact = a.sparse or b.sparse, True
    paths = [item for item in (a, b) if item.sparse]
    if end is None:
        exact = all(unavoidable(start, item.start) for item in paths)
    elif any(item.is_open for item in paths):
        exact = False
        closed = b if a.is_open else a
        sparse = closed.sparse
        if sparse:
            start = next_on_path(start, last, closed.start)
    elif paths:
        shared = [
            seq
            for seq in path(paths[0].last, paths[0].start)
            if start <= seq <= last and all(item.covers(seq) for item in paths[1:])
        ]
        if not shared:
            return EMPTY, True
        start, end = shared[-1], shared[0]
    head = max(meet_head(a.head_max, start), meet_head(b.head_max, start))
    tail = 0 if end is None else lower(meet_tail(a.tail_min, end), meet_tail(b.tail_min, end))
    found = Range(
        start,
        end,
        sparse=sparse,
        metadata=a.metadata and b.metadata,
        payloads=a.payloads and b.payloads,
        least_size=max(a.least_size, b.least_size),
        size_limit=lower(a.size_limit, b.size_limit),
        forbidden=a.forbidden + b.forbidden,
        head_max=head,
        tail_min=tail,
    )
    return found, exact or found.is_empty


def trim(item: Range, low: int, high: int | None = None) -> tuple[Range, bool]:
    """What a range denotes from ``low`` to ``high`` (None: to the end), and whether the result is exact."""
    return intersect(item, Range(low, high))


# -- extend, resolve, normalise (5.5, 5.6, 5.8) ---------------------------------------------------------------------


def extend(item: Range, low: int, high: int | None) -> Range:
    """The range with its ends moved outwards, to ``low`` and ``high`` (None: open)."""
    start = min(item.start, low)
    end = None if high is None or item.end is None else max(item.end, high)
    if item.is_empty or (start, end) == (item.start, item.end):
        return item
    return replace(
        item,
        start=start,
        end=end,
        sparse=item.sparse and not item.is_single and _are_on_path([item.start, item.end], start, end),
        head_max=meet_head(item.head_max, start),
        tail_min=0 if end is None else meet_tail(item.tail_min, end),
    )


def resolve(item: Range, newest: int) -> Range:
    """What an open range denotes in a log of ``newest`` entries, as a closed one."""
    if not item.is_open:
        return item
    return EMPTY if newest < item.start else replace(item, end=newest)


def normalise(item: Range) -> Range:
    """A form in which most ranges that denote the same items are equal, so that sets notice duplicates."""
    if item.is_empty or (item.sparse and item.end is not None and not item.forbidden):
        return item  # A path without forbidden numbers, such as a single entry, has one form only.
    if item.is_open and item.start == MAX_U64:
        item = replace(item, end=MAX_U64)
    elif not item.sparse and item.end == MAX_U64:
        item = replace(item, end=None)
    members: list[int] = []
    if item.sparse and item.end is not None:
        members = path(item.end, item.start)
        item = replace(item, forbidden=tuple(set(item.forbidden).intersection(members)))
    if item.end is not None and item.payloads:
        count = len(members) if item.sparse else item.end - item.start + 1
        if len(item.forbidden) == count:
            item = replace(item, payloads=False)
    if not item.metadata and item.payloads:
        item = _without_forbidden_ends(item)
    return _sparse_if_it_may_be(item)


def _sparse_if_it_may_be(item: Range) -> Range:
    """A closed range whose numbers form a path becomes sparse. Without metadata its forbidden numbers need not fit."""
    if item.is_empty or item.sparse or item.end is None:
        return item
    optional = () if item.metadata else item.forbidden
    if item.end - item.start >= _LONGEST_PATH + len(optional):
        return item
    members = set(path(item.end, item.start))
    beside = sum(seq not in members for seq in optional)
    if len(members) + beside != item.end - item.start + 1:
        return item
    return replace(item, sparse=True, forbidden=tuple(members.intersection(item.forbidden)))


def _without_forbidden_ends(item: Range) -> Range:
    """A range of payloads whose ends are not forbidden."""
    start, end = item.start, item.end
    if item.sparse:
        if end is None:
            return item
        allowed = [seq for seq in path(end, start) if not item.forbids(seq)]
        return replace(item, start=allowed[-1], end=allowed[0])
    while item.forbids(start):
        start += 1
    while end is not None and item.forbids(end):
        end -= 1
    return replace(item, start=start, end=end)


# -- difference -----------------------------------------------------------------------------------------------------


def difference(item: Range, held: Iterable[Range], newest: int | None = None) -> list[Range]:
    """Disjoint ranges that denote what ``item`` denotes and no range of ``held`` does.

    Open sparse ranges need the log's ``newest`` entry; ``ValueError`` without. The certificates of held ranges count as
    held, which is true of verified entries.
    """
    pieces = [_resolved(item, newest)]
    for one in held:
        if any(_overlap(piece, one) for piece in pieces):
            for single in _dense_parts(_resolved(one, newest)):
                pieces = [piece for whole in pieces for piece in _minus(whole, single)]
    return [piece for piece in pieces if not piece.is_empty]


def _resolved(item: Range, newest: int | None) -> Range:
    if not (item.is_open and item.sparse):
        return item
    if newest is None:
        raise ValueError("an open sparse range depends on the newest entry of the log, which is not given")
    return resolve(item, newest)


def _dense_parts(held: Range) -> list[Range]:
    """A sparse range split into its entries, because cutting it out of another range leaves all the gaps between."""
    if held.is_empty:
        return []
    if not held.sparse or held.is_single:
        return [held]
    entries = (replace(held, start=seq, end=seq) for seq in path(held.last, held.start))
    return [entry for entry in entries if not entry.is_empty]


def _overlap(one: Range, other: Range) -> bool:
    return one.start <= other.last and other.start <= one.last


def _minus(item: Range, held: Range) -> list[Range]:
    if not _overlap(item, held):
        return [item]
    pieces = [] if held.start == 1 else [trim(item, 1, held.start - 1)[0]]
    middle, _ = trim(item, held.start, held.end)
    if middle.metadata and not held.metadata:
        pieces.append(replace(middle, payloads=False))
    if middle.payloads:
        bare = replace(middle, metadata=False)
        if not held.payloads:
            pieces.append(bare)
        else:
            both = middle.forbidden + held.forbidden
            if held.least_size:
                limit = lower(bare.size_limit, held.least_size)
                pieces.append(replace(bare, size_limit=limit, forbidden=both))
            if held.size_limit:
                least = max(bare.least_size, held.size_limit)
                pieces.append(replace(bare, least_size=least, forbidden=both))
            pieces += (trim(bare, seq, seq)[0] for seq in held.forbidden)
    if held.last < MAX_U64:
        pieces.append(trim(item, held.last + 1)[0])
    return [piece for piece in pieces if not piece.is_empty]


def limits_from_held(start: int, end: int | None, held: Callable[[int], bool]) -> tuple[int, int]:
    """The ``head_max`` and ``tail_min`` that spare a range the certificates for whose number ``held`` is true."""
    head = last_before_gap(path(start, 1)[::-1], held)
    if end is None:
        return head, 0
    return head, last_before_gap([seq for seq in path(spine(end), end) if seq <= MAX_U64], held)
