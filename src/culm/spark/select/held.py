"""The verified entries of a block: which numbers they have, and the entries themselves for the pieces to pick from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from culm.spark.batches.arrays import Cell
from culm.spark.batches.fields import DIGEST_BYTES, Bytes, Flags, Numbers
from culm.spark.batches.pack import BLOCK_BITS, Pack, block_of
from culm.spark.batches.records import Records
from culm.spark.batches.slices import fetched
from culm.spark.runtime.columns import Tiny
from culm.spark.select.places import BlockRow
from culm.spark.verification.merge import Outcome
from culm.spark.verification.segment_summary import Summary
from culm.spark.verification.steps import JudgedRow, judged
from culm.spark.verification.verdicts import Findings, JudgedSegment
from culm.store.schema import from_sql, to_sql


class WholeRow(NamedTuple):
    """A segment with its entries, its outcome, and how many tasks share in the block's pieces."""

    author: bytes
    log: int
    block: int
    shares: int
    summary: bytes
    packed: bytes
    outcome: bytes


class Together(NamedTuple):
    """A piece (``culm.spark.select.places.Piece``); or a block's verified entries: an encoded ``Held`` in ``numbers``.

    A row of entries has no ``requester``. ``share`` is the number of the task among those that share in the block.
    """

    author: bytes
    log: int
    block: int
    share: int
    requester: str | None
    wants: Tiny | None
    least: int | None
    limit: int | None
    first: int | None
    last: int | None
    numbers: bytes | None


def present(rows: Iterable[JudgedRow]) -> Iterator[BlockRow]:
    """The blocks that have verified entries."""
    for row in rows:
        segment = judged(row.author, row.log, row.summary, row.findings, row.outcome)
        verified = segment.findings.seq[segment.verdict == 0]
        if len(verified):
            newest = int(verified[-1])
            yield BlockRow(row.author, row.log, block_of(newest), to_sql(newest))


def held(rows: Iterable[WholeRow]) -> Iterator[Together]:
    """The verified entries of each block: a copy for each share."""
    for row in rows:
        records = Records(Pack.decode(fetched(row.packed)))
        found = Findings.of(records)
        summary, outcome = Summary.decode(row.summary), Outcome.decode(row.outcome)
        verified = JudgedSegment(row.author, from_sql(row.log), found, summary, outcome).verdict == 0
        if verified.any():
            data = Held.of(records, found, verified).encode()
            for share in range(row.shares):
                yield Together(row.author, row.log, row.block, share, None, None, None, None, None, None, data)


@dataclass(frozen=True, slots=True, eq=False)
class Held(Cell):
    """The verified entries of a block: columns of length n, ascending by number, and the entries' bytes.

    ``offset`` counts from the block's first number. Digests are n rows of 64 bytes. ``state`` has ranks of
    ``batches.payload.STATES``. ``length`` is the size of each entry in ``data``, where they follow each other.
    """

    offset: Annotated[npt.NDArray[np.uint16], "<u2", 1]
    size: Annotated[Numbers, "<u8", 1]
    digest: Annotated[Bytes, "u1", DIGEST_BYTES]
    payload_hash: Annotated[Bytes, "u1", DIGEST_BYTES]
    state: Annotated[npt.NDArray[np.int8], "i1", 1]
    length: Annotated[npt.NDArray[np.uint16], "<u2", 1]
    data: bytes

    @classmethod
    def of(cls, records: Records, found: Findings, verified: Flags) -> Held:
        """The verified ones among the entries of ``records``; ``found`` and ``verified`` have a row for each entry."""
        rows = records.is_entry.nonzero()[0][verified]
        pack = records.pack.take(rows)
        length = pack.end - pack.start
        return cls(
            (found.seq[verified] & np.uint64((1 << BLOCK_BITS) - 1)).astype(np.uint16),
            found.size[verified],
            found.digest[verified],
            found.payload_hash[verified],
            found.payload[verified].astype(np.int8),
            length.astype(np.uint16),
            pack.data[: int(length.sum())].tobytes(),
        )

    def records(self) -> pa.Array:
        """The entries' bytes as a binary array, one value for each entry."""
        bounds = np.append(0, np.cumsum(self.length, dtype=np.int32)).astype(np.int32)
        return pa.Array.from_buffers(
            pa.binary(), len(self.length), [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        )
