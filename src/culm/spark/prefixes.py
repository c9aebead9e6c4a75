"""How far each log can be trusted: the number up to which all its entries are held and verified.

The simple way is to collect a log's verdicts and count up from entry 1. The log may be larger than a worker, though.
So each segment only tells where its first stretch of neighbouring verified entries begins and ends. Those pairs of a
log meet in one task, in ascending order. A stretch that begins right above the prefix found so far makes it longer;
any other stretch has a gap below it and changes nothing.

For example, from segments that tell 1 to 4095, 4096 to 5000 and 8192 to 9000 the prefix is 1 to 5000. A segment's
further stretches need not be told: there is a gap within the segment before them.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from culm.spark.columns import UNSIGNED, Columns
from culm.spark.findings import Findings
from culm.spark.forks import first_stretch
from culm.spark.merge import Outcome
from culm.spark.segment import Summary
from culm.spark.steps import mapped
from culm.spark.verdicts import JudgedSegment
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    Row = tuple[Any, ...]

PREFIXES = Columns(
    author="BINARY", log_id=UNSIGNED, entries="BIGINT", newest=UNSIGNED, valid_to=UNSIGNED, forked_at=UNSIGNED
)
"""The columns of ``prefixes``."""

JUDGED_SEGMENTS = Columns(author="BINARY", log="BIGINT", summary="BINARY", findings="BINARY", outcome="BINARY")
"""A segment with its outcome."""

STRETCHES = Columns(
    author="BINARY", log="BIGINT", first="BIGINT", last="BIGINT", newest="BIGINT", entries="BIGINT", forked_at="BIGINT"
)
"""Of a segment: its first verified stretch (null if there is none), its greatest authentic number, its entries."""


def prefixes(segments: DataFrame, outcomes: DataFrame) -> DataFrame:
    """How far each log is held and verified, forked or not; from ``culm.spark.verify.segments`` and ``outcomes``.

    =========  =============  =======================================================================================
    author     BINARY         32 bytes
    log_id     DECIMAL(20,0)
    entries    BIGINT         distinct entries, those with a bad signature included
    newest     DECIMAL(20,0)  the greatest number of an entry with a good signature; 0 if there is none
    valid_to   DECIMAL(20,0)  entries 1 to here are all held and verified; 0 if entry 1 is not
    forked_at  DECIMAL(20,0)  the lowest position of a fork; null if there is none
    =========  =============  =======================================================================================
    """
    judged = segments.where("summary IS NOT NULL").join(outcomes.drop("forked_at"), ["author", "log", "low"])
    return (
        judged.select(*JUDGED_SEGMENTS.names)
        .mapInArrow(mapped(JUDGED_SEGMENTS, stretches, STRETCHES), STRETCHES.ddl)
        .repartition("author", "log")
        .sortWithinPartitions("author", "log", "first")
        .mapInArrow(mapped(STRETCHES, joined, PREFIXES), PREFIXES.ddl)
    )


def stretches(rows: Iterable[Row]) -> Iterator[Row]:
    """``JUDGED_SEGMENTS`` to ``STRETCHES``."""
    for author, log, summary, findings, outcome in rows:
        found, about, decided = Findings.decode(findings), Summary.decode(summary), Outcome.decode(outcome)
        stretch = first_stretch(found, JudgedSegment(author, from_sql(log), found, about, decided))
        first, last = (None, None) if stretch is None else map(to_sql, stretch)
        forked_at = to_sql(decided.forked_at) if decided.forked_at else None
        yield author, log, first, last, to_sql(about.greatest), len(found), forked_at


def joined(rows: Iterable[Row]) -> Iterator[Row]:
    """``STRETCHES``, sorted by log and ``first``, to ``PREFIXES``."""
    for (author, log), of_log in groupby(rows, key=itemgetter(0, 1)):
        valid_to = newest = entries = 0
        forked_at = None
        for _, _, first, last, greatest, count, fork in of_log:
            newest, entries = max(newest, from_sql(greatest)), entries + count
            forked_at = None if fork is None else from_sql(fork)
            if first is not None and from_sql(first) == valid_to + 1:
                valid_to = from_sql(last)
        yield author, from_sql(log), entries, newest, valid_to, forked_at
