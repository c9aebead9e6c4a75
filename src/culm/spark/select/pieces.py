"""Cutting ranges into pieces, in a worker: a piece is what a range denotes of one block of a log.

A range is cut to the blocks that exist, so each is joined with those rows of its log's blocks that it overlaps. Each
row also stands for the blocks behind it that do not exist. So every number belongs to one row, and what a range lacks
between two blocks is told once, as a *gap*, which costs only its two ends. A dense range becomes a span in each block:
it comes once with each block that it overlaps, and each time the part of it is cut that lies there.

Paths and certificates are spans of one number each. They have some hundred numbers at most, whatever the log's length
(docs/specs/ranges.md, "What is denoted"), and need no directory. All that a range denotes of one block is one piece,
if it is found at once.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute

from culm.bamboo import MAX_U64
from culm.bamboo.lipmaa import SPINE, path, spine
from culm.ranges.runs import Runs
from culm.spark.batches.arrays import begins, signed, unsigned
from culm.spark.batches.fields import Flags, Numbers, Offsets, lipmaa_of
from culm.spark.batches.pack import BLOCK_BITS
from culm.spark.runtime.columns import Batch, Row, Unsigned, combined, fitted, names
from culm.spark.select.requests import CERTIFICATE, METADATA, OPEN, PART, PAYLOAD, SPARSE, Asked
from culm.store.schema import from_sql, to_sql

_SPAN = np.dtype([("first", "<u2"), ("last", "<u2"), ("wants", "<u2")])
"""A span of numbers, as offsets in its block, and what is wanted of it."""

NOT_HELD, BEYOND = REASONS = ("not held", "beyond the newest entry")
"""Why there is a gap: a closed range may name numbers above the newest entry."""

_SPINE = np.array(SPINE[:42], np.uint64)  # the numbers of the spine that fit into 64 bits

Spans = tuple[Offsets, Numbers, Numbers, Offsets]
"""The rows of ranges, first and last number, what is wanted."""


class BlockRow(NamedTuple):
    """A block with verified entries, and the blocks behind it that have none.

    ``low`` is the first number of the block, ``upto`` the last one before the log's next block that has entries, or the
    last there is. ``newest`` is the greatest verified number of the log. Every log with verified entries has some in
    its first block, since a path leads to entry 1; so its rows cover all numbers.
    """

    author: bytes
    log: int
    low: int
    upto: int
    newest: int


def covering(rows: Iterable[BlockRow]) -> Iterator[BlockRow]:
    """Rows of blocks, which come sorted by log and number, each with the newest entry of the block, as described."""
    for _, of_log in groupby(rows, key=attrgetter("author", "log")):
        blocks = list(of_log)
        for row, after in zip_longest(blocks, blocks[1:]):
            upto = to_sql(MAX_U64) if after is None else after.low - 1
            yield row._replace(upto=upto, newest=blocks[-1].newest)


class Piece(NamedTuple):
    """What is wanted of a block; or, without a ``requester``, the block's verified entries.

    ``data`` has a ``_SPAN`` for each span of numbers, or is a batch of ``Item``. ``pairs`` is how many numbers
    the piece has, ``share`` the number of the task among those that share in the block.
    """

    author: bytes
    log: int
    block: int
    share: int | None
    data: bytes
    requester: str | None = None
    least: int | None = None
    limit: int | None = None
    pairs: int | None = None


class Gap(NamedTuple):
    """A span without any entry that is held, and the reason: ``NOT_HELD`` or ``BEYOND``."""

    requester: str
    author: bytes
    log: int
    reason: str
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


Request = combined("Request", __name__, Asked, BlockRow)
"""A range with a block of its log that it overlaps; ``low`` is null if the log has no verified entries."""


def numbers_of(column: pa.Array) -> Numbers:
    """The unsigned numbers of a column of signed longs (``to_sql``); null becomes 0."""
    return unsigned(np.asarray(column.fill_null(to_sql(0))).astype(np.int64))


def unpacked(pieces: pa.Array) -> list[Offsets]:
    """Of each span in a column ``Piece.data`` the row, the first and the last offset, and what is wanted."""
    spans = np.frombuffer(b"".join(pieces.to_pylist()), _SPAN)
    row = np.repeat(np.arange(len(pieces)), np.asarray(compute.binary_length(pieces)) // _SPAN.itemsize)
    return [row, *(spans[name].astype(np.int64) for name in _SPAN.names or ())]


def batch_of(table: type[Row], source: pa.RecordBatch, row: Offsets, **given: Any) -> Batch:  # noqa: ANN401 - arrays and sequences
    """Rows of a table: columns as given, others from rows of ``source``; null where neither has the column."""
    taken = source.select([name for name in source.schema.names if name in names(table)]).take(pa.array(row))
    return Batch(table, fitted(taken, table, given))


def gaps_of(source: pa.RecordBatch, row: Offsets, first: Numbers, last: Numbers, reason: str) -> Batch:
    """The gaps of some rows of ``source``."""
    return batch_of(Gap, source, row, first=signed(first), last=signed(last), reason=[reason] * len(row))


def cut(batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    """Batches of ``Request`` to pieces and gaps."""
    for batch in filter(len, batches):
        yield from _Cut(batch).pieces()


class _Cut:
    """The ranges of one batch, as columns; paths are walked for all of them at once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        numbers = (numbers_of(batch.column(name)) for name in ("start", "last", "head", "tail", "newest", "low"))
        self._start, self._last, self._head, self._tail, self._newest, self._low = numbers
        self._kind = np.asarray(batch.column("kind")).astype(np.int64)
        self._sparse, self._open, self._metadata = (self._kind & bits != 0 for bits in (SPARSE, OPEN | PART, METADATA))
        self._first = self._low <= self._start  # what no single block decides is said once
        self._reached = self._newest >= self._start
        self._gaps: list[Batch] = []

    def pieces(self) -> Iterator[Batch]:
        spans = [self._dense(), self._paths(), *self._certificates()]
        yield self._of_blocks(*(np.concatenate(column) for column in zip(*spans, strict=True)))
        yield from self._gaps

    def _lack(self, reason: str, row: Offsets, first: Numbers, last: Numbers) -> None:
        self._gaps.append(gaps_of(self._batch, row, first, last, reason))

    def _dense(self) -> Spans:
        """The items of the dense ranges in the row's block; notes what they lack in the blocks behind it."""
        beyond = (self._first & ~self._sparse & ~self._open & (self._last > self._newest)).nonzero()[0]
        above = np.maximum(self._start[beyond], self._newest[beyond] + np.uint64(1))
        self._lack(BEYOND, beyond, above, self._last[beyond])
        wants = self._kind & (METADATA | PAYLOAD)
        row = (~self._sparse & self._reached & (wants != 0)).nonzero()[0]
        upto, low = numbers_of(self._batch.column("upto"))[row], self._low[row]
        first = np.maximum(self._start[row], low)
        last = np.minimum(np.minimum(self._last[row], self._newest[row]), upto)
        end = low | np.uint64((1 << BLOCK_BITS) - 1)
        behind = (last > end) & (first <= last)
        self._lack(NOT_HELD, row[behind], np.maximum(first, end + np.uint64(1))[behind], last[behind])
        last = np.minimum(last, end)
        there = first <= last
        return row[there], first[there], last[there], wants[row[there]]

    # -- numbers

    def _paths(self) -> Spans:
        """The items of the sparse ranges; notes those of closed ones that lie beyond the newest entry."""
        rows = (self._sparse & (self._reached | ~self._open)).nonzero()[0]
        row, seq = _steps(rows, np.where(self._open, self._newest, self._last)[rows], self._start[rows])
        there = seq <= self._newest[row]
        self._lack(BEYOND, row[~there], seq[~there], seq[~there])
        row, seq = row[there], seq[there]
        wants = self._kind[row] & (METADATA | PAYLOAD)
        for at, forbidden in enumerate(self._batch.column("forbidden").to_pylist()):
            if forbidden is not None:
                wants[(row == at) & np.isin(seq, np.frombuffer(forbidden, "<u8"))] &= ~PAYLOAD
        some = wants != 0
        return row[some], seq[some], seq[some], wants[some]

    def _certificates(self) -> Iterator[Spans]:
        """The certificates of the items: the path below the start, and the one above the end of closed ranges."""
        wanted = self._first & self._metadata & self._reached
        rows = wanted.nonzero()[0]
        row, seq = _steps(rows, self._start[rows], np.ones(len(rows), np.uint64))
        yield _certificates(row, seq, (seq > self._head[row]) & (seq < self._start[row]))
        # The path from above begins at a spine number, perhaps beyond the newest entry; what lies there does not exist.
        rows = (wanted & ~self._open & (self._last < self._newest)).nonzero()[0]
        last = self._last[rows]
        top = _SPINE[np.minimum(np.searchsorted(_SPINE, last), len(_SPINE) - 1)]
        for at in (last > _SPINE[-1]).nonzero()[0].tolist():  # The spine number does not fit into 64 bits.
            top[at] = max(number for number in path(spine(int(last[at])), int(last[at])) if number <= MAX_U64)
        row, seq = _steps(rows, top, last)
        limit, above = self._tail[row], (seq > self._last[row]) & (seq <= self._newest[row])
        yield _certificates(row, seq, above & ((limit == 0) | (seq < limit)))

    def _of_blocks(self, row: Offsets, first: Numbers, last: Numbers, wants: Offsets) -> Batch:
        """The pieces of the ranges that have these spans. A span lies in one block."""
        order = np.lexsort((first, row))
        row, wants, block = row[order], wants[order], (first[order] >> np.uint64(BLOCK_BITS)).astype(np.int64)
        begin, end = ((at[order] & np.uint64((1 << BLOCK_BITS) - 1)).astype(np.int64) for at in (first, last))
        starts = begins(row, block)
        bounds = (np.append(starts, len(row)) * _SPAN.itemsize).astype(np.int32)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(np.rec.fromarrays([begin, end, wants], _SPAN))]
        data, pairs = pa.Array.from_buffers(pa.binary(), len(starts), buffers), np.add.reduceat(end - begin + 1, starts)
        return batch_of(Piece, self._batch, row[starts], block=block[starts], data=data, pairs=pairs)


