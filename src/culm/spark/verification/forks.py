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

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from culm.bamboo import Entry, ForkProof
from culm.spark.batches.fields import Offsets
from culm.spark.batches.pack import Pack, Signature
from culm.spark.batches.slices import fetched
from culm.spark.runtime.columns import Unsigned
from culm.spark.runtime.engine import Table
from culm.spark.verification.authentic import Links
from culm.spark.verification.merge import LOG, SEGMENT, IndexRow, SegmentRow, grouped
from culm.spark.verification.verdicts import JudgedSegment
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
        return {name: value for name, value in found.items() if name != "proof"}


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


class Told(NamedTuple):
    """What a segment tells of its log, whose lowest fork is at ``position`` (0: none).

    Either an entry that may be part of the proof, ``record``, with its number. Or, once for each segment, its first
    stretch of verified entries, ``seq`` to ``run_to`` (1 to 0: there is none), its greatest authentic number, and how
    many entries it has. Numbers are signed longs (``to_sql``).
    """

    author: bytes
    log: int
    position: int
    seq: int
    record: bytes | None
    run_to: int = 0
    newest: int = 0
    entries: int = 0


def forks(segments: Table[Any], outcomes: Table[IndexRow]) -> Table[Fork]:
    """The lowest fork of each forked log, with its proof; the segments must have their entries (``packed``)."""
    return told(segments, outcomes.where("forked_at")).map(settled, Fork)


def prefixes(segments: Table[Any], outcomes: Table[IndexRow]) -> Table[Prefix]:
    """How far each log can be trusted; the segments must have their entries (``packed``)."""
    return told(segments, outcomes).map(settled, Prefix)


def told(segments: Table[Any], outcomes: Table[IndexRow]) -> Table[Told]:
    """What ``settled`` takes of some logs."""
    return outcomes.join(segments, SEGMENT, SegmentRow).map(witnesses, Told).spread(LOG, ("seq", "record"))


def witnesses(rows: Iterable[SegmentRow]) -> Iterator[Told]:
    """What each segment tells."""
    for row in rows:
        segment = JudgedSegment(row)
        position, (low, high) = segment.outcome.forked_at, (segment.stretches or [(1, 0)])[0]
        of_log = row.author, row.log, to_sql(position)
        newest, entries = to_sql(segment.summary.greatest), len(segment.findings.seq)
        yield Told(*of_log, to_sql(low), None, to_sql(high), newest, entries)
        if position:
            records = Pack.decode(fetched(row.packed or b""))
            for at in _concerned(records, position):
                yield Told(*of_log, to_sql(int(records.seq[at])), records.record(int(at)))


def _concerned(records: Pack, position: int) -> Offsets:
    """The authentic entries that can be part of a proof: those of a number, those that link to it, the first above it.

    The first one above it proves the fork if the entry of that number ends its log.
    """
    links = Links.among(records, (records.is_entry & (records.signature != Signature.BAD)).nonzero()[0])
    above = links.seq[links.seq > np.uint64(position)][:1]
    chosen = np.isin(links.seq, [np.uint64(position), *above])
    chosen[links.linker[links.target == np.uint64(position)]] = True
    return links.rows[chosen]


def settled(rows: Iterable[Told]) -> Iterator[Prefix | Fork]:
    """The prefix of each log, and the proof of its fork, from rows that come sorted by log, number and bytes.

    Only the lowest witnesses are remembered, because an author may sign any number of entries of one number.
    """
    for (author, log), of_log in grouped(rows, LOG):
        said: dict[bytes, Entry] = {}  # two different things that are said about the position, by whom first
        after: Entry | None = None  # the lowest above the position: the proof if the entry there ends its log
        entries = newest = valid_to = position = 0
        for row in of_log:
            position, seq = from_sql(row.position), from_sql(row.seq)
            if row.record is None:
                entries, newest = entries + row.entries, max(newest, from_sql(row.newest))
                valid_to = from_sql(row.run_to) if seq == valid_to + 1 else valid_to
                continue
            entry = Entry.decode(row.record)
            after = after or (entry if seq > position else None)
            says = entry.hash if seq == position else dict(entry.links).get(position)
            if says is not None and len(said) < 2:
                said.setdefault(says, entry)
        yield Prefix(author, from_sql(log), entries, newest, valid_to, position or None)
        if position:
            one, other = [*said.values(), after][:2]
            proof = one and other and ForkProof.of(one, other)
            if not proof:
                raise AssertionError("no two entries prove the fork that the segments found")
            numbers = proof.first.seq, proof.second.seq
            yield Fork(author, from_sql(log), position, proof.case.value, *numbers, proof.encode(), valid_to)
