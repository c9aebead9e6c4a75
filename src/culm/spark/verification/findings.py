"""Findings: what is known of a segment's entries after the segment was judged on its own, as one cell of a table.

They hold all that verdicts are made of, but not the entries themselves, which are three times as large. So the step
that writes verdicts moves a third of the bytes, and the entries move on only where a state or a proof needs them.

::

    findings = count u32, columns: seq u64, size u64, digest 64 bytes, payload hash's digest 64 bytes, piece u16,
               copies u32, is_end u8, payload i8, signature u8, before u8, each for all entries

Numbers are little-endian, rows ascend by sequence number and digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from culm.spark.batches.cells import Cell
from culm.spark.batches.fields import DIGEST_BYTES, Bytes, Flags, Numbers
from culm.spark.batches.records import Records


@dataclass(frozen=True, slots=True, eq=False)
class Findings(Cell):
    """The entries of a segment: columns of length n, digests as n rows of 64 bytes.

    ``payload`` has ranks of ``batches.payload.STATES``, ``signature`` is ``batches.pack.Signature``. ``piece``
    says which part of the segment an entry is in (``segment``), ``before`` what was said of it in an earlier
    run (``verdicts``).
    """

    seq: Annotated[Numbers, "<u8", 1]
    size: Annotated[Numbers, "<u8", 1]
    digest: Annotated[Bytes, "u1", DIGEST_BYTES]
    payload_hash: Annotated[Bytes, "u1", DIGEST_BYTES]
    piece: Annotated[npt.NDArray[np.uint16], "<u2", 1]
    copies: Annotated[npt.NDArray[np.uint32], "<u4", 1]
    is_end: Annotated[Flags, "?", 1]
    payload: Annotated[npt.NDArray[np.int8], "i1", 1]
    signature: Annotated[Bytes, "u1", 1]
    before: Annotated[Bytes, "u1", 1]

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
