"""Pages: a directory of the blocks that a log has.

A range is cut to the blocks that exist, so the code that cuts it needs to know them. The directory of a log with 2^64
numbers would be too large to send along with each request for the log. So it is divided into pages, of 2^10
neighbouring blocks each. A page holds its blocks as runs, which is a few bytes for a log without gaps. The first page,
with more than four million numbers, is all there is of most logs; it comes with every request.
"""

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

# Low bits of a block's number that count within its page of 1,024 blocks. Runs are u16 pairs, so at most 16. Smaller
# pages leave more of a long log to a second step; larger ones make the rows of requests larger if a log has many gaps.
PAGE_BITS = 10

PAGES = Columns(author="BINARY", log="BIGINT", page="BIGINT", newest="BIGINT", blocks="BINARY")
"""A page: the greatest verified number in it, and runs of its blocks that have verified entries, as pairs of u16."""

UNPAGED = Columns(author="BINARY", log="BIGINT", page="BIGINT", block="BIGINT", newest="BIGINT")
"""A block with verified entries, and the greatest number of these."""


def paged(rows: Iterable[Row]) -> Iterator[Row]:
    """``UNPAGED``, sorted by log and block, to ``PAGES``."""
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
    """The runs of blocks in a page, first and last block, counted from the page's first block.

    Remembered, because the requests for one log mostly follow each other.
    """
    pairs = np.frombuffer(blocks, "<u2").reshape(-1, 2).tolist()
    return tuple((first, last) for first, last in pairs)


def walk(runs: BlockRuns, low: int, high: int) -> Iterator[tuple[int, int, bool]]:
    """The blocks from ``low`` to ``high``, both included, cut where runs begin and end: first, last, do they exist."""
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
