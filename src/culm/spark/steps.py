"""What the workers do with the rows of each step, and the columns that pass between the steps.

Plain functions from rows or batches to the same; ``culm.spark.verify`` puts them together.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from culm.spark.columns import UNSIGNED, Columns
from culm.spark.findings import Findings
from culm.spark.gather import PACKS
from culm.spark.merge import Outcome, merge_logs
from culm.spark.pack import Pack
from culm.spark.records import Records, distinct
from culm.spark.segment import Signatures, Summary, Vouched, segment_of
from culm.spark.slices import Shelf, fetched
from culm.spark.verdicts import JudgedSegment
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    Row = tuple[Any, ...]
    Batches = Iterator[pa.RecordBatch]

SEGMENTS = Columns(
    source="STRING",
    offset="BIGINT",
    reason="STRING",
    author="BINARY",
    log="BIGINT",
    block="BIGINT",
    low="BIGINT",
    high="BIGINT",
    summary="BINARY",
    findings="BINARY",
    packed="BINARY",
)
"""A segment, or a reject that passes through. ``packed``, the entries, is null unless a later step needs them."""

SUMMARIES = Columns(author="BINARY", log="BIGINT", low="BIGINT", summary="BINARY")
OUTCOMES = Columns(author="BINARY", log="BIGINT", low="BIGINT", outcome="BINARY", forked_at="BIGINT")
JUDGED = Columns(
    author="BINARY",
    log="BIGINT",
    low="BIGINT",
    summary="BINARY",
    findings="BINARY",
    outcome="BINARY",
    previous="BINARY",
)
"""A segment with its outcome, and the outcome of the run before.

``previous`` is null for a segment that was made in this run: its entries themselves remember what was said of them.
It is empty to have all verdicts, changed or not.
"""

VERDICTS = Columns(
    author="BINARY",
    log_id=UNSIGNED,
    seqnum=UNSIGNED,
    entry_hash="BINARY",
    size=UNSIGNED,
    payload_hash="BINARY",
    is_end="BOOLEAN",
    payload="STRING",
    verdict="STRING",
    certified="BOOLEAN",
    reason="STRING",
    copies="BIGINT",
)
"""The columns of ``culm.spark.verify``."""

COUNTS = Columns(
    author="BINARY",
    log="BIGINT",
    low="BIGINT",
    entries="BIGINT",
    verified="BIGINT",
    unverified="BIGINT",
    invalid="BIGINT",
    payload_mismatches="BIGINT",
)
"""How many entries a segment has, by verdict."""

# Packs of one block wait until they have this many bytes; then copies of entries among them are merged. This bounds a
# worker's memory when one block comes in very many copies. A smaller value would sort the same entries more often.
_WAITING_BYTES = 64 * 1024 * 1024


def mapped(
    columns: Columns, step: Callable[[Iterable[Row]], Iterator[Row]], result: Columns
) -> Callable[[Batches], Batches]:
    """A function for ``mapInArrow`` that reads rows of ``columns``, applies a step, and writes rows of ``result``."""

    def run(batches: Batches) -> Batches:
        return result.batches(step(columns.rows(batches)))

    return run


def segmented(
    signatures: Signatures, *, keep: bool = False, folder: Path | None = None
) -> Callable[[Batches], Batches]:
    """``PACKS``, sorted by block, to ``SEGMENTS``; ``keep``: with the entries themselves.

    With a ``folder`` findings and entries are written there, and the rows say where (``culm.spark.slices``).
    """
    return mapped(PACKS, lambda rows: segment_rows(rows, signatures, keep=keep, folder=folder), SEGMENTS)


def segment_rows(
    rows: Iterable[Row], signatures: Signatures, *, keep: bool, folder: Path | None = None
) -> Iterator[Row]:
    """``segmented`` for rows that are in this process."""
    with Shelf(folder) as shelf:
        for (author, log, block), of_block in groupby(rows, key=itemgetter(3, 4, 5)):
            if author is None:
                for source, offset, reason, *_ in of_block:
                    yield source, offset, reason, *[None] * 8
                continue
            found = segment_of(_collected(packed for *_, packed in of_block), signatures)
            yield _segment_row((author, log, block), *found, shelf, keep=keep)


def _segment_row(block: Row, records: Records, summary: Summary, shelf: Shelf, *, keep: bool) -> Row:
    packed = shelf.put([records.pack.encode()]) if keep or summary.unsigned else None
    span = to_sql(summary.low), to_sql(summary.high)
    return None, None, None, *block, *span, summary.encode(), shelf.put(Findings.of(records).parts()), packed


def vouched(folder: Path | None = None) -> Callable[[Batches], Batches]:
    """``SEGMENTS`` of whole logs, sorted by log and ``low`` from the highest down, to the same, with all heads settled.

    Entries whose signature is bad, but that a higher segment vouches for, are taken as signed. For ``HEADS`` only. Rows
    without ``findings`` only vouch for others, and are left out.
    """
    return mapped(SEGMENTS, lambda rows: vouched_rows(rows, folder), SEGMENTS)


def vouched_rows(rows: Iterable[Row], folder: Path | None = None) -> Iterator[Row]:
    """``vouched`` for rows that are in this process."""
    with Shelf(folder) as shelf:
        for _, of_log in groupby(rows, key=itemgetter(3, 4)):
            above = Vouched()
            for row in of_log:
                summary, settled = Summary.decode(row[8]), row
                if pairs := above.of(summary):
                    records, summary = segment_of([Pack.decode(fetched(row[10]))], Signatures.HEADS, pairs)
                    settled = _segment_row(row[3:6], records, summary, shelf, keep=True)
                above.add(summary)
                if row[9] is not None:
                    yield settled


def is_unsure(summary: bytes) -> bool:
    """Whether a segment of a run with ``HEADS`` has to pass ``vouched`` with all of its log, by its summary."""
    return Summary.decode(summary).unsigned != []


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


def merged() -> Callable[[Batches], Batches]:
    """``SUMMARIES``, sorted by log and ``low``, to ``OUTCOMES``."""
    return mapped(SUMMARIES, merge_logs, OUTCOMES)


def pronounced(batches: Batches) -> Batches:
    """``JUDGED`` to ``VERDICTS``: the entries that are new, or whose verdict differs from that of the run before."""
    for table, _ in pronounced_and_counted(batches):
        yield table


def pronounced_and_counted(batches: Batches) -> Iterator[tuple[pa.RecordBatch, Row]]:
    """``JUDGED`` to batches of ``VERDICTS``, each with the row of ``COUNTS`` on its segment."""
    for author, log, low, summary, findings, outcome, previous in JUDGED.rows(batches):
        found, about = Findings.decode(fetched(findings)), Summary.decode(summary)
        segment = JudgedSegment(author, from_sql(log), found, about, Outcome.decode(outcome))
        before = found.before if previous is None else np.zeros(len(found), np.uint8)
        if previous:
            before = JudgedSegment(author, from_sql(log), found, about, Outcome.decode(previous)).said
        yield segment.table(segment.changed(before)), (author, log, low, *segment.counts())
