"""Cutting ranges into pieces, in a worker: what a range denotes of one block of a log, in one row.

A dense range becomes a span in each block that is there; which those are, a *page* tells, a directory of ``PAGE``
neighbouring blocks. A log's first page comes with every request for it, which is all there is of most logs; the rest
of a range waits as *far* until it meets the other pages. Paths and certificates are numbers, some hundred at most
whatever the log's length (docs/ranges.md, "What is denoted"), and need no directory.

Forbidden numbers cut the payloads' spans, so that nothing further on knows of them. Whatever lies where no block is
comes out as gaps, which cost their ends only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from culm.bamboo.lipmaa import SPINE, path, spine
from culm.ranges.runs import Runs
from culm.spark.columns import Columns
from culm.spark.fields import lipmaa_of
from culm.spark.pack import BLOCK_BITS
from culm.spark.select_requests import CERTIFICATE, METADATA, OPEN, PAYLOAD, RANGE, SPARSE
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from culm.spark.fields import Flags, Numbers, Offsets

    Row = tuple[Any, ...]
    BlockRuns = Sequence[tuple[int, int]]

PAGE_BITS = 10
NARROW_PAGES = 4  # far spans of up to so many pages look each of them up; longer ones take those that are there
OFFSET_BITS = 13  # of a number in ``numbers``; above it stands what is wanted
PIECE, FAR, GAP = range(3)
NOT_HELD, BEYOND = range(2)
"""Why there is a gap: not held, or a closed range names numbers above the newest entry."""

PAGES = Columns(author="BINARY", log="BIGINT", page="BIGINT", newest="BIGINT", blocks="BINARY")
"""``newest``: the greatest verified number; ``blocks``: runs of blocks with verified entries, u16 pairs."""

UNPAGED = Columns(author="BINARY", log="BIGINT", page="BIGINT", block="BIGINT", newest="BIGINT")
"""Blocks with verified entries, and the greatest of those."""

REQUESTS = Columns(**RANGE.types, newest="BIGINT", blocks="BINARY")
"""A range with what there is of its log: the newest verified entry (null: none) and the first page."""

PIECES = Columns(
    form="TINYINT",
    author="BINARY",
    log="BIGINT",
    block="BIGINT",
    requester="STRING",
    wants="TINYINT",
    least="BIGINT",
    limit="BIGINT",
    first="BIGINT",
    last="BIGINT",
    numbers="BINARY",
)
"""A PIECE: ``block``, and the span ``first`` to ``last`` of which ``wants`` is wanted, or ``numbers``, u16s of an
offset in the block and, ``OFFSET_BITS`` higher, what is wanted. FAR: a span, ``block`` the page or null. A GAP: a span,
``wants`` the reason."""

FAR_SPANS = Columns(
    author="BINARY",
    log="BIGINT",
    requester="STRING",
    wants="TINYINT",
    least="BIGINT",
    limit="BIGINT",
    first="BIGINT",
    last="BIGINT",
    page="BIGINT",
    next="BIGINT",
    blocks="BINARY",
)
"""A far span with a page that is there, or, ``blocks`` null, is not; ``next``: where the next page that is there."""

_ROWS = 50_000  # of a batch that comes out
_NUMBER = np.uint64(2**63)  # between a number and its signed form
_SPINE = np.array(SPINE[:42], np.uint64)


def numbers_of(column: pa.Array) -> Numbers:
    """The unsigned numbers that travelled as signed longs (``to_sql``); null is 0."""
    found: Numbers = np.asarray(column.fill_null(to_sql(0))).astype(np.int64).view(np.uint64) ^ _NUMBER
    return found


def signed(numbers: Numbers) -> pa.Array:
    """The reverse of ``numbers_of``."""
    import pyarrow as pa

    return pa.array((numbers ^ _NUMBER).view(np.int64))


# -- pages -----------------------------------------------------------------------------------------------------------


def page_of(block: int) -> int:
    """The page that a block is in."""
    return block >> PAGE_BITS


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
def _runs(blocks: bytes) -> tuple[tuple[int, int], ...]:
    pairs = np.frombuffer(blocks, "<u2").reshape(-1, 2).tolist()
    return tuple((first, last) for first, last in pairs)


def _walk(runs: BlockRuns, low: int, high: int) -> Iterator[tuple[int, int, bool]]:
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


# -- cutting ---------------------------------------------------------------------------------------------------------


def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``REQUESTS`` to ``PIECES``."""
    for batch in batches:
        if len(batch):
            yield from _Cut(batch).pieces()


