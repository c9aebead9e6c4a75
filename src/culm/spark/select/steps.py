"""The steps of a selection, from tables to tables (drawn in ``culm.spark.select``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame

from culm.spark.plan.given import REQUESTS, Given, given
from culm.spark.runtime.columns import Row, combined
from culm.spark.runtime.engine import Table
from culm.spark.runtime.onspark import OnSpark, SparkTable, frame_of
from culm.spark.select.held import Together, WholeRow, held, present
from culm.spark.select.items import Item, chosen
from culm.spark.select.pieces import Request, cut
from culm.spark.select.places import BlockRow, Gap, Missing, PageRow, Piece, merged, paged
from culm.spark.select.requests import Asked, Refused, check
from culm.spark.verification.merge import OutcomeRow
from culm.spark.verification.steps import BLOCK, LOG, SEGMENT, JudgedRow, SegmentRow
from culm.spark.verification.verify import Verification, verified

# Pairs of a piece and an entry that a single task lays out for a block. If thousands of requesters want one block, its
# pieces denote more pairs than this; the requesters are then shared out to several tasks, which each get the block's
# entries. A smaller value copies entries to more tasks; with a larger one a popular block keeps one task busy for long.
_SHARE_PAIRS = 2_000_000


Judged = combined("Judged", __name__, SegmentRow, OutcomeRow)
"""A segment with its outcome and its entries."""


class Pairs(NamedTuple):
    """How many numbers all pieces of a block have together."""

    author: bytes
    log: int
    block: int
    pairs: int


class Wanted(NamedTuple):
    """A block that is wanted, and how many tasks share in it."""

    author: bytes
    log: int
    block: int
    shares: int


class Selecting:
    """A selection on its way, on either engine. ``verification`` must keep the entries."""

    def __init__(self, verification: Verification, requests: Table[Given], at: Mapping[type[Row], Path]) -> None:
        self._segments = verification.segments.join(verification.outcomes, SEGMENT, Judged)
        self.asked: Table[Asked]
        self.asked, self.refused = requests.keep(check, Asked, Refused, at=at)
        blocks = self._segments.select(JudgedRow).map(present, BlockRow)
        pages = blocks.spread(LOG, ("block",)).map(paged, PageRow)
        requested = self.asked.join(pages, LOG, Request, outer=True)
        self._pieces: Table[Piece]
        self._pieces, self._gaps = requested.keep(cut, Piece, Gap, columnar=True)

    def together(self) -> Table[Together]:
        """The pieces and the entries of their blocks, sorted so that a block's entries precede its pieces."""
        (wanted,) = self._pieces.total(BLOCK, Pairs).keep(_shared, Wanted)
        entries = self._segments.join(wanted, BLOCK, WholeRow).map(held, Together)
        shared = self._pieces.dealt(wanted, BLOCK, "requester", Together)
        return entries.union(shared).spread((*BLOCK, "share"), ("requester",))

    def missing(self, inside: Table[Gap]) -> Table[Gap]:
        """All gaps, sorted as ``merged`` takes them. ``inside``: those that ``chosen`` finds inside blocks."""
        return inside.union(self._gaps).spread(("requester", *LOG), ("reason", "first"))


def _shared(rows: Iterable[Pairs]) -> Iterator[Wanted]:
    return (Wanted(row.author, row.log, row.block, -(-row.pairs // _SHARE_PAIRS)) for row in rows)


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection as DataFrames.

    Rows of ``culm.spark.select.items.Item``, of ``culm.spark.select.places.Missing`` (runs of numbers that are denoted
    and not verified here), and of ``culm.spark.select.requests.Refused``.
    """

    items: DataFrame
    missing: DataFrame
    rejects: DataFrame


def select_entries(
    entries: DataFrame,
    requests: DataFrame,
    *,
    signatures: str = "all",
    encoded: bool = True,
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
