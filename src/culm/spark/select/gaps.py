"""Numbers that are denoted and not held, in a worker: as runs, so that a gap costs its two ends and not its length."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from culm.spark.columns import Columns
from culm.spark.pack import BLOCK_BITS
from culm.spark.select.places import NOT_HELD, OFFSET_BITS
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    Row = tuple[Any, ...]

WANTING = Columns(
    author="BINARY",
    log="BIGINT",
    block="BIGINT",
    requester="STRING",
    first="BIGINT",
    last="BIGINT",
    numbers="BINARY",
    newest="BIGINT",
    bits="BINARY",
)
"""A piece with ``newest`` and ``bits`` of its block, as in ``BLOCKS``; both null if no entry of the block is held."""

GAPS = Columns(requester="STRING", author="BINARY", log="BIGINT", reason="TINYINT", first="BIGINT", last="BIGINT")


def lacking(rows: Iterable[Row]) -> Iterator[Row]:
    """``WANTING`` to ``GAPS``: the numbers of each piece that are not held."""
    for author, log, block, requester, first, last, numbers, newest, bits in rows:
        base = block << BLOCK_BITS
        there = _there(base, newest, bits)
        if numbers is not None:
            wanted = np.frombuffer(numbers, "<u2") & ((1 << OFFSET_BITS) - 1)
        else:
            wanted = np.arange(from_sql(first) - base, from_sql(last) - base + 1)
        for low, high in _runs(wanted[~there[wanted]]):
            yield requester, author, log, NOT_HELD, to_sql(base + low), to_sql(base + high)


def _there(base: int, newest: int | None, bits: bytes | None) -> npt.NDArray[np.bool_]:
    """Which numbers of a block are held, by their offset from ``base``."""
    size = 1 << BLOCK_BITS
    if bits is not None:
        return np.unpackbits(np.frombuffer(bits, np.uint8))[:size].astype(np.bool_)
    there = np.zeros(size, np.bool_)
    if newest is not None:
        there[: from_sql(newest) - base + 1] = True
    return there


def _runs(numbers: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Ascending numbers as runs of neighbours."""
    if not len(numbers):
        return
    breaks = (np.diff(numbers.astype(np.int64)) > 1).nonzero()[0]
    firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(numbers) - 1)
    yield from zip(numbers[firsts].tolist(), numbers[lasts].tolist(), strict=True)


def merged(rows: Iterable[Row]) -> Iterator[Row]:
    """``GAPS``, sorted by requester, log, reason and first number, to ``GAPS`` in which no two runs touch."""
    for key, of_log in groupby(rows, key=itemgetter(0, 1, 2, 3)):
        first = last = None
        for *_, low, high in of_log:
            if last is not None and low <= last + 1:
                last = max(last, high)
                continue
            if last is not None:
                yield *key, first, last
            first, last = low, high
        yield *key, first, last
