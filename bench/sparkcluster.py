"""A standalone Spark cluster on this machine, for tests and benchmarks: a master and workers, each a process."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Self

from culm.spark.runtime.session import java_home

_LOOK_SECONDS = 0.1  # Between two looks at whether something has happened.
_START_SECONDS = 120.0  # A busy machine may need so long for three Java processes; without a limit a test would hang.
_ENDED = frozenset("ZX")  # States in /proc of processes that are dead: zombies, and those being removed.


def free_port() -> int:
    """A port of the loopback address at which nobody listens just now; somebody else may take it before the caller."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether somebody listens at a port of the loopback address."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(found: Callable[[], object], *, seconds: float = _START_SECONDS) -> None:
    """Wait until ``found()`` is true; ``TimeoutError`` if it does not become so."""
    pause = threading.Event()
    for _ in range(int(seconds / _LOOK_SECONDS)):
        if found():
            return
        pause.wait(_LOOK_SECONDS)
    raise TimeoutError(f"what was waited for did not happen within {seconds:g} s")


def spark_home() -> Path:
    """Where PySpark is installed."""
    import pyspark  # noqa: PLC0415 - Spark is an extra

    return Path(pyspark.__file__).parent


@cache
def _java() -> Path:
    """A ``JAVA_HOME`` with the Java that Culm finds, until this program ends."""
    folder = Path(tempfile.mkdtemp(prefix="culm-java-"))
    atexit.register(shutil.rmtree, folder)
    return java_home(folder / "home")


def spark_environment(**more: str) -> dict[str, str]:
    """The environment in which Spark's own scripts use this interpreter and the Java that Culm finds."""
    home = {"JAVA_HOME": str(_java()), "SPARK_HOME": str(spark_home()), "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **home, **more}


class Cluster:
    """A master and workers of one core each, as processes; a context manager that ends them. ``url``: the master's."""

    def __init__(self, folder: Path, *, workers: int = 2, memory: str = "1500m") -> None:
        """Start them, and wait until the master listens.

        ``folder`` takes their logs and temporary files. ``memory`` is what one worker offers to executors, as Spark
        writes it.
        """
        self._folder = folder
        self._stack = ExitStack()
        self._environment = spark_environment(
            SPARK_WORKER_DIR=str(folder / "work"), SPARK_LOCAL_DIRS=str(folder / "local")
        )
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        with ExitStack() as undo:
            undo.callback(self.close)
            self._start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
            wait_for(lambda: listens(port))
            arguments = ("-c", "1", "-m", memory, "--webui-port", "0", self.url)
            self.workers = [self._start("worker.Worker", *arguments) for _ in range(workers)]
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all of them."""
        self._stack.close()

    def kill_a_worker(self) -> None:
        """Kill the last worker with its executors, as if its machine had failed."""
        worker = self.workers.pop()
        for pid in descendants(worker.pid):
            os.kill(pid, signal.SIGKILL)
        _end(worker)

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        log = self._stack.enter_context((self._folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, start_new_session=True)
        self._stack.callback(_end, process)
        return process


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def descendants(ancestor: int) -> dict[int, str]:
    """The living processes that are ``ancestor`` or come from it, with their command lines."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in _ENDED:
            parents[int(path.parent.name)] = int(parent)
    found: dict[int, str] = {}
    for pid in parents:
        at = pid
        while at not in (0, 1, ancestor):
            at = parents.get(at, 0)
        if at == ancestor:
            try:
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found
