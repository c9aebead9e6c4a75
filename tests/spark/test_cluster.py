"""On a standalone cluster and through Spark Connect; run by ``make cluster``, for they take minutes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from bench.sparkcluster import Cluster, descendants, free_port, listens, spark_environment, spark_home, wait_for
from culm.testing import build_log
from tests.spark.ways import draw, in_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for all tests here."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def verify(master: str | None, inputs: list[str], output: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start the command as its user does."""
    place = [] if master is None else ["--master", master]
    command = [sys.executable, "-m", "culm.cli", "spark", "verify", "--input", *inputs, "--output", str(output)]
    return subprocess.Popen([*command, *place, "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finished(job: subprocess.Popen[bytes]) -> dict[str, float]:
    """The summary of a job that ended well."""
    out, err = job.communicate(timeout=400)
    assert job.returncode in (0, 1), err.decode()
    summary: dict[str, float] = json.loads(out)
    return summary


def rows(output: Path) -> list[str]:
    """The verdicts that were written."""
    return sorted(map(repr, pq.read_table(output / "verdicts").to_pylist()))


def test_the_same_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """On two workers the verdicts are those that are found in one process."""
    drawn = draw(tmp_path, 40)
    here, there = tmp_path / "here", tmp_path / "there"
    alone = finished(verify(None, drawn.inputs, here))
    spread = finished(verify(cluster.url, drawn.inputs, there, "--forks"))
    assert {**alone, "seconds": 0} == {**spread, "seconds": 0}
    assert in_folder(drawn, there) == drawn.strict


def test_a_worker_dies(cluster: Cluster, tmp_path: Path) -> None:
    """A worker killed in the middle of the signatures costs time: the job ends well, with the same verdicts."""
    path = tmp_path / "logs"
    with path.open("wb") as stream:
        for seed in range(1, 17):
            log = build_log(1500, seed=seed)
            for entry in log.entries:
                stream.write(entry.encoded + log.payloads[entry.hash])
    here, there = tmp_path / "here", tmp_path / "there"
    finished(verify(None, [str(path)], here))
    job = verify(cluster.url, [str(path)], there)
    wait_for(lambda: any("spark.runtime.daemon" in name for name in descendants(cluster.workers[-1].pid).values()))
    cluster.kill_a_worker()
    summary = finished(job)
    assert 24_000 == summary["verified"] == summary["entries"]
    assert rows(here) == rows(there)


def test_nobody_listens(tmp_path: Path) -> None:
    """A cluster or a server that is not there is one line, at once."""
    (tmp_path / "log").write_bytes(build_log(1).entries[0].encoded)
    for scheme in ("spark", "sc"):
        url = f"{scheme}://127.0.0.1:{free_port()}"
        job = verify(url, [str(tmp_path / "log")], tmp_path / "out")
        out, err = job.communicate(timeout=60)
        assert (2, b"") == (job.returncode, out)
        assert f"cannot reach the Spark master at {url}" in err.decode().splitlines()[-1]


def test_through_connect(tmp_path: Path) -> None:
    """A client of a Spark Connect server, which has no Java of its own, gets the same verdicts."""
    pytest.importorskip("grpc")
    drawn, there = draw(tmp_path, 20), tmp_path / "there"
    port = free_port()
    environment = spark_environment(SPARK_LOG_DIR=str(tmp_path / "logs"), SPARK_PID_DIR=str(tmp_path))
    settings = ["--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false"]
    command = [str(spark_home() / "sbin" / "start-connect-server.sh"), "--wait", "--master", "local[2]", *settings]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=tmp_path
        )
        try:
            wait_for(lambda: listens(port))
            finished(verify(f"sc://127.0.0.1:{port}", drawn.inputs, there, "--forks"))
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    assert in_folder(drawn, there) == drawn.strict
