"""Inputs and a Delta table in a bucket: Spark reads the inputs by pyarrow, and writes the table by Hadoop's S3A."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import fs

from culm.cli import main
from culm.spark.runtime import shell
from culm.store import SQLiteStore
from tests.spark.verification.test_differential import in_store
from tests.spark.ways import draw, said

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.lakehouse,
    pytest.mark.skipif(Path(os.environ.get("CULM_LAKEHOUSE", "")).name != "delta", reason="Delta alone has the jars"),
    pytest.mark.timeout(900),
]
TABLE = "s3a://lake/daily"


def by_hash(rows: list[dict[str, Any]]) -> dict[bytes, dict[str, Any]]:
    """The rows of a table by the entries' hashes."""
    return {row["entry_hash"]: row for row in rows}


def test_a_bucket_says_what_a_node_says(
    spark: SparkSession, bucket: FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After two days' merges the table has the verdicts of a node's store, read with Spark and without, and day one's.

    The logs are adversarial, the inputs and all results lie in the bucket, and only the state lies here.
    """
    monkeypatch.setattr(shell, "is_running", lambda: False)  # verify without Spark, as the command would here
    deltalake = pytest.importorskip("deltalake")
    drawn = draw(tmp_path, 30)
    for at, path in enumerate(drawn.inputs):
        fs.copy_files(path, f"lake/in/{at % 2}/{Path(path).name}", destination_filesystem=bucket)
    into = ["--table", f"delta.`{TABLE}`", "--output-format", "delta", "--state", str(tmp_path / "state"), "--forks"]
    for day in range(2):
        assert 1 == main(["spark", "verify", "--input", f"s3a://lake/in/{day}", "--output", f"s3a://lake/{day}", *into])

    found = [spark.table(f"delta.`{TABLE}`"), spark.sql(f"SELECT * FROM delta.`{TABLE}` VERSION AS OF 0")]
    now, first = (by_hash(frame.toArrow().to_pylist()) for frame in found)
    assert now == by_hash(deltalake.DeltaTable(TABLE).to_pyarrow_table().to_pylist())
    assert first == by_hash(deltalake.DeltaTable(TABLE, version=0).to_pyarrow_table().to_pylist())
    assert first == by_hash(spark.read.parquet("s3a://lake/0/verdicts").toArrow().to_pylist())
    assert first != now

    with SQLiteStore(tmp_path / "node") as store:
        store.add([item for of_log in drawn.logs.by_log() for item in of_log.items()], durable=False)
        forks = spark.read.parquet("s3a://lake/1/forks").toArrow().to_pylist()
        assert said(drawn, now.values(), forks) == in_store(store, drawn.logs)
