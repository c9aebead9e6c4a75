"""The verified entries of a block: which numbers they have, and the entries themselves for the pieces to pick from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from culm.spark.columns import Tiny
from culm.spark.fields import DIGEST_BYTES
from culm.spark.findings import Findings
from culm.spark.merge import Outcome
from culm.spark.pack import BLOCK_BITS, Pack
from culm.spark.records import Records
from culm.spark.segment import Summary
from culm.spark.select.pages import PAGE_BITS, BlockRow
from culm.spark.slices import fetched
from culm.spark.verdicts import JudgedSegment
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt
    import pyarrow as pa

    from culm.spark.fields import Bytes, Flags, Numbers


class FoundRow(NamedTuple):
    """A segment with its outcome."""

    author: bytes
    log: int
    block: int
    summary: bytes
    findings: bytes
    outcome: bytes


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


_COUNT_BYTES = 4  # a u32


def present(rows: Iterable[FoundRow]) -> Iterator[BlockRow]:
    """The blocks that have verified entries."""
    for row in rows:
        found, block = Findings.decode(fetched(row.findings)), row.block
        verified = found.seq[_verified(row, found)]
        if not len(verified):
            continue
        newest = int(verified[-1])
        mask = np.zeros(1 << BLOCK_BITS, np.bool_)
        mask[_offsets(verified)] = True
        first = max(1, block << BLOCK_BITS)
        whole = newest - first + 1 == len(verified)
        ends = newest == ((block + 1) << BLOCK_BITS) - 1
        bits = None if whole else np.packbits(mask).tobytes()
        yield BlockRow(row.author, row.log, block, block >> PAGE_BITS, to_sql(newest), ends, bits)


def held(rows: Iterable[WholeRow]) -> Iterator[Together]:
    """The verified entries of each block: a copy for each share."""
    for row in rows:
        records = Records(Pack.decode(fetched(row.packed)))
        found = Findings.of(records)
        verified = _verified(row, found)
        if verified.any():
            data = Held.of(records, found, verified).encode()
            for share in range(row.shares):
                yield Together(row.author, row.log, row.block, share, None, None, None, None, None, None, data)


def _verified(row: FoundRow | WholeRow, found: Findings) -> Flags:
    summary, outcome = Summary.decode(row.summary), Outcome.decode(row.outcome)
    verified: Flags = JudgedSegment(row.author, from_sql(row.log), found, summary, outcome).verdict == 0
    return verified


def _offsets(seq: Numbers) -> npt.NDArray[np.int64]:
    return (seq & np.uint64((1 << BLOCK_BITS) - 1)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The verified entries of a block: columns of length n, ascending by number, and the entries' bytes.

    ``offset`` counts from the block's first number. Digests are n rows of 64 bytes. ``state`` has ranks of
    ``culm.spark.payload.STATES``. ``length`` is the size of each entry in ``data``, where they follow each other.
    """

    offset: npt.NDArray[np.uint16]
    size: Numbers
    digest: Bytes
    payload_hash: Bytes
    state: npt.NDArray[np.int8]
    length: npt.NDArray[np.uint16]
    data: bytes

    @classmethod
    def of(cls, records: Records, found: Findings, verified: Flags) -> Held:
        """The verified ones among the entries of ``records``; ``found`` and ``verified`` have a row for each entry."""
        rows = records.is_entry.nonzero()[0][verified]
        pack = records.pack.take(rows)
        length = pack.end - pack.start
        return cls(
            _offsets(found.seq[verified]).astype(np.uint16),
            found.size[verified],
            found.digest[verified],
            found.payload_hash[verified],
            found.payload[verified].astype(np.int8),
            length.astype(np.uint16),
            pack.data[: int(length.sum())].tobytes(),
        )

    def encode(self) -> bytes:
        """The entries as bytes: a count (u32), then the columns, little-endian."""
        columns = [np.ascontiguousarray(getattr(self, name)).tobytes() for name in _KINDS]
        return len(self.offset).to_bytes(_COUNT_BYTES, "little") + b"".join(columns) + self.data

    @classmethod
    def decode(cls, data: bytes) -> Held:
        """Read what ``encode`` wrote."""
        count, at = int.from_bytes(data[:_COUNT_BYTES], "little"), _COUNT_BYTES
        columns: list[Any] = []
        for kind, width in _KINDS.values():
            column = np.frombuffer(data, kind, count * width, at)
            at += column.nbytes
            columns.append(column.reshape(count, width) if width > 1 else column)
        columns.append(data[at:])
        return cls(*columns)

    def records(self) -> pa.Array:
        """The entries' bytes as a binary array, one value for each entry."""
        import pyarrow as pa

        bounds = np.append(0, np.cumsum(self.length, dtype=np.int32)).astype(np.int32)
        return pa.Array.from_buffers(
            pa.binary(), len(self.length), [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        )


_KINDS: dict[str, tuple[str, int]] = dict(
    zip(
        (field.name for field in fields(Held)),
        [("<u2", 1), ("<u8", 1), ("u1", DIGEST_BYTES), ("u1", DIGEST_BYTES), ("i1", 1), ("<u2", 1)],
        strict=False,  # the bytes themselves are no column
    )
)
