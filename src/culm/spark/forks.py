"""Finding the proof of each fork, and how far each forked log can be trusted (docs/specs/bamboo.md, "Forks").

The lowest position at which a log contradicts itself is known from its segments (``culm.spark.merge``). The proof is
two entries that say different things about that position: an entry of that number says it by its own hash, an entry
that links to it by the hash in the link. If all agree, the entry at the position ends its log and another one follows.

Many pairs may prove the same fork, and the two entries may lie in segments of different workers. So each segment of a
forked log sends its *witnesses*, a few entries, to one task. There the pair with the lowest numbers, then the lowest
bytes, becomes the proof: the same entries give the same proof, however the inputs were divided.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from culm.bamboo import Entry, ForkProof
from culm.spark.columns import UNSIGNED, Columns
from culm.spark.findings import Findings
from culm.spark.merge import Outcome
from culm.spark.pack import Pack, Signature
from culm.spark.records import Records
from culm.spark.segment import Summary
from culm.spark.slices import fetched
from culm.spark.steps import mapped
from culm.spark.verdicts import JudgedSegment
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    Row = tuple[Any, ...]

FORKS = Columns(
    author="BINARY",
    log_id=UNSIGNED,
    position=UNSIGNED,
    case="STRING",
    first_seq=UNSIGNED,
    second_seq=UNSIGNED,
    proof="BINARY",
    valid_to=UNSIGNED,
)
"""The columns of ``forks``."""

JUDGED_FORKS = Columns(
    author="BINARY", log="BIGINT", summary="BINARY", findings="BINARY", packed="BINARY", outcome="BINARY"
)
"""A segment of a forked log, with its entries (``packed``) and its outcome."""

_WITNESSES = Columns(author="BINARY", log="BIGINT", position="BIGINT", seq="BIGINT", record="BINARY", run_to="BIGINT")
"""A witness, or a stretch of verified entries. A witness has ``record``, its bytes; a stretch goes to ``run_to``."""


def forks(segments: DataFrame, outcomes: DataFrame) -> DataFrame:
    """The lowest fork of each forked log, with its proof; ``segments`` must be made with ``keep=True``.

    ============  =============  ====================================================================================
    author        BINARY         32 bytes
    log_id        DECIMAL(20,0)
    position      DECIMAL(20,0)  the number that is contradicted: everything from here on is invalid
    case          STRING         which of the four ways to contradict oneself (``culm.bamboo.ForkCase``)
    first_seq     DECIMAL(20,0)  the numbers of the two entries that prove it
    second_seq    DECIMAL(20,0)
    proof         BINARY         the two entries, as nodes exchange fork proofs (``culm.bamboo.ForkProof.encode``)
    valid_to      DECIMAL(20,0)  entries 1 to here are all there and verified
    ============  =============  ====================================================================================
    """
    forked = segments.join(outcomes.where("forked_at IS NOT NULL"), ["author", "log", "low"])
    return (
        forked.select(*JUDGED_FORKS.names)
        .mapInArrow(mapped(JUDGED_FORKS, witnesses, _WITNESSES), _WITNESSES.ddl)
        .repartition("author", "log")
        .sortWithinPartitions("author", "log", "seq", "record")
        .mapInArrow(mapped(_WITNESSES, proofs, FORKS), FORKS.ddl)
    )


def witnesses(rows: Iterable[Row]) -> Iterator[Row]:
    """``JUDGED_FORKS`` to ``_WITNESSES``: entries that may be part of the proof, and the first verified stretch."""
    for author, log, summary, findings, packed, outcome in rows:
        decided = Outcome.decode(outcome)
        position = decided.forked_at
        records = Records(Pack.decode(fetched(packed)))
        for row in _concerned(records, position):
            yield author, log, to_sql(position), to_sql(int(records.seq[row])), records.pack.record(row), None
        found = Findings.decode(fetched(findings))
        judged = JudgedSegment(author, from_sql(log), found, Summary.decode(summary), decided)
        stretch = first_stretch(found, judged)
        if stretch is not None:
            first, last = stretch
            yield author, log, to_sql(position), to_sql(first), None, to_sql(last)


def first_stretch(found: Findings, judged: JudgedSegment) -> tuple[int, int] | None:
    """First and last number of a segment's first stretch of neighbouring verified entries; None if none is verified."""
    valid = found.seq[judged.verdict == 0]
    if not len(valid):
        return None
    steps = (np.diff(valid) != 1).nonzero()[0]
    return int(valid[0]), int(valid[steps[0]] if len(steps) else valid[-1])


def _concerned(records: Records, position: int) -> Iterator[int]:
    """The authentic entries that can be part of a proof: those of a number, those that link to it, the first above it.

    The first one above it proves the fork if the entry of that number ends its log.
    """
    signature, fields = records.pack.signature, records.fields
    authentic = (signature == Signature.GOOD) | (signature == Signature.TIED)
    number = np.uint64(position)
    chosen = records.seq == number
    chosen |= (fields.backlink >= 0) & (records.seq - np.uint64(1) == number)
    chosen |= (fields.lipmaalink >= 0) & (fields.target == number)
    above = (authentic & (records.seq > number)).nonzero()[0]
    if len(above):
        chosen[records.seq == records.seq[above[0]]] = True
    yield from (authentic & chosen).nonzero()[0].tolist()


def proofs(rows: Iterable[Row]) -> Iterator[Row]:
    """``_WITNESSES``, sorted by log, number and bytes, to ``FORKS``."""
    for (author, log), of_log in groupby(rows, key=itemgetter(0, 1)):
        lowest = _Lowest()
        valid_to = position = 0
        for _, _, at, seq, record, run_to in of_log:
            position = from_sql(at)
            if record is not None:
                lowest.add(Entry.decode(record), position)
            elif from_sql(seq) == valid_to + 1:
                valid_to = from_sql(run_to)
        proof = lowest.proof()
        yield (
            author,
            from_sql(log),
            position,
            proof.case.value,
            proof.first.seq,
            proof.second.seq,
            proof.encode(),
            valid_to,
        )


class _Lowest:
    """The lowest two entries that contradict each other at a position; entries come in ascending order."""

    def __init__(self) -> None:
        self._first: Entry | None = None
        self._said: bytes | None = None
        self._second: Entry | None = None
        self._end: Entry | None = None
        self._after: Entry | None = None

    def add(self, entry: Entry, position: int) -> None:
        if entry.seq == position and entry.is_end and self._end is None:
            self._end = entry
        if entry.seq > position and self._after is None:
            self._after = entry
        said = entry.hash if entry.seq == position else dict(entry.links).get(position)
        if said is None:
            return
        if self._first is None:
            self._first, self._said = entry, said
        elif self._second is None and said != self._said:
            self._second = entry

    def proof(self) -> ForkProof:
        one, other = (self._first, self._second) if self._second is not None else (self._end, self._after)
        proof = ForkProof.of(one, other) if one is not None and other is not None else None
        if proof is None:
            raise AssertionError("no two entries prove the fork that the segments found")
        return proof
