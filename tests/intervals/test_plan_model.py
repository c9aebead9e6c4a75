"""What a response consists of: the planner against the list of all items, made one by one as the document says.

Specification: docs/specs/intervals.md, "Intervals", "Order", "Direction".
"""

from __future__ import annotations

from itertools import count as counting
from itertools import takewhile
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from culm.intervals import (
    At,
    FromGreatest,
    FromLeast,
    Interval,
    MetadataOnly,
    Regular,
    Request,
    Single,
    SingleOffset,
)
from culm.intervals.exchanged import Items
from culm.intervals.planner import Horizon
from culm.intervals.stream import stream_of
from tests.bamboo import oracle
from tests.intervals.planning import Stop, plan
from tests.models import MARKS, count, models
from tests.store.dictionary import run_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.intervals.interval import Bound

pytestmark = MARKS

MOST = 130  # numbers up to here are looked at; no log is so long
LENGTH = 45
Item = tuple[int, bool]  # number, whether it is the payload


class HeldSet:
    """What is held, as sets of numbers."""

    def __init__(self, entries: set[int], payloads: set[int]) -> None:
        self.entries, self.payloads = entries, payloads

    def entries_around(self, seq: int) -> tuple[int, int] | None:
        """The run of entries."""
        return run_around(self.entries, seq)

    def payloads_around(self, seq: int) -> tuple[int, int] | None:
        """The run of payloads."""
        return run_around(self.payloads, seq)

    def payload_extent(self) -> tuple[int, int] | None:
        """The least and the greatest payload."""
        return (min(self.payloads), max(self.payloads)) if self.payloads else None


def down(start: int, goal: int) -> list[int]:
    """The shortest path of links from a number down to another one, without the first."""
    steps = []
    while start > goal:
        start = oracle.lipmaa(start) if oracle.lipmaa(start) >= goal else start - 1
        steps.append(start)
    return steps


def below(seq: int, dist: int) -> list[int]:
    """The lower side of the certificate pool, descending."""
    return down(seq, 1)[:dist]


def above(seq: int, dist: int) -> list[int]:
    """The upper side, ascending."""
    spine = next(s for s in oracle.SPINE if s >= seq)
    return ([spine, *down(spine, seq)][:-1] if spine > seq else [])[::-1][:dist]


def resolved(bound: Bound, held: HeldSet) -> int | None:
    """The number that a bound stands for ("Relative offsets")."""
    if isinstance(bound, At):
        return bound.seq
    if not held.payloads:
        return None
    if isinstance(bound, FromLeast):
        least = min(held.payloads)
        gap = next(seq for seq in counting(least) if seq not in held.payloads)
        return min(least + bound.offset, gap)
    greatest = max(held.payloads)
    gaps = [seq for seq in range(1, greatest) if seq not in held.payloads]
    return max(greatest - bound.offset, gaps[-1] if gaps else 1)


def is_ascending(start: Bound, end: Bound, at: int) -> bool:
    """The direction, row by row of the table in "Direction"."""
    if isinstance(end, At):
        return at < end.seq
    if isinstance(start, At):
        return isinstance(end, FromGreatest)
    if isinstance(start, FromLeast) and isinstance(end, FromGreatest):
        return True
    if isinstance(start, FromGreatest) and isinstance(end, FromLeast):
        return False
    return start.offset < end.offset if isinstance(end, FromLeast) else start.offset > end.offset


def items(request: Request, start: int) -> tuple[bool, Iterator[Item]]:
    """The direction, and all items in order; without an end where the interval has none."""
    interval = request.interval
    match interval:
        case MetadataOnly(seq, True, dist):
            return True, ((at, False) for at in [seq, *above(seq, dist)])
        case MetadataOnly(seq, _, dist):
            return False, ((at, False) for at in [seq, *below(seq, dist)])
        case Single(seq, low, high):
            return True, iter(_whole(request, below(seq, low), [seq], above(seq, high)))
        case SingleOffset():
            return True, iter(_whole(request, below(start, 255), [start], above(start, 255)))
    ascending = is_ascending(interval.start, interval.end, start)
    dist = interval.start.dist if isinstance(interval.start, At) else 255
    outer = below(start, dist) if ascending else above(start, dist)
    if isinstance(interval.end, At):
        end = interval.end
        inner = range(start, end.seq + 1) if ascending else range(start, end.seq - 1, -1)
        behind = above(end.seq, end.dist) if ascending else below(end.seq, end.dist)
        return ascending, iter(_whole(request, outer, list(inner), behind))
    numbers = range(start, MOST) if ascending else range(start, 0, -1)
    return ascending, iter(_whole(request, outer, list(numbers), []))


def _whole(request: Request, outer: list[int], inner: list[int], behind: list[int]) -> list[Item]:
    """The pool of the start from its far end, the range, the pool of the end."""
    found = [(seq, False) for seq in reversed(outer)]
    for seq in inner:
        found += [(seq, False), (seq, True)]
    if request.is_immediate:
        found = [item for item in found if item != (inner[0], False) and item[0] not in outer]
    return found + [(seq, False) for seq in behind]


def is_open(interval: Interval) -> bool:
    """Whether the end depends on what is held, now and later."""
    return isinstance(interval, Regular) and not isinstance(interval.end, At)


@st.composite
def held_sets(draw: st.DrawFn) -> HeldSet:
    """Some runs of entries, some with payloads."""
    runs = st.lists(st.tuples(st.integers(1, LENGTH), st.integers(0, 20)), max_size=4)
    payloads = {seq for low, more in draw(runs) for seq in range(low, min(low + more, LENGTH) + 1)}
    entries = {seq for low, more in draw(runs) for seq in range(low, min(low + more, LENGTH) + 1)}
    return HeldSet(entries | payloads, payloads)


