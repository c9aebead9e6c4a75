"""Packs: the records of one block of a log as one cell of a table.

The simple way is a row for each entry. But Spark's cost is by the row: moving, sorting and writing entries one by one
costs more than hashing them. Entries therefore travel in *packs*: all that a task has seen of one *block*, which is
4,096 neighbouring sequence numbers of one log. Blocks also bound the work and the memory of a task, because a block
has at most so many numbers, however long its log is.

For example, a task that reads the entries 1 to 10,000 of a log makes three packs, of the blocks 0 (1 to 4095), 1 (4096
to 8191) and 2. If another task reads copies of the entries 5000 to 6000, its pack meets the first task's pack of
block 1 later, and the copies are merged.

::

    pack     = count u32, 1 u8, the columns one behind the other, the records one behind the other
    columns  = length u16, payload i8, copies u32, signature u8, before u8, piece u16, digest 64 bytes for each record

Numbers are little-endian. A record is an entry, or the frame of a payload (``payload.PayloadFrame``).

Copies of an entry come from several inputs, and each may know something else of it: one has its payload, one checked
its signature in an earlier run. ``distinct`` merges them. What is known of payloads and signatures is therefore kept
as numbers that grow with knowledge, so that the greatest of the copies' numbers is what is known in all.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from culm.bamboo.yamf import YAMF_PREFIX
from culm.spark.batches.arrays import begins
from culm.spark.batches.fields import DIGEST_BYTES, Bytes, Fields, Flags, Numbers, Offsets, digests
from culm.spark.batches.payload import HELD, MISMATCH, SIZE_MISMATCH, PayloadFrame, rank

BLOCK_BITS = 12
"""Sequence numbers that differ only in so many of their lowest bits share a block: 4,096 neighbours.

Smaller blocks mean more rows for Spark, more summaries in the task of a long log, and with ``heads`` more signatures.
Larger ones mean that a task holds more of a log at once. A state is bound to the value it was made with.
"""

_HEAD = struct.Struct("<IB")  # how many records, and the form
_FORM = 1  # The only one today. Packs of form 0, without digests, passed between the steps of earlier versions.
_COLUMNS = {"payload": "i1", "copies": "<u4", "signature": "u1", "before": "u1", "piece": "<u2", "digest": "(64,)u1"}
_MOST_COPIES = 2**32 - 1  # the column is 32 bits wide; sums stop there rather than wrap around


class Signature(IntEnum):
    """What is known of a record's signature."""

    UNKNOWN = 0
    GOOD = 1  # checked
    TIED = 2  # not checked: an authentic entry of a later number links to exactly these bytes
    BAD = 3  # checked
    NONE = 4  # the frame of a payload


