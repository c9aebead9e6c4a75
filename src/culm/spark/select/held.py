"""The verified entries of a block: which numbers they have, and the entries themselves for the pieces to pick from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from culm.spark.batches.pack import Pack, block_of
from culm.spark.batches.records import Records
from culm.spark.batches.slices import fetched
from culm.spark.runtime.columns import Tiny
from culm.spark.select.places import BlockRow
from culm.spark.verification.merge import Outcome
from culm.spark.verification.segment_summary import Summary
from culm.spark.verification.steps import JudgedRow, judged
from culm.spark.verification.verdicts import Findings, JudgedSegment
from culm.store.schema import from_sql, to_sql


class WholeRow(NamedTuple):
    """A segment with its entries, its outcome, and how many tasks share in the block's pieces."""

    author: bytes
    log: int
    block: int
    shares: int
    summary: bytes
    packed: bytes
    outcome: bytes


class Together(NamedTuple):
    """A piece (``culm.spark.select.places.Piece``); or a block's verified entries: an encoded ``Pack`` in ``numbers``.

    A row of entries has no ``requester``. ``share`` is the number of the task among those that share in the block.
    """

    author: bytes
    log: int
    block: int
    share: int
    requester: str | None
    wants: Tiny | None
    least: int | None
    limit: int | None
    first: int | None
    last: int | None
    numbers: bytes | None


def present(rows: Iterable[JudgedRow]) -> Iterator[BlockRow]:
    """The blocks that have verified entries."""
    for row in rows:
        segment = judged(row.author, row.log, row.summary, row.findings, row.outcome)
        verified = segment.findings.seq[segment.verdict == 0]
        if len(verified):
            newest = int(verified[-1])
            yield BlockRow(row.author, row.log, block_of(newest), to_sql(newest))


def held(rows: Iterable[WholeRow]) -> Iterator[Together]:
    """The verified entries of each block: a copy for each share."""
    for row in rows:
        records = Records(Pack.decode(fetched(row.packed)))
        summary, outcome = Summary.decode(row.summary), Outcome.decode(row.outcome)
        segment = JudgedSegment(row.author, from_sql(row.log), Findings.of(records), summary, outcome)
        verified = records.is_entry.nonzero()[0][segment.verdict == 0]
        if len(verified):
            data = replace(records.pack, payload=records.payload()).take(verified).encode()
            for share in range(row.shares):
                yield Together(row.author, row.log, row.block, share, None, None, None, None, None, None, data)
