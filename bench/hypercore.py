"""Hypercore, the same work done by another system: one log from one process to another over loopback.

Needs node and npm, and installs the newest version whose dependencies resolve into ``build/bench``; the benchmarks do
without where that cannot be.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

from bench.harness import say

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "bench" / "hypercore"
_TRIED = 30  # versions, from the newest on


def available() -> str | None:
    """The version that is installed, installing one if need be; None if there is none to be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return None
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "package.json").exists():
        (FOLDER / "package.json").write_text('{"private": true}\n')
    for name in HERE.glob("hypercore_*.js"):
        shutil.copy(name, FOLDER)
    return _installed() or _install()


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)


def _installed() -> str | None:
    found = _run("node", "-e", "require('hypercore'); console.log(require('hypercore/package.json').version)")
    return found.stdout.strip() if found.returncode == 0 else None


def _install() -> str | None:
    listed = _run("npm", "view", "hypercore", "versions", "--json")
    if listed.returncode:
        return None
    versions = [version for version in json.loads(listed.stdout) if "-" not in version]
    for version in reversed(versions[-_TRIED:]):
        if _run("npm", "install", "--no-audit", "--no-fund", f"hypercore@{version}").returncode == 0:
            found = _installed()
            if found is not None:
                say(f"installed hypercore {found}")
                return found
    return None


class Log:
    """A hypercore of ``count`` blocks of ``size`` bytes, served by a process of its own."""

    def __init__(self, folder: Path, count: int, size: int) -> None:
        self._folder = folder
        self._count = count
        self._rounds = 0
        self._server = subprocess.Popen(
            [shutil.which("node") or "node", "hypercore_server.js", str(folder / "server"), str(count), str(size)],
            cwd=FOLDER,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout is not None
        self._where = json.loads(self._server.stdout.readline())

    def replicate(self) -> dict[str, float]:
        """Fetch all of it into a new folder: ``seconds`` of the transfer, ``cpu`` seconds, ``memory`` in MB."""
        self._rounds += 1
        target = self._folder / f"client{self._rounds}"
        command = ["node", "hypercore_client.js", str(target), str(self._where["port"]), self._where["key"]]
        found = _run(*command, str(self._count))
        result: dict[str, float] = json.loads(found.stdout)
        if result["length"] != self._count:
            raise AssertionError(f"{result['length']} of {self._count} blocks arrived")
        shutil.rmtree(target)
        return result

    def close(self) -> None:
        """End the server."""
        self._server.send_signal(signal.SIGTERM)
        self._server.wait()
