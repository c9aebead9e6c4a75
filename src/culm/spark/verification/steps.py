"""What the workers do in each step of the verification, and the tables that pass between the steps.

Plain functions from rows to rows; ``verify`` puts them together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from culm.spark.batches.fields import Bytes, Flags
from culm.spark.batches.pack import Pack, distinct
from culm.spark.batches.slices import Shelf, fetched
from culm.spark.runtime.columns import Batch
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.gather import PackRow
from culm.spark.verification.merge import IndexRow, Outcome
from culm.spark.verification.segment import Summary, segment_of
from culm.spark.verification.verdicts import Findings, JudgedSegment, Verdict
from culm.store.schema import from_sql, to_sql

LOG = ("author", "log")
BLOCK = (*LOG, "block")
SEGMENT = (*LOG, "low")
"""The columns by which rows of one log, block or segment are equal."""


class SegmentRow(NamedTuple):
    """A segment: where it is, its ``Summary``, its ``Findings``, and its entries if a later step needs them.

    A segment of a state without findings only vouches for others. ``outcome`` and ``made``, the generation of a state
    that has the segment, are only there where a step has joined them (``IndexRow``).
    """

    author: bytes
    log: int
    block: int
    low: int
    high: int
    summary: bytes
    findings: bytes | None
    packed: bytes | None
    outcome: bytes | None = None
    made: int | None = None


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


def judged(row: SegmentRow | JudgedRow, outcome: bytes | None = None) -> JudgedSegment:
    """The segment in a row with its verdicts, by another outcome if one is given."""
    found, outcome = Findings.decode(fetched(row.findings or b"")), outcome or row.outcome or b""
    return JudgedSegment(row.author, from_sql(row.log), found, Summary.decode(row.summary), Outcome.decode(outcome))


# Packs of one block wait until they have this many bytes; then copies of entries among them are merged. This bounds a
# worker's memory when one block comes in very many copies. A smaller value would sort the same entries more often.
_WAITING_BYTES = 64 * 1024 * 1024


def segmented(
    rows: Iterable[PackRow], signatures: Signatures, *, keep: bool = False, folder: Path | None = None
) -> Iterator[SegmentRow | IndexRow]:
    """Packs, sorted by block, to segments, and which of them have a head in doubt, so that their logs pass ``vouched``.

    ``keep``: with the entries themselves.

    With a ``folder`` findings and entries are written there, and the rows say where (``batches.slices``).
    """
    with Shelf(folder) as shelf:
        for block, of_block in groupby(rows, key=attrgetter(*BLOCK)):
            records, summary = segment_of(_collected(row.packed for row in of_block), signatures)
            yield _segment_row(block, records, summary, shelf, keep=keep)
            if summary.unsigned:
                yield IndexRow(block[0], block[1], to_sql(summary.low))


def _segment_row(
    block: tuple[bytes, int, int], records: Pack, summary: Summary, shelf: Shelf, *, keep: bool
) -> SegmentRow:
    findings = shelf.put(Findings.of(records).parts())
    packed = shelf.put([records.encode()]) if keep or summary.unsigned else None
    return SegmentRow(*block, to_sql(summary.low), to_sql(summary.high), summary.encode(), findings, packed)


def vouched(rows: Iterable[SegmentRow], *, folder: Path | None = None) -> Iterator[SegmentRow]:
    """The segments of whole logs, sorted by log and from the highest down, with all heads settled. For ``HEADS`` only.

    Entries whose signature is bad, but that a higher segment vouches for, are taken as signed. So what segments expect
    of numbers below them is remembered as they pass by: two numbers for each entry of the log at most. Only logs with
    such entries come here, so only an author who links to what they did not sign makes anybody do that.
    """
    with Shelf(folder) as shelf:
        for _, of_log in groupby(rows, key=attrgetter(*LOG)):
            expected: frozenset[tuple[int, bytes]] = frozenset()
            for row in of_log:
                summary, settled = Summary.decode(row.summary), row
                if row.packed is not None and (pairs := expected.intersection(summary.unsigned)):
                    pack = Pack.decode(fetched(row.packed))
                    records, summary = segment_of([pack], Signatures.HEADS, frozenset(pairs))
                    settled = _segment_row((row.author, row.log, row.block), records, summary, shelf, keep=True)
                every = expected.union(summary.externals, summary.contradicting)
                expected = frozenset((number, digest) for number, digest in every if number < summary.low)
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
            packs = [distinct(packs)]
            size = len(packs[0].data)
    return packs


def verdicts(segment: JudgedSegment, entries: Flags, _: Bytes) -> Batch:
    """The verdicts on some entries of a segment."""
    return Batch(Verdict, segment.table(entries))


def pronounced(
    rows: Iterable[JudgedRow],
    *,
    everything: bool = False,
    told: Callable[[JudgedSegment, Flags, Bytes], Batch] = verdicts,
) -> Iterator[Batch | IndexRow]:
    """What is told of entries that are new, or that differ from the run before; and what each segment has.

    ``everything``: all entries, as if they were new. ``told`` makes rows. It takes a segment, a flag for each entry
    whether it is to be told, and what was said of each entry before (``JudgedSegment.said``).
    """
    for row in rows:
        segment = judged(row)
        before = segment.findings.before if row.previous is None else judged(row, row.previous).said
        before = np.zeros_like(before) if everything else before
        yield told(segment, segment.changed(before), before)
        yield IndexRow(row.author, row.log, row.low, *segment.counts())
