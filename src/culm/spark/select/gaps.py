"""Numbers that are denoted and not held, in a worker: as runs, so that a gap costs its two ends and not its length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from culm.spark.batches.pack import BLOCK_BITS
from culm.spark.runtime.columns import Unsigned
from culm.spark.select.places import NOT_HELD, OFFSET_BITS, Gap
from culm.store.schema import from_sql, to_sql


class Complete(NamedTuple):
    """A block that lacks none of the numbers up to its log's newest."""

    author: bytes
    log: int
    block: int


class Lacking(NamedTuple):
    """A block that does lack some, with ``newest`` and ``bits`` as in ``BlockRow``."""

    author: bytes
    log: int
    block: int
    newest: int
    bits: bytes | None


class Reached(NamedTuple):
    """A block, and the greatest number of its log."""

    author: bytes
    log: int
    block: int
    newest: int
    ends: bool
    bits: bytes | None
    reached: int


class Wanting(NamedTuple):
    """A piece with ``newest`` and ``bits`` of its block; both null if no entry of the block is held."""

    author: bytes
    log: int
    block: int
    requester: str
    first: int | None
    last: int | None
    numbers: bytes | None
    newest: int | None
    bits: bytes | None


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


def completed(rows: Iterable[Reached]) -> Iterator[Complete | Lacking]:
    """Which blocks are complete."""
    for row in rows:
        if row.bits is None and (row.ends or row.newest == row.reached):
            yield Complete(row.author, row.log, row.block)
        else:
            yield Lacking(row.author, row.log, row.block, row.newest, row.bits)


def lacking(rows: Iterable[Wanting]) -> Iterator[Gap]:
    """The numbers of each piece that are not held."""
    for row in rows:
        base = row.block << BLOCK_BITS
        there = _there(base, row.newest, row.bits)
        if row.numbers is not None:
            wanted = np.frombuffer(row.numbers, "<u2") & ((1 << OFFSET_BITS) - 1)
        else:
            wanted = np.arange(from_sql(row.first or 0) - base, from_sql(row.last or 0) - base + 1)
        for low, high in _runs(wanted[~there[wanted]]):
            yield Gap(row.requester, row.author, row.log, NOT_HELD, to_sql(base + low), to_sql(base + high))


def _there(base: int, newest: int | None, bits: bytes | None) -> npt.NDArray[np.bool_]:
    """Which numbers of a block are held, by their offset from ``base``."""
    size = 1 << BLOCK_BITS
    if bits is not None:
        return np.unpackbits(np.frombuffer(bits, np.uint8))[:size].astype(np.bool_)
    there = np.zeros(size, np.bool_)
    if newest is not None:
        there[: from_sql(newest) - base + 1] = True
    return there


def _runs(numbers: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as runs of neighbours."""
    if not len(numbers):
        return
    breaks = (np.diff(numbers.astype(np.int64)) > 1).nonzero()[0]
    firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(numbers) - 1)
    yield from zip(numbers[firsts].tolist(), numbers[lasts].tolist(), strict=True)


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
