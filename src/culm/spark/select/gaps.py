"""Numbers that are denoted and not held, as runs: a gap costs its two ends and not its length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from culm.spark.runtime.columns import Unsigned
from culm.spark.select.places import Gap
from culm.store.schema import from_sql


class Missing(NamedTuple):
    """A run of numbers that are denoted and not verified here: a row of ``culm.spark.select.Selection.missing``."""

    requester: str
    author: bytes
    log_id: Unsigned
    first: Unsigned
    last: Unsigned
    entries: Unsigned
    reason: str


REASONS = ("not held", "beyond the newest entry")
"""The reasons of ``Missing``, in the order of ``NOT_HELD`` and ``BEYOND``."""


def merged(rows: Iterable[Gap]) -> Iterator[Missing]:
    """Gaps, sorted by requester, log, reason and first number, as runs that do not touch."""
    for (requester, author, log, reason), of_log in groupby(rows, key=attrgetter(*Gap._fields[:4])):
        runs: list[tuple[int, int]] = []
        for row in of_log:
            low, high = from_sql(row.first), from_sql(row.last)
            if runs and low <= runs[-1][1] + 1:
                low, before = runs.pop()
                high = max(high, before)
            elif runs:
                yield _missing(requester, author, log, reason, *runs.pop())
            runs.append((low, high))
        yield _missing(requester, author, log, reason, *runs.pop())


def _missing(requester: str, author: bytes, log: int, reason: int, first: int, last: int) -> Missing:
    return Missing(requester, author, from_sql(log), first, last, last - first + 1, REASONS[reason])
