"""Where spans of numbers lie: in blocks that exist, in gaps between them, or *far*, on pages not looked at yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from culm.spark.columns import Columns
from culm.spark.pack import BLOCK_BITS
from culm.spark.select.pages import PAGE_BITS, walk
from culm.store.schema import to_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from culm.spark.fields import Numbers, Offsets
    from culm.spark.select.pages import BlockRuns

# A far span over at most this many pages becomes a row for each page, which is joined with that page alone. A longer
# one stays one row and is joined with all pages of its log, because most of its pages may not exist.
NARROW_PAGES = 4

OFFSET_BITS = 13  # of a u16 in ``numbers`` for the offset in the block; the 3 bits above it say what is wanted
PIECE, FAR, GAP = range(3)
"""The forms of a row of ``PIECES``."""

NOT_HELD, BEYOND = range(2)
"""Why there is a gap: not held, or a closed range names numbers above the newest entry."""

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
"""A row is a PIECE, FAR or a GAP.

PIECE: what is wanted of ``block``. Either the span ``first`` to ``last``, with ``wants``; or ``numbers``, a u16 for
each number, with its offset in the block and, ``OFFSET_BITS`` higher, what is wanted of it.
FAR: a span that has not been cut yet. ``block`` is the page it lies in, null if it covers several pages.
GAP: a span without any entry that is held. ``wants`` is the reason, ``NOT_HELD`` or ``BEYOND``.
"""

_ROWS = 50_000  # Rows in one batch, some megabytes: a span over a whole log can make a row for each of its blocks.
_NUMBER = np.uint64(2**63)  # XOR with it turns an unsigned number into its signed form and back


def numbers_of(column: pa.Array) -> Numbers:
    """The unsigned numbers of a column of signed longs (``to_sql``); null becomes 0."""
    found: Numbers = np.asarray(column.fill_null(to_sql(0))).astype(np.int64).view(np.uint64) ^ _NUMBER
    return found


def signed(numbers: Numbers) -> pa.Array:
    """Unsigned numbers as a column of signed longs; the reverse of ``numbers_of``."""
    import pyarrow as pa

    return pa.array((numbers ^ _NUMBER).view(np.int64))


class Places:
    """Collects where the spans of one batch lie, and makes ``PIECES`` of them.

    A span is a tuple: the row of the batch it belongs to, its first and last number, and what is wanted.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int, int, int, int]] = []  # row, span, wants, blocks
        self._far: list[tuple[int, int, int, int, int | None]] = []
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
            self._far.append((row, first, last, wants, None))
            return
        for page in range(first >> bits, (last >> bits) + 1):
            self._far.append((row, max(first, page << bits), min(last, ((page + 1) << bits) - 1), wants, page))

    def batches(self, source: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The ``PIECES`` of all that was noted. Author, log, requester and sizes come from the rows of ``source``."""
        if self._runs:
            yield from self._of_blocks(source)
        if self._far:
            row, first, last, wants, page = zip(*self._far, strict=True)
            yield batch_of(source, FAR, np.array(row), first=u64(first), last=u64(last), wants=wants, block=page)
        if self._gaps:
            row, first, last, reason = zip(*self._gaps, strict=True)
            yield batch_of(source, GAP, np.array(row), first=u64(first), last=u64(last), wants=reason)

    def _of_blocks(self, source: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
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
            yield batch_of(
                source,
                PIECE,
                row[run].astype(np.int64),
                first=np.maximum(first[run], base),
                last=np.minimum(last[run], base + np.uint64((1 << BLOCK_BITS) - 1)),
                wants=wants[run].astype(np.int8),
                block=block.astype(np.int64),
            )


def u64(numbers: Sequence[int]) -> Numbers:
    """Numbers as an array of u64; plain ``np.array`` would make floats of numbers from 2^63 on."""
    return np.array(numbers, np.uint64)


def batch_of(
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
