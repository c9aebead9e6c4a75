"""Where spans of numbers lie: in blocks that exist, in gaps between them, or *far*, on pages not looked at yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from culm.spark.batches.arrays import signed, unsigned
from culm.spark.batches.fields import Numbers, Offsets
from culm.spark.batches.pack import BLOCK_BITS
from culm.spark.runtime.columns import Batch, Row, Tiny, schema
from culm.spark.select.pages import PAGE_BITS, BlockRuns, walk
from culm.store.schema import to_sql

# A far span over at most this many pages becomes a row for each page, which is joined with that page alone. A longer
# one stays one row and is joined with all pages of its log, because most of its pages may not exist.
NARROW_PAGES = 4

OFFSET_BITS = 13  # of a u16 in ``numbers`` for the offset in the block; the 3 bits above it say what is wanted
NOT_HELD, BEYOND = range(2)
"""Why there is a gap: not held, or a closed range names numbers above the newest entry."""


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


class Far(NamedTuple):
    """A span that has not been cut yet, and the page it lies in."""

    author: bytes
    log: int
    requester: str
    least: int
    limit: int
    wants: Tiny
    first: int
    last: int
    page: int


class Wide(NamedTuple):
    """A span that has not been cut yet and covers many pages."""

    author: bytes
    log: int
    requester: str
    least: int
    limit: int
    wants: Tiny
    first: int
    last: int


class Gap(NamedTuple):
    """A span without any entry that is held, and the reason: ``NOT_HELD`` or ``BEYOND``."""

    requester: str
    author: bytes
    log: int
    reason: Tiny
    first: int
    last: int


_ROWS = 50_000  # Rows in one batch, some megabytes: a span over a whole log can make a row for each of its blocks.


def numbers_of(column: pa.Array) -> Numbers:
    """The unsigned numbers of a column of signed longs (``to_sql``); null becomes 0."""
    return unsigned(np.asarray(column.fill_null(to_sql(0))).astype(np.int64))


class Places:
    """Collects where the spans of one batch lie, and makes rows of them.

    A span is a tuple: the row of the batch it belongs to, its first and last number, and what is wanted.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int, int, int, int]] = []  # row, span, wants, blocks
        self._far: list[tuple[int, int, int, int, int]] = []
        self._wide: list[tuple[int, int, int, int]] = []
        self._gaps: list[tuple[int, int, int, int]] = []

    def put(self, span: tuple[int, int, int, int], runs: BlockRuns, base: int, top: int) -> None:
        """Place the part of a span that lies in the blocks ``base`` to ``top``.

        ``runs`` are the blocks that exist, counted from ``base``; the others become gaps.
        """
        row, first, last, wants = span
        low, high = max(first >> BLOCK_BITS, base), min(last >> BLOCK_BITS, top)
        if low > high:
            return
        for from_block, to_block, there in walk(runs, low - base, high - base):
            if there:
                self._runs.append((row, first, last, wants, base + from_block, base + to_block))
            else:
                self.leave_out(span, base + from_block, base + to_block)

    def leave_out(self, span: tuple[int, int, int, int], low: int, high: int) -> None:
        """Note as a gap the part of a span that lies in the blocks ``low`` to ``high``, which do not exist."""
        row, first, last, _ = span
        self.gap(row, max(first, low << BLOCK_BITS), min(last, ((high + 1) << BLOCK_BITS) - 1), NOT_HELD)

    def gap(self, row: int, first: int, last: int, reason: int) -> None:
        """Note a gap; none if ``first`` is above ``last``."""
        if first <= last:
            self._gaps.append((row, first, last, reason))

    def far(self, span: tuple[int, int, int, int], low: int) -> None:
        """Note as far the part of a span that lies in the blocks from ``low`` on."""
        row, first, last, wants = span
        first = max(first, low << BLOCK_BITS)
        bits = BLOCK_BITS + PAGE_BITS
        if (last >> bits) - (first >> bits) >= NARROW_PAGES:
            self._wide.append((row, first, last, wants))
            return
        for page in range(first >> bits, (last >> bits) + 1):
            self._far.append((row, max(first, page << bits), min(last, ((page + 1) << bits) - 1), wants, page))

    def batches(self, source: pa.RecordBatch) -> Iterator[Batch]:
        """All that was noted. Author, log, requester and sizes come from the rows of ``source``."""
        if self._runs:
            yield from self._of_blocks(source)
        if self._far:
            row, first, last, wants, page = zip(*self._far, strict=True)
            yield batch_of(Far, source, np.array(row), first=u64(first), last=u64(last), wants=wants, page=page)
        if self._wide:
            row, first, last, wants = zip(*self._wide, strict=True)
            yield batch_of(Wide, source, np.array(row), first=u64(first), last=u64(last), wants=wants)
        if self._gaps:
            row, first, last, reason = zip(*self._gaps, strict=True)
            yield batch_of(Gap, source, np.array(row), first=u64(first), last=u64(last), reason=reason)

    def _of_blocks(self, source: pa.RecordBatch) -> Iterator[Batch]:
        row, first, last, wants, low, high = (u64(column) for column in zip(*self._runs, strict=True))
        count = (high - low + np.uint64(1)).astype(np.int64)
        part = np.cumsum(count) // _ROWS
        for at in range(int(part[0]), int(part[-1]) + 1):
            of_part = slice(int(np.searchsorted(part, at)), int(np.searchsorted(part, at, "right")))
            counts = count[of_part]
            if not len(counts):
                continue
            run = np.repeat(np.arange(of_part.start, of_part.stop), counts)
            block = low[run] + (np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)).astype(np.uint64)
            base = block << np.uint64(BLOCK_BITS)
            low_end = np.maximum(first[run], base)
            high_end = np.minimum(last[run], base + np.uint64((1 << BLOCK_BITS) - 1))
            yield batch_of(
                Piece,
                source,
                row[run].astype(np.int64),
                first=low_end,
                last=high_end,
                pairs=(high_end - low_end + np.uint64(1)).astype(np.int64),
                wants=wants[run].astype(np.int8),
                block=block.astype(np.int64),
            )


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
