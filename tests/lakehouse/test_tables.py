"""Verdicts in Delta and Iceberg tables: real jars, real tables, read back with Spark and without a JVM."""

from __future__ import annotations

import secrets
import shlex
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from culm.cli import main
from culm.spark import lakehouse, shell
from tests.lakehouse.page import on_the_page

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.lakehouse, pytest.mark.timeout(900)]

Rows = list[dict[str, Any]]


def rows(table: pa.Table) -> Rows:
    """The rows by key. How often an entry was there is left out, since a copy alone changes no verdict."""
    found: Rows = table.drop_columns("copies").to_pylist()
    return sorted(found, key=lambda row: [row[name] for name in lakehouse.KEY])


def test_two_days_in_a_table(spark: SparkSession, kind: str, warehouse: Path, days: Path) -> None:
    """What stands on the page, in its order: verdicts come back row by row, with Spark and without, of both days.

    The second day has changed verdicts and new ones, and is merged twice, as by a run that is repeated.
    """
    name, first, second, before, without_java = on_the_page("python", kind)
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
