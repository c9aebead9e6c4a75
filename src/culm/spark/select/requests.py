"""Reading requests: rows that say who wants which ranges of a log become rows of one range each, and rejects.

The parameters of a range become columns, so that the next steps can work on thousands of ranges at once with numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import ConfigError, EncodingError
from culm.ranges import decode
from culm.spark.columns import Columns
from culm.spark.plan.ranges import MAX_FORBIDDEN_BYTES, read_ranges
from culm.store.schema import to_sql
from culm.wire.places import parse_author, parse_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame

    from culm.ranges import Range

    Row = tuple[Any, ...]

METADATA, PAYLOAD, CERTIFICATE = 1, 2, 4
"""Bits: what is wanted of an entry. A certificate is metadata that is wanted only to verify other entries."""

SPARSE, OPEN = 8, 16
"""Further bits of a range's ``kind``."""

# A request as it was given. Columns whose type can differ have two forms, bytes and text, and one of the two is null.
# ``range`` is the encoding of one range, ``ranges`` that of a set; the bytes themselves do not tell which.
GIVEN = Columns(
    requester="STRING",
    author="BINARY",
    author_text="STRING",
    log_text="STRING",
    range="BINARY",
    ranges="BINARY",
    ranges_text="STRING",
)
# A range: ``kind`` has the bits METADATA, PAYLOAD, SPARSE and OPEN, ``forbidden`` little-endian u64s.
RANGE = Columns(
    requester="STRING",
    author="BINARY",
    log="BIGINT",
    start="BIGINT",
    last="BIGINT",
    kind="TINYINT",
    least="BIGINT",
    limit="BIGINT",
    head="BIGINT",
    tail="BIGINT",
    forbidden="BINARY",
)
# A range, or a reject.
ASKED = Columns(
    **RANGE.types,
    reason="STRING",
    author_text="STRING",
    log_text="STRING",
    ranges_text="STRING",
)

_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")


def given(requests: DataFrame) -> DataFrame:
    """The rows of a table of requests as ``GIVEN``.

    Its columns: ``requester STRING``; ``author BINARY``, or ``STRING`` of base62 or hex; ``log_id``, a whole number or
    ``STRING``; ``ranges BINARY`` (``RangeSet.encode()``) or ``range BINARY`` (``Range.encode()``), either also as
    ``STRING``. ``ConfigError`` if one is missing or of another type.
    """
    from pyspark.sql import functions as sql

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
            raise ConfigError(f"a table of requests needs a column {either}")
        if found not in kinds and not (name == "log_id" and found.startswith("decimal") and found.endswith(",0)")):
            raise ConfigError(
                f"the column {name!r} of the requests cannot be of the type {found.upper()};"
                f" expected {' or '.join(kinds).upper()}"
            )
    columns: dict[str, Column] = {"requester": sql.col("requester"), "log_text": sql.col("log_id").cast("string")}
    columns["author_text" if types["author"] == "string" else "author"] = sql.col("author")
    columns["ranges_text" if types[ranges] == "string" else ranges] = sql.col(ranges)
    return requests.select(
        [columns.get(name, sql.lit(None)).cast(kind.lower()).alias(name) for name, kind in GIVEN.types.items()]
    )


def check(rows: Iterable[Row]) -> Iterator[Row]:
    """``GIVEN`` to ``ASKED``. Never raises: a row that cannot be read becomes a reject with the reason."""
    for row in rows:
        try:
            key, log, found = _checked(row)
        except (ConfigError, EncodingError, ValueError) as error:
            requester, author, author_text, log_text, one, ranges, ranges_text = row
            value = ranges if ranges is not None else one
            as_text = value.hex() if value is not None else ranges_text
            whose = author.hex() if author is not None else author_text
            yield requester, *[None] * 10, str(error), whose, log_text, as_text
            continue
        for item in found:
            if not item.is_empty:
                yield row[0], key, log, *_fields(item), None, None, None, None


def _checked(row: Row) -> tuple[bytes, int, list[Range]]:
    requester, author, author_text, log_text, one, ranges, ranges_text = row
    if requester is None:
        raise ValueError("a row without a requester")
    if author is None and author_text is None:
        raise ValueError("a row without an author")
    if log_text is None:
        raise ValueError("a row without a log id")
    key = author if author is not None else parse_author(author_text)
    if len(key) != AUTHOR_BYTES:
        raise ValueError(f"an author has {AUTHOR_BYTES} bytes, not {len(key)}")
    return key, to_sql(parse_number(log_text, "log id")), _read(one, ranges, ranges_text)


def _read(one: bytes | None, ranges: bytes | None, text: str | None) -> list[Range]:
    if one is not None:
        return [decode(one, max_forbidden_bytes=MAX_FORBIDDEN_BYTES)]
    value = ranges if ranges is not None else text
    if value is None:
        raise ValueError("a row without ranges")
    return read_ranges(value)


def _fields(item: Range) -> Row:
    kind = METADATA * item.metadata | PAYLOAD * item.payloads | SPARSE * item.sparse | OPEN * item.is_open
    numbers = (item.least_size, item.size_limit, item.head_max, item.tail_min)
    forbidden = np.array(item.forbidden, "<u8").tobytes() if item.forbidden else None
    return to_sql(item.start), to_sql(item.last), kind, *map(to_sql, numbers), forbidden
