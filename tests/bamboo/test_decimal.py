"""Numbers as people type and read them."""

from __future__ import annotations

import pytest

from culm.bamboo import MAX_U64
from culm.bamboo.decimal import read_u64, size_text


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), (str(MAX_U64), MAX_U64), ("0" * 5000 + "1", 1)],
)
def test_numbers(text: str, number: int) -> None:
    """Decimal digits are a number up to 2^64 - 1, with any number of zeros before it."""
    assert number == read_u64(text)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", " 1", "1_000", "٣", "²", str(MAX_U64 + 1), "9" * 5000])
def test_no_numbers(text: str) -> None:
    """Everything else is none: signs, spaces, digits of other scripts, and what is too large or too long to convert."""
    assert read_u64(text) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1,024.0 KiB"),
        (5 * 1024**4, "5.0 TiB"),
        (MAX_U64, "16.0 EiB"),
        (3 * 2**90, "3,072.0 YiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    """A size has the largest unit that it reaches; sums of claims beyond every unit are still told exactly."""
    assert text == size_text(size)
