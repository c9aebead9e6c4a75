"""Columns of numpy as arrays of Arrow and back, without a Python object for each value."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from culm.bamboo.yamf import YAMF_PREFIX
from culm.spark.batches.fields import Bytes, Fields, Numbers, padded

_SIGN = np.uint64(2**63)


def fields_of(encoded: pa.Array | pa.ChunkedArray) -> Fields:
    """The fields of the values of a binary column; null counts as an empty value, and so is not an entry."""
    whole = encoded.cast(pa.large_binary())
    whole = (whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole).fill_null(b"")
    _, offsets, data = whole.buffers()
    bounds = np.frombuffer(offsets or bytes(8), np.int64, len(whole) + 1, whole.offset * 8)
    values = padded(memoryview(data or b"")[int(bounds[0]) : int(bounds[-1])])
    return Fields.decode(values, bounds[:-1] - bounds[0], bounds[1:] - bounds[0])


def begins(*columns: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Where rows begin that differ from the row before in any of these columns; the first row does."""
    differs: npt.NDArray[np.bool_] = np.arange(len(columns[0])) == 0
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    return differs.nonzero()[0]


def signed(numbers: Numbers) -> npt.NDArray[np.int64]:
    """Numbers as signed longs 2^63 lower, which is what ``to_sql`` makes of one number."""
    return (numbers ^ _SIGN).view(np.int64)


def unsigned(longs: npt.NDArray[np.int64]) -> Numbers:
    """The numbers that are longs 2^63 lower; the reverse of ``signed``."""
    return longs.view(np.uint64) ^ _SIGN


def decimals(numbers: Numbers) -> pa.Array:
    """Unsigned numbers as decimals: Spark has no other type for them."""
    return pa.array(numbers).cast(pa.decimal128(20, 0))


def names(of: Sequence[str], codes: npt.NDArray[Any], nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """The strings at the positions ``codes`` of ``of``, as an array of strings; null in the rows ``nulls``."""
    return pa.array(of).take(pa.array(codes, mask=nulls))


def hashes(digests: Bytes) -> pa.Array:
    """Digests (n rows of 64 bytes) as YAMF-hashes of 66 bytes."""
    prefix = np.frombuffer(YAMF_PREFIX, np.uint8)
    return fixed_binary(np.hstack((np.broadcast_to(prefix, (len(digests), len(prefix))), digests)))


def fixed_binary(rows: Bytes) -> pa.Array:
    """Rows of bytes, all of one width, as a binary array."""
    count, width = rows.shape
    return pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(rows.tobytes())]).cast(pa.binary())
