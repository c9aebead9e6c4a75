"""The steps of a selection, from tables to tables (drawn in ``culm.spark.select``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyspark.sql import DataFrame

from culm.spark.batches.pack import BLOCK_BITS, Pack, block_of
from culm.spark.batches.records import Records
from culm.spark.batches.slices import fetched
from culm.spark.plan.given import REQUESTS, Given, given
from culm.spark.runtime.columns import Row, combined
from culm.spark.runtime.engine import Table
from culm.spark.runtime.onspark import OnSpark, SparkTable, frame_of
from culm.spark.select.items import Item, chosen
from culm.spark.select.pieces import Request, cut
from culm.spark.select.places import BlockRow, Gap, Missing, Piece, batch_of, covering, merged
from culm.spark.select.requests import Asked, Refused, check
from culm.spark.verification.merge import BLOCK, LOG, SEGMENT, IndexRow, SegmentRow
from culm.spark.verification.verdicts import JudgedRow, JudgedSegment
from culm.spark.verification.verify import Verification, verified
from culm.store.schema import to_sql

# Pairs of a piece and an entry that a single task lays out for a block. If thousands of requesters want one block, its
# pieces denote more pairs than this; the requesters are then shared out to several tasks, which each get the block's
# entries. A smaller value copies entries to more tasks; with a larger one a popular block keeps one task busy for long.
_SHARE_PAIRS = 2_000_000


Judged = combined("Judged", __name__, SegmentRow, IndexRow)
"""A segment with its outcome and its entries."""


class Wanted(NamedTuple):
    """A block that is wanted, and how many numbers all its pieces have together."""

    author: bytes
    log: int
    block: int
    pairs: int


class WholeRow(NamedTuple):
    """A segment with its entries, its outcome, and how many numbers the block's pieces have."""

    author: bytes
    log: int
    block: int
    pairs: int
    summary: bytes
    findings: bytes
    packed: bytes
    outcome: bytes


class Together(NamedTuple):
    """A piece (``culm.spark.select.places.Piece``); or a block's verified entries, as a batch of ``Item``.

    A row of entries has no ``requester``. ``share`` is the number of the task among those that share in the block.
    """

    author: bytes
    log: int
    block: int
    share: int
    data: bytes
    requester: str | None = None
    least: int | None = None
    limit: int | None = None


class Selecting:
    """A selection on its way, on either engine. ``verification`` must keep the entries."""

    def __init__(self, verification: Verification, requests: Table[Given], at: Mapping[type[Row], Path]) -> None:
        self._segments = verification.outcomes.join(verification.segments, SEGMENT, Judged)
        self.asked: Table[Asked]
        self.asked, self.refused = requests.keep(check, Asked, Refused, at=at)
        blocks = self._segments.select(JudgedRow).map(present, BlockRow)
        covered = blocks.spread(LOG, ("low",)).map(covering, BlockRow)
        overlap = ("start", "reach", "low", "upto")
        requested = self.asked.join(covered, LOG, Request, outer=True, overlap=overlap)
        self._pieces: Table[Piece]
        self._pieces, self._gaps = requested.keep(cut, Piece, Gap, columnar=True)

    def together(self) -> Table[Together]:
        """The pieces and the entries of their blocks, sorted so that a block's entries precede its pieces."""
        wanted = self._pieces.total(BLOCK, Wanted).kept()
        entries = self._segments.join(wanted, BLOCK, WholeRow).map(partial(held, most=_SHARE_PAIRS), Together)
        shared = self._pieces.dealt(wanted, BLOCK, "requester", Together, "pairs", _SHARE_PAIRS)
        return entries.union(shared).spread((*BLOCK, "share"), ("requester",))

    def missing(self, inside: Table[Gap]) -> Table[Gap]:
        """All gaps, sorted as ``merged`` takes them. ``inside``: those that ``chosen`` finds inside blocks."""
        return inside.union(self._gaps).spread(("requester", *LOG), ("reason", "first"))


def present(rows: Iterable[JudgedRow]) -> Iterator[BlockRow]:
    """The blocks that have verified entries."""
    for row in rows:
        segment = JudgedSegment(row)
        verified = segment.findings.seq[segment.verdict == 0]
        if len(verified):
            newest = int(verified[-1])
            low = to_sql(block_of(newest) << BLOCK_BITS)
            yield BlockRow(row.author, row.log, low, low, to_sql(newest))


def held(rows: Iterable[WholeRow], most: int) -> Iterator[Together]:
    """The verified entries of each block: a copy for each share. ``most``: pairs for one task."""
    for row in rows:
        segment = JudgedSegment(SegmentRow(*row[:3], 0, 0, row.summary, row.findings, None, row.outcome))
        verified = segment.verdict == 0
        if verified.any():
            verdicts, records = segment.table(verified), Records(Pack.decode(fetched(row.packed)))
            encoded = [records.pack.record(at) for at in records.is_entry.nonzero()[0][verified]]
            known = verdicts.rename_columns({"payload": "payload_state"})
            data = batch_of(Item, known, np.arange(len(encoded)), encoded=encoded).data.serialize().to_pybytes()
            for share in range(-(-row.pairs // most)):
                yield Together(row.author, row.log, row.block, share, data)


class Selection(NamedTuple):
    """A selection as DataFrames.

    Rows of ``culm.spark.select.items.Item``, of ``culm.spark.select.places.Missing`` (runs of numbers that are denoted
    and not verified here), and of ``culm.spark.select.requests.Refused``.
    """

    items: DataFrame
    missing: DataFrame
    rejects: DataFrame


def select_entries(
    entries: DataFrame, requests: DataFrame, *, signatures: str = "all", encoded: bool = True
) -> Selection:
    """Verify a table of entries, as ``verification.verify.verify`` takes it, and select from the verified ones.

    The items are exactly the entries and certificates that the ranges of each requester denote and that are verified.
    ``requests`` has the columns of docs/spark-select.md. ``encoded=False`` leaves the entries' bytes out.
    ``ConfigError`` if ``requests`` lacks a column or has one of a wrong type.

    The segments stay on the executors' disks until the session ends or its cache is cleared.
    """
    engine = OnSpark(entries.sparkSession)
    asked = SparkTable(engine, Given, given(requests, REQUESTS))
    found = Selecting(verified(entries, signatures=signatures, keep=True), asked, {})
    together = found.together()
    items = together.map(partial(chosen, encoded=encoded), Item, columnar=True)
    gaps = together.map(partial(chosen, encoded=False), Gap, columnar=True)
    return Selection(frame_of(items), frame_of(found.missing(gaps).map(merged, Missing)), frame_of(found.refused))
