"""Where ranges lie: the blocks of a log that exist, pieces of ranges in them, and gaps, which cost only their two ends.

A range is cut to the blocks that exist, so each is joined with those rows of its log's blocks that it overlaps. Each
row also stands for the blocks behind it that do not exist. So every number belongs to one row, and what a range lacks
between two blocks is told once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.bamboo import MAX_U64
from culm.spark.batches.arrays import signed, unsigned
from culm.spark.batches.fields import Numbers, Offsets
from culm.spark.runtime.columns import Batch, Row, Unsigned, schema
from culm.store.schema import from_sql, to_sql
from culm.types import Run

_OFFSET_BITS = 13  # of a u32 in ``Piece.data`` for each end of a span, as offsets in the block; the rest is for wants

NOT_HELD, BEYOND = REASONS = ("not held", "beyond the newest entry")
"""Why there is a gap: a closed range may name numbers above the newest entry."""


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
    """What is wanted of a block: ``data`` has a u32 for each span of numbers (``packed``).

    ``pairs`` is how many numbers the piece has.
    """

    author: bytes
    log: int
    requester: str
    least: int
    limit: int
    block: int
    data: bytes
    pairs: int


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


def numbers_of(column: pa.Array) -> Numbers:
    """The unsigned numbers of a column of signed longs (``to_sql``); null becomes 0."""
    return unsigned(np.asarray(column.fill_null(to_sql(0))).astype(np.int64))


def packed(first: Offsets, last: Offsets, wants: Offsets) -> npt.NDArray[np.uint32]:
    """Spans of numbers, as offsets in their blocks, and what is wanted of each, as ``Piece.data`` has them."""
    return (first | last << _OFFSET_BITS | wants << 2 * _OFFSET_BITS).astype("<u4")


def unpacked(pieces: pa.Array) -> tuple[Offsets, Offsets, Offsets, Offsets]:
    """Of each span in a column ``Piece.data`` the row, and what was ``packed``."""
    values = np.frombuffer(b"".join(pieces.to_pylist()), "<u4").astype(np.int64)
    row = np.repeat(np.arange(len(pieces)), np.asarray(compute.binary_length(pieces)) // 4)
    most = (1 << _OFFSET_BITS) - 1
    return row, values & most, values >> _OFFSET_BITS & most, values >> 2 * _OFFSET_BITS


def batch_of(table: type[Row], source: pa.RecordBatch, row: Offsets, **given: Any) -> Batch:  # noqa: ANN401 - arrays and sequences
    """Rows of a table: columns as given, others from rows of ``source``; null where neither has the column."""
    arrays = []
    for field in schema(table):
        if field.name in given:
            column = given[field.name]
            is_unsigned = isinstance(column, np.ndarray) and column.dtype == np.uint64
            arrays.append(pa.array(signed(column) if is_unsigned else column, field.type))
        elif field.name in source.schema.names:
            arrays.append(source.column(field.name).take(pa.array(row)))
        else:
            arrays.append(pa.nulls(len(row), field.type))
    return Batch(table, pa.record_batch(arrays, schema=schema(table)))


def merged(rows: Iterable[Gap]) -> Iterator[Missing]:
    """Gaps, sorted by requester, log, reason and first number, as runs that do not touch."""
    for (requester, author, log, reason), of_log in groupby(rows, key=attrgetter(*Gap._fields[:4])):
        for first, last in _joined((from_sql(row.first), from_sql(row.last)) for row in of_log):
            yield Missing(requester, author, from_sql(log), first, last, last - first + 1, reason)


def _joined(spans: Iterator[Run]) -> Iterator[Run]:
    low, high = next(spans)
    for first, last in spans:
        if first > high + 1:
            yield low, high
            low = first
        high = max(high, last)
    yield low, high
