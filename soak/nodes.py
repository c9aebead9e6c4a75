"""A node as a process: started, stopped, killed, and what it uses."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from culm.bamboo import Identity
from culm.node.home import DEFAULT_IDENTITY, Home
from culm.wire.places import author_text

if TYPE_CHECKING:
    from collections.abc import Iterable

CLUMP = "soak"
SCHEMES = ("culm", "bushbaby", "intervals", "proposals", "negentropy")
_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_TROUBLE = re.compile(r"Traceback| ERROR |never awaited|exception was never retrieved")
_SETTINGS = {"first_retry_seconds": 1, "max_retry_seconds": 8, "max_address_calls": 10_000}


class NodeFailed(Exception):
    """A node did not start or stop as it must."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a node used at a moment: memory in bytes (resident), open files, CPU seconds so far.

    ``at`` is a reading of the monotonic clock, ``age`` the seconds since the node was started for the ``life``-th time.
    """

    at: float
    life: int
    age: float
    memory: int
    handles: int
    cpu: float


def run(home: Home, *arguments: object) -> str:
    """Run the command line in a home; what it printed. ``NodeFailed`` if it fails."""
    done = subprocess.run(_command(home, arguments), capture_output=True, text=True, env=_environment(), check=False)
    if done.returncode:
        raise NodeFailed(f"culm {' '.join(map(str, arguments))}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _command(home: Home, arguments: Iterable[object]) -> list[str]:
    return [sys.executable, "-m", "culm.cli", "--home", str(home.path), *map(str, arguments)]


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "CULM_HOME"}


class SoakNode:
    """A node with a home, whose addresses stay the same over its lives. ``ports``: one for each protocol."""

    def __init__(self, name: str, folder: Path, secret: bytes, ports: dict[str, int]) -> None:
        self.name = name
        self.home = Home.find(folder / name)
        self.identity = Identity(secret)
        self.home.create()
        self.home.add_identity(DEFAULT_IDENTITY, self.identity, None)
        self.peers: list[str] = []
        self.usages: list[Usage] = []
        self.life = 0
        self.cpu = 0.0  # of lives that have ended
        self.slowest_stop = 0.0
        self._ports = ports
        self._errors = folder / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None
        self._started = 0.0

    def url(self, scheme: str) -> str:
        """Where it is to be reached by a protocol."""
        key = f"{author_text(self.identity.public)}@" if scheme == "culm" else ""
        return f"{scheme}://{key}127.0.0.1:{self._ports[scheme]}"

    # -- running -----------------------------------------------------------------------------------------------

    @property
    def runs(self) -> bool:
        """Whether it was started and not ended again."""
        return self._process is not None

    def start(self) -> None:
        """Start it, and wait until it listens. ``NodeFailed`` if it does not."""
        arguments = ["serve", "--clump", CLUMP, "--interval", "5"]
        for key, value in _SETTINGS.items():
            arguments += ["--limit", f"{key}={value}"]
        for scheme in SCHEMES:
            arguments += ["--listen", f"{scheme}://127.0.0.1:{self._ports[scheme]}"]
        for url in self.peers:
            arguments += ["--peer", url]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                _command(self.home, arguments), stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment()
            )
        self.life += 1
        self._started = time.monotonic()
        assert self._process.stdout is not None
        for _ in SCHEMES:
            if not self._process.stdout.readline().startswith("listening"):
                raise NodeFailed(f"{self.name} does not listen: {self._errors.read_text()[-500:]}")

    def stop(self) -> None:
        """End it by SIGTERM; ``NodeFailed`` if it does not end well."""
        began = time.monotonic()
        code = self._end(signal.SIGTERM)
        self.slowest_stop = max(self.slowest_stop, time.monotonic() - began)
        if code:
            raise NodeFailed(f"{self.name} ended with exit code {code}: {self._errors.read_text()[-500:]}")

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> int:
        assert self._process is not None
        self.sample()
        process, self._process = self._process, None
        if self.usages:
            self.cpu += self.usages[-1].cpu
        process.send_signal(number)
        try:
            process.communicate(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise NodeFailed(f"{self.name} did not end within {_STOP_SECONDS:.0f} s") from None
        return process.returncode

    def check_alive(self) -> None:
        """``NodeFailed`` if it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            code = self._process.returncode
            raise NodeFailed(f"{self.name} ended by itself, exit code {code}: {self._errors.read_text()[-500:]}")

    # -- looking -----------------------------------------------------------------------------------------------

    def sample(self) -> None:
        """Note what it uses now."""
        if self._process is None:
            return
        proc = Path(f"/proc/{self._process.pid}")
        with suppress(OSError, IndexError, ValueError):  # it has just ended
            status = (proc / "status").read_text()
            memory = int(status.partition("VmRSS:")[2].split()[0]) * 1024
            fields = (proc / "stat").read_text().rpartition(")")[2].split()
            cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            handles = len(list((proc / "fd").iterdir()))
            now = time.monotonic()
            self.usages.append(Usage(now, self.life, now - self._started, memory, handles, cpu))

    def troubles(self) -> list[str]:
        """The lines of its log that tell of trouble of its own."""
        lines = self._errors.read_text().splitlines() if self._errors.exists() else []
        return [line for line in lines if _TROUBLE.search(line)]
