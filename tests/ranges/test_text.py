"""Ranges as text, and sizes that are inclusive in one world and exclusive in the other.

Specification: docs/specs/ranges.md, "As text".
"""

from __future__ import annotations

import random

import pytest

from culm.bamboo import MAX_U64
from culm.errors import ConfigError
from culm.ranges import EMPTY, Range, encode, inclusive_sizes, read_range, read_size, size_limits, write_range
from tests.quick import rounds
from tests.ranges.oracle import a_large_range, a_range


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("nothing", EMPTY),
        ("5", Range(5, 5)),
        ("5..5", Range(5, 5)),
        ("100..", Range(100)),
        ("1..500 sparse", Range(1, 500, sparse=True)),
        ("7..9 without 8 max 1MB", Range(7, 9, forbidden=(8,), size_limit=10**6 + 1)),
        ("1..10 sizes 11..999", Range(1, 10, least_size=11, size_limit=1000)),
        ("1..10 min 1", Range(1, 10, least_size=1)),
        ("1..10 sizes ..0", Range(1, 10, size_limit=1)),
        ("1..10 metadata", Range(1, 10, payloads=False)),
        ("1..10 payloads", Range(1, 10, metadata=False)),
        ("8..10 head 4 tail 13", Range(8, 10, head_max=4, tail_min=13)),
        ("  3..   payloads\tsizes 2KiB..64kB ", Range(3, metadata=False, least_size=2048, size_limit=64_001)),
    ],
)
def test_texts(text: str, item: Range) -> None:
    """What people type means what it says."""
    assert read_range(text) == item
    assert read_range(write_range(item)) == item


def test_text_and_bytes_are_one_for_one() -> None:
    """Writing and reading any range gives it back, and ranges of different bytes have different texts."""
    rng = random.Random(1)
    seen: dict[str, bytes] = {}
    for _ in rounds(5000, 500):
        item = a_range(rng) if rng.random() < 0.5 else a_large_range(rng)
        text = write_range(item)
        assert read_range(text) == item
        assert seen.setdefault(text, encode(item)) == encode(item)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "at its beginning"),
        ("x", "at its beginning"),
        ("-1", "at its beginning"),
        ("1..2..3", "at its beginning"),
        ("0", "is not a range of sequence numbers"),
        ("5..4", "is not a range of sequence numbers"),
        ("18446744073709551616", "is not a range of sequence numbers"),
        ("1 sparsely", "unknown word 'sparsely'"),
        ("1..3 without", "missing after 'without'"),
        ("1..3 without 1,x", "'x' is not a sequence number"),
        ("1..3 without 1,", "'' is not a sequence number"),
        ("1..3 sizes 5", "LEAST..GREATEST"),
        ("1..3 sizes ..", "LEAST..GREATEST"),
        ("1..3 max 5XB", "not a size"),
        ("1..3 max -5", "not a size"),
        ("1..3 max 99999999999TB", "not a size"),
        ("1..3 max " + "9" * 5000, "not a size"),
        ("9" * 5000, "is not a range of sequence numbers"),
        ("1.." + "9" * 5000, "is not a range of sequence numbers"),
        ("1.. without " + "9" * 5000, "not a sequence number"),
        ("1.. head " + "9" * 5000, "not a sequence number"),
        ("1..3 sparse sparse", "twice"),
        ("1..3 metadata payloads", "either"),
        ("1..3 head \u0664", "not a sequence number"),
    ],
)
def test_what_is_no_range(text: str, why: str) -> None:
    """A text that is no range is one clear error that repeats it."""
    with pytest.raises(ConfigError) as caught:
        read_range(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("least", "greatest", "limits"),
    [
        (0, None, (0, 0)),
        (0, MAX_U64, (0, 0)),
        (0, MAX_U64 - 1, (0, MAX_U64)),
        (11, 999, (11, 1000)),
        (5, 5, (5, 6)),
        (0, 0, (0, 1)),
        (MAX_U64, None, (MAX_U64, 0)),
    ],
)
def test_sizes_at_both_edges(least: int, greatest: int | None, limits: tuple[int, int]) -> None:
    """Inclusive sizes become limits that keep exactly those, and come back."""
    assert size_limits(least, greatest) == limits
    item = Range(1, 10, least_size=limits[0], size_limit=limits[1])
    top = MAX_U64 if greatest is None else greatest
    assert item.fits(least)
    assert item.fits(top)
    assert least == 0 or not item.fits(least - 1)
    assert top == MAX_U64 or not item.fits(top + 1)
    assert inclusive_sizes(item) == (least, top)


def test_sizes_that_nothing_has() -> None:
    """A least size above the greatest leaves metadata only."""
    assert read_range("1..10 sizes 10..9") == Range(1, 10, payloads=False)
    assert read_size("1GiB") == 2**30


@pytest.mark.parametrize("text", ["", "kB", "1foo", "0foo", "0 kB", "-1", "1.5MB", f"{2**64}", f"{2**54}KiB"])
def test_what_is_no_size(text: str) -> None:
    """A text with another unit, or above the largest number, is no size; nor is nothing of another unit."""
    with pytest.raises(ConfigError, match="is not a size"):
        read_size(text)
