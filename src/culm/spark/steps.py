"""What the workers do in each step of the verification, and the tables that pass between the steps.

Plain functions from rows to rows; ``culm.spark.verify`` puts them together.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from culm.spark.columns import Batch
from culm.spark.findings import Findings
from culm.spark.merge import Outcome
from culm.spark.pack import Pack
from culm.spark.records import Records, distinct
from culm.spark.segment import Signatures, Summary, Vouched, segment_of
from culm.spark.slices import Shelf, fetched
from culm.spark.verdicts import JudgedSegment, Verdict
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from culm.spark.gather import PackRow

LOG = ("author", "log")
BLOCK = (*LOG, "block")
SEGMENT = (*LOG, "low")
"""The columns by which rows of one log, block or segment are equal."""


class SegmentRow(NamedTuple):
    """A segment: where it is, its ``Summary``, its ``Findings``, and its entries if a later step needs them.

    A segment of a state without findings only vouches for others.
    """

    author: bytes
    log: int
    block: int
    low: int
    high: int
    summary: bytes
    findings: bytes | None
    packed: bytes | None


class UnsureRow(NamedTuple):
    """A log with a segment that has a head with a bad signature: a higher segment may vouch for it."""

    author: bytes
    log: int


class JudgedRow(NamedTuple):
    """A segment with its outcome, and the outcome of the run before.

    ``previous`` is null for a segment that was made in this run: its entries themselves remember what was said of them.
    """

    author: bytes
    log: int
    low: int
    summary: bytes
    findings: bytes
    outcome: bytes
    previous: bytes | None = None

    def judged(self, outcome: bytes) -> JudgedSegment:
        """The segment with the verdicts that an outcome gives."""
        findings, summary = Findings.decode(fetched(self.findings)), Summary.decode(self.summary)
        return JudgedSegment(self.author, from_sql(self.log), findings, summary, Outcome.decode(outcome))


class CountsRow(NamedTuple):
    """How many entries a segment has, by verdict; whose payload is wrong; that are certified."""

    author: bytes
    log: int
    low: int
    entries: int
    verified: int
    unverified: int
    invalid: int
    payload_mismatches: int
    certified: int


COUNTED = CountsRow._fields[len(SEGMENT) :]
"""The columns of ``CountsRow`` that count."""

# Packs of one block wait until they have this many bytes; then copies of entries among them are merged. This bounds a
# worker's memory when one block comes in very many copies. A smaller value would sort the same entries more often.
_WAITING_BYTES = 64 * 1024 * 1024


def segmented(
    rows: Iterable[PackRow], signatures: Signatures, *, keep: bool = False, folder: Path | None = None
) -> Iterator[SegmentRow | UnsureRow]:
    """Packs, sorted by block, to segments, and which logs have to pass ``vouched``.

    ``keep``: with the entries themselves.

    With a ``folder`` findings and entries are written there, and the rows say where (``culm.spark.slices``).
    """
    with Shelf(folder) as shelf:
        for block, of_block in groupby(rows, key=attrgetter(*BLOCK)):
            records, summary = segment_of(_collected(row.packed for row in of_block), signatures)
            yield _segment_row(block, records, summary, shelf, keep=keep)
            if summary.unsigned:
                yield UnsureRow(*block[: len(LOG)])


def _segment_row(
    block: tuple[bytes, int, int], records: Records, summary: Summary, shelf: Shelf, *, keep: bool
) -> SegmentRow:
    findings = shelf.put(Findings.of(records).parts())
    packed = shelf.put([records.pack.encode()]) if keep or summary.unsigned else None
    return SegmentRow(*block, to_sql(summary.low), to_sql(summary.high), summary.encode(), findings, packed)


def vouched(rows: Iterable[SegmentRow], *, folder: Path | None = None) -> Iterator[SegmentRow]:
    """The segments of whole logs, sorted by log and from the highest down, with all heads settled. For ``HEADS`` only.

    Entries whose signature is bad, but that a higher segment vouches for, are taken as signed.
    """
    with Shelf(folder) as shelf:
        for _, of_log in groupby(rows, key=attrgetter(*LOG)):
            above = Vouched()
            for row in of_log:
                summary, settled = Summary.decode(row.summary), row
                if row.packed is not None and (pairs := above.of(summary)):
                    records, summary = segment_of([Pack.decode(fetched(row.packed))], Signatures.HEADS, pairs)
                    settled = _segment_row((row.author, row.log, row.block), records, summary, shelf, keep=True)
                above.add(summary)
                if row.findings is not None:
                    yield settled


def _collected(packed: Iterable[bytes]) -> list[Pack]:
    """The packs of one block, merged whenever they exceed ``_WAITING_BYTES``."""
    packs: list[Pack] = []
    size = 0
    for data in map(fetched, packed):
        packs.append(Pack.decode(data))
        size += len(data)
        if size > _WAITING_BYTES and len(packs) > 1:
            packs = [distinct(packs).pack]
            size = len(packs[0].data)
    return packs


def pronounced(rows: Iterable[JudgedRow], *, everything: bool = False) -> Iterator[Batch | CountsRow]:
    """The verdicts on entries that are new, or that differ from those of the run before; and what each segment has.

    ``everything``: the verdicts on all entries, whatever was said before.
    """
    for row in rows:
        segment = row.judged(row.outcome)
        before = segment.before if row.previous is None else row.judged(row.previous).said
        yield Batch(Verdict, segment.table(slice(None) if everything else segment.changed(before)))
        yield CountsRow(row.author, row.log, row.low, *segment.counts())
