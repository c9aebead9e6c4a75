"""Culm's functions for SQL, each on a batch of rows at a time.

===============================  ======================================================================================
``culm_decode(encoded)``         the entry's fields as a struct (``DECODED``); null if the bytes are not an entry
``culm_is_signed(encoded)``      whether its author signed it; null if the bytes are not an entry
``culm_lipmaa(n)``               the number that the lipmaa link of entry ``n`` leads to; null for 1
``culm_author(key)``             a public key as people write it, in base62; null if it has not 32 bytes
``culm_in_range(range, n)``      whether a Bamboo range (``'5..10 sparse'``) has the number; an error if ``range`` is
                                 none, or is sparse without an end
===============================  ======================================================================================

Numbers are whole, from 1 to 2^64 - 1, of any type that SQL has for them; others give null. Null gives null.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from culm.bamboo import MAX_U64, Entry, lipmaa
from culm.bamboo.entry import AUTHOR_BYTES
from culm.bamboo.verification import is_signed
from culm.errors import ConfigError, InvalidEntry
from culm.ranges import Range, read_range
from culm.spark.columns import UNSIGNED
from culm.wire.places import author_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the functions known to a session's SQL. They are gone when the session ends."""
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    from culm.spark.source.rows import DECODED

    struct = ", ".join(f"{name}: {kind}" for name, kind in DECODED.items())
    kinds: dict[str, tuple[Callable[..., pa.Array], str]] = {
        "culm_decode": (_decode, f"STRUCT<{struct}>"),
        "culm_is_signed": (_is_signed, "BOOLEAN"),
        "culm_lipmaa": (_lipmaa, UNSIGNED),
        "culm_author": (_author, "STRING"),
        "culm_in_range": (_in_range, "BOOLEAN"),
    }
    for name, (function, kind) in kinds.items():
        # Spark looks at the hints to see that these are functions of arrays; here they are only names, as Arrow is not
        # loaded before it is needed.
        function.__annotations__.update(dict.fromkeys(function.__annotations__, pa.Array))
        made: Any = arrow_udf  # its types know functions of one or two kinds only
        spark.udf.register(name, made(function, kind))


def _decode(encoded: pa.Array) -> pa.Array:
    from culm.spark.source.rows import decoded

    return decoded(encoded.to_pylist())


def _is_signed(encoded: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.array([_signed(one) for one in encoded.to_pylist()], pa.bool_())


def _signed(encoded: bytes | None) -> bool | None:
    try:
        entry = Entry.decode(encoded or b"")
    except InvalidEntry:
        return None
    return is_signed(entry.encoded, entry.author)


def _lipmaa(numbers: pa.Array) -> pa.Array:
    import pyarrow as pa

    found = [_number(one) for one in numbers.to_pylist()]
    return pa.array([lipmaa(one) if one and one > 1 else None for one in found], pa.uint64()).cast(pa.decimal128(20, 0))


def _author(keys: pa.Array) -> pa.Array:
    import pyarrow as pa

    found = keys.to_pylist()
    return pa.array([author_text(one) if one and len(one) == AUTHOR_BYTES else None for one in found], pa.string())


def _in_range(ranges: pa.Array, numbers: pa.Array) -> pa.Array:
    import pyarrow as pa

    pairs = zip(ranges.to_pylist(), map(_number, numbers.to_pylist()), strict=True)
    found = [None if text is None or one is None else _range(text).covers(one) for text, one in pairs]
    return pa.array(found, pa.bool_())


@lru_cache(maxsize=1024)  # a column of ranges mostly repeats a few
def _range(text: str) -> Range:
    found = read_range(text)
    if found.sparse and found.is_open:
        raise ConfigError(f"{text!r}: a sparse range without an end depends on the newest entry of each log")
    return found


def _number(value: Any) -> int | None:  # noqa: ANN401 - whatever SQL calls a number
    number = None if value is None else int(value)
    return number if number is not None and number == value and 1 <= number <= MAX_U64 else None
