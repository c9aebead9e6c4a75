"""Culm's functions, as SQL calls them."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import ConfigError
from culm.spark import function, register
from culm.testing import build_log
from culm.wire.places import author_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def sql(spark: SparkSession) -> SparkSession:
    """A session that knows the functions, and a view ``entries`` of entry 4 of a log, the same forged, and no entry."""
    register(spark)
    entry = build_log(4).entries[3]
    forged = entry.encoded[:-1] + bytes([entry.encoded[-1] ^ 1])
    rows = [(1, entry.encoded), (2, forged), (3, b"x"), (4, None)]
    spark.createDataFrame(rows, "id INT, encoded BINARY").createOrReplaceTempView("entries")
    return spark


def values(sql: SparkSession, query: str) -> list[Any]:
    """What a query gives, row by row; single values as they are."""
    return [row[0] if len(row) == 1 else tuple(row) for row in sql.sql(query).collect()]


def test_entries(sql: SparkSession) -> None:
    """Entries become structs with all their fields, and are told from forgeries; other bytes give null."""
    entry = build_log(4).entries[3]
    found = values(sql, "SELECT culm_decode(encoded), culm_is_signed(encoded) FROM entries ORDER BY id")
    assert [True, False, None, None] == [signed for _, signed in found]
    first = found[0][0]
    assert (entry.author, 0, 4, 0, Decimal(entry.size)) == (
        first.author,
        first.log_id,
        first.seqnum,
        first.tag,
        first.size,
    )
    assert (entry.lipmaalink, entry.backlink, entry.payload_hash, entry.signature) == (
        first.lipmaalink,
        first.backlink,
        first.payload_hash,
        first.sig,
    )
    assert [True, True, False, False] == [row is not None for row, _ in found]


def test_numbers_and_names(sql: SparkSession) -> None:
    """Links, authors and ranges are those of the specification, up to 2^64 - 1; what is no number gives null."""
    assert [(None, 1, 1, 4, 8, 13, None, None)] == values(
        sql,
        "SELECT culm_lipmaa(1), culm_lipmaa(2), culm_lipmaa(4L), culm_lipmaa(8), culm_lipmaa(9),"
        " culm_lipmaa(CAST(40 AS DECIMAL(20,0))), culm_lipmaa(0), culm_lipmaa(NULL)",
    )
    key = build_log(1).identity.public
    assert [(author_text(key), None)] == values(sql, f"SELECT culm_author(X'{key.hex()}'), culm_author(X'00')")
    assert [(True, False, True, True, None)] == values(
        sql,
        "SELECT culm_in_range('5..14 sparse', 8), culm_in_range('5..14 sparse', 9), culm_in_range('7..', 7),"
        " culm_in_range('1..', CAST(18446744073709551615 AS DECIMAL(20,0))), culm_in_range('1..', -1)",
    )


@pytest.mark.parametrize("text", ["5..x", "5.. sparse"])
def test_what_is_no_range(sql: SparkSession, text: str) -> None:
    """A text that is no range, or depends on each log, is an error."""
    with pytest.raises(Exception, match="range"):
        values(sql, f"SELECT culm_in_range('{text}', id) FROM entries")


def test_functions_of_columns(sql: SparkSession) -> None:
    """Without SQL they take columns; a name that is none of theirs is an error."""
    entry = build_log(4).entries[3]
    found = sql.table("entries").where("id < 3").orderBy("id")
    rows = found.select(function("culm_is_signed")("encoded"), function("culm_decode")("encoded").getField("author"))
    assert [(True, entry.author), (False, entry.author)] == [tuple(row) for row in rows.collect()]
    with pytest.raises(ConfigError, match="culm_nothing"):
        function("culm_nothing")
