"""Strips: which sequence numbers of a log are held, shown in at most ``CELLS`` cells.

A strip shows the numbers from 1 to the newest, to scale. That fails for a log with the entries 1 to 10 and one entry at
2^64 - 1: to scale, the ten entries are invisible. So a strip is broken where one stretch of missing numbers would take
more than ``WIDEST`` of it, at most ``BREAKS`` times. What is left out is cut away before the rest is cut into cells.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from culm.spark.fields import Numbers
    from culm.spark.report.stretches import Runs

    Span = tuple[int, int]

CELLS = 96  # of a strip: about 10 pixels each on a large screen; more would not be seen, and make the page larger
WIDEST = Fraction(9, 10)  # of a strip that may be one stretch of missing numbers; the rest then still has 9 cells
BREAKS = 4  # in a strip: a log with more such gaps is seen to have gaps


def spans(low: Sequence[int], high: Sequence[int]) -> list[Span]:
    """The parts of a log that its strip shows, from the ends of all runs of numbers held, in ascending order."""
    if not low:
        return []
    before = [0, *high[:-1]]
    gaps = [(last + 1, first - 1) for last, first in zip(before, low, strict=True)]
    drawn, left_out = high[-1], []
    for first, last in sorted(gaps, key=lambda gap: (gap[0] - gap[1], gap[0]))[:BREAKS]:
        missing = last - first + 1
        if drawn <= CELLS or missing <= WIDEST * drawn:
            break
        left_out.append((first, last))
        drawn -= missing
    found, begin = [], 1
    for first, last in [*sorted(left_out), (high[-1] + 1, high[-1] + 1)]:
        if first > begin:
            found.append((begin, first - 1))
        begin = last + 1
    return found


def cells(parts: Sequence[Span]) -> list[Span]:
    """The cells of these parts, at most ``CELLS`` together. All have one width, so that lengths compare."""
    numbers = sum(last - first + 1 for first, last in parts)
    width = max(1, -(-numbers // (CELLS - len(parts) + 1)))
    return [(begin, min(begin + width - 1, last)) for first, last in parts for begin in range(first, last + 1, width)]


def covered(runs: Runs, parts: Sequence[Span]) -> list[int]:
    """How many numbers of each part are in the runs of one log."""
    below = np.concatenate([np.zeros(1, np.uint64), runs.length.cumsum()])

    def up_to(numbers: Sequence[int]) -> Numbers:
        limit = np.array(numbers, np.uint64)
        begun = np.searchsorted(runs.low, limit, "right")
        last = runs.high[begun - 1] if len(runs.high) else limit
        beyond = np.where(begun > 0, np.maximum(last, limit) - limit, np.uint64(0))
        return below[begun] - beyond

    found: list[int] = (up_to([last for _, last in parts]) - up_to([first - 1 for first, _ in parts])).tolist()
    return found
