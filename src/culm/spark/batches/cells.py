"""Columns of numpy as one cell of a table: a count (u32), then the columns, one behind the other.

A class says of each column how its values are written, as numpy names that, and how many of them a record has::

    @dataclass(frozen=True, slots=True, eq=False)
    class Found(Cell):
        seq: Annotated[Numbers, "<u8", 1]
        digest: Annotated[Bytes, "u1", DIGEST_BYTES]

A field without this holds the bytes that follow the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin, get_type_hints

import numpy as np

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