def _steps(rows: Offsets, top: Numbers, goal: Numbers) -> tuple[Offsets, Numbers]:
    """The numbers on the paths from ``top`` down to ``goal``, both included, each with its row.

    All paths take their steps together. A path has at most some hundred steps, so the loop is short for any log.
    """
    found, at = [(rows, top)], top
    while len(rows):
        going = at > goal
        rows, at, goal = rows[going], at[going], goal[going]
        jump = lipmaa_of(at)
        at = np.where(jump >= goal, jump, at - np.uint64(1))
        found.append((rows, at))
    every_row, every_number = map(np.concatenate, zip(*found, strict=True))
    return every_row, every_number


def _certificates(row: Offsets, seq: Numbers, kept: Flags) -> Spans:
    row, seq = row[kept], seq[kept]
    return row, seq, seq, np.full(len(row), CERTIFICATE)


def merged(rows: Iterable[Gap]) -> Iterator[Missing]:
    """Gaps, sorted by requester, log, reason and first number, as runs that do not touch."""
    for (requester, author, log, reason), of_log in groupby(rows, key=attrgetter(*Gap._fields[:4])):
        for first, last in Runs((from_sql(row.first), from_sql(row.last)) for row in of_log):
            yield Missing(requester, author, from_sql(log), first, last, last - first + 1, reason)
