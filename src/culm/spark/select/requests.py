"""Reading requests: rows that say who wants which ranges of a log become rows of one range each, and rejects.

The parameters of a range become columns, so that the next steps can work on thousands of ranges at once with numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from culm.errors import ConfigError, EncodingError
from culm.ranges import Range
from culm.spark.plan.given import Given
from culm.spark.runtime.columns import Tiny
from culm.store.schema import to_sql

METADATA, PAYLOAD, CERTIFICATE = 1, 2, 4
"""Bits: what is wanted of an entry. A certificate is metadata that is wanted only to verify other entries."""

SPARSE, OPEN = 8, 16
"""Further bits of a range's ``kind``."""


class Asked(NamedTuple):
    """A range that is asked for.

    ``kind`` has the bits ``METADATA``, ``PAYLOAD``, ``SPARSE`` and ``OPEN``, ``forbidden`` little-endian u64s.
    """

    requester: str
    author: bytes
    log: int
    start: int
    last: int
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
    """The ranges of requests. Never raises: a row that cannot be read becomes a reject with the reason."""
    for row in rows:
        try:
            place, found = _checked(row), row.read_ranges()
        except (ConfigError, EncodingError, ValueError) as error:
            yield Refused(*row.as_text(), str(error))
            continue
        yield from (_asked(*place, item) for item in found if not item.is_empty)


def _checked(row: Given) -> tuple[str, bytes, int]:
    if row.peer is None:
        raise ValueError("a row without a requester")
    author, log_id = row.log()
    return row.peer, author, to_sql(log_id)


def _asked(requester: str, author: bytes, log: int, item: Range) -> Asked:
    return Asked(
        requester,
        author,
        log,
        start=to_sql(item.start),
        last=to_sql(item.last),
        kind=METADATA * item.metadata | PAYLOAD * item.payloads | SPARSE * item.sparse | OPEN * item.is_open,
        least=to_sql(item.least_size),
        limit=to_sql(item.size_limit),
        head=to_sql(item.head_max),
        tail=to_sql(item.tail_min),
        forbidden=np.array(item.forbidden, "<u8").tobytes() if item.forbidden else None,
    )
