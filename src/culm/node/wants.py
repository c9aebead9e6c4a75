"""Interests as requests of the Bushbaby protocol.

A WANT names spans of entries, and what it brings are entries with their payloads. So filters that it cannot express
(sizes, forbidden numbers, metadata or payloads alone) are left out: more comes than was asked for, never less. The
certificates of a range are asked for with it, or its entries could not be verified.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from culm.ranges import Range, RangeSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.store import Log, Store

EVERYTHING = RangeSet([Range(1)])
Span = tuple[int, int]


def missing(store: Store, interest: RangeSet, log: Log, high: int, limit: int) -> list[Span]:
    """The first ``limit`` spans to ask for of a log that the peer has up to ``high``."""
    if interest == EVERYTHING:
        return store.missing(log, high, limit)
    found: list[Span] = []
    for low, last in wanted(interest, high):
        found += store.missing(log, last, limit - len(found), low=low)
        if len(found) >= limit:
            break
    return found


def wanted(interest: Iterable[Range], newest: int) -> list[Span]:
    """The numbers that an interest needs of a log of ``newest`` entries, as ascending spans that do not touch."""
    spans: list[Span] = []
    for item in interest:
        if item.is_empty or newest < item.start:
            continue
        if item.sparse:
            spans += ((seq, seq) for seq in item.numbers(newest))
        else:
            spans.append((item.start, min(item.last, newest)))
        spans += ((seq, seq) for seq in replace(item, metadata=True).certificates(newest))
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return joined
