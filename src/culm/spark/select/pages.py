"""Pages: which blocks of a log there are, as runs, and how a span is cut where they begin and end."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from culm.ranges.runs import Runs
from culm.spark.columns import Columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Row = tuple[Any, ...]
    BlockRuns = Sequence[tuple[int, int]]

PAGE_BITS = 10

PAGES = Columns(author="BINARY", log="BIGINT", page="BIGINT", newest="BIGINT", blocks="BINARY")
"""``newest``: the greatest verified number; ``blocks``: runs of blocks with verified entries, u16 pairs."""

UNPAGED = Columns(author="BINARY", log="BIGINT", page="BIGINT", block="BIGINT", newest="BIGINT")
"""Blocks with verified entries, and the greatest of those."""


def paged(rows: Iterable[Row]) -> Iterator[Row]:
    """``UNPAGED``, sorted, to ``PAGES``."""
    key: Row | None = None
    runs, newest = Runs(), 0
    for author, log, page, block, reached in rows:
        if key != (author, log, page):
            if key is not None:
                yield *key, newest, _encoded(runs)
            key, runs = (author, log, page), Runs()
        at = block - (page << PAGE_BITS)
        runs.add(at, at)
        newest = reached
    if key is not None:
        yield *key, newest, _encoded(runs)


def _encoded(runs: Runs) -> bytes:
    return np.array(list(runs), "<u2").tobytes()


@lru_cache(maxsize=1024)
def runs_of(blocks: bytes) -> tuple[tuple[int, int], ...]:
    """The runs that a page has, counted from its first block."""
    pairs = np.frombuffer(blocks, "<u2").reshape(-1, 2).tolist()
    return tuple((first, last) for first, last in pairs)


def walk(runs: BlockRuns, low: int, high: int) -> Iterator[tuple[int, int, bool]]:
    """The blocks from ``low`` to ``high``, both included, cut where runs begin and end; whether they are there."""
    at = low
    for first, last in runs:
        if last < at:
            continue
        if first > high:
            break
        if first > at:
            yield at, first - 1, False
        at = max(at, first)
        yield at, min(last, high), True
        at = last + 1
    if at <= high:
        yield at, high, False
