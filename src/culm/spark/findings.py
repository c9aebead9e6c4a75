"""Findings: what is known of a segment's entries after the segment was judged on its own, as one cell of a table.

They hold all that verdicts are made of, but not the entries themselves, which are three times as large. So the step
that writes verdicts moves a third of the bytes, and the entries move on only where a state or a proof needs them.

::

    findings = count u32, columns: seq u64, size u64, digest 64 bytes, payload hash's digest 64 bytes, piece u16,
               copies u32, is_end u8, payload i8, signature u8, before u8, each for all entries

Numbers are little-endian, rows ascend by sequence number and digest.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from culm.spark.fields import DIGEST_BYTES

if TYPE_CHECKING:
    import numpy.typing as npt

    from culm.spark.fields import Bytes, Flags, Numbers
    from culm.spark.records import Records

_COUNT_BYTES = 4  # a u32: a segment has far fewer entries, and never 2^32 - 1 (see culm.spark.slices)


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """The entries of a segment: columns of length n, digests as n rows of 64 bytes.

    ``payload`` has ranks of ``culm.spark.payload.STATES``, ``signature`` is ``culm.spark.pack.Signature``. ``piece``
    says which part of the segment an entry is in (``culm.spark.segment``), ``before`` what was said of it in an earlier
    run (``culm.spark.verdicts``).
    """

    seq: Numbers
    size: Numbers
    digest: Bytes
    payload_hash: Bytes
    piece: npt.NDArray[np.uint16]
    copies: npt.NDArray[np.uint32]
    is_end: Flags
    payload: npt.NDArray[np.int8]
    signature: Bytes
    before: Bytes

    @classmethod
    def of(cls, records: Records) -> Findings:
        """The findings of the entries among some records; payload frames are left out."""
        pack, decoded = records.pack, records.fields
        rows = slice(None) if records.only_entries else records.is_entry.nonzero()[0]
        return cls(
            records.seq[rows],
            decoded.size[rows],
            records.digest[rows],
            records.digests[decoded.payload_hash[rows]],
            pack.piece[rows],
            pack.copies[rows],
            decoded.is_end[rows],
            records.payload()[rows],
            pack.signature[rows],
            pack.before[rows],
        )

    def __len__(self) -> int:
        return len(self.seq)

    def encode(self) -> bytes:
        """The findings as bytes."""
        return b"".join(self.parts())

    def parts(self) -> list[bytes | memoryview]:
        """The findings as bytes, in pieces that follow each other."""
        columns = [np.ascontiguousarray(getattr(self, name)).tobytes() for name in _KINDS]
        return [len(self).to_bytes(_COUNT_BYTES, "little"), *columns]

    @classmethod
    def decode(cls, data: bytes) -> Findings:
        """Read what ``encode`` or ``parts`` wrote; the columns are views of ``data``, not copies."""
        count, at = int.from_bytes(data[:_COUNT_BYTES], "little"), _COUNT_BYTES
        columns = []
        for kind, width in _KINDS.values():
            column = np.frombuffer(data, kind, count * width, at)
            at += column.nbytes
            columns.append(column.reshape(count, width) if width > 1 else column)
        return cls(*columns)


_KINDS: dict[str, tuple[str, int]] = dict(
    zip(
        (field.name for field in fields(Findings)),
        [
            ("<u8", 1),
            ("<u8", 1),
            ("u1", DIGEST_BYTES),
            ("u1", DIGEST_BYTES),
            ("<u2", 1),
            ("<u4", 1),
            ("?", 1),
            ("i1", 1),
            ("u1", 1),
            ("u1", 1),
        ],
        strict=True,
    )
)
