"""The records of a block, decoded, each of them once.

Copies of an entry come from several inputs, and each may know something else of it: one has its payload, one checked
its signature in an earlier run. ``distinct`` merges them. What is known of payloads and signatures is therefore kept
as numbers that grow with knowledge, so that the greatest of the copies' numbers is what is known in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from culm.bamboo.yamf import YAMF_PREFIX
from culm.spark.batches.fields import DIGEST_BYTES, Bytes, Fields, Flags, Numbers
from culm.spark.batches.pack import Pack
from culm.spark.batches.payload import HELD, MISMATCH, SIZE_MISMATCH, PayloadFrame, rank

_MOST_COPIES = 2**32 - 1  # the column is 32 bits wide; sums stop there rather than wrap around


class Records:
    """The records of a pack, decoded: entries and payload frames. Row n is record n of the pack.

    ``digest`` holds the records' hashes without the YAMF prefix, n rows of 64 bytes. ``frames`` has the payload frames
    by row; of the columns of ``fields`` only ``seq`` is meaningful in those rows.
    """

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self.digest = pack.digest
        self.fields = Fields.decode(pack.data, pack.start, pack.end)
        self.is_entry: Flags = self.fields.good
        self.frames = {row: PayloadFrame.decode(pack.record(row)) for row in (~self.is_entry).nonzero()[0].tolist()}
        self.seq: Numbers = self.fields.seq
        for row, frame in self.frames.items():
            self.seq[row] = frame.seq

    def __len__(self) -> int:
        return len(self.pack)

    @property
    def only_entries(self) -> bool:
        """Whether there are no payload frames among the records."""
        return not self.frames

    @property
    def ascending(self) -> bool:
        """Whether every number is greater than the one before: no copies, no forks, nothing to sort."""
        return bool((self.seq[1:] > self.seq[:-1]).all())

    @cached_property
    def digests(self) -> Bytes:
        """A view of the records' bytes: row n is the 64 bytes from offset n on (``digests[fields.backlink]``)."""
        return np.lib.stride_tricks.sliding_window_view(self.fields.data, DIGEST_BYTES)

    def payload(self) -> npt.NDArray[np.int8]:
        """What is known of each entry's payload, as ranks, after the payload frames were compared with the entries."""
        ranks, fields = self.pack.payload, self.fields
        if self.frames:
            ranks = ranks.copy()
        numbers = {frame.seq for frame in self.frames.values()}
        entries = {seq: [row for row in self.rows_of(seq) if self.is_entry[row]] for seq in numbers}
        for frame in self.frames.values():
            # A payload belongs to the entries that name its hash. One that no entry names is a mismatch for all.
            digest, of_place = frame.payload_hash[len(YAMF_PREFIX) :], entries[frame.seq]
            fitting = [row for row in of_place if self._digest(fields.payload_hash[row]) == digest]
            for row in fitting or of_place:
                of_size = HELD if fields.size[row] == frame.size else SIZE_MISMATCH
                ranks[row] = max(ranks[row], rank(of_size if fitting else MISMATCH))
        return ranks

    def rows_of(self, seq: int) -> range:
        """The rows of a number, none if it is not there; ``distinct`` records are in this order."""
        number = np.uint64(seq)
        return range(int(np.searchsorted(self.seq, number)), int(np.searchsorted(self.seq, number, "right")))

    def _digest(self, at: int) -> bytes:
        return self.fields.data[at : at + DIGEST_BYTES].tobytes()

    def links_of(self, row: int) -> list[tuple[int, bytes]]:
        """The numbers that an entry links to, and the digests it expects there; the backlink first."""
        fields = self.fields
        links = []
        if fields.backlink[row] >= 0:
            links.append((int(self.seq[row]) - 1, self._digest(fields.backlink[row])))
        if fields.lipmaalink[row] >= 0:
            links.append((int(fields.target[row]), self._digest(fields.lipmaalink[row])))
        return links


def distinct(packs: Sequence[Pack]) -> Records:
    """The records of packs of one log, each once, ascending by number and digest. Copies are merged into one record."""
    pack = Pack.joined(packs)
    records = Records(pack)
    if records.ascending:
        return records
    order = np.lexsort((*records.digest.view(">u8")[:, 3::-1].T, records.seq))
    seq, digest = records.seq[order], records.digest[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (seq[1:] != seq[:-1]) | (digest[1:] != digest[:-1]).any(axis=1)
    firsts = first.nonzero()[0]
    known = ("payload", "signature", "before")
    copies = np.add.reduceat(pack.copies[order], firsts, dtype=np.uint64)
    return Records(
        replace(
            pack.take(order[firsts]),
            copies=np.minimum(copies, _MOST_COPIES).astype(np.uint32),
            **{name: np.maximum.reduceat(getattr(pack, name)[order], firsts) for name in known},
        )
    )
