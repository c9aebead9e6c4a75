"""Pages: a directory of the blocks that a log has.

A range is cut to the blocks that exist, so the code that cuts it needs to know them. The directory of a log with 2^64
numbers would be too large to send along with each request for the log. So it is divided into pages, of 2^10
neighbouring blocks each, and each request is cut page by page. A page holds its blocks as runs, which is a few bytes
for a log without gaps. The first page, with more than four million numbers, is all there is of most logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from culm.ranges.runs import Runs

# Low bits of a block's number that count within its page of 1,024 blocks. Runs are u16 pairs, so at most 16. Smaller
# pages leave more of a long log to a second step; larger ones make the rows of requests larger if a log has many gaps.
PAGE_BITS = 10


class BlockRow(NamedTuple):
    """A block with verified entries. ``newest`` is their greatest number."""

    author: bytes
    log: int
    block: int
    newest: int


class PageRow(NamedTuple):
    """A page, with runs of its blocks that have verified entries, as pairs of u16.

    ``newest`` is the greatest verified number of its log, ``next`` the number of the log's next page that exists, null
    for the last one. Every log with verified entries has a page 0, since a path leads to entry 1.
    """

    author: bytes
    log: int
    page: int
    newest: int
    next: int | None
    blocks: bytes


def paged(rows: Iterable[BlockRow]) -> Iterator[PageRow]:
    """The pages of blocks, which come sorted by log and block."""
    for (author, log), of_log in groupby(rows, key=attrgetter("author", "log")):
        pages: dict[int, Runs] = {}
        newest = 0
        for row in of_log:
            at = row.block & ((1 << PAGE_BITS) - 1)
            pages.setdefault(row.block >> PAGE_BITS, Runs()).add(at, at)
            newest = row.newest
        for (page, runs), after in zip_longest(pages.items(), [*pages][1:]):
            yield PageRow(author, log, page, newest, after, np.array(list(runs), "<u2").tobytes())


@lru_cache(maxsize=1024)
def runs_of(blocks: bytes) -> Runs:
    """The blocks in a page, counted from the page's first block.

    Remembered, because the requests for one log mostly follow each other.
    """
    pairs = np.frombuffer(blocks, "<u2").reshape(-1, 2).tolist()
    return Runs((first, last) for first, last in pairs)
