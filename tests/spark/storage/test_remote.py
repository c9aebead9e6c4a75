"""Inputs in a bucket, read by Spark's workers with what the driver knows of the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from culm.cli import main
from culm.spark import run
from culm.spark.reconciliation.fingerprint import fingerprint
from culm.spark.storage import filesystems, settings_here
from culm.testing import build_log
from tests.spark.verification.test_state import bundle

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


COMMANDS = {
    "report": ["report", "{}/verified"],
    "fingerprint": ["fingerprint", "--input", "{}/verified"],
    "tables": ["reconcile", "{}/verified", "{}/part/verdicts"],
    "index": ["reconcile", "{}/index", "{}/part"],
    "plan": ["plan", "--have", "{}/have.csv", "--want", "{}/want.jsonl", "--sizes", "{}/sizes.csv"],
    "select": ["select", "--input", "{}/log", "--requests", "{}/want.jsonl"],
}
"""Commands of ``culm spark``; the braces stand for the folder of their inputs."""


def made_by(name: str, inputs: object, output: object) -> int:
    """The exit code of a command."""
    return main(["spark", *(part.format(inputs) for part in COMMANDS[name]), "--output", str(output)])


@pytest.fixture
def inputs(spark: SparkSession, tmp_path: Path) -> Path:
    """The inputs of all commands: a log, results of verifying it and a part of it, an index, and tables."""
    log, folder = build_log(6), tmp_path / "in"
    folder.mkdir()
    for name, count in (("log", 6), ("half", 3)):
        bundle(folder / name, [(entry, log.payloads[entry.hash]) for entry in log.entries[:count]])
    run([str(folder / "log")], folder / "verified")
    run([str(folder / "half")], folder / "part")
    fingerprint(spark, spark.read.parquet(f"file://{folder / 'verified' / 'verdicts'}"), folder / "index")
    author = log.entries[0].author.hex()
    (folder / "have.csv").write_text(f"peer,author,log_id,ranges\na,{author},0,1..6\n")
    (folder / "sizes.csv").write_text(f"author,log_id,metadata_bytes,payload_bytes\n{author},0,300,10\n")
    wanted = {"peer": "b", "requester": "b", "author": author, "log_id": 0, "ranges": "2..9"}
    (folder / "want.jsonl").write_text(json.dumps(wanted))
    return folder


def results(folder: Path) -> tuple[dict[str, object], dict[str, list[str]]]:
    """The counts and the rows of all tables in a folder of results."""
    counts = json.loads((folder / "summary.json").read_text())
    tables: dict[str, list[str]] = {}
    for file in folder.rglob("*.parquet"):
        name = file.parent.name if file.name.startswith("part-") else file.stem
        tables.setdefault(name, []).extend(map(str, pq.read_table(file).to_pylist()))
    told = {name: value for name, value in counts.items() if name not in ("seconds", "made", "page_bytes")}
    return told, {name: sorted(rows) for name, rows in tables.items()}


@pytest.mark.spark
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_read_and_write_buckets(name: str, s3: tuple[str, FileSystem], inputs: Path, tmp_path: Path) -> None:
    """Every command takes its inputs from a bucket and puts its results there; they name the bucket and not a copy."""
    uri, system = s3
    fs.copy_files(str(inputs), f"{uri[6:]}/in", destination_filesystem=system)
    code = made_by(name, inputs, tmp_path / "here")
    assert code == made_by(name, f"{uri}/in", f"{uri}/out") in (0, 1)
    (tmp_path / "there").mkdir()
    fs.copy_files(f"{uri[6:]}/out", str(tmp_path / "there"), source_filesystem=system)
    assert results(tmp_path / "here") == results(tmp_path / "there")
    read = json.loads((tmp_path / "there" / "summary.json").read_text())["made"]["inputs"]
    assert read
    assert all(one["path"].startswith(f"{uri}/in/") and one["files"] for one in read)
    assert not [path for path in (tmp_path / "there").rglob("*.*") if b"culm-inputs-" in path.read_bytes()]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_bucket_lacks_is_named(
    name: str, s3: tuple[str, FileSystem], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An input that is not in the bucket is an error before Spark starts, and nothing is left behind."""
    uri, _ = s3
    assert made_by(name, f"{uri}/none", tmp_path / "out") == 2
    assert f"{uri}/none" in (said := capsys.readouterr().err)
    assert "there is no such file or folder" in said
    assert not list(tmp_path.iterdir())


def test_errors_name_the_bucket(s3: tuple[str, FileSystem], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with a copy is said of the URI that the user knows."""
    uri, system = s3
    with system.open_output_stream(f"{uri[6:]}/in/verified/summary.json") as stream:
        stream.write(b"{}")
    for name, wrong in (("report", "not the results"), ("fingerprint", "not a folder with"), ("index", "no such file")):
        assert made_by(name, f"{uri}/in", tmp_path / "out") == 2
        said = capsys.readouterr().err
        assert f"{uri}/in/" in said
        assert wrong in said


@pytest.mark.parametrize("command", ["simulate", "spark follow --input in --state state"])
def test_what_cannot_be_written_to_a_bucket(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands that write to a folder only say so."""
    with pytest.raises(SystemExit, match="2"):
        main([*command.split(), "--output", "s3a://bucket/out"])
    assert "s3a://bucket/out is a URI; name a folder" in capsys.readouterr().err


def test_the_source_imports_with_an_older_pyspark() -> None:
    """PySpark 4.1 has no ``SupportsTriggerAvailableNow``; the source can be used there all the same."""
    older = "import pyspark.sql.streaming.datasource as module; del module.SupportsTriggerAvailableNow"
    code = f"{older}; import pyspark_culm; print(pyspark_culm.DefaultSource)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "CulmSource" in done.stdout, done.stderr