DISTS = st.sampled_from([0, 0, 1, 2, 3, 255])
NUMBERS = st.integers(1, 50)
OFFSETS = st.sampled_from([0, 0, 1, 2, 5, 20, 2**64 - 1])
BOUNDS = st.one_of(st.builds(At, NUMBERS, DISTS), st.builds(FromLeast, OFFSETS), st.builds(FromGreatest, OFFSETS))
INTERVALS = st.one_of(
    st.builds(Regular, BOUNDS, BOUNDS),
    st.builds(Regular, BOUNDS, BOUNDS),
    st.builds(Single, NUMBERS, DISTS, DISTS),
    st.builds(SingleOffset, st.one_of(st.builds(FromLeast, OFFSETS), st.builds(FromGreatest, OFFSETS))),
    st.builds(
        lambda seq, ascending, dist: MetadataOnly(seq, ascending=ascending, dist=dist), NUMBERS, st.booleans(), DISTS
    ),
)


SPANS = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 40)), max_size=4)
"""Parts of a stream: the index of the first item, and how many they are."""


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Any request that can be made."""
    interval = draw(INTERVALS)
    absolute = isinstance(interval, Single) or (isinstance(interval, Regular) and isinstance(interval.start, At))
    offset = draw(st.sampled_from([None, None, 0])) if absolute else None
    sizes = draw(st.sampled_from([(None, None), (None, None), (10, None), (None, 40), (10, 40)]))
    return Request(1, bytes(32), 0, interval, least_size=sizes[0], greatest_size=sizes[1], payload_offset=offset)


def size_of(seq: int) -> int:
    """The size of a payload."""
    return seq * 7 % 60


@models(600)
@given(request=requests(), held=held_sets())
def test_a_plan_is_what_the_definition_says(request: Request, held: HeldSet) -> None:
    """The items of a plan are those of the interval, in its order, up to the first one that cannot be sent."""
    count("plans")
    found = plan(request, held, size_of)
    interval = request.interval
    start = interval.seq if isinstance(interval, Single | MetadataOnly) else None
    if isinstance(interval, Regular | SingleOffset):
        start = resolved(interval.start if isinstance(interval, Regular) else interval.bound, held)
    if start is None:
        assert (found.start, found.items, found.stop) == (None, (), Stop.UNRESOLVED)
        return
    assert found.start == start
    ascending, everything = items(request, start)
    end = resolved(interval.end, held) if is_open(interval) and isinstance(interval, Regular) else None

    def is_due(item: Item) -> bool:
        """Whether the end lets an item go, now."""
        if not is_open(interval):
            return True
        if end is None:
            return False
        in_range = item[0] >= start if ascending else item[0] <= start
        seq = item[0] if in_range else start  # the pool waits with the interval
        return seq <= end if ascending else seq >= end

    def is_there(item: Item) -> bool:
        seq, is_payload = item
        fits = not request.has_filter or request.fits(size_of(seq))
        return (seq in held.payloads and fits) if is_payload else seq in held.entries

    sequence = list(everything)
    expected = list(takewhile(lambda item: is_due(item) and is_there(item), sequence))
    assert list(found.items) == expected
    assert found.ascending == ascending
    following = sequence[len(expected)] if len(expected) < len(sequence) else None
    if following is None:
        assert found.stop is (
            Stop.END if not (is_open(interval) or isinstance(interval, SingleOffset)) else Stop.OPEN_END
        )
    elif not is_due(following):
        assert found.stop is Stop.OPEN_END
    else:
        assert (found.stop, found.next) == (Stop.BLOCKED, following)


@models(300)
@given(
    request=requests(), held=held_sets(), spans=st.lists(st.tuples(st.integers(0, 90), st.integers(1, 40)), max_size=4)
)
def test_items_of_a_stream(request: Request, held: HeldSet, spans: list[tuple[int, int]]) -> None:
    """A stream is its items, whichever way they are asked for; a set of items takes spans of it as if one by one."""
    interval = request.interval
    start = interval.seq if isinstance(interval, Single | MetadataOnly) else None
    if isinstance(interval, Regular | SingleOffset):
        start = resolved(interval.start if isinstance(interval, Regular) else interval.bound, held)
    if start is None:
        return
    count("plans")
    stream = stream_of(request, start)
    _, everything = items(request, start)
    sequence = list(everything)
    assert [stream.item(at) for at in range(len(sequence))] == sequence
    if not is_open(interval):
        assert stream.total == len(sequence)
    assert [stream.index_of(seq, is_payload=is_payload) for seq, is_payload in sequence] == list(range(len(sequence)))
    metadata = [seq for seq, is_payload in sequence if not is_payload]
    if not is_open(interval):
        assert stream.metadata_extent() == (min(metadata, default=0), max(metadata, default=0))
    marked, expected = Items(), set[Item]()
    for at, size in spans:
        if at + size <= len(sequence):
            marked.add_span(stream, at, size)
            expected |= set(sequence[at : at + size])
        assert {item for item in sequence if marked.has(item[0], is_payload=item[1])} == expected & set(sequence)
    horizon = Horizon.of(request, stream, held)
    for index in range(min(len(sequence), 60)):
        reach = horizon.reach(index, held)
        there = list(takewhile(lambda item: item[0] in (held.payloads if item[1] else held.entries), sequence[index:]))
        assert reach <= len(there)
        assert (reach > 0) == bool(there and horizon.admits(index))
