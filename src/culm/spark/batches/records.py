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
from culm.spark.batches.checks import digests
from culm.spark.batches.fields import DIGEST_BYTES, Bytes, Fields, Flags, Numbers, padded
from culm.spark.batches.pack import Pack, added_copies, frame_at
from culm.spark.batches.payload import HELD, MISMATCH, SIZE_MISMATCH, rank


class Records:
    """The records of a pack, decoded: entries and payload frames. Row n is record n of the pack.

    ``digest`` holds the records' hashes without the YAMF prefix, n rows of 64 bytes. ``frames`` has the payload frames
    by row; of the columns of ``fields`` only ``seq`` is meaningful in those rows. ``ValueError`` if the pack has no
    digests.
    """

    def __init__(self, pack: Pack) -> None:
        if pack.digest is None:
            raise ValueError("the pack has no digests; hash its records first (distinct does that)")
        self.pack = pack
        self.digest: Bytes = pack.digest
        self.fields = pack.fields or Fields.decode(padded(pack.data.data), pack.start, pack.end)
        self.is_entry: Flags = self.fields.good
        self.frames = {int(row): frame_at(pack, int(row)) for row in (~self.is_entry).nonzero()[0]}
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
        ranks = self.pack.payload
        if not self.frames:
            return ranks
        ranks = ranks.copy()
        for seq in sorted({frame.seq for frame in self.frames.values()}):
            rows = self.rows_of(seq)
            self._match([row for row in rows if self.is_entry[row]], [row for row in rows if row in self.frames], ranks)
        return ranks

    def rows_of(self, seq: int) -> range:
        """The rows of a number, none if it is not there; ``distinct`` records are in this order."""
        number = np.uint64(seq)
        return range(int(np.searchsorted(self.seq, number)), int(np.searchsorted(self.seq, number, "right")))

    def _match(self, entries: list[int], frames: list[int], ranks: npt.NDArray[np.int8]) -> None:
        """Compare the payload frames of one number with its entries, and raise the entries' ranks.

        A payload belongs to the entries that name its hash. One that no entry names is a mismatch for all of them.
        """
        fields = self.fields
        for row in frames:
            frame = self.frames[row]
            digest = frame.payload_hash[len(YAMF_PREFIX) :]
            fitting = [at for at in entries if self._digest(fields.payload_hash[at]) == digest]
            for at in fitting:
                state = HELD if fields.size[at] == frame.size else SIZE_MISMATCH
                ranks[at] = max(ranks[at], rank(state))
            for at in entries if not fitting else ():
                ranks[at] = max(ranks[at], rank(MISMATCH))

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
    """The records of packs of one log, each once, ascending by number and digest. Copies are merged into one record.

    Hashes the records of packs that have no digests yet.
    """
    pack = Pack.joined([_hashed(pack) for pack in packs])
    records = Records(pack)
    if records.ascending:
        return records
    digest = records.digest
    words = digest.view(">u8")
    order = np.lexsort((words[:, 3], words[:, 2], words[:, 1], words[:, 0], records.seq))
    seq, digest = records.seq[order], digest[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (seq[1:] != seq[:-1]) | (digest[1:] != digest[:-1]).any(axis=1)
    firsts = first.nonzero()[0]
    once = pack.take(order[firsts])
    merged = replace(
        once,
        payload=np.maximum.reduceat(pack.payload[order], firsts),
        copies=added_copies(pack.copies[order], firsts),
        signature=np.maximum.reduceat(pack.signature[order], firsts),
        before=np.maximum.reduceat(pack.before[order], firsts),
    )
    return Records(merged)


def _hashed(pack: Pack) -> Pack:
    if pack.digest is not None:
        return pack
    return replace(pack, digest=digests(pack.data, pack.start, pack.end))