@dataclass(eq=False)
class Pack:
    """n records: their bytes, where each begins and ends in them, and what is known of each.

    The records stand one behind the other; other bytes may stand before and behind them. ``payload`` holds ranks of
    ``payload.STATES``: what the copies of the entry themselves told. ``before`` is what was said of the record in an
    earlier run (see ``verification.verdicts``), 0 if it was not there. ``piece`` says which connected part of the
    segment it is in (see ``verification.segment``). ``digest`` has hashes without the YAMF prefix, n rows of 64 bytes.
    Records are decoded when somebody asks for ``fields`` or what is made of them.
    """

    data: Bytes
    start: Offsets
    end: Offsets
    payload: npt.NDArray[np.int8]
    copies: npt.NDArray[np.uint32]
    signature: Bytes
    before: Bytes
    piece: npt.NDArray[np.uint16]
    digest: Bytes

    @classmethod
    def of_new(cls, data: Bytes, start: Offsets, end: Offsets, payload: npt.NDArray[np.int8]) -> Self:
        """Records that were just read, at least one: one copy of each, and nothing known of them but ``payload``."""
        low, high = start[0], end[-1]
        data, start, end = data[low:high], start - low, end - low  # hashing costs by the bytes that it is given
        copies, nothing = np.ones(len(payload), np.uint32), np.zeros(len(payload), np.uint8)
        unjudged = nothing, nothing.copy(), nothing.astype(np.uint16)
        return cls(data, start, end, payload, copies, *unjudged, digests(data, start, end))

    @classmethod
    def of_record(cls, record: bytes, payload: int) -> Self:
        """One record that was just read."""
        data = np.frombuffer(record, np.uint8)
        return cls.of_new(data, np.array([0]), np.array([len(record)]), np.array([payload], np.int8))

    def __len__(self) -> int:
        return len(self.start)

    def record(self, row: int) -> bytes:
        """The bytes of one record."""
        return self.data[self.start[row] : self.end[row]].tobytes()

    def encode(self) -> bytes:
        """The pack as bytes."""
        return b"".join(self.parts())

    def parts(self) -> list[bytes | memoryview]:
        """The pack as bytes, in pieces that follow each other."""
        length = (self.end - self.start).astype("<u2")
        columns = [getattr(self, name).astype(np.dtype(kind).base).tobytes() for name, kind in _COLUMNS.items()]
        return [_HEAD.pack(len(self), _FORM), length.tobytes(), *columns, _bytes_of(self).data]

    @classmethod
    def decode(cls, packed: bytes) -> Self:
        """Read what ``encode`` or ``parts`` wrote. The records are not copied: the pack keeps ``packed`` alive."""
        count, _ = _HEAD.unpack_from(packed)
        at, columns = _HEAD.size, dict[str, Any]()
        for name, kind in {"length": "<u2", **_COLUMNS}.items():
            columns[name] = np.frombuffer(packed, kind, count, at).copy()
            at += columns[name].nbytes
        length = columns.pop("length").astype(np.int64)
        end = at + np.cumsum(length, dtype=np.int64)
        return cls(np.frombuffer(packed, np.uint8), end - length, end, **columns)

    @classmethod
    def joined(cls, packs: Sequence[Self]) -> Self:
        """The records of several packs, one pack behind the other.

        The bytes are copied, unless there is one pack only.
        """
        if len(packs) == 1:
            return packs[0]
        data = np.concatenate([_bytes_of(pack) for pack in packs])
        length = np.concatenate([pack.end - pack.start for pack in packs])
        columns = {name: np.concatenate([getattr(pack, name) for pack in packs]) for name in _COLUMNS}
        return cls(data, np.cumsum(length) - length, np.cumsum(length), **columns)

    def take(self, rows: Offsets | Flags) -> Self:
        """Some of the records, in the order given, their bytes one behind the other."""
        view, start, end = self.data.data, self.start[rows], self.end[rows]
        records = b"".join([view[low:high] for low, high in zip(start.tolist(), end.tolist(), strict=True)])
        behind, columns = np.cumsum(end - start), {name: getattr(self, name)[rows] for name in _COLUMNS}
        return type(self)(np.frombuffer(records, np.uint8), behind - (end - start), behind, **columns)

    # -- decoded

    @cached_property
    def fields(self) -> Fields:
        """The entries, decoded; of the other records nothing is told here."""
        return Fields.decode(self.data, self.start, self.end)

    @property
    def is_entry(self) -> Flags:
        """Which records are entries, so not payload frames."""
        return self.fields.good

    @cached_property
    def frames(self) -> dict[int, PayloadFrame]:
        """The payload frames by row."""
        return {row: PayloadFrame.decode(self.record(row)) for row in (~self.is_entry).nonzero()[0].tolist()}

    @cached_property
    def seq(self) -> Numbers:
        """The numbers of all records."""
        for row, frame in self.frames.items():
            self.fields.seq[row] = frame.seq
        return self.fields.seq

    @cached_property
    def digests(self) -> Bytes:
        """A view of the records' bytes: row n is the 64 bytes from offset n on (``digests[fields.backlink]``)."""
        return np.lib.stride_tricks.sliding_window_view(self.data, DIGEST_BYTES)

    def known_payload(self) -> npt.NDArray[np.int8]:
        """What is known of each entry's payload, as ranks, after the payload frames were compared with the entries."""
        ranks, fields = self.payload.copy(), self.fields
        for frame in self.frames.values():
            # A payload belongs to the entries that name its hash. One that no entry names is a mismatch for all.
            digest = frame.payload_hash[len(YAMF_PREFIX) :]
            of_place = [row for row in self.rows_of(frame.seq) if self.is_entry[row]]
            fitting = [row for row in of_place if self.digests[fields.payload_hash[row]].tobytes() == digest]
            for row in fitting or of_place:
                of_size = HELD if fields.size[row] == frame.size else SIZE_MISMATCH
                ranks[row] = max(ranks[row], rank(of_size if fitting else MISMATCH))
        return ranks

    def rows_of(self, seq: int) -> range:
        """The rows of a number, none if it is not there; ``distinct`` records are in this order."""
        number = np.uint64(seq)
        return range(int(np.searchsorted(self.seq, number)), int(np.searchsorted(self.seq, number, "right")))


def distinct(packs: Sequence[Pack]) -> Pack:
    """The records of packs of one log, each once, ascending by number and digest. Copies are merged into one record."""
    pack = Pack.joined(packs)
    if (pack.seq[1:] > pack.seq[:-1]).all():  # no copies, no forks, nothing to sort
        return pack
    order = np.lexsort((*pack.digest.view(">u8")[:, 3::-1].T, pack.seq))
    firsts = begins(pack.seq[order], *pack.digest[order].view(np.uint64).T)
    known = ("payload", "signature", "before")
    most = {name: np.maximum.reduceat(getattr(pack, name)[order], firsts) for name in known}
    copies = np.minimum(np.add.reduceat(pack.copies[order], firsts, dtype=np.uint64), _MOST_COPIES)
    return replace(pack.take(order[firsts]), copies=copies.astype(np.uint32), **most)


def _bytes_of(pack: Pack) -> Bytes:
    """The records' bytes, one record behind the other."""
    return pack.data[pack.start[0] : pack.end[-1]] if len(pack) else pack.data[:0]
