"""Verdicts as a table of a catalog: what needs no jars. ``tests/lakehouse`` has Delta and Iceberg."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from culm.errors import ConfigError
from culm.spark import State, run
from culm.spark.runtime import shell
from culm.spark.verification import lakehouse
from culm.testing import build_log
from tests.spark.verification.test_state import bundle

if TYPE_CHECKING:
    from pathlib import Path

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


def test_what_a_run_is_asked_for(tmp_path: Path) -> None:
    """Wrong names, formats without a table, and merging into Parquet are refused before anything is read or started."""
    output, state = tmp_path / "output", tmp_path / "state"
    with pytest.raises(ConfigError, match="is not the name of a table"):
        run([], output, table="a..b")
    with pytest.raises(ConfigError, match="name the table, too"):
        run([], output, table_format="delta")
    with pytest.raises(ConfigError, match="one of parquet, delta, iceberg, not 'csv'"):
        run([], output, table="a.b", table_format="csv")
    with pytest.raises(ConfigError, match=r"a run with a state merges, and Parquet has no MERGE; .* anew from"):
        run([], output, table="a.b", state=state)
    assert [] == list(tmp_path.iterdir())


def test_a_run_writes_a_table(spark: SparkSession, name: str, tmp_path: Path) -> None:
    """The table has the rows of the folder; a second run needs to be told that it may replace them."""
    log = build_log(3)
    (tmp_path / "log").write_bytes(b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries))
    run([str(tmp_path / "log")], tmp_path / "first", table=name)
    expected = parquet.read_table(tmp_path / "first" / "verdicts").sort_by("seqnum").to_pylist()
    assert 3 == len(expected)
    assert expected == spark.table(name).orderBy("seqnum").toArrow().to_pylist()
    with pytest.raises(ConfigError, match="is there already; --overwrite replaces its rows"):
        run([str(tmp_path / "log")], tmp_path / "second", table=name)
    assert not (tmp_path / "second").exists()
    run([str(tmp_path / "log")], tmp_path / "first", table=name, overwrite=True)
    assert 3 == spark.table(name).count()
    spark.sql(f"DROP TABLE {name}")


def test_a_parquet_table_of_a_state(
    spark: SparkSession, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the refusal of a merge advises: after each run the table is written anew, with all that the state knows."""
    monkeypatch.setattr(shell, "is_running", lambda: False)  # verify without Spark
    log = build_log(5)
    for day, entries in enumerate((log.entries[:2], log.entries[2:])):
        run([bundle(tmp_path / f"{day}", log.items(entries))], tmp_path / f"day {day}", state=tmp_path / "state")
        lakehouse.write(State.open(tmp_path / "state").verdicts(spark), name, "parquet", "overwrite")
    run([str(tmp_path / "0"), str(tmp_path / "1")], tmp_path / "both")
    expected = parquet.read_table(tmp_path / "both" / "verdicts").sort_by("seqnum").to_pylist()
    assert 5 == len(expected)
    assert expected == spark.table(name).orderBy("seqnum").toArrow().to_pylist()
    spark.sql(f"DROP TABLE {name}")
