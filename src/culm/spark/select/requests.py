"""Reading requests: rows that say who wants which ranges of a log become rows of one range each, and rejects.

The parameters of a range become columns, so that the next steps can work on thousands of ranges at once with numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from pyspark.sql import DataFrame

from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import ConfigError, EncodingError
from culm.ranges import Range, decode
from culm.spark.plan.ranges import MAX_FORBIDDEN_BYTES, read_ranges
from culm.spark.runtime import columns
from culm.spark.runtime.columns import Tiny
from culm.spark.runtime.onspark import fitted
from culm.store.schema import to_sql
from culm.wire.places import parse_author, parse_number

METADATA, PAYLOAD, CERTIFICATE = 1, 2, 4
"""Bits: what is wanted of an entry. A certificate is metadata that is wanted only to verify other entries."""

SPARSE, OPEN = 8, 16
"""Further bits of a range's ``kind``."""


class Given(NamedTuple):
    """A request as it was given. Columns whose type can differ have two forms, bytes and text; one of the two is null.

    ``range`` is the encoding of one range, ``ranges`` that of a set; the bytes themselves do not tell which.
    """

    requester: str | None
    author: bytes | None
    author_text: str | None
    log_text: str | None
    range: bytes | None
    ranges: bytes | None
    ranges_text: str | None


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


_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


def given(requests: DataFrame) -> DataFrame:
    """The rows of a table of requests as ``Given``.

    Its columns: ``requester STRING``; ``author BINARY``, or ``STRING`` of base62 or hex; ``log_id``, a whole number or
    ``STRING``; ``ranges BINARY`` (``RangeSet.encode()``) or ``range BINARY`` (``Range.encode()``), either also as
    ``STRING``. ``ConfigError`` if one is missing or of another type.
    """
    types = dict(requests.dtypes)
    ranges = "ranges" if "ranges" in types else "range"
    fitting = {
        "requester": ("string",),
        "author": ("binary", "string"),
        "log_id": ("string", *_WHOLE_NUMBERS),
        ranges: ("binary", "string"),
    }
    for name, kinds in fitting.items():
        found = types.get(name)
        if found is None:
            either = "'ranges' or 'range'" if name == ranges else repr(name)
            there = ", ".join(map(repr, types))
            raise ConfigError(f"a table of requests needs a column {either}; this one has {there}")
        if found not in kinds and not (name == "log_id" and found.startswith("decimal") and found.endswith(",0)")):
            raise ConfigError(
                f"the column {name!r} of the requests cannot be of the type {found.upper()};"
                f" expected {' or '.join(kinds).upper()}"
            )
    forms: dict[str, str | None] = {**dict.fromkeys(Given._fields), "requester": "requester", "log_text": "log_id"}
    forms["author_text" if types["author"] == "string" else "author"] = "author"
    forms["ranges_text" if types[ranges] == "string" else ranges] = ranges
    return fitted(requests, columns.types(Given), **forms)


def check(rows: Iterable[Given]) -> Iterator[Asked | Refused]:
    """The ranges of requests. Never raises: a row that cannot be read becomes a reject with the reason."""
    for row in rows:
        try:
            requester, key, log, found = _checked(row)
        except (ConfigError, EncodingError, ValueError) as error:
            value = row.ranges if row.ranges is not None else row.range
            as_text = value.hex() if value is not None else row.ranges_text
            whose = row.author.hex() if row.author is not None else row.author_text
            yield Refused(row.requester, whose, row.log_text, as_text, str(error))
            continue
        for item in found:
            if not item.is_empty:
                yield _asked(requester, key, log, item)


def _checked(row: Given) -> tuple[str, bytes, int, list[Range]]:
    if row.requester is None:
        raise ValueError("a row without a requester")
    if row.author is None and row.author_text is None:
        raise ValueError("a row without an author")
    if row.log_text is None:
        raise ValueError("a row without a log id")
    key = row.author if row.author is not None else parse_author(row.author_text or "")
    if len(key) != AUTHOR_BYTES:
        raise ValueError(f"an author has {AUTHOR_BYTES} bytes, not {len(key)}")
    ranges = _read(row.range, row.ranges, row.ranges_text)
    return row.requester, key, to_sql(parse_number(row.log_text, "log id")), ranges


def _read(one: bytes | None, ranges: bytes | None, text: str | None) -> list[Range]:
    if one is not None:
        return [decode(one, max_forbidden_bytes=MAX_FORBIDDEN_BYTES)]
    value = ranges if ranges is not None else text
    if value is None:
        raise ValueError("a row without ranges")
    return read_ranges(value)


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
