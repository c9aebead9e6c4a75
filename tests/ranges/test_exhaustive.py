"""Every pair of ranges up to a length, as bit masks: span by span, in logs of many lengths.

``make test`` takes spans up to 12 entries, and up to 6 with what is wanted of them; ``CULM_LENGTH=40`` takes all up to
40 entries (some minutes).

Specification: docs/specs/ranges.md, "Exactness", "normalise".
"""

from __future__ import annotations

import os
from functools import cache
from itertools import product

import pytest

from culm.ranges import Range, difference, encode, extend, hull, intersect, merge, normalise, resolve, trim
from culm.ranges.onbytes import hull_bytes, intersect_bytes, merge_bytes
from tests.ranges.oracle import span

LENGTH = int(os.environ.get("CULM_LENGTH", "12"))
NEWEST = sorted({1, 2, 3, 5, 7, 8, 12, 13, 14, 22, 27, 30, 39, 40, 41, 45, LENGTH, LENGTH + 1})
KINDS = ((True, True), (True, False), (False, True))


def spans(length: int) -> list[Range]:
    """All spans up to a number, open ones included."""
    ends = [(start, end) for start in range(1, length + 1) for end in [*range(start, length + 1), None]]
    return list({Range(start, end, sparse=sparse) for (start, end), sparse in product(ends, (False, True))})


@cache
def mask(start: int, end: int | None, sparse: bool) -> int:
    """The numbers of a span in all the logs, as bits."""
    item = Range(start, end, sparse=sparse)
    bits = 0
    for place, newest in enumerate(NEWEST):
        for seq in span(item, newest):
            bits |= 1 << (64 * place + seq)
    return bits


def items(item: Range) -> tuple[int, int]:
    """The metadata and the payloads of a range without sizes, as bits."""
    if item.is_empty:
        return 0, 0
    all_of_it = mask(item.start, item.end, item.sparse)
    payloads = all_of_it
    for place in range(len(NEWEST)):
        for seq in item.forbidden:
            payloads &= ~(1 << (64 * place + seq))
    return all_of_it * item.metadata, payloads * item.payloads


def check_pair(a: Range, b: Range) -> None:
    """Hull, merge and intersect of a pair, as values and on bytes, against the bits."""
    ours, theirs = items(a), items(b)
    union = ours[0] | theirs[0], ours[1] | theirs[1]
    joined, exact = merge(a, b)
    wide = hull(a, b)
    found, wider = items(joined), items(wide)
    assert all(part & ~whole == 0 for part, whole in zip(union, found, strict=True)), (a, b)
    assert all(part & ~whole == 0 for part, whole in zip(found, wider, strict=True)), (a, b)
    assert not exact or found == union, (a, b)
    both, just_that = intersect(a, b)
    common, kept = (ours[0] & theirs[0], ours[1] & theirs[1]), items(both)
    assert all(part & ~whole == 0 for part, whole in zip(common, kept, strict=True)), (a, b)
    assert not just_that or kept == common, (a, b)
    one, other = encode(a), encode(b)
    assert hull_bytes(one, other) == encode(wide), (a, b)
    assert merge_bytes(one, other) == (encode(joined), exact), (a, b)
    assert intersect_bytes(one, other) == (encode(both), just_that), (a, b)


@pytest.mark.slow
@pytest.mark.no_cover  # measuring would take several times as long
def test_all_pairs_of_spans() -> None:
    """Whole entries: every pair of spans up to the length."""
    every = spans(LENGTH)
    for a, b in product(every, every):
        check_pair(a, b)


@pytest.mark.slow
@pytest.mark.no_cover  # measuring would take several times as long
def test_all_pairs_of_short_ranges() -> None:
    """Every pair up to half the length (at most 6), with every choice of metadata and payloads."""
    every = [
        Range(item.start, item.end, sparse=item.sparse, metadata=metadata, payloads=payloads)
        for item in spans(min(6, LENGTH // 2))
        for metadata, payloads in KINDS
    ]
    for a, b in product(every, every):
        check_pair(a, b)


@pytest.mark.slow
def test_all_spans_one_by_one() -> None:
    """Trimming, extending, resolving, taking away and normalising every span up to the length."""
    for item in spans(LENGTH):
        all_of_it = items(item)[0]
        assert items(normalise(item)) == items(item)
        for low in range(1, LENGTH + 2, 3):
            for high in (low, low + 4, None):
                part, exact = trim(item, low, high)
                within = all_of_it & items(Range(low, high))[0]
                assert within & ~items(part)[0] == 0
                assert not exact or items(part)[0] == within
                assert all_of_it & ~items(extend(item, low, high))[0] == 0
        for place, newest in enumerate(NEWEST):
            closed = resolve(item, newest)
            in_log = ((1 << 64) - 1) << (64 * place)
            assert items(closed)[0] & in_log == all_of_it & in_log
            held = Range(3, 7, sparse=newest % 2 == 0)
            left = [items(piece)[0] & in_log for piece in difference(item, [held], newest)]
            assert sum(left) == all_of_it & in_log & ~items(held)[0]
