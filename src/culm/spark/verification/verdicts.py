"""The last step, in a worker: a segment's findings and its outcome become verdicts, a row for each entry.

Findings are what is known of a segment's entries after the segment was judged on its own. They hold all that verdicts
are made of, but not the entries themselves, which are three times as large. So the step that writes verdicts moves a
third of the bytes, and the entries move on only where a state or a proof needs them.

The rules, in this order: an entry with a bad signature is invalid; an entry at or above the limit of its log (a fork,
or a payload of a wrong size) is invalid; an entry whose piece is connected to entry 1 is verified; any other entry is
unverified, and the reason names the entries that would connect it. A verified entry is certified, too, if the rest of
its certificate pool is verified (``culm.bamboo.certified``).

A run on top of a state writes only what changed. So what is said of an entry is kept with it as one byte: 0 for an
entry that was not there, else one more than a number of three parts (``PAYLOAD``, ``VERDICT``, ``CERTIFIED``). Reasons
are not compared, because keeping them would cost more than writing an unchanged row again: an entry that is not
verified is therefore always written.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Self, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from culm.bamboo import lipmaa
from culm.bamboo.certified import certified_runs
from culm.spark.batches.arrays import decimals, hashes, names
from culm.spark.batches.fields import Bytes, Flags, Numbers
from culm.spark.batches.pack import Pack, Signature
from culm.spark.batches.payload import MISMATCH, SIZE_MISMATCH, STATES, rank
from culm.spark.batches.slices import fetched
from culm.spark.runtime.columns import Batch, Unsigned
from culm.spark.verification.merge import IndexRow, Outcome, SegmentRow, Summary
from culm.store.schema import from_sql

VERIFIED, UNVERIFIED, INVALID = "verified", "unverified", "invalid"
VERDICTS = (VERIFIED, UNVERIFIED, INVALID)
BAD_SIGNATURE = "bad signature"

PAYLOAD, VERDICT, CERTIFIED = 0b111, 0b11_000, 0b100_000
"""The bits of what is said of an entry, less 1: rank of its payload, place in ``VERDICTS``, whether certified."""


_COUNT_BYTES = 4  # a u32: a segment has far fewer entries, and never 2^32 - 1 (see culm.spark.batches.slices)


class Findings(NamedTuple):
    """The entries of a segment, ascending by number and digest: columns of length n, digests as n rows of 64 bytes.

    As a cell of a table: how many they are (u32), then the columns, one behind the other; numbers are little-endian.

    ``payload`` has ranks of ``batches.payload.STATES``, ``signature`` is ``batches.pack.Signature``. ``piece``
    says which part of the segment an entry is in (``segment``), ``before`` what was said of it in an earlier run.
    """

    seq: Annotated[Numbers, "<u8"]
    size: Annotated[Numbers, "<u8"]
    digest: Annotated[Bytes, "(64,)u1"]
    payload_hash: Annotated[Bytes, "(64,)u1"]
    piece: Annotated[npt.NDArray[np.uint16], "<u2"]
    copies: Annotated[npt.NDArray[np.uint32], "<u4"]
    is_end: Annotated[Flags, "?"]
    payload: Annotated[npt.NDArray[np.int8], "i1"]
    signature: Annotated[Bytes, "u1"]
    before: Annotated[Bytes, "u1"]

    def parts(self) -> list[bytes]:
        """The findings as bytes, in pieces that follow each other."""
        columns = (getattr(self, name).astype(kind.base).tobytes() for name, kind in _COLUMNS.items())
        return [len(self.seq).to_bytes(_COUNT_BYTES, "little"), *columns]

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what ``parts`` wrote; the columns are views of ``data``, not copies."""
        count, at = int.from_bytes(data[:_COUNT_BYTES], "little"), _COUNT_BYTES
        found: dict[str, Any] = {}
        for name, kind in _COLUMNS.items():
            found[name] = np.frombuffer(data, kind, count, at)
            at += found[name].nbytes
        return cls(**found)

    @classmethod
    def of(cls, records: Pack) -> Self:
        """The findings of the entries among some records; payload frames are left out."""
        rows = slice(None) if not records.frames else records.is_entry.nonzero()[0]
        return cls(
            seq=records.seq[rows],
            size=records.fields.size[rows],
            digest=records.digest[rows],
            payload_hash=records.digests[records.fields.payload_hash[rows]],
            is_end=records.fields.is_end[rows],
            payload=records.known_payload()[rows],
            **{name: getattr(records, name)[rows] for name in ("piece", "copies", "signature", "before")},
        )


_COLUMNS = {name: np.dtype(get_args(kind)[1]) for name, kind in get_type_hints(Findings, include_extras=True).items()}
"""How findings are written: the kind of each column."""


class Verdict(NamedTuple):
    """The verdict on an entry: a row of what ``verify`` gives, where the columns are explained."""

    author: bytes
    log_id: Unsigned
    seqnum: Unsigned
    entry_hash: bytes
    size: Unsigned
    payload_hash: bytes
    is_end: bool
    payload: str
    verdict: str
    certified: bool
    reason: str | None
    copies: int


class JudgedRow(NamedTuple):
    """A segment with its outcome, without its entries, and with the outcome of the run before.

    ``previous`` is null for a segment that was made in this run: its entries themselves remember what was said of them.
    """

    author: bytes
    log: int
    low: int
    summary: bytes
    findings: bytes
    outcome: bytes
    previous: bytes | None
    made: int | None


