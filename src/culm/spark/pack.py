"""Records of one block of a log, packed into one cell of a table.

Spark's cost is by the row, so that moving, sorting and writing entries one by one would cost more than hashing them.
Entries therefore travel in packs: all that a task has seen of one *block*, ``BLOCK`` neighbouring sequence numbers of
one log. Blocks are also what bounds the work and the memory of a task, however long a log is.

::

    pack     = count u32, columns u8, the columns one behind the other, the records one behind the other
    columns  = length u16, payload i8, copies u32 for each record
               with bit 0: signature u8, before u8, piece u16, digest 64 bytes for each record

Numbers are little-endian. A record is an entry, or the frame of a payload (``culm.spark.payload.PayloadFrame``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from culm.spark.fields import DIGEST_BYTES, PADDING
from culm.spark.payload import PayloadFrame

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from culm.spark.fields import Bytes, Flags, Offsets

BLOCK_BITS = 12
BLOCK = 1 << BLOCK_BITS
"""How many neighbouring sequence numbers share a block."""

_HEAD = struct.Struct("<IB")
_JUDGED = 1
_MOST_COPIES = 2**32 - 1


class Signature(IntEnum):
    """What is known of a record's signature."""

    UNKNOWN = 0
    GOOD = 1  # checked
    TIED = 2  # not checked: an authentic entry of a later number links to exactly these bytes
    BAD = 3  # checked
    NONE = 4  # the frame of a payload


def block_of(seq: int) -> int:
    """The block that a sequence number is in."""
    return seq >> BLOCK_BITS


@dataclass(slots=True, eq=False)
class Pack:
    """n records: their bytes, where each begins and ends in them, and what is known of each.

    ``payload`` holds ranks of ``culm.spark.payload.STATES``: what the copies of the entry themselves told. ``before``
    is what was said of the record in an earlier run (see ``culm.spark.verdicts``), 0 if it was not there. ``piece``
    says which connected part of the segment it is in (see ``culm.spark.segment``).
    """

    data: Bytes
    start: Offsets
    end: Offsets
    payload: npt.NDArray[np.int8]
    copies: npt.NDArray[np.uint32]
    signature: Bytes
    before: Bytes
    piece: npt.NDArray[np.uint16]
    digest: Bytes | None = None

    @classmethod
    def of_new(cls, records: bytes, length: Offsets, payload: npt.NDArray[np.int8]) -> Pack:
        """Records as they were read, each of them once."""
        count = len(length)
        data, start, end = _placed(records, length)
        return cls(
            data,
            start,
            end,
            payload,
            np.ones(count, np.uint32),
            np.zeros(count, np.uint8),
            np.zeros(count, np.uint8),
            np.zeros(count, np.uint16),
        )

    def __len__(self) -> int:
        return len(self.start)

    def record(self, row: int) -> bytes:
        """The bytes of one record."""
        return self.data[self.start[row] : self.end[row]].tobytes()

    def encode(self) -> bytes:
        """The pack as bytes; its records must stand one behind the other."""
        length = (self.end - self.start).astype("<u2")
        parts = [
            _HEAD.pack(len(self), 0 if self.digest is None else _JUDGED),
            length.tobytes(),
            self.payload.astype("i1").tobytes(),
            self.copies.astype("<u4").tobytes(),
        ]
        if self.digest is not None:
            parts += [
                self.signature.tobytes(),
                self.before.tobytes(),
                self.piece.astype("<u2").tobytes(),
                self.digest.tobytes(),
            ]
        if len(self):
            parts.append(self.data[self.start[0] : self.end[-1]].tobytes())
        return b"".join(parts)

    @classmethod
    def decode(cls, packed: bytes) -> Pack:
        """Read what ``encode`` wrote."""
        count, columns = _HEAD.unpack_from(packed)
        at = _HEAD.size

        def column(kind: str, width: int = 1) -> npt.NDArray[np.generic]:
            nonlocal at
            found = np.frombuffer(packed, kind, count * width, at)
            at += found.nbytes
            return found

        length = column("<u2").astype(np.int64)
        payload = column("i1").astype(np.int8)
        copies = column("<u4").astype(np.uint32)
        if not columns & _JUDGED:
            pack = cls.of_new(packed[at:], length, payload)
            return replace(pack, copies=copies)
        signature, before = column("u1").astype(np.uint8), column("u1").astype(np.uint8)
        piece = column("<u2").astype(np.uint16)
        digest = column("u1", DIGEST_BYTES).astype(np.uint8).reshape(count, DIGEST_BYTES)
        return cls(*_placed(packed[at:], length), payload, copies, signature, before, piece, digest)

    @classmethod
    def joined(cls, packs: Sequence[Pack]) -> Pack:
        """The records of several packs, one pack behind the other; digests are kept if all have them."""
        if len(packs) == 1:
            return packs[0]
        data = np.concatenate([pack.data[: _end_of(pack)] for pack in packs] + [np.zeros(PADDING, np.uint8)])
        shifts = np.cumsum([0] + [_end_of(pack) for pack in packs[:-1]])
        digests = [pack.digest for pack in packs if pack.digest is not None]
        return cls(
            data,
            np.concatenate([pack.start + shift for pack, shift in zip(packs, shifts, strict=True)]),
            np.concatenate([pack.end + shift for pack, shift in zip(packs, shifts, strict=True)]),
            np.concatenate([pack.payload for pack in packs]),
            np.concatenate([pack.copies for pack in packs]),
            np.concatenate([pack.signature for pack in packs]),
            np.concatenate([pack.before for pack in packs]),
            np.concatenate([pack.piece for pack in packs]),
            np.concatenate(digests) if len(digests) == len(packs) else None,
        )

    def take(self, rows: Offsets | Flags) -> Pack:
        """Some of the records, in the order given, their bytes one behind the other."""
        start, end = self.start[rows], self.end[rows]
        records = b"".join([self.data[low:high].tobytes() for low, high in zip(start, end, strict=True)])
        data, start, end = _placed(records, end - start)
        return Pack(
            data,
            start,
            end,
            self.payload[rows],
            self.copies[rows],
            self.signature[rows],
            self.before[rows],
            self.piece[rows],
            None if self.digest is None else self.digest[rows],
        )


def added_copies(copies: npt.NDArray[np.uint32], first: Offsets) -> npt.NDArray[np.uint32]:
    """The sums of the copies of the groups that begin at ``first``; they stop at the greatest number there is."""
    sums = np.add.reduceat(copies.astype(np.uint64), first)
    return np.minimum(sums, _MOST_COPIES).astype(np.uint32)


def frame_at(pack: Pack, row: int) -> PayloadFrame:
    """The payload's frame that a record is."""
    return PayloadFrame.decode(pack.record(row))


def _end_of(pack: Pack) -> int:
    return len(pack.data) - PADDING


def _placed(records: bytes, length: Offsets) -> tuple[Bytes, Offsets, Offsets]:
    data = np.zeros(len(records) + PADDING, np.uint8)
    data[: len(records)] = np.frombuffer(records, np.uint8)
    end = np.cumsum(length, dtype=np.int64)
    return data, end - length, end
