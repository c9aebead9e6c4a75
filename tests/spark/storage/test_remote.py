"""Inputs in a bucket, read by Spark's workers with what the driver knows of the server."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from culm.spark import run
from culm.spark.storage import filesystems, settings_here

if TYPE_CHECKING:
    from pathlib import Path

    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

    from tests.spark.defects import DataSet


@pytest.fixture
def remote(s3: tuple[str, FileSystem], data: DataSet, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A bucket with the inputs that have every defect; the settings are no longer in the environment."""
    uri, system = s3
    for path in data.inputs:
        name = os.path.basename(path)  # noqa: PTH119 - the inputs are strings
        fs.copy_files(path, f"{uri[6:]}/in/{name}", destination_filesystem=system)
    settings = dict(settings_here())
    for name in filesystems._OF_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    return {"uri": f"{uri}/in", **settings}


def rows(output: Path, table: str, *names: str) -> list[tuple[object, ...]]:
    """Some columns of a table of results, sorted."""
    return sorted(tuple(row.values()) for row in pq.read_table(output / table, columns=list(names)).to_pylist())


@pytest.mark.spark
def test_verdicts_of_a_bucket(spark: SparkSession, remote: dict[str, str], data: DataSet, tmp_path: Path) -> None:
    """Inputs of every kind in a bucket get the verdicts that they get on this disk, with Hadoop's settings alone."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    uri = remote.pop("uri")
    for name, value in remote.items():
        hadoop.set(name, value)
    try:
        run([f"{uri}/*"], tmp_path / "remote")
    finally:
        for name in remote:
            hadoop.unset(name)
    run(data.inputs, tmp_path / "local")
    columns = ("entry_hash", "verdict", "payload", "copies")
    assert rows(tmp_path / "local", "verdicts", *columns) == rows(tmp_path / "remote", "verdicts", *columns)
    here, there = (
        {
            (str(source).rpartition("/")[2], *rest)
            for source, *rest in rows(tmp_path / name, "rejects", "source", "offset", "reason")
        }
        for name in ("local", "remote")
    )
    assert len(data.rejects) == len(here)
    assert here == there


@pytest.mark.spark
def test_the_source_reads_buckets(spark: SparkSession, remote: dict[str, str], data: DataSet) -> None:
    """``format("culm")`` takes the settings as options, and names sources by their URIs."""
    uri = remote.pop("uri")
    local = spark.read.format("culm").load(data.inputs).count()
    found = spark.read.format("culm").options(**remote).load(uri)
    assert local == found.count()
    assert f"{uri}/" == found.selectExpr("min(source)").first()[0].rpartition("/")[0] + "/"  # type: ignore[index]


def test_the_source_imports_with_an_older_pyspark() -> None:
    """PySpark 4.1 has no ``SupportsTriggerAvailableNow``; the source can be used there all the same."""
    older = "import pyspark.sql.streaming.datasource as module; del module.SupportsTriggerAvailableNow"
    code = f"{older}; import pyspark_culm; print(pyspark_culm.DefaultSource)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "CulmSource" in done.stdout, done.stderr
