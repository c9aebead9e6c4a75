"""How far each log can be trusted: the number up to which all its entries are held and verified.

The simple way is to collect a log's verdicts and count up from entry 1. The log may be larger than a worker, though.
So each segment only tells where its first stretch of neighbouring verified entries begins and ends. Those pairs of a
log meet in one task, in ascending order. A stretch that begins right above the prefix found so far makes it longer;
any other stretch has a gap below it and changes nothing.

For example, from segments that tell 1 to 4095, 4096 to 5000 and 8192 to 9000 the prefix is 1 to 5000. A segment's
further stretches need not be told: there is a gap within the segment before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from culm.spark.runtime.columns import Unsigned
from culm.spark.runtime.engine import Table
from culm.spark.verification.merge import OutcomeRow
from culm.spark.verification.steps import LOG, SEGMENT, JudgedRow, SegmentRow, judged
from culm.store.schema import from_sql, to_sql


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


def prefixes(segments: Table[SegmentRow], outcomes: Table[OutcomeRow]) -> Table[Prefix]:
    """How far each log can be trusted."""
    told = segments.join(outcomes, SEGMENT, JudgedRow).map(stretches, Stretch)
    return told.spread(LOG, ("first",)).map(joined, Prefix)


def stretches(rows: Iterable[JudgedRow]) -> Iterator[Stretch]:
    """What each segment tells."""
    for row in rows:
        segment = judged(row.author, row.log, row.summary, row.findings, row.outcome)
        stretch, forked_at = next(iter(segment.stretches), None), segment.outcome.forked_at
        first, last = (None, None) if stretch is None else map(to_sql, stretch)
        known = to_sql(segment.summary.greatest), len(segment.findings), to_sql(forked_at) if forked_at else None
        yield Stretch(row.author, row.log, first, last, *known)


def joined(rows: Iterable[Stretch]) -> Iterator[Prefix]:
    """The prefix of each log, from stretches that come sorted by log and ``first``."""
    for (author, log), of_log in groupby(rows, key=attrgetter(*LOG)):
        valid_to = newest = entries = 0
        forked_at = None
        for row in of_log:
            newest, entries = max(newest, from_sql(row.newest)), entries + row.entries
            forked_at = None if row.forked_at is None else from_sql(row.forked_at)
            if row.first is not None and row.last is not None and from_sql(row.first) == valid_to + 1:
                valid_to = from_sql(row.last)
        yield Prefix(author, from_sql(log), entries, newest, valid_to, forked_at)
