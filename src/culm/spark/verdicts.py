"""The last step, in a worker: a segment and what the rest of its log makes of it become verdicts, a row for each entry.

What is said of an entry is kept with it as one byte, so that a later run can tell what has changed: 0 where there was
nothing, else 1 + 8 * verdict + payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from culm.bamboo import YAMF_BYTES
from culm.bamboo.entry import AUTHOR_BYTES
from culm.bamboo.yamf import YAMF_PREFIX
from culm.spark.fields import DIGEST_BYTES, cut
from culm.spark.merge import Outcome
from culm.spark.pack import Pack, Signature
from culm.spark.payload import STATES
from culm.spark.segment import Records, Summary

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from culm.spark.fields import Bytes, Flags, Numbers, Offsets

VERIFIED, UNVERIFIED, INVALID = "verified", "unverified", "invalid"
VERDICTS = (VERIFIED, UNVERIFIED, INVALID)
BAD_SIGNATURE = "bad signature"


class JudgedSegment:
    """A segment whose verdicts are known. Rows are those of the pack."""

    def __init__(self, pack: Pack, summary: Summary, outcome: Outcome) -> None:
        self._pack = pack
        self._summary = summary
        self._outcome = outcome
        self._records = Records(pack)
        self.payload = self._records.payload()
        self.verdict = self._verdicts()

    def _verdicts(self) -> npt.NDArray[np.int8]:
        signature, seq = self._pack.signature, self._records.seq
        connected = np.array(self._outcome.connected, np.bool_)[self._pack.piece]
        verdict = np.where(connected, 0, 1).astype(np.int8)
        verdict[signature == Signature.BAD] = 2
        if self._outcome.limit:
            verdict[seq >= np.uint64(self._outcome.limit)] = 2
        return verdict

    @property
    def said(self) -> Bytes:
        """What is said of each entry, as one byte; 0 for the frames of payloads."""
        codes = (1 + 8 * self.verdict + self.payload).astype(np.uint8)
        return np.where(self._records.is_entry, codes, 0).astype(np.uint8)

    def changed(self) -> Flags:
        """The entries of which something else was said before, or of which not enough is known to tell."""
        before = self._pack.before
        same = (before == self.said) & (self.verdict == 0)
        changed: Flags = self._records.is_entry & ~same
        return changed

    def entries(self) -> Flags:
        """The rows that are entries."""
        return self._records.is_entry

    # -- the table

    def table(self, rows: Flags) -> pa.RecordBatch:
        """The verdicts on some rows, as ``culm.spark.verify.FOUND_VERDICTS`` has them."""
        import pyarrow as pa

        chosen = rows.nonzero()[0]
        fields = self._records.fields
        author = fields.data[fields.start[0] + 1 : fields.start[0] + 1 + AUTHOR_BYTES].tobytes()
        count = len(chosen)
        return pa.record_batch(
            [
                _fixed(np.tile(np.frombuffer(author, np.uint8), (count, 1))),
                _numbers(fields.log_id[chosen]),
                _numbers(self._records.seq[chosen]),
                _hashes(self._records.digest[chosen]),
                _numbers(fields.size[chosen]),
                _hashes(cut(fields.data, fields.payload_hash[chosen], DIGEST_BYTES)),
                pa.array(fields.is_end[chosen]),
                pa.array(np.array(STATES, object)[self.payload[chosen]], pa.string()),
                pa.array(np.array(VERDICTS, object)[self.verdict[chosen]], pa.string()),
                pa.array(self._reasons(chosen), pa.string()),
                pa.array(self._pack.copies[chosen].astype(np.int64)),
            ],
            names=COLUMNS,
        )

    def _reasons(self, rows: Offsets) -> list[str | None]:
        verdict, signature = self.verdict[rows], self._pack.signature[rows]
        reasons: list[str | None] = [None] * len(rows)
        for at in verdict.nonzero()[0]:
            if signature[at] == Signature.BAD:
                reasons[at] = BAD_SIGNATURE
            elif verdict[at] == 1:
                reasons[at] = self._needs(int(rows[at]))
            else:
                reasons[at] = self._outcome.cause
        return reasons

    def _needs(self, row: int) -> str:
        """What would give an entry its path: the link targets not held, and those held that have no path either."""
        targets = dict.fromkeys(target for target, _ in self._records.links_of(row))
        missing = " or ".join(str(target) for target in targets if not self._holds(target))
        stuck = " or ".join(str(target) for target in targets if self._holds(target))
        needs = [missing] if missing else []
        if stuck:
            needs.append(f"a path for {stuck}")
        return f"no path to entry 1: needs {', or '.join(needs)}"

    def _holds(self, target: int) -> bool:
        """Whether an authentic entry of a number below is there."""
        if target < self._summary.low:
            numbers = [number for number, _ in self._summary.externals]
            return target in numbers and self._outcome.held[numbers.index(target)]
        seq = self._records.seq
        at = int(np.searchsorted(seq, np.uint64(target)))
        while at < len(seq) and seq[at] == target:
            if self._pack.signature[at] in (Signature.GOOD, Signature.TIED):
                return True
            at += 1
        return False


COLUMNS = (
    "author",
    "log_id",
    "seqnum",
    "entry_hash",
    "size",
    "payload_hash",
    "is_end",
    "payload",
    "verdict",
    "reason",
    "copies",
)


def _numbers(numbers: Numbers) -> pa.Array:
    """Unsigned numbers as decimals: Spark has no other type for them."""
    import pyarrow as pa

    return pa.array(numbers).cast(pa.decimal128(20, 0))


def _hashes(digests: Bytes) -> pa.Array:
    """YAMF-hashes of digests."""
    whole = np.empty((len(digests), YAMF_BYTES), np.uint8)
    whole[:, : len(YAMF_PREFIX)] = np.frombuffer(YAMF_PREFIX, np.uint8)
    whole[:, len(YAMF_PREFIX) :] = digests
    return _fixed(whole)


def _fixed(rows: Bytes) -> pa.Array:
    """Rows of bytes as a binary array."""
    import pyarrow as pa

    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(rows.tobytes())])
