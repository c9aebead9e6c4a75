"""On a standalone cluster and through Spark Connect; run by ``make cluster``, for they take minutes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pyspark
import pytest

from culm.spark.java import java_home
from culm.testing import build_log
from tests.spark.random_logs import RandomLogs

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
HOME = Path(pyspark.__file__).parent


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def wait_for(found: object, *, seconds: float = 120) -> None:
    """Wait until ``found()`` is true."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.1)):
        if found():  # type: ignore[operator]
            return
        pause.wait(0.1)
    raise AssertionError("it did not happen")


def listens(port: int) -> bool:
    """Whether somebody listens at a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Cluster:
    """A master and two workers of one core each."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(HOME),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
        }
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        wait_for(lambda: listens(port))
        self.workers = [
            self._start("worker.Worker", "-c", "1", "-m", "1500m", "--webui-port", "0", self.url) for _ in range(2)
        ]

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        log = self._stack.enter_context((self._folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, start_new_session=True)
        self._stack.callback(self._end, process)
        return process

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_a_worker(self) -> None:
        """A worker dies, with its executor and all that runs in it."""
        worker = self.workers.pop()
        for pid, _ in processes():
            if descends(pid, worker.pid):
                os.kill(pid, signal.SIGKILL)
        self._end(worker)


def processes() -> list[tuple[int, str]]:
    """All processes, with their command lines."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                found.append((int(path.name), (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()))
            except OSError:
                continue
    return found


def descends(pid: int, ancestor: int) -> bool:
    """Whether a process is one, or a child of one, of another's."""
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for all tests here."""
    with ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("cluster"), stack)


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
    inputs = RandomLogs(seed=3, count=40).write(tmp_path)
    here, there = tmp_path / "here", tmp_path / "there"
    alone = finished(verify(None, inputs, here))
    spread = finished(verify(cluster.url, inputs, there, "--forks"))
    assert {**alone, "seconds": 0} == {**spread, "seconds": 0}
    assert rows(here) == rows(there)


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
    wait_for(
        lambda: any(descends(pid, cluster.workers[-1].pid) and "spark.daemon" in name for pid, name in processes())
    )
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
    inputs = RandomLogs(seed=4, count=20).write(tmp_path)
    here, there = tmp_path / "here", tmp_path / "there"
    alone = finished(verify(None, inputs, here))
    port = free_port()
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(HOME),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOG_DIR": str(tmp_path / "logs"),
        "SPARK_PID_DIR": str(tmp_path),
    }
    settings = ["--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false"]
    command = [str(HOME / "sbin" / "start-connect-server.sh"), "--wait", "--master", "local[2]", *settings]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True, cwd=tmp_path
        )
        try:
            wait_for(lambda: listens(port))
            spread = finished(verify(f"sc://127.0.0.1:{port}", inputs, there, "--forks"))
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    assert {**alone, "seconds": 0} == {**spread, "seconds": 0}
    assert rows(here) == rows(there)
