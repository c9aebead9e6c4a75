"""Culm's functions for SQL, each on a batch of rows at a time.

===============================  ======================================================================================
``culm_decode(encoded)``         the entry's fields as a struct; null if the bytes are not an entry
``culm_is_signed(encoded)``      whether its author signed it; null if the bytes are not an entry
``culm_lipmaa(n)``               the number that the lipmaa link of entry ``n`` leads to; null for 1
``culm_author(key)``             a public key as people write it, in base62; null if it has not 32 bytes
``culm_in_range(range, n)``      whether a Bamboo range (``'5..10 sparse'``) has the number; an error if ``range`` is
                                 none, or is sparse without an end
===============================  ======================================================================================

Numbers are whole, from 1 to 2^64 - 1, of any type that SQL has for them; others give null. Null gives null.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from culm.bamboo import MAX_U64, lipmaa
from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import ConfigError
from culm.ranges import Range, read_range
from culm.spark.batches.arrays import fields_of
from culm.spark.batches.fields import signed
from culm.spark.reading.found import within
from culm.spark.runtime.columns import UNSIGNED
from culm.spark.source.rows import decoded
from culm.wire.places import author_text


def register(spark: SparkSession) -> None:
    """Make the functions known to a session's SQL. They are gone when the session ends."""
    for name in _KINDS:
        spark.udf.register(name, function(name))


def function(name: str) -> Callable[..., Column]:
    """One of the functions for columns of DataFrames: ``function("culm_author")("author")``.

    It needs no registration, which a pipeline of ``pyspark.pipelines`` does not allow. ``ConfigError`` for other names.
    """
    if name not in _KINDS:
        raise ConfigError(f"{name!r} is none of {', '.join(_KINDS)}")
    given, kind = _KINDS[name]
    make: Any = arrow_udf
    # In SQL, the type would be a question to a server.
    return cast("Callable[..., Column]", make(given, from_arrow_type(kind)))


def _is_signed(encoded: pa.Array) -> pa.Array:
    fields = fields_of(encoded)
    found = fields.good.copy()
    found[fields.good] = signed(fields.data, fields.start[fields.good], fields.end[fields.good])
    return pa.array(found, mask=~fields.good)


def _lipmaa(numbers: pa.Array) -> pa.Array:
    found = [_number(one) for one in numbers.to_pylist()]
    return pa.array([lipmaa(one) if one and one > 1 else None for one in found], pa.uint64()).cast(UNSIGNED)


def _author(keys: pa.Array) -> pa.Array:
    found = keys.to_pylist()
    return pa.array([author_text(one) if one and len(one) == AUTHOR_BYTES else None for one in found], pa.string())


def _in_range(ranges: pa.Array, numbers: pa.Array) -> pa.Array:
    pairs = zip(ranges.to_pylist(), map(_number, numbers.to_pylist()), strict=True)
    found = [None if text is None or one is None else _range(text).covers(one) for text, one in pairs]
    return pa.array(found, pa.bool_())


@lru_cache(maxsize=1024)  # a column of ranges mostly repeats a few
def _range(text: str) -> Range:
    return within(read_range(text), 1, MAX_U64)


def _number(value: Any) -> int | None:  # noqa: ANN401 - whatever SQL calls a number
    number = None if value is None else int(value)
    return number if number is not None and number == value and 1 <= number <= MAX_U64 else None


_KINDS: dict[str, tuple[Callable[..., pa.Array], pa.DataType]] = {
    "culm_decode": (decoded, decoded(pa.array([], pa.binary())).type),
    "culm_is_signed": (_is_signed, pa.bool_()),
    "culm_lipmaa": (_lipmaa, UNSIGNED),
    "culm_author": (_author, pa.string()),
    "culm_in_range": (_in_range, pa.bool_()),
}
"""The functions by their names in SQL, and what they give."""