def spread(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``FAR_SPANS`` to ``PIECES``."""
    for batch in batches:
        places = _Places()
        columns = (batch.column(name).to_pylist() for name in ("first", "last", "wants", "page", "next", "blocks"))
        for row, (low, high, wants, page, after, blocks) in enumerate(zip(*columns, strict=True)):
            span = (row, from_sql(low), from_sql(high), wants)
            base = page << PAGE_BITS
            places.put(span, _runs(blocks or b""), base, base + (1 << PAGE_BITS) - 1)
            if after is not None:
                places.leave_out(span, (page + 1) << PAGE_BITS, (after << PAGE_BITS) - 1)
        yield from places.batches(batch)


class _Places:
    """Where the spans of the rows of a batch lie: in blocks, far off, or in gaps."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int, int, int, int]] = []  # row, span, wants, blocks
        self._far: list[tuple[int, int, int, int, int | None]] = []
        self._gaps: list[tuple[int, int, int, int]] = []

    def put(self, span: tuple[int, int, int, int], runs: BlockRuns, base: int, top: int) -> None:
        """Place what a span (row, first, last, wants) has of the blocks ``base`` to ``top``; ``runs`` start there."""
        row, first, last, wants = span
        low, high = max(first >> BLOCK_BITS, base), min(last >> BLOCK_BITS, top)
        if low > high:
            return
        for from_block, to_block, there in _walk(runs, low - base, high - base):
            if there:
                self._runs.append((row, first, last, wants, base + from_block, base + to_block))
            else:
                self.leave_out(span, base + from_block, base + to_block)

    def leave_out(self, span: tuple[int, int, int, int], low: int, high: int) -> None:
        """What a span has of blocks that are not there is a gap."""
        row, first, last, _ = span
        self.gap(row, max(first, low << BLOCK_BITS), min(last, ((high + 1) << BLOCK_BITS) - 1), NOT_HELD)

    def gap(self, row: int, first: int, last: int, reason: int) -> None:
        """A gap, if there is any number in it."""
        if first <= last:
            self._gaps.append((row, first, last, reason))

    def far(self, span: tuple[int, int, int, int], low: int) -> None:
        """What a span has of the blocks from ``low`` on is dealt with later."""
        row, first, last, wants = span
        first = max(first, low << BLOCK_BITS)
        bits = BLOCK_BITS + PAGE_BITS
        if (last >> bits) - (first >> bits) >= NARROW_PAGES:
            self._far.append((row, first, last, wants, None))
            return
        for page in range(first >> bits, (last >> bits) + 1):
            self._far.append((row, max(first, page << bits), min(last, ((page + 1) << bits) - 1), wants, page))

    def batches(self, source: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The ``PIECES`` they make; what is not said here comes from the rows of ``source``."""
        if self._runs:
            yield from self._of_blocks(source)
        if self._far:
            row, first, last, wants, page = zip(*self._far, strict=True)
            yield _batch(source, FAR, np.array(row), first=_u64(first), last=_u64(last), wants=wants, block=page)
        if self._gaps:
            row, first, last, reason = zip(*self._gaps, strict=True)
            yield _batch(source, GAP, np.array(row), first=_u64(first), last=_u64(last), wants=reason)

    def _of_blocks(self, source: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        row, first, last, wants, low, high = (_u64(column) for column in zip(*self._runs, strict=True))
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
            yield _batch(
                source,
                PIECE,
                row[run].astype(np.int64),
                first=np.maximum(first[run], base),
                last=np.minimum(last[run], base + np.uint64((1 << BLOCK_BITS) - 1)),
                wants=wants[run].astype(np.int8),
                block=block.astype(np.int64),
            )


def _u64(numbers: Sequence[int]) -> Numbers:
    return np.array(numbers, np.uint64)


def _batch(
    source: pa.RecordBatch,
    form: int,
    row: Offsets,
    *,
    first: Numbers | None = None,
    last: Numbers | None = None,
    wants: Any = None,  # noqa: ANN401 - any sequence of numbers
    block: Any = None,  # noqa: ANN401
    numbers: pa.Array | None = None,
) -> pa.RecordBatch:
    """Rows of ``PIECES``: author, log, requester and sizes are those of the rows of ``source``."""
    import pyarrow as pa

    kinds = PIECES.arrow
    taken = {name: source.column(name).take(pa.array(row)) for name in ("author", "log", "requester", "least", "limit")}
    own = {
        "form": pa.array(np.full(len(row), form, np.int8)),
        "block": None if block is None else pa.array(block, pa.int64()),
        "wants": None if wants is None else pa.array(wants, pa.int8()),
        "first": None if first is None else signed(first),
        "last": None if last is None else signed(last),
        "numbers": numbers,
    }
    columns = {**taken, **{name: value for name, value in own.items() if value is not None}}
    return pa.record_batch(
        [columns.get(name, pa.nulls(len(row), kind)) for name, kind in kinds.items()], names=list(kinds)
    )


class _Cut:
    """The ranges of one batch: columns."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._start, self._last = numbers_of(batch.column("start")), numbers_of(batch.column("last"))
        self._head, self._tail = numbers_of(batch.column("head")), numbers_of(batch.column("tail"))
        self._newest = numbers_of(batch.column("newest"))
        self._kind = np.asarray(batch.column("kind")).astype(np.int8)
        self._sparse, self._open = self._has(SPARSE), self._has(OPEN)
        self._reached = self._newest >= self._start
        self._forbidden = {
            row: np.frombuffer(data, "<u8")
            for row, data in enumerate(batch.column("forbidden").to_pylist())
            if data is not None
        }
        self._places = _Places()

    def _has(self, bits: int) -> Flags:
        found: Flags = (self._kind & bits) != 0
        return found

    def pieces(self) -> Iterator[pa.RecordBatch]:
        """What the ranges denote, as ``PIECES``."""
        found = [self._paths(), *self._certificates()]
        yield from self._of_numbers(*(np.concatenate(column) for column in zip(*found, strict=True)))
        self._place_dense()
        yield from self._places.batches(self._batch)

    # -- numbers

    def _paths(self) -> tuple[Offsets, Numbers, npt.NDArray[np.int8]]:
        """The items of the sparse ranges: row, number, what is wanted."""
        rows = (self._sparse & (self._reached | ~self._open)).nonzero()[0]
        top = np.where(self._open, self._newest, self._last)
        row, seq = _steps(rows, top[rows], self._start[rows])
        beyond = seq > self._newest[row]
        if beyond.any():
            for at in np.unique(row[beyond]).tolist():
                for first, last in Runs((number, number) for number in sorted(seq[beyond & (row == at)].tolist())):
                    self._places.gap(at, first, last, BEYOND)
            row, seq = row[~beyond], seq[~beyond]
        wants = self._kind[row] & (METADATA | PAYLOAD)
        for at, forbidden in self._forbidden.items():
            if self._sparse[at]:
                wants[(row == at) & np.isin(seq, forbidden)] &= ~PAYLOAD
        return row, seq, wants

    def _certificates(self) -> Iterator[tuple[Offsets, Numbers, npt.NDArray[np.int8]]]:
        """What is needed to verify the items: below the start, and above the end of closed ranges."""
        wanted = self._has(METADATA) & self._reached
        rows = wanted.nonzero()[0]
        row, seq = _steps(rows, self._start[rows], np.ones(len(rows), np.uint64))
        kept = (seq > self._head[row]) & (seq < self._start[row])
        yield _certificates(row[kept], seq[kept])
        # Of a path from above, what is behind the newest entry does not exist.
        closed = (wanted & ~self._open & (self._last < self._newest)).nonzero()[0]
        low = self._last[closed] <= _SPINE[-1]
        rows = closed[low]
        row, seq = _steps(rows, _SPINE[np.searchsorted(_SPINE, self._last[rows])], self._last[rows])
        for at in closed[~low].tolist():  # their spine number has more than 64 bits
            end = int(self._last[at])
            high = [number for number in path(spine(end), end) if number <= self._newest[at]]
            row = np.append(row, np.full(len(high), at))
            seq = np.append(seq, _u64(high))
        limit = self._tail[row]
        kept = (seq > self._last[row]) & (seq <= self._newest[row]) & ((limit == 0) | (seq < limit))
        yield _certificates(row[kept], seq[kept])

    def _of_numbers(self, row: Offsets, seq: Numbers, wants: npt.NDArray[np.int8]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

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
        yield _batch(self._batch, PIECE, row[starts], block=block[starts].astype(np.int64), numbers=numbers)

    # -- spans

    def _place_dense(self) -> None:
        blocks = self._batch.column("blocks")
        top = (1 << PAGE_BITS) - 1
        for row in (~self._sparse).nonzero()[0].tolist():
            newest, last = int(self._newest[row]), int(self._last[row])
            if not self._open[row]:
                self._places.gap(row, max(int(self._start[row]), newest + 1), last, BEYOND)
            if not self._reached[row]:
                continue
            runs = _runs(blocks[row].as_py())
            for first, end, wants in self._spans(row, min(last, newest)):
                span = (row, first, end, wants)
                if first >> BLOCK_BITS <= top:
                    self._places.put(span, runs, 0, top)
                if end >> BLOCK_BITS > top:
                    self._places.far(span, top + 1)

    def _spans(self, row: int, last: int) -> Iterator[tuple[int, int, int]]:
        """First, last, what is wanted; forbidden numbers are between the spans of the payloads."""
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


def _steps(rows: Offsets, top: Numbers, goal: Numbers) -> tuple[Offsets, Numbers]:
    """The numbers on the paths from ``top`` down to ``goal``, both included, each with its row."""
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
