"""Columns of numpy as arrays of Arrow and back, without a Python object for each value; or as one cell of a table.

A *cell* has a count (u32), then the columns, one behind the other. A class says of each column how its values are
written, as numpy names that, and how many of them a record has::

    @dataclass(frozen=True, slots=True, eq=False)
    class Found(Cell):
        seq: Annotated[Numbers, "<u8", 1]
        digest: Annotated[Bytes, "u1", DIGEST_BYTES]

A field without this holds the bytes that follow the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from culm.bamboo import YAMF_BYTES
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


def signed(numbers: Numbers) -> npt.NDArray[np.int64]:
    """Numbers as signed longs 2^63 lower, which is what ``to_sql`` makes of one number."""
    return (numbers ^ _SIGN).view(np.int64)


def unsigned(longs: npt.NDArray[np.int64]) -> Numbers:
    """The numbers that are longs 2^63 lower; the reverse of ``signed``."""
    return longs.view(np.uint64) ^ _SIGN


def decimals(numbers: Numbers) -> pa.Array:
    """Unsigned numbers as decimals: Spark has no other type for them."""
    return pa.array(numbers).cast(pa.decimal128(20, 0))


def names(of: Sequence[str], codes: npt.NDArray[np.int8]) -> pa.Array:
    """The strings at the positions ``codes`` of ``of``, as an array of strings."""
    if len(codes) and (codes == codes[0]).all():
        return pa.repeat(of[codes[0]], len(codes))
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(of)).dictionary_decode()


def hashes(digests: Bytes) -> pa.Array:
    """Digests (n rows of 64 bytes) as YAMF-hashes of 66 bytes."""
    whole = np.empty((len(digests), YAMF_BYTES), np.uint8)
    whole[:, : len(YAMF_PREFIX)] = np.frombuffer(YAMF_PREFIX, np.uint8)
    whole[:, len(YAMF_PREFIX) :] = digests
    return fixed_binary(whole)


def fixed_binary(rows: Bytes) -> pa.Array:
    """Rows of bytes, all of one width, as a binary array."""
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(rows.tobytes())])


_COUNT_BYTES = 4  # a u32: a cell has far fewer records, and never 2^32 - 1 (see culm.spark.batches.slices)


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """Columns of length n. Those of several values for each record are arrays of n rows."""

    kinds: ClassVar[dict[str, tuple[str, int]]]
    """How each column is written, and how many values of it a record has."""

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True).items()
        cls.kinds = {name: get_args(hint)[1:] for name, hint in hints if get_origin(hint) is Annotated}

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.kinds))))

    def encode(self) -> bytes:
        """The columns as bytes."""
        return b"".join(self.parts())

    def parts(self) -> list[bytes | memoryview]:
        """The columns as bytes, in pieces that follow each other."""
        columns = [getattr(self, name).astype(kind).tobytes() for name, (kind, _) in self.kinds.items()]
        rest = [getattr(self, one.name) for one in fields(self) if one.name not in self.kinds]
        return [len(self).to_bytes(_COUNT_BYTES, "little"), *columns, *rest]

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what ``encode`` or ``parts`` wrote; the columns are views of ``data``, not copies."""
        count, at = int.from_bytes(data[:_COUNT_BYTES], "little"), _COUNT_BYTES
        found: dict[str, Any] = {}
        for name, (kind, width) in cls.kinds.items():
            column = np.frombuffer(data, kind, count * width, at)
            at += column.nbytes
            found[name] = column.reshape(count, width) if width > 1 else column
        return cls(**found, **{one.name: data[at:] for one in fields(cls) if one.name not in found})
