"""The laws of ranges, and every operation against plain sets of items.

Specification: docs/specs/ranges.md, "Laws", "hull", "merge", "intersect and trim", "extend", "resolve", "difference",
"Operations on bytes".
"""

from __future__ import annotations

import os
import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import MAX_U64, path
from culm.bamboo.lipmaa import SPINE
from culm.ranges import (
    EMPTY,
    Range,
    decode,
    difference,
    encode,
    extend,
    hull,
    intersect,
    limits_from_held,
    merge,
    normalise,
    onbytes,
    resolve,
    trim,
)
from culm.ranges.exactness import LONGEST_RUN
from tests.ranges.oracle import a_large_range, a_range, items, shortest, span, wanted

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = range(26)
TRIES = 1500
BYTE_PAIRS = int(os.environ.get("CULM_PAIRS", "6000"))  # 100,000 make a long run


def of(rng: random.Random) -> Range:
    """A range, small or large."""
    return a_range(rng) if rng.random() < 0.6 else a_large_range(rng)


def same(one: Callable[[int], object], other: Callable[[int], object]) -> bool:
    """Whether two functions of a log's length agree."""
    return all(one(newest) == other(newest) for newest in LENGTHS)


# -- what a range denotes -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_items_and_certificates() -> None:
    """Items, certificates and membership are those of the definition, in logs of every length."""
    rng = random.Random(1)
    for _ in range(TRIES // 5):
        item = a_range(rng)
        for newest in LENGTHS:
            numbers = span(item, newest)
            assert list(item.numbers(newest)) == sorted(numbers)
            for size in (0, 2, 5):
                found: set[tuple[object, ...]] = set()
                for one in item.items(newest, lambda _, size=size: size):  # type: ignore[misc]
                    found |= {("m", one.seq)} if one.metadata else set()
                    found |= {("p", one.seq, size)} if one.payload else set()
                expected = {which for which in items(item, newest) if which[0] == "m" or which[2] == size}
                assert found == expected
                asked: set[tuple[object, ...]] = set()
                for one in item.wanted(newest, lambda _, size=size: size):  # type: ignore[misc]
                    asked |= {("m", one.seq)} if one.metadata else set()
                    asked |= {("p", one.seq, size)} if one.payload else set()
                assert asked == {which for which in wanted(item, newest) if which[0] == "m" or which[2] == size}
            pool = {which[1] for which in wanted(item, newest) - items(item, newest)}
            assert set(item.certificates(newest)) == pool
            for seq in range(1, 15):
                assert item.covers(seq, newest) == (seq in numbers)
                assert item.contains_metadata(seq, newest) == (("m", seq) in items(item, newest))
                assert item.contains_payload(seq, 2, newest) == (("p", seq, 2) in items(item, newest))


def test_a_range_costs_what_its_description_costs() -> None:
    """Questions about a range over all of a log, and operations on it, take no longer than on a small one."""
    everything, far = Range(1, MAX_U64), Range(2**63, None, sparse=True, forbidden=(2**63 + 5,))
    assert everything.covers(2**63)
    assert next(iter(everything.items(MAX_U64, lambda _: 1))).seq == 1
    assert len(everything.certificates(MAX_U64)) == 0
    assert len(list(Range(1, MAX_U64, sparse=True).numbers(MAX_U64))) < 300
    for operation in (hull, merge, intersect):
        operation(everything, far)
    assert len(difference(everything, [Range(5, MAX_U64 - 5)])) == 2
    assert normalise(everything) == Range(1)
    assert hull(everything, Range(7)) == Range(1)


# -- hull and merge -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_hull_is_a_join() -> None:
    """Idempotent, commutative, associative, with the empty range neutral; equal as bytes."""
    rng = random.Random(2)
    for _ in range(TRIES * 4):
        a, b, c = of(rng), of(rng), of(rng)
        assert hull(a, a) == a
        assert hull(a, b) == hull(b, a)
        assert hull(hull(a, b), c) == hull(a, hull(b, c))
        assert hull(EMPTY, a) == a == hull(a, EMPTY)


@pytest.mark.slow
@pytest.mark.no_cover  # measuring would take several times as long
def test_merge_loses_nothing_and_says_when_it_is_exact() -> None:
    """Merging covers both, stays within the hull, and its flag is true only if the union is just that."""
    rng = random.Random(3)
    exact_ones = 0
    for _ in range(TRIES * 2):
        a, b = a_range(rng), a_range(rng)
        joined, exact = merge(a, b)
        assert merge(b, a) == (joined, exact)
        assert merge(a, a) == (a, True)
        wider = hull(a, b)
        for newest in LENGTHS:
            union = items(a, newest) | items(b, newest)
            assert union <= items(joined, newest) <= items(wider, newest)
            assert wanted(a, newest) | wanted(b, newest) <= wanted(joined, newest) <= wanted(wider, newest)
            if exact:
                assert union == items(joined, newest)
        exact_ones += exact
    assert exact_ones > TRIES / 10


@pytest.mark.slow
def test_merge_of_large_ranges_is_commutative_and_idempotent() -> None:
    """The laws that need no walk through a log, with numbers up to 2^64 - 1."""
    rng = random.Random(4)
    for _ in range(TRIES * 2):
        a, b = a_large_range(rng), of(rng)
        assert merge(a, b) == merge(b, a)
        assert merge(a, a) == (a, True)


@pytest.mark.slow
def test_merge_is_associative_but_for_forbidden_numbers() -> None:
    """The order of merging changes nothing but which numbers stay forbidden."""
    rng = random.Random(5)
    for _ in range(TRIES * 2):
        a, b, c = a_range(rng), a_range(rng), a_range(rng)
        one, other = merge(merge(a, b)[0], c)[0], merge(a, merge(b, c)[0])[0]
        assert bare(one) == bare(other)


def bare(item: Range) -> tuple[object, ...]:
    """A range but for its forbidden numbers."""
    return (item.start, item.end, item.metadata, item.least_size, item.size_limit, item.head_max, item.tail_min)


@pytest.mark.slow
def test_merge_of_normal_forms_absorbs() -> None:
    """In normal form, what is part of another range merges into it exactly."""
    rng = random.Random(6)
    absorbed = 0
    for _ in range(TRIES * 6):
        a, b = normalise(a_range(rng, 8)), normalise(a_range(rng, 8))
        if all(items(a, newest) <= items(b, newest) for newest in LENGTHS):
            joined, exact = merge(a, b)
            assert exact, (a, b)
            assert same(lambda newest, joined=joined: items(joined, newest), lambda newest, b=b: items(b, newest))  # type: ignore[misc]
            absorbed += 1
    assert absorbed > TRIES / 4


# -- intersect and trim ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_intersect() -> None:
    """Idempotent, commutative; exact when it says so; associative, and always exact, without open sparse ranges."""
    rng = random.Random(7)
    for _ in range(TRIES * 2):
        plain = rng.random() < 0.6
        a, b, c = (a_range(rng, open_sparse=not plain) for _ in range(3))
        both, exact = intersect(a, b)
        assert intersect(b, a) == (both, exact)
        assert intersect(a, a)[0] == a
        for newest in LENGTHS:
            common = items(a, newest) & items(b, newest)
            assert common <= items(both, newest)
            if exact:
                assert common == items(both, newest)
        if plain:
            assert exact
            assert intersect(both, c)[0] == intersect(a, intersect(b, c)[0])[0]


@pytest.mark.slow
def test_absorption() -> None:
    """What two ranges have in common with their hull is each of them, as bytes; with their merge, in meaning."""
    rng = random.Random(8)
    for _ in range(TRIES):
        a, b = a_range(rng), a_range(rng)
        assert intersect(a, hull(a, b))[0] == a or (a.is_open and a.sparse)
        within, exact = intersect(a, merge(a, b)[0])
        if exact:
            assert same(lambda newest, a=a: items(a, newest), lambda newest, w=within: items(w, newest))  # type: ignore[misc]


@pytest.mark.slow
def test_trimming_and_splitting() -> None:
    """Trimming twice is trimming to what both leave; the two halves of a range merge to it exactly."""
    rng = random.Random(9)
    for _ in range(TRIES * 2):
        item = a_range(rng, open_sparse=False)
        (a, b), (c, d) = (sorted((rng.randint(1, 14), rng.randint(1, 14))) for _ in range(2))
        low, high = max(a, c), min(b, d)
        twice = trim(trim(item, a, b)[0], c, d)[0]
        assert twice == (trim(item, low, high)[0] if low <= high else EMPTY)
        at = rng.randint(1, 13)
        joined, exact = merge(trim(item, 1, at)[0], trim(item, at + 1)[0])
        assert exact, (item, at)
        assert same(lambda newest, j=joined: items(j, newest), lambda newest, i=item: items(i, newest))  # type: ignore[misc]


# -- extend, resolve, normalise -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_extend() -> None:
    """Extending loses no item and asks for no less; doing it twice changes nothing more."""
    rng = random.Random(10)
    for _ in range(TRIES):
        item, low = a_range(rng), rng.randint(1, 14)
        high = rng.choice((None, rng.randint(low, 16)))
        longer = extend(item, low, high)
        assert extend(longer, low, high) == longer
        for newest in LENGTHS:
            assert items(item, newest) <= items(longer, newest)
            assert wanted(item, newest) <= wanted(longer, newest)
    for _ in range(TRIES):
        item, low = a_large_range(rng), rng.randint(1, MAX_U64)
        high = rng.choice((None, rng.randint(low, MAX_U64)))
        assert extend(extend(item, low, high), low, high) == extend(item, low, high)


def test_resolve() -> None:
    """A resolved range denotes and asks for what the open one does in that log."""
    rng = random.Random(11)
    for _ in range(TRIES):
        item, newest = a_range(rng), rng.randint(0, 20)
        closed = resolve(item, newest)
        assert not closed.is_open
        if item.is_open:
            assert items(closed, newest) == items(item, newest)
            assert wanted(closed, newest) == wanted(item, newest)


@pytest.mark.slow
def test_normalise() -> None:
    """A normal form denotes the same items, and is its own normal form; with metadata it is the only one."""
    rng = random.Random(12)
    forms: dict[object, Range] = {}
    for _ in range(TRIES * 4):
        item = a_range(rng, 8)
        normal = normalise(item)
        assert normalise(normal) == normal
        meaning = tuple(items(item, newest) for newest in LENGTHS)
        assert meaning == tuple(items(normal, newest) for newest in LENGTHS)
        if item.metadata:
            known = forms.setdefault(meaning, normal)
            assert (known.start, known.end, known.forbidden) == (normal.start, normal.end, normal.forbidden)
            assert (known.sparse, known.payloads) == (normal.sparse, normal.payloads)
    for _ in range(TRIES):
        normal = normalise(a_large_range(rng))
        assert normalise(normal) == normal


def test_a_path_among_many_forbidden_numbers() -> None:
    """A range of payloads that forbids all but a path is that path, however many numbers it forbids."""
    members = path(200, 1)
    forbidden = tuple(seq for seq in range(1, 201) if seq not in members)
    assert normalise(Range(1, 200, metadata=False, forbidden=forbidden)) == Range(1, 200, sparse=True, metadata=False)


# -- difference -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_difference() -> None:
    """The pieces are disjoint, and together what the range denotes and nothing that is held does."""
    rng = random.Random(13)
    for _ in range(TRIES):
        newest = rng.randint(1, 20)
        item = a_range(rng)
        held = [a_range(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        pieces = difference(item, held, newest)
        assert difference(item, [item], newest) == []
        lengths = [newest] if any(one.is_open and one.sparse for one in [item, *held]) else LENGTHS
        for length in lengths:
            left = items(item, length).difference(*(items(one, length) for one in held))
            parts = [items(piece, length) for piece in pieces]
            assert frozenset().union(*parts) == left
            assert sum(map(len, parts)) == len(left)


def test_difference_needs_the_newest_entry_for_open_sparse_ranges() -> None:
    """What an open sparse range denotes depends on the log."""
    with pytest.raises(ValueError, match="newest"):
        difference(Range(1, sparse=True), [])
    with pytest.raises(ValueError, match="newest"):
        Range(1, sparse=True).covers(5)


def test_limits_from_held() -> None:
    """With the limits, just what is held from the ends of the pool inwards is not asked for."""
    rng = random.Random(14)
    for _ in range(TRIES):
        start = rng.randint(1, 40)
        end = rng.choice((None, rng.randint(start, 45)))
        held = {seq for seq in range(1, 130) if rng.random() < 0.7}
        head, tail = limits_from_held(start, end, held.__contains__)
        item = Range(start, end, head_max=head, tail_min=tail)
        assert (item.head_max, item.tail_min) == (head, tail)
        full = Range(start, end)
        left_out = set(full.certificates(200)) - set(item.certificates(200))
        assert left_out <= held
        if head and head != start:
            above = [seq for seq in reversed(shortest(start, 1)) if seq > head]
            assert not above or above[0] not in held


# -- bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_encoding_is_one_to_one() -> None:
    """Decoding what was encoded gives the same range, and different ranges have different bytes."""
    rng = random.Random(15)
    seen: dict[bytes, Range] = {}
    for _ in range(TRIES * 4):
        item = of(rng)
        data = encode(item)
        assert decode(data) == item == decode(item.encode())
        assert seen.setdefault(data, item) == item


@pytest.mark.slow
def test_whatever_decodes_is_what_it_encodes_to() -> None:
    """Any bytes that are accepted are the encoding of what they decode to; others raise ``EncodingError`` only."""
    from culm.errors import EncodingError

    rng = random.Random(16)
    accepted = 0
    for _ in range(TRIES * 20):
        data = bytearray(encode(of(rng)))
        for _ in range(rng.choice((0, 1, 1, 2))):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 5, 7, 0xF8, rng.randrange(256)))
        try:
            item = decode(bytes(data))
        except EncodingError:
            continue
        assert encode(item) == data
        accepted += 1
    assert accepted > TRIES


@pytest.mark.slow
def test_operations_on_bytes_are_those_on_values() -> None:
    """Operations on encodings give the encodings of what the operations on values give."""
    rng = random.Random(17)
    for _ in range(BYTE_PAIRS):
        a, b = of(rng), of(rng)
        one, other = encode(a), encode(b)
        assert onbytes.hull_bytes(one, other) == encode(hull(a, b)), (a, b)
        for operation, on_bytes in ((merge, onbytes.merge_bytes), (intersect, onbytes.intersect_bytes)):
            found, exact = operation(a, b)
            assert on_bytes(one, other) == (encode(found), exact), (a, b)
        low = rng.choice((rng.randint(1, 14), rng.randint(1, MAX_U64)))
        high = rng.choice((None, rng.randint(low, min(MAX_U64, low * 2)), low))
        found, exact = trim(a, low, high)
        assert onbytes.trim_bytes(one, low, high) == (encode(found), exact), (a, low, high)
        assert onbytes.extend_bytes(one, low, high) == encode(extend(a, low, high)), (a, low, high)


@pytest.mark.slow
def test_paths_have_no_long_runs() -> None:
    """The bound on neighbours in a row, which decides merges at once: far above what any path has."""
    rng = random.Random(18)
    ends = [base + offset for base in SPINE[:-1] for offset in range(-40, 41) if 1 <= base + offset <= MAX_U64]
    ends += [rng.randint(1, MAX_U64) for _ in range(1000)]
    longest = 0
    for end in ends:
        for start in {1, *(max(1, end - rng.randint(0, 2**bits)) for bits in (4, 6, 8, 30, 60))}:
            numbers = path(end, start)
            run = 1
            for above, below in pairwise(numbers):
                run = run + 1 if above == below + 1 else 1
                longest = max(longest, run)
    assert 30 < longest < LONGEST_RUN / 2
