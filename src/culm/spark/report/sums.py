"""Exact sums of unsigned 64-bit numbers, and grouping by small numbers, with numpy.

An author can claim a payload of any size, so a sum of sizes may exceed 64 bits, and numpy has no wider integers. Each
number is therefore split into its lower and upper 32 bits. These are summed apart, which cannot overflow with less than
2^32 values, and put together as 128 bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from culm.spark.fields import Numbers, Offsets

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)
POWERS: Numbers = np.array([10**power for power in range(20)], np.uint64)
"""The powers of ten that fit into 64 bits."""


class Wide(NamedTuple):
    """Unsigned numbers of 128 bits: ``high`` * 2^64 + ``low``."""

    low: Numbers
    high: Numbers

    def integers(self) -> list[int]:
        """The numbers as Python's ``int``."""
        return [(high << 64) + low for low, high in zip(self.low.tolist(), self.high.tolist(), strict=True)]

    def decimals(self) -> pa.Array:
        """The numbers as ``DECIMAL(38,0)``; they must be below 10^38, which is not checked."""
        import pyarrow as pa

        words = np.stack([self.low, self.high], axis=1).astype("<u8")
        return pa.Array.from_buffers(pa.decimal128(38, 0), len(words), [None, pa.py_buffer(words.tobytes())])


def wide_sums(values: Numbers, group: npt.NDArray[np.signedinteger[Any]], count: int) -> Wide:
    """The sum of the values of each of ``count`` groups. There must be less than 2^32 values."""
    low, high = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    np.add.at(low, group, values & _LOW)
    np.add.at(high, group, values >> _HALF)
    return _wide(low, high)


def _wide(low: Numbers, high: Numbers) -> Wide:
    """``high`` * 2^32 + ``low``."""
    whole = (high << _HALF) + low
    return Wide(whole, (high >> _HALF) + (whole < low).astype(np.uint64))


def digits(numbers: Numbers) -> Offsets:
    """How many decimal digits each number has; 0 has none."""
    return np.searchsorted(POWERS, numbers, "right")


def magnitudes(numbers: Numbers) -> tuple[Offsets, Offsets]:
    """The number of digits and the first digit, of numbers from 1 on; of 0 they are 1 and 0."""
    length = np.maximum(digits(numbers), 1)
    return length, (numbers // POWERS[length - 1]).astype(np.int64)


def grouped(columns: Sequence[Offsets], sizes: Sequence[int]) -> tuple[list[tuple[int, ...]], Offsets]:
    """The combinations of small numbers that occur, and for each row the position of its combination.

    A row's combination has one number of each column; the numbers of a column are below its size.
    """
    code = np.zeros(len(columns[0]), np.int64)
    for column, size in zip(columns, sizes, strict=True):
        code = code * size + column
    found, group = np.unique(code, return_inverse=True)
    kinds = []
    for whole in found.tolist():
        kind: list[int] = []
        rest = whole
        for size in reversed(sizes):
            rest, value = divmod(rest, size)
            kind.insert(0, value)
        kinds.append(tuple(kind))
    return kinds, group
