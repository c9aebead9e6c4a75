"""Where ranges lie: pages of the blocks that exist, pieces of ranges in them, and gaps, which cost only their two ends.

A range is cut to the blocks that exist, so the code that cuts it needs a directory of them. The directory of a log with
2^64 numbers would be too large to send along with each request for the log. So it is divided into *pages*, of 2^10
neighbouring blocks each, and each request is cut page by page. A page holds its blocks as runs, which is a few bytes
for a log without gaps. The first page, with more than four million numbers, is all there is of most logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from culm.ranges.runs import Runs
from culm.spark.batches.arrays import signed, unsigned
from culm.spark.batches.fields import Numbers, Offsets
from culm.spark.runtime.columns import Batch, Row, Tiny, Unsigned, schema
from culm.store.schema import from_sql, to_sql

OFFSET_BITS = 13  # of a u16 in ``numbers`` for the offset in the block; the 3 bits above it say what is wanted

REASONS = ("not held", "beyond the newest entry")
NOT_HELD, BEYOND = range(len(REASONS))
"""Why there is a gap, and the words for it: a closed range may name numbers above the newest entry."""

# Low bits of a block's number that count within its page of 1,024 blocks. Runs are u16 pairs, so at most 16. Smaller
# pages make more rows of a request for a long log; larger ones make these rows larger if a log has many gaps.
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


class Piece(NamedTuple):
    """What is wanted of a block: the span ``first`` to ``last``, with ``wants``; or some numbers.

    ``numbers`` has a u16 for each number, with its offset in the block and, ``OFFSET_BITS`` higher, what is wanted of
    it. ``pairs`` is how many numbers the piece has.
    """

    author: bytes
    log: int
    requester: str
    least: int
    limit: int
    block: int
    wants: Tiny | None
    first: int | None
    last: int | None
    numbers: bytes | None
    pairs: int


class Gap(NamedTuple):
    """A span without any entry that is held, and the reason: ``NOT_HELD`` or ``BEYOND``."""

    requester: str
    author: bytes
    log: int
    reason: Tiny
    first: int
    last: int


class Missing(NamedTuple):
    """A run of numbers that are denoted and not verified here: a row of ``culm.spark.select.Selection.missing``."""

    requester: str
    author: bytes
    log_id: Unsigned
    first: Unsigned
    last: Unsigned
    entries: Unsigned
    reason: str


def numbers_of(column: pa.Array) -> Numbers:
    """The unsigned numbers of a column of signed longs (``to_sql``); null becomes 0."""
    return unsigned(np.asarray(column.fill_null(to_sql(0))).astype(np.int64))


def u64(numbers: Sequence[int]) -> Numbers:
    """Numbers as an array of u64; plain ``np.array`` would make floats of numbers from 2^63 on."""
    return np.array(numbers, np.uint64)


def batch_of(table: type[Row], source: pa.RecordBatch, row: Offsets, **columns: Any) -> Batch:  # noqa: ANN401 - arrays and sequences of numbers
    """Rows of a table: author, log, requester and sizes are those of the rows of ``source``, other columns as given."""
    arrays = []
    for field in schema(table):
        if field.name in columns:
            given = columns[field.name]
            is_unsigned = isinstance(given, np.ndarray) and given.dtype == np.uint64
            arrays.append(pa.array(signed(given) if is_unsigned else given, field.type))
        elif field.name in source.schema.names:
            arrays.append(source.column(field.name).take(pa.array(row)))
        else:
            arrays.append(pa.nulls(len(row), field.type))
    return Batch(table, pa.record_batch(arrays, schema=schema(table)))


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
