"""Verdicts as a table of a catalog: what needs no jars. ``tests/lakehouse`` has Delta and Iceberg."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from culm.errors import ConfigError
from culm.spark import lakehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lake.trusted.verdicts", "`lake`.`trusted`.`verdicts`"),
        ("verdicts", "`verdicts`"),
        ("delta.`/srv/lake.d/my verdicts`", "`delta`.`/srv/lake.d/my verdicts`"),
        ("a.`b``.c`", "`a`.`b``.c`"),
        ("my-lake.a;b", "`my-lake`.`a;b`"),
    ],
)
def test_names(name: str, expected: str) -> None:
    """Each part of a name is quoted, so that no name is read as SQL."""
    assert expected == lakehouse.quoted(name)


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "a b", "a.`b", "a.`b`c", "a.``", "a\n"])
def test_what_is_no_name(name: str) -> None:
    """What is not a name is refused before Spark sees it."""
    with pytest.raises(ConfigError, match="is not the name of a table"):
        lakehouse.quoted(name)


@pytest.fixture
def verdicts(spark: SparkSession) -> DataFrame:
    """A table with the columns that count."""
    return spark.sql("SELECT X'61' author, 1BD log_id, 7BD seqnum, X'62' entry_hash, 'verified' verdict")


@pytest.fixture
def name() -> str:
    """A name that no table has."""
    return f"verdicts_{secrets.token_hex(4)}"


def test_a_parquet_table(spark: SparkSession, verdicts: DataFrame, name: str) -> None:
    """A table is made once; it is replaced or appended to only if that is said, and Parquet cannot be merged into."""
    lakehouse.merge(verdicts, name, "parquet")  # makes the table
    assert verdicts.collect() == spark.table(name).collect()
    with pytest.raises(ConfigError, match=f"^{name}: is there already"):
        lakehouse.write(verdicts, name, "parquet")
    lakehouse.write(verdicts, name, "parquet", "append")
    assert 2 == spark.table(name).count()
    with pytest.raises(ConfigError, match=f"^{name}: its format has no MERGE"):
        lakehouse.merge(verdicts, name, "parquet")
    lakehouse.write(verdicts, name, "parquet", "overwrite")
    assert verdicts.collect() == spark.table(name).collect()
    spark.sql(f"DROP TABLE {name}")


def test_what_the_session_lacks(verdicts: DataFrame, name: str) -> None:
    """Missing jars, catalogs and databases are named, with what to set."""
    with pytest.raises(ConfigError, match="no jars of that format"):
        lakehouse.write(verdicts, name, "delta")
    with pytest.raises(ConfigError, match="no such catalog"):
        lakehouse.write(verdicts, f"lake.trusted.{name}", "parquet")
    with pytest.raises(ConfigError, match="no such catalog"):
        lakehouse.merge(verdicts, f"lake.trusted.{name}", "iceberg")
    with pytest.raises(ConfigError, match="CREATE SCHEMA"):
        lakehouse.write(verdicts, f"trusted.{name}", "parquet")


def test_arguments(verdicts: DataFrame, name: str) -> None:
    """Unknown formats and modes, and rows without an entry's key, are refused."""
    with pytest.raises(ConfigError, match="one of parquet, delta, iceberg, not 'csv'"):
        lakehouse.write(verdicts, name, "csv")
    with pytest.raises(ConfigError, match="one of error, overwrite, append, not 'ignore'"):
        lakehouse.write(verdicts, name, "parquet", "ignore")
    with pytest.raises(ConfigError, match="there is no seqnum"):
        lakehouse.merge(verdicts.drop("seqnum"), name)
