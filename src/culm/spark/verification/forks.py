"""The proof of each fork (docs/specs/bamboo.md, "Forks"), and how far each log can be trusted, forked or not.

The lowest position at which a log contradicts itself is known from its segments (``merge``). The proof is
two entries that say different things about that position: an entry of that number says it by its own hash, an entry
that links to it by the hash in the link. If all agree, the entry at the position ends its log and another one follows.

Many pairs may prove the same fork, and the two entries may lie in segments of different workers. So each segment of a
forked log sends its *witnesses*, a few entries, to one task. There the pair with the lowest numbers, then the lowest
bytes, becomes the proof: the same entries give the same proof, however the inputs were divided.

A log can be trusted up to the number below which all its entries are held and verified. The simple way is to collect a
log's verdicts and count up from entry 1. The log may be larger than a worker, though. So each segment only tells where
its first stretch of neighbouring verified entries begins and ends. Those pairs of a log meet in one task, in ascending
order. A stretch that begins right above the prefix found so far makes it longer; any other stretch has a gap below it
and changes nothing.

For example, from segments that tell 1 to 4095, 4096 to 5000 and 8192 to 9000 the prefix is 1 to 5000. A segment's
further stretches need not be told: there is a gap within the segment before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from culm.bamboo import Entry, ForkProof
from culm.spark.batches.fields import Offsets
from culm.spark.batches.pack import Pack, Signature
from culm.spark.batches.slices import fetched
from culm.spark.runtime.columns import Unsigned
from culm.spark.runtime.engine import Table
from culm.spark.verification.authentic import Links
from culm.spark.verification.merge import IndexRow
from culm.spark.verification.steps import LOG, SEGMENT, JudgedRow, SegmentRow, judged
from culm.store.schema import from_sql, to_sql
from culm.wire.places import author_text, log_text


class Fork(NamedTuple):
    """The lowest fork of a log, with its proof: a row of ``forks``.

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

    author: bytes
    log_id: Unsigned
    position: Unsigned
    case: str
    first_seq: Unsigned
    second_seq: Unsigned
    proof: bytes
    valid_to: Unsigned

    @property
    def log(self) -> str:
        """The log as the command line writes it."""
        return log_text((self.author, self.log_id))

    def explain(self) -> str:
        """One clause that says what contradicts what."""
        return f"{self.case} (entries {self.first_seq} and {self.second_seq})"

    def as_dict(self) -> dict[str, int | str]:
        """The fields by name without the proof, the author in base62."""
        found = {**self._asdict(), "author": author_text(self.author)}
        del found["proof"]
        return found


class Witness(NamedTuple):
    """An entry, ``record``, that may be part of the proof; or a stretch of verified entries, ``seq`` to ``run_to``."""

    author: bytes
    log: int
    position: int
    seq: int
    record: bytes | None
    run_to: int | None


def forks(segments: Table[Any], outcomes: Table[IndexRow]) -> Table[Fork]:
    """The lowest fork of each forked log, with its proof; the segments must have their entries (``packed``)."""
    forked = outcomes.where("forked_at").join(segments, SEGMENT, SegmentRow)
    return forked.map(witnesses, Witness).spread(LOG, ("seq", "record")).map(proofs, Fork)


def witnesses(rows: Iterable[SegmentRow]) -> Iterator[Witness]:
    """The entries of a segment that may be part of the proof, and its first verified stretch."""
    for row in rows:
        segment = judged(row)
        records = Pack.decode(fetched(row.packed or b""))
        of_log = row.author, row.log, to_sql(segment.outcome.forked_at)
        for at in _concerned(records, segment.outcome.forked_at):
            yield Witness(*of_log, to_sql(int(records.seq[at])), records.record(int(at)), None)
        for low, high in segment.stretches[:1]:
            yield Witness(*of_log, to_sql(low), None, to_sql(high))


def _concerned(records: Pack, position: int) -> Offsets:
    """The authentic entries that can be part of a proof: those of a number, those that link to it, the first above it.

    The first one above it proves the fork if the entry of that number ends its log.
    """
    signature = records.signature
    links = Links.among(records, ((signature == Signature.GOOD) | (signature == Signature.TIED)).nonzero()[0])
    above = links.seq[links.seq > np.uint64(position)][:1]
    chosen = np.isin(links.seq, [np.uint64(position), *above])
    chosen[links.linker[links.target == np.uint64(position)]] = True
    return links.rows[chosen]


