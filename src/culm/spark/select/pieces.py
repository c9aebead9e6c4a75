"""Cutting ranges into pieces, in a worker: a piece is what a range denotes of one block of a log.

A dense range becomes a span in each block that exists. The log's pages tell which blocks do
(``culm.spark.select.places``). A range comes once with each page of its log, and each time the part of it is cut that
lies there. Most logs have one page only.

Paths and certificates are lists of numbers instead. They have some hundred numbers at most, whatever the log's length
(docs/specs/ranges.md, "What is denoted"), and need no directory.

Forbidden numbers cut the spans of payloads, so that the later steps need not know of them. Numbers in blocks that do
not exist come out as gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from culm.bamboo.lipmaa import SPINE, path, spine
from culm.ranges.runs import Runs
from culm.spark.batches.fields import Flags, Numbers, Offsets, lipmaa_of
from culm.spark.batches.pack import BLOCK_BITS
from culm.spark.runtime.columns import Batch, combined
from culm.spark.select.places import (
    BEYOND,
    NOT_HELD,
    OFFSET_BITS,
    PAGE_BITS,
    Gap,
    PageRow,
    Piece,
    batch_of,
    numbers_of,
    runs_of,
    u64,
)
from culm.spark.select.requests import CERTIFICATE, METADATA, OPEN, PAYLOAD, SPARSE, Asked

Request = combined("Request", __name__, Asked, PageRow)
"""A range with a page of its log; without one (``page`` is null) if the log has no verified entries."""

_ROWS = 50_000  # Rows in one batch, some megabytes: a span over a whole log can make a row for each of its blocks.

_SPINE = np.array(SPINE[:42], np.uint64)  # the numbers of the spine that fit into 64 bits


def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    """Batches of ``Request`` to pieces and gaps."""
    for batch in batches:
        if len(batch):
            yield from _Cut(batch).pieces()


class _Cut:
    """The ranges of one batch, as columns; paths are walked for all of them at once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._start, self._last = numbers_of(batch.column("start")), numbers_of(batch.column("last"))
        self._head, self._tail = numbers_of(batch.column("head")), numbers_of(batch.column("tail"))
        self._newest = numbers_of(batch.column("newest"))
        self._kind = np.asarray(batch.column("kind")).astype(np.int8)
        self._sparse, self._open = self._has(SPARSE), self._has(OPEN)
        self._first = np.asarray(batch.column("page").fill_null(0)) == 0  # what no page decides is said once
        self._reached = self._newest >= self._start
        self._forbidden = {
            row: np.frombuffer(data, "<u8")
            for row, data in enumerate(batch.column("forbidden").to_pylist())
            if data is not None
        }
        self._runs: list[tuple[int, int, int, int, int, int]] = []  # row, span, wants, blocks that exist
        self._gaps: list[tuple[int, int, int, int]] = []  # row, span, reason

    def _has(self, bits: int) -> Flags:
        found: Flags = (self._kind & bits) != 0
        return found

    def pieces(self) -> Iterator[Batch]:
        found = [self._paths(), *self._certificates()]
        yield from self._of_numbers(*(np.concatenate(column) for column in zip(*found, strict=True)))
        self._place_dense()
        if self._runs:
            yield from self._of_blocks()
        if self._gaps:
            row, first, last, reason = zip(*self._gaps, strict=True)
            yield batch_of(Gap, self._batch, np.array(row), first=u64(first), last=u64(last), reason=reason)

    # -- numbers

    def _paths(self) -> tuple[Offsets, Numbers, npt.NDArray[np.int8]]:
        """The items of the sparse ranges, as columns: the range's row, the number, what is wanted."""
        rows = (self._first & self._sparse & (self._reached | ~self._open)).nonzero()[0]
        top = np.where(self._open, self._newest, self._last)
        row, seq = _steps(rows, top[rows], self._start[rows])
        beyond = seq > self._newest[row]
        if beyond.any():
            for at in np.unique(row[beyond]).tolist():
                for first, last in Runs((number, number) for number in sorted(seq[beyond & (row == at)].tolist())):
                    self._gap(at, first, last, BEYOND)
            row, seq = row[~beyond], seq[~beyond]
        wants = self._kind[row] & (METADATA | PAYLOAD)
        for at, forbidden in self._forbidden.items():
            if self._sparse[at]:
                wants[(row == at) & np.isin(seq, forbidden)] &= ~PAYLOAD
        return row, seq, wants

    def _certificates(self) -> Iterator[tuple[Offsets, Numbers, npt.NDArray[np.int8]]]:
        """The certificates of the items: the path below the start, and the one above the end of closed ranges."""
        wanted = self._first & self._has(METADATA) & self._reached
        rows = wanted.nonzero()[0]
        row, seq = _steps(rows, self._start[rows], np.ones(len(rows), np.uint64))
        kept = (seq > self._head[row]) & (seq < self._start[row])
        yield _certificates(row[kept], seq[kept])
        # The path from above begins at a spine number, perhaps beyond the newest entry; what lies there does not exist.
        closed = (wanted & ~self._open & (self._last < self._newest)).nonzero()[0]
        low = self._last[closed] <= _SPINE[-1]
        rows = closed[low]
        row, seq = _steps(rows, _SPINE[np.searchsorted(_SPINE, self._last[rows])], self._last[rows])
        for at in closed[~low].tolist():  # their spine number does not fit into 64 bits, so Python's integers do it
            end = int(self._last[at])
            high = [number for number in path(spine(end), end) if number <= self._newest[at]]
            row = np.append(row, np.full(len(high), at))
            seq = np.append(seq, u64(high))
        limit = self._tail[row]
        kept = (seq > self._last[row]) & (seq <= self._newest[row]) & ((limit == 0) | (seq < limit))
        yield _certificates(row[kept], seq[kept])

    def _of_numbers(self, row: Offsets, seq: Numbers, wants: npt.NDArray[np.int8]) -> Iterator[Batch]:
        some = wants != 0
        row, seq, wants = row[some], seq[some], wants[some]
        if not len(row):
            return
        order = np.lexsort((seq, row))
        row, seq = row[order], seq[order]
        block = seq >> np.uint64(BLOCK_BITS)
        first = np.ones(len(row), np.bool_)
        first[1:] = (row[1:] != row[:-1]) | (block[1:] != block[:-1])
        starts = first.nonzero()[0]
        offset = seq & np.uint64((1 << BLOCK_BITS) - 1)
        values = (offset | wants[order].astype(np.uint64) << np.uint64(OFFSET_BITS)).astype("<u2")
        bounds = (np.append(starts, len(row)) * 2).astype(np.int32)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(values)]
        numbers = pa.Array.from_buffers(pa.binary(), len(starts), buffers)
        yield batch_of(
            Piece,
            self._batch,
            row[starts],
            block=block[starts].astype(np.int64),
            numbers=numbers,
            pairs=np.diff(bounds) // 2,
        )

    # -- spans

    def _place_dense(self) -> None:
        pages = [self._batch.column(name).to_pylist() for name in ("page", "next", "blocks")]
        for row, (page, after, blocks) in enumerate(zip(*pages, strict=True)):
            if self._sparse[row]:
                continue
            newest, last = int(self._newest[row]), int(self._last[row])
            if self._first[row] and not self._open[row]:
                self._gap(row, max(int(self._start[row]), newest + 1), last, BEYOND)
            if self._reached[row]:
                # A page is also responsible for the pages behind it that do not exist, so that gaps are told once.
                base, top = page << PAGE_BITS, ((after or page + 1) << PAGE_BITS) - 1
                for first, end, wants in self._spans(row, min(last, newest)):
                    self._put((row, first, end, wants), runs_of(blocks), base, top)

    def _spans(self, row: int, last: int) -> Iterator[tuple[int, int, int]]:
        """The spans of a dense range: first, last, what is wanted. Spans of payloads leave out forbidden numbers."""
        first, wants = int(self._start[row]), int(self._kind[row]) & (METADATA | PAYLOAD)
        forbidden = self._forbidden.get(row)
        if forbidden is None:
            yield first, last, wants
            return
        if wants & METADATA:
            yield first, last, METADATA
        for number in forbidden.tolist():
            if first < number and first <= last:
                yield first, min(number - 1, last), PAYLOAD
            first = number + 1
        if first <= last:
            yield first, last, PAYLOAD

    def _put(self, span: tuple[int, int, int, int], runs: Runs, base: int, top: int) -> None:
        """Place the part of a span that lies in the blocks ``base`` to ``top``.

        ``runs`` are the blocks that exist, counted from ``base``; the others become gaps.
        """
        row, first, last, wants = span
        low, high = max(first >> BLOCK_BITS, base), min(last >> BLOCK_BITS, top)
        if low > high:
            return
        for begin, end in runs:
            if (at := max(low, base + begin)) <= (to := min(high, base + end)):
                self._runs.append((row, first, last, wants, at, to))
        for begin, end in runs.outside(low - base, high - base):
            behind = base + end + 1 << BLOCK_BITS
            self._gap(row, max(first, base + begin << BLOCK_BITS), min(last, behind - 1), NOT_HELD)

    def _gap(self, row: int, first: int, last: int, reason: int) -> None:
        """Note a gap; none if ``first`` is above ``last``."""
        if first <= last:
            self._gaps.append((row, first, last, reason))

    def _of_blocks(self) -> Iterator[Batch]:
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
                self._batch,
                row[run].astype(np.int64),
                first=low_end,
                last=high_end,
                pairs=(high_end - low_end + np.uint64(1)).astype(np.int64),
                wants=wants[run].astype(np.int8),
                block=block.astype(np.int64),
            )


def _steps(rows: Offsets, top: Numbers, goal: Numbers) -> tuple[Offsets, Numbers]:
    """The numbers on the paths from ``top`` down to ``goal``, both included, each with its row.

    All paths take their steps together. A path has at most some hundred steps, so the loop is short for any log.
    """
    found_rows, found = [rows], [top]
    at = top
    while len(rows):
        going = at > goal
        rows, at, goal = rows[going], at[going], goal[going]
        jump = lipmaa_of(at)
        at = np.where(jump >= goal, jump, at - np.uint64(1))
        found_rows.append(rows)
        found.append(at)
    return np.concatenate(found_rows), np.concatenate(found)


def _certificates(row: Offsets, seq: Numbers) -> tuple[Offsets, Numbers, npt.NDArray[np.int8]]:
    return row, seq, np.full(len(row), CERTIFICATE, np.int8)
