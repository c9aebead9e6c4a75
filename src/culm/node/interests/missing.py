"""What is missing: an interest (what we want of a log) compared with what the store holds of it.

An interest has filters: payload sizes, forbidden numbers, entries or payloads alone. Two kinds of requests follow from
it. Those of Point-2-Point can say most of these filters (``lacking``). A Bushbaby WANT cannot: it names spans of
entries, and brings entries with their payloads (``missing``). So its filters are left out, and more comes than is
wanted, never less. Once an entry is held, its payload's size is known, and a payload that is not wanted is not asked
for again.

The certificate pool of a wanted entry is wanted with it. The *head* of a pool, the path from the entry down to entry 1,
is asked for together with the entry, which cannot be verified before. The *tail*, the path from the next spine number
down to the entry, may not be written yet, so it is a question of its own (``lacking_tails``), asked again as the log
grows. Without the tail an author's fork can stay hidden (docs/specs/bamboo.md, "Certificate pools").

Specification: docs/specs/bushbaby.md, "WANT"; docs/specs/ranges.md, "Certificates".
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from culm.bamboo import MAX_U64, lipmaa, path, spine
from culm.ranges import Range, RangeSet, inclusive_sizes
from culm.ranges.runs import Runs
from culm.store import ReadableStore
from culm.store.lookup import Lookup
from culm.types import Log, Run

EVERYTHING = RangeSet([Range(1)])
_PAGE = 256  # Spans read from the store at once: enough for most logs, and little memory for one full of holes.
_MOST_WAITING = 4096  # Waiting entries of a log that are looked at; the rest follows when the first ones are verified.


def missing(store: ReadableStore, interest: RangeSet, log: Log, high: int, limit: int) -> list[Run]:
    """The first ``limit`` spans to ask for of a log that the peer holds up to ``high``."""
    if interest == EVERYTHING:
        return store.missing(log, high, limit)
    lookup = store.lookup(log)
    tails = (_tail(lookup, item)[1] for item in interest if item.is_open and item.sparse)
    needed = Runs(sorted([*wanted(interest, high), *((seq, seq) for tail in tails for seq in tail if seq <= high)]))
    spans = (span for low, last in needed for span in _pages(store, log, low, last))
    parts = (part for span in spans for part in _still_wanted(store, log, interest, span, high))
    return list(islice(parts, limit))


def lacking(
    store: ReadableStore,
    log: Log,
    item: Range,
    low: int,
    limit: int,
    least: int | None = None,
    greatest: int | None = None,
) -> list[Run]:
    """The first ``limit`` spans, from ``low`` on, of what a range wants and the store does not hold.

    A sparse range (a path) is treated as if it wanted all numbers between its ends, unlike by ``lacking_members``.
    ``least`` and ``greatest``, in bytes and both included, narrow the sizes further.
    """
    low_size, high_size = inclusive_sizes(item)
    least, greatest = max(least or 0, low_size), high_size if greatest is None else min(greatest, high_size)
    limit_size = greatest + 1 if greatest < MAX_U64 else 0
    narrowed = replace(item, sparse=False, least_size=least, size_limit=limit_size)
    if narrowed.is_empty:
        return []
    spans: Iterable[Run] = _pages(store, log, max(item.start, low), item.last)
    if not narrowed.metadata:
        spans = (part for span in spans for part in _without(span, narrowed.forbidden))
    if not narrowed.payloads or narrowed.least_size or narrowed.size_limit or narrowed.forbidden:
        spans = (part for span in spans for part in _still_wanted(store, log, [narrowed], span, MAX_U64))
    return list(islice(spans, limit))


def lacking_members(
    store: ReadableStore, log: Log, item: Range, newest: int, least: int | None = None, greatest: int | None = None
) -> list[int]:
    """The numbers of a sparse range whose entry or payload is lacking, ascending; ``newest`` ends an open range."""
    singles = (replace(item, start=seq, end=seq) for seq in item.numbers(newest if item.is_open else item.last))
    return sorted(single.start for single in singles if lacking(store, log, single, 1, 1, least, greatest))


def _without(span: Run, left_out: Iterable[int]) -> Iterator[Run]:
    """The parts of a span between numbers that are left out of it, which have to ascend."""
    low, high = span
    for seq in left_out:
        if low <= seq <= high:
            if low < seq:
                yield low, seq - 1
            low = seq + 1
    if low <= high:
        yield low, high


def stranded(store: ReadableStore, log: Log, interest: RangeSet, newest: int) -> list[int]:
    """The numbers of the entries to ask for so that entries which wait for their path can be verified; ascending.

    An entry that waits is held, so it is not missing itself, and its path need not be part of the interest: nobody
    would ask for it otherwise. ``newest`` is the number at which the peer's log ends, on which depends what an open
    sparse range means.
    """
    lookup = store.lookup(log)
    needs: dict[int, int] = {}  # For each entry that waits: the first one on its path that does not wait.
    found: set[int] = set()
    for seq in store.waiting(log, _MOST_WAITING):
        below = lipmaa(seq)
        first = needs[seq] = needs.get(below, below)
        if first in found or not any(first > item.head_max and item.covers(seq, max(newest, seq)) for item in interest):
            continue
        if lookup.entries_around(first) is None:
            found.add(first)
    return sorted(found)


def least_certificate(interest: Iterable[Range], seq: int) -> int:
    """The least number on the path below an entry that an interest asks for, because of its ``head_max``."""
    return min((item.head_max for item in interest if item.start <= seq <= spine(item.last)), default=0) + 1


def resumptions(lacked: int, last: int, *, has_entry: bool = False) -> list[int]:
    """Numbers up to ``last`` from which to ask a holder on that lacks the entry or payload of ``lacked``; ascending.

    A holder has verified what it holds, so it holds an entry that the first one behind a gap links to, and that lies
    before the gap. So these are the starts of links across the lacked number: O(log n) of them, however long the gap.
    What lies between two of them and is held has one of them, or an entry behind it, at its start.

    ``has_entry``: perhaps only the payload is lacking, so links to that entry count, too. Nothing says where payloads
    are, so the numbers at distances 1, 2, 4 and so on are tried besides.
    """
    if last <= lacked:
        return []
    low = lacked + has_entry
    found = {seq for seq in path(spine(low), low) if lipmaa(seq) < low} - {lacked}
    if has_entry:
        found |= {lacked + (1 << power) for power in range((last - lacked).bit_length())}
    return sorted(seq for seq in found if seq <= last)


class Chain(NamedTuple):
    """Neighbours on a path of links from ``high`` down to ``low``; ``below`` is the entry that the path goes on to."""

    below: int
    low: int
    high: int


def lacking_tails(
    store: ReadableStore,
    log: Log,
    interest: RangeSet,
    newest: int = 0,
    may_have: Callable[[int], bool] = lambda _: True,
) -> list[Chain]:
    """What is missing of the tails of an interest's certificate pools, as far as ``may_have`` says that a peer has it.

    ``newest`` is the number at which the peer's log ends, as for ``stranded``. This takes a look-up for each of the
    O(log n) members of a range's tail, however long the range is.
    """
    with_tails = [item for item in interest if item.sparse or not item.is_open]
    if not with_tails:  # The usual interest, everything: nothing is read for it.
        return []
    lookup = store.lookup(log)
    chains: list[Chain] = []
    seen: set[int] = set()
    for item in with_tails:
        below, tail = _tail(lookup, item)
        is_next = False
        for seq in tail:
            is_new = seq not in seen and not interest.contains_metadata(seq, newest if seq <= newest else MAX_U64)
            seen.add(seq)
            if is_new and _is_absent(store, lookup, seq) and may_have(seq):
                if is_next:
                    chains[-1] = chains[-1]._replace(high=seq)
                else:
                    chains.append(Chain(below, seq, seq))
                is_next = True
            else:
                is_next = False
            below = seq
    return chains


def _is_absent(store: ReadableStore, lookup: Lookup, seq: int) -> bool:
    """Whether no entry of a number is held, in whatever state, and none is unwanted because the log is forked below."""
    if lookup.entries_around(seq) is not None or lookup.variants(seq):
        return False
    return bool(store.missing(lookup.log, seq, 1, low=seq))


def _tail(lookup: Lookup, item: Range) -> tuple[int, list[int]]:
    """Where the tail of a range's pools begins, and its members, ascending.

    An open range contains the pools of its entries, as far as the log reaches. A path without an end does so only until
    the log has grown: the path from a newer entry may pass by what the pool of the newest one held needs.
    """
    end = item.end
    if item.is_open and item.sparse and (extent := lookup.entry_extent()) is not None:
        end = extent[1]
    if end is None or end < item.start:
        return 0, []
    members = reversed(path(spine(end), end)[:-1])
    return end, [seq for seq in members if seq <= MAX_U64 and not 0 < item.tail_min <= seq]


def _pages(store: ReadableStore, log: Log, low: int, high: int) -> Iterator[Run]:
    """All spans that are missing, read from the store a page at a time."""
    while page := store.missing(log, high, _PAGE, low=low):
        yield from page
        if len(page) < _PAGE or page[-1][1] >= high:
            return
        low = page[-1][1] + 1


def _still_wanted(store: ReadableStore, log: Log, interest: Iterable[Range], span: Run, newest: int) -> Iterator[Run]:
    """The parts of a missing span around entries that are held and whose payload nobody wants."""
    unwanted = (
        stored.entry.seq
        for stored in store.entries(log, *span)
        if stored.payload_complete
        or not any(item.contains_payload(stored.entry.seq, stored.entry.size, newest) for item in interest)
    )
    return _without(span, unwanted)


def wanted(interest: Iterable[Range], newest: int) -> list[Run]:
    """The numbers that an interest needs of a log of ``newest`` entries, certificates included.

    Spans ascend and do not touch each other.
    """
    spans: list[Run] = []
    for item in interest:
        if item.is_empty or newest < item.start:
            continue
        if item.sparse:
            spans += ((seq, seq) for seq in item.numbers(newest))
        else:
            spans.append((item.start, min(item.last, newest)))
        spans += ((seq, seq) for seq in replace(item, metadata=True).certificates(newest))
    return list(Runs(sorted(spans)))
