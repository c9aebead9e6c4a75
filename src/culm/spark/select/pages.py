"""Pages: a directory of the blocks that a log has.

A range is cut to the blocks that exist, so the code that cuts it needs to know them. The directory of a log with 2^64
numbers would be too large to send along with each request for the log. So it is divided into pages, of 2^10
neighbouring blocks each. A page holds its blocks as runs, which is a few bytes for a log without gaps. The first page,
with more than four million numbers, is all there is of most logs; it comes with every request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from culm.ranges.runs import Runs

BlockRuns = Sequence[tuple[int, int]]

# Low bits of a block's number that count within its page of 1,024 blocks. Runs are u16 pairs, so at most 16. Smaller
# pages leave more of a long log to a second step; larger ones make the rows of requests larger if a log has many gaps.
PAGE_BITS = 10


class BlockRow(NamedTuple):
    """A block with verified entries, and its page. ``newest`` is their greatest number."""

    author: bytes
    log: int
    block: int
    page: int
    newest: int


class PageRow(NamedTuple):
    """A page: the greatest verified number in it, and runs of its blocks that have verified entries, as pairs of u16.

    ``next`` is the number of the log's next page that exists, null for the last one.
    """

    author: bytes
    log: int
    page: int
    newest: int
    next: int | None
    blocks: bytes


class LogRow(NamedTuple):
    """The greatest verified number of a log, and the blocks of its first page.

    Every log with verified entries has a first page, since a path leads to entry 1.
    """

    author: bytes
    log: int
    newest: int
    blocks: bytes | None


def paged(rows: Iterable[BlockRow]) -> Iterator[PageRow]:
    """The pages of blocks, which come sorted by log and block."""
    for (author, log, page), of_page in groupby(rows, key=attrgetter("author", "log", "page")):
        runs, newest = Runs(), 0
        for row in of_page:
            at = row.block - (page << PAGE_BITS)
            runs.add(at, at)
            newest = row.newest
        yield PageRow(author, log, page, newest, None, _encoded(runs))


def linked(rows: Iterable[PageRow]) -> Iterator[PageRow | LogRow]:
    """The pages of each log, each with the number of the next, and what is known of the log; rows come sorted."""
    for (author, log), of_log in groupby(rows, key=attrgetter("author", "log")):
        pages = list(of_log)
        for row, after in zip(pages, [*pages[1:], None], strict=True):
            yield row._replace(next=after.page if after else None)
        first = next((row.blocks for row in pages if row.page == 0), None)
        yield LogRow(author, log, max(row.newest for row in pages), first)


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
