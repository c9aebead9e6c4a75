"""Reading requests: rows that say who wants which ranges of a log become rows of one range each, and rejects.

The parameters of a range become columns, so that the next steps can work on thousands of ranges at once with numpy.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from culm.ranges import Range
from culm.ranges.runs import Runs
from culm.spark.plan.given import Given, checked, needed
from culm.spark.runtime.columns import Tiny
from culm.store.schema import to_sql

METADATA, PAYLOAD, CERTIFICATE = 1, 2, 4
"""Bits: what is wanted of an entry. A certificate is metadata that is wanted only to verify other entries."""

SPARSE, OPEN, PART = 8, 16, 32
"""Further bits of a range's ``kind``."""


class Asked(NamedTuple):
    """A range that is asked for; or a part of one, so that its forbidden numbers are left out.

    ``kind`` has the bits ``METADATA``, ``PAYLOAD``, ``SPARSE``, ``OPEN`` and ``PART``. A dense range with forbidden
    numbers is the whole range without payloads, and a part for the payloads between each two of these numbers. A sparse
    one has them in ``forbidden``, as little-endian u64s. From ``start`` to ``reach`` is where a range is cut to blocks;
    a sparse one is cut where it starts.
    """

    requester: str
    author: bytes
    log: int
    start: int
    last: int
    reach: int
    kind: Tiny
    least: int
    limit: int
    head: int
    tail: int
    forbidden: bytes | None


class Refused(NamedTuple):
    """A request that could not be read, as text, and why."""

    requester: str | None
    author: str | None
    log_id: str | None
    ranges: str | None
    reason: str


def check(rows: Iterable[Given]) -> Iterator[Asked | Refused]:
    """The ranges of requests."""
    return checked(rows, _asked, lambda _, *told: Refused(*told))


def _asked(row: Given) -> Iterator[Asked]:
    requester, (author, log_id) = needed(row.peer, "a requester"), row.log()
    for item in row.read_ranges():
        limits = item.least_size, item.size_limit, item.head_max, item.tail_min
        forbidden = np.array(item.forbidden, "<u8").tobytes() if item.sparse and item.forbidden else None
        for start, last, kind in _parts(item):
            span = start, last, start if item.sparse else last
            numbers = *map(to_sql, (log_id, *span)), kind, *map(to_sql, limits)
            yield Asked._make((requester, author, *numbers, forbidden))


def _parts(item: Range) -> Iterator[tuple[int, int, int]]:
    if item.is_empty:
        return
    kind = METADATA * item.metadata | PAYLOAD * item.payloads | SPARSE * item.sparse | OPEN * item.is_open
    forbidden = () if item.sparse else item.forbidden
    yield item.start, item.last, kind & ~PAYLOAD if forbidden else kind
    if forbidden:
        parts = Runs((number, number) for number in forbidden).outside(item.start, item.last)
        yield from ((first, last, PAYLOAD | PART) for first, last in parts)