class JudgedSegment:
    """The segment in a row, with its verdicts: by its outcome, or by another one. Row n is entry n of its findings."""

    def __init__(self, row: SegmentRow | JudgedRow, outcome: bytes | None = None) -> None:
        self.author, self.log_id = row.author, from_sql(row.log)
        self.findings = Findings.decode(fetched(row.findings or b""))
        self.summary, self.outcome = Summary.decode(row.summary), Outcome.decode(outcome or row.outcome or b"")

    @cached_property
    def verdict(self) -> npt.NDArray[np.int8]:
        """Of each entry the position in ``VERDICTS``."""
        found, outcome = self.findings, self.outcome
        is_beyond = (outcome.limit > 0) & (found.seq >= np.uint64(outcome.limit))
        is_connected = np.frombuffer(outcome.connected, np.bool_)[found.piece]
        verdict = np.where((found.signature == Signature.BAD) | is_beyond, 2, np.where(is_connected, 0, 1))
        return verdict.astype(np.int8)

    @cached_property
    def stretches(self) -> list[tuple[int, int]]:
        """First and last number of each stretch of neighbouring verified entries."""
        numbers = self.findings.seq[self.verdict == 0]
        parts = np.split(numbers, (np.diff(numbers) != 1).nonzero()[0] + 1)
        return [(int(part[0]), int(part[-1])) for part in parts if len(part)]

    @cached_property
    def certified(self) -> Flags:
        """Whether each entry is verified, and so is the rest of its certificate pool."""
        found = certified_runs(self.stretches, self.summary.greatest, self.outcome.gaps)
        first, last = np.array([(0, 0), *found], np.uint64).T
        run = np.searchsorted(first, self.findings.seq, "right") - 1
        return np.asarray((self.findings.seq <= last[run]) & (self.verdict == 0))

    @property
    def said(self) -> Bytes:
        """What is said of each entry, as one byte."""
        return np.asarray(1 + 8 * self.verdict + self.findings.payload + CERTIFIED * self.certified, np.uint8)

    def counts(self) -> tuple[int, int, int, int, int, int]:
        """How many entries there are, how many of each verdict, how many whose payload is wrong, and certified ones."""
        wrong = np.isin(self.findings.payload, [rank(MISMATCH), rank(SIZE_MISMATCH)])
        verified, unverified, invalid = np.bincount(self.verdict, minlength=len(VERDICTS)).tolist()
        return len(self.findings.seq), verified, unverified, invalid, int(wrong.sum()), int(self.certified.sum())

    # -- the table

    def table(self, rows: slice | Flags) -> pa.RecordBatch:
        """The verdicts on some rows, with the columns of ``Verdict``."""
        found, verdict = Findings._make(column[rows] for column in self.findings), self.verdict[rows]
        count, log_id = len(found.seq), pa.scalar(self.log_id, pa.decimal128(20, 0))
        place = pa.repeat(self.author, count), pa.repeat(log_id, count), decimals(found.seq), hashes(found.digest)
        entry = decimals(found.size), hashes(found.payload_hash), pa.array(found.is_end)
        said = names(STATES, found.payload), names(VERDICTS, verdict), pa.array(self.certified[rows])
        rest = self._reasons(found, verdict), pa.array(found.copies.astype(np.int64))
        return pa.record_batch([*place, *entry, *said, *rest], [*Verdict._fields])

    def _reasons(self, found: Findings, verdict: npt.NDArray[np.int8]) -> pa.Array:
        # Why all from the limit on is invalid.
        cause = f"{'fork' if self.outcome.forked else 'payload size mismatch'} at {self.outcome.limit}"
        reasons = np.where(verdict == 2, cause, np.array(None))
        reasons[found.signature == Signature.BAD] = BAD_SIGNATURE
        unverified = (verdict == 1).nonzero()[0]
        reasons[unverified] = [self._needs(seq) for seq in found.seq[unverified].tolist()]
        return pa.array(reasons, pa.string())

    def _needs(self, seq: int) -> str:
        """The reason of an unverified entry: the targets of its links that are missing, and those without a path."""
        targets = dict.fromkeys((seq - 1, lipmaa(seq)))
        missing = " or ".join(str(target) for target in targets if target not in self._held)
        stuck = " or ".join(str(target) for target in targets if target in self._held)
        needs = ", or ".join(filter(None, [missing, stuck and f"a path for {stuck}"]))
        return f"no path to entry 1: needs {needs}"

    @cached_property
    def _held(self) -> set[int]:
        """The numbers of the authentic entries in this segment, and of those below it that it links to."""
        below = zip(self.summary.externals, self.outcome.held, strict=True)
        here = self.findings.seq[self.findings.signature != Signature.BAD].tolist()
        return {*here, *(number for (number, _), is_held in below if is_held)}


Tell = Callable[[JudgedSegment, Flags, Bytes], Batch]
"""Makes rows of a segment, given which entries are to be told, and what was said of each before."""


def pronounced(
    rows: Iterable[JudgedRow], *, everything: bool = False, told: Tell | None = None
) -> Iterator[Batch | IndexRow]:
    """What is told of entries that are new, or that differ from the run before; and what each segment has.

    ``everything``: all entries, as if they were new. ``told`` makes other rows than verdicts.
    """
    for row in rows:
        segment = JudgedSegment(row)
        before = segment.findings.before if row.previous is None else JudgedSegment(row, row.previous).said
        before = np.zeros_like(before) if everything else before
        changed: Flags = (before != segment.said) | (segment.verdict != 0)  # and all that are not verified: see above
        yield told(segment, changed, before) if told else Batch(Verdict, segment.table(changed))
        yield IndexRow(row.author, row.log, row.low, *segment.counts())
