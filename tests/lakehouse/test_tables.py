"""Verdicts in Delta and Iceberg tables: real jars, real tables, read back with Spark and without a JVM."""

from __future__ import annotations

import secrets
import shlex
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet
from pyspark.errors import StreamingQueryException

from culm.cli import main
from culm.errors import CulmError
from culm.spark.following.delivery import Tables
from culm.spark.runtime import shell
from culm.spark.verification import lakehouse
from tests.lakehouse.page import on_the_page
from tests.spark.following.streams import Arriving, by_key, forks_told, told
from tests.spark.ways import day_by_day, draw, said

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.lakehouse, pytest.mark.timeout(900)]

Rows = list[dict[str, Any]]


def rows(table: pa.Table) -> Rows:
    """The rows by key. How often an entry was there is left out, since a copy alone changes no verdict."""
    found: Rows = table.drop_columns("copies").to_pylist()
    return sorted(found, key=lambda row: [row[name] for name in lakehouse.KEY])


@pytest.mark.parametrize("where", ["folder", "s3"])
def test_two_days_in_a_table(spark: SparkSession, kind: str, warehouse: Path, days: Path, where: str) -> None:
    """What stands on the page, in its order: verdicts come back row by row, with Spark and without, of both days.

    The second day has changed verdicts and new ones, and is merged twice, as by a run that is repeated.
    """
    if where == "s3" and kind != "delta":
        pytest.skip("there are no jars for it")
    name, first, second, before, without_java = on_the_page("python", "s3" if where == "s3" else kind)
    monday, tuesday, both = (rows(parquet.read_table(days / day / "verdicts")) for day in ("monday", "tuesday", "both"))
    keys = [{tuple(row[key] for key in lakehouse.KEY) for row in table} for table in (monday, tuesday)]
    assert keys[0] & keys[1]
    assert keys[1] - keys[0]

    page: dict[str, Any] = {}
    exec(name.replace("/srv/lake", str(warehouse)), page)
    exec(first, page)
    assert monday == rows(spark.table(page["table"]).toArrow())
    evening = spark.sql("SELECT string(current_timestamp() + INTERVAL 1 SECOND)").collect()[0][0]
    time.sleep(2)  # the formats take the time of a version from the machine's clock
    exec(second, page)
    assert both == rows(spark.table(page["table"]).toArrow())
    exec(second, page)
    assert both == rows(spark.table(page["table"]).toArrow())
    exec(without_java.replace("/srv/lake", str(warehouse)), page)
    assert both == rows(page["whole"])
    exec(before.replace("2026-11-23 22:00:00", evening), page)
    assert monday == rows(page["before"].toArrow())


def test_merging_makes_a_table(spark: SparkSession, kind: str, warehouse: Path, days: Path) -> None:
    """A merge into a table that is missing makes it, so that a first day needs no case of its own."""
    table = {"delta": f"delta.`{warehouse}/merged`", "iceberg": "lake.trusted.merged"}[kind]
    assert not lakehouse.exists(spark, table)
    lakehouse.merge(spark.read.parquet(str(days / "monday" / "verdicts")), table, kind)
    assert lakehouse.exists(spark, table)
    assert rows(parquet.read_table(days / "monday" / "verdicts")) == rows(
        spark.table(lakehouse.quoted(table)).toArrow()
    )


def test_the_table_says_what_is_true(
    spark: SparkSession, kind: str, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three days' merges the table says of each entry of adversarial logs what follows from the definitions."""
    monkeypatch.setattr(shell, "is_running", lambda: False)  # verify without Spark, as the command would here
    table = {"delta": f"delta.`{warehouse}/true`", "iceberg": "lake.trusted.true"}[kind]
    drawn = draw(tmp_path, 30)
    outputs = day_by_day(drawn, tmp_path, "all")
    for output in outputs:
        lakehouse.merge(spark.read.parquet(str(output / "verdicts")), table, kind)
    found = spark.table(lakehouse.quoted(table)).toArrow().to_pylist()
    assert said(drawn, found, parquet.read_table(outputs[-1] / "forks").to_pylist()) == drawn.strict


def test_following_keeps_a_table(
    spark: SparkSession, kind: str, warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What arrives file by file is merged into the table, and its changes are appended to a feed, each of them once.

    So are the forks, which come to those of one run.
    """
    table = {"delta": f"delta.`{warehouse}/followed`", "iceberg": "lake.trusted.followed"}[kind]
    with monkeypatch.context() as patch:
        patch.setattr(shell, "is_running", lambda: False)  # what is to come out is found without Spark
        entries = Arriving(tmp_path, 2, count=6)

    def follow() -> None:
        entries.follow(spark, table=table, table_format=kind)

    def changes(name: str = "changes") -> list[dict[str, Any]]:
        feed = {"delta": f"delta.`{warehouse}/followed_{name}`", "iceberg": f"lake.trusted.followed_{name}"}[kind]
        found: list[dict[str, Any]] = spark.table(lakehouse.quoted(feed)).toArrow().to_pylist()
        return sorted(found, key=lambda row: row["batch"])

    entries.arrive(1)
    follow()
    entries.arrive()
    put = Tables.put

    def cut_short(self: Tables, spark: SparkSession, tables: Mapping[str, Path], facts: Mapping[str, Any]) -> None:
        """Deliver all but the mark, which comes last."""
        put(self, spark, tables, {**facts, "mark": ""})
        raise CulmError("cut short")

    monkeypatch.setattr(Tables, "put", cut_short)
    with pytest.raises(StreamingQueryException, match="cut short"):
        follow()
    monkeypatch.setattr(Tables, "put", put)
    before, forks = changes(), changes("forks")
    follow()
    assert before == changes()
    assert forks == changes("forks")
    assert {1, 2} == {row["batch"] for row in before}
    assert entries.whole == told(before)
    assert entries.forks == forks_told(forks)
    assert entries.whole == by_key(spark.table(lakehouse.quoted(table)).toArrow().to_pylist())


def test_the_command_keeps_a_table_up_to_date(
    spark: SparkSession,
    kind: str,
    warehouse: Path,
    days: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Runs with a state merge into the table, also what a run found that left the table out; others do not touch it."""
    monkeypatch.setattr(shell, "is_running", lambda: False)  # verify without Spark, as the command would here
    table = {"delta": f"delta.`{warehouse}/daily`", "iceberg": "lake.trusted.daily"}[kind]
    into = ["--table", table, "--output-format", kind]

    def verified(number: int, *options: str) -> int:
        output = tmp_path / secrets.token_hex(4)
        return main(["spark", "verify", "--input", str(days / str(number)), "--output", str(output), *options])

    def found() -> Rows:
        return rows(spark.table(lakehouse.quoted(table)).toArrow())

    state = ["--state", str(tmp_path / "state")]
    (command,) = on_the_page("sh", "iceberg")
    here = {"entries": str(days / "1"), "monday": str(tmp_path / "monday"), "state": state[1]}
    words = {**here, "lake.trusted.daily": table, "iceberg": kind}
    assert 1 == main([words.get(word, word) for word in shlex.split(command)[1:]])  # there are forks in it
    assert found() == rows(parquet.read_table(days / "monday" / "verdicts"))
    assert 1 == verified(2, *state)
    assert 1 == verified(1, *into, *state)  # nothing new
    assert found() == rows(parquet.read_table(days / "both" / "verdicts"))

    capsys.readouterr()
    assert 2 == verified(1, *into)
    assert "is there already; --overwrite replaces its rows, --state merges into it" in capsys.readouterr().err
    assert found() == rows(parquet.read_table(days / "both" / "verdicts"))