def proofs(rows: Iterable[Witness]) -> Iterator[Fork]:
    """The proof of each log's fork, from witnesses that come sorted by log, number and bytes.

    Only the lowest witnesses are remembered, because an author may sign any number of entries of one number.
    """
    for (author, log), of_log in groupby(rows, key=attrgetter(*LOG)):
        told: dict[bytes, Entry] = {}  # two different things that are said about the position, by whom first
        end = after = None
        valid_to = position = 0
        for row in of_log:
            position, seq = from_sql(row.position), from_sql(row.seq)
            if row.record is None:
                valid_to = from_sql(row.run_to or 0) if seq == valid_to + 1 else valid_to
                continue
            entry = Entry.decode(row.record)
            end = end or (entry if seq == position and entry.is_end else None)
            after = after or (entry if seq > position else None)
            said = entry.hash if seq == position else dict(entry.links).get(position)
            if said is not None and len(told) < 2:
                told.setdefault(said, entry)
        one, other = told.values() if len(told) == 2 else (end, after)
        proof = ForkProof.of(one, other) if one is not None and other is not None else None
        if proof is None:
            raise AssertionError("no two entries prove the fork that the segments found")
        numbers = proof.first.seq, proof.second.seq
        yield Fork(author, from_sql(log), position, proof.case.value, *numbers, proof.encode(), valid_to)


# -- how far each log can be trusted --------------------------------------------------------------------------------


class Prefix(NamedTuple):
    """How far a log is held and verified, forked or not: a row of ``prefixes``.

    =========  =============  =======================================================================================
    author     BINARY         32 bytes
    log_id     DECIMAL(20,0)
    entries    BIGINT         distinct entries, those with a bad signature included
    newest     DECIMAL(20,0)  the greatest number of an entry with a good signature; 0 if there is none
    valid_to   DECIMAL(20,0)  entries 1 to here are all held and verified; 0 if entry 1 is not
    forked_at  DECIMAL(20,0)  the lowest position of a fork; null if there is none
    =========  =============  =======================================================================================
    """

    author: bytes
    log_id: Unsigned
    entries: int
    newest: Unsigned
    valid_to: Unsigned
    forked_at: Unsigned | None


class Stretch(NamedTuple):
    """Of a segment: its first verified stretch (null if there is none), its greatest authentic number, its entries."""

    author: bytes
    log: int
    first: int | None
    last: int | None
    newest: int
    entries: int
    forked_at: int | None


def prefixes(segments: Table[SegmentRow], outcomes: Table[IndexRow]) -> Table[Prefix]:
    """How far each log can be trusted."""
    told = outcomes.join(segments, SEGMENT, JudgedRow).map(stretches, Stretch)
    return told.spread(LOG, ("first",)).map(joined, Prefix)


def stretches(rows: Iterable[JudgedRow]) -> Iterator[Stretch]:
    """What each segment tells."""
    for row in rows:
        segment = judged(row)
        first, last = map(to_sql, segment.stretches[0]) if segment.stretches else (None, None)
        forked_at = to_sql(segment.outcome.forked_at) if segment.outcome.forked_at else None
        newest = to_sql(segment.summary.greatest)
        yield Stretch(row.author, row.log, first, last, newest, len(segment.findings), forked_at)


def joined(rows: Iterable[Stretch]) -> Iterator[Prefix]:
    """The prefix of each log, from stretches that come sorted by log and ``first``."""
    for (author, log), of_log in groupby(rows, key=attrgetter(*LOG)):
        told, valid_to = list(of_log), 0
        for row in told:
            if row.first is not None and row.last is not None and from_sql(row.first) == valid_to + 1:
                valid_to = from_sql(row.last)
        newest, forked_at = max(from_sql(row.newest) for row in told), told[-1].forked_at
        forked = None if forked_at is None else from_sql(forked_at)
        yield Prefix(author, from_sql(log), sum(row.entries for row in told), newest, valid_to, forked)
