"""Running the command line as its user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from culm.cli import main
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


class Result(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The last line of the output, as JSON."""
        return json.loads(self.out.splitlines()[-1])


class Culm:
    """The command line with a home; in this process, for speed."""

    def __init__(self, home: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capture = capture

    def __call__(self, *arguments: object) -> Result:
        """Run a command."""
        self._capture.readouterr()
        try:
            code = main(["--home", str(self.home), *map(str, arguments)])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        out, err = self._capture.readouterr()
        return Result(code, out, err)

    def held(self) -> Any:
        """What ``logs`` says is held, without the clumps: those say where it came from."""
        return [log | {"clumps": None} for log in self("logs", "--json").json]

    def at(self, home: str) -> Culm:
        """The same with another home beside this one."""
        return Culm(self.home.parent / home, self._capture)


def start(home: Path, *arguments: object, **settings: Any) -> subprocess.Popen[str]:
    """The command line in a process of its own."""
    command = [sys.executable, "-m", "culm.cli", "--home", str(home), *map(str, arguments)]
    environment = {key: value for key, value in os.environ.items() if key != "CULM_HOME"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **settings
    )


@contextmanager
def serving(home: Path, *arguments: object, port: int = 0) -> Iterator[str]:
    """A node in a process of its own, which is killed at the end; its address."""
    with started(home, "--listen", f"culm://127.0.0.1:{port}", *arguments) as url:
        yield url


@contextmanager
def started(home: Path, *arguments: object) -> Iterator[str]:
    """A node with one listener, which is killed at the end; the address that it prints."""
    process = start(home, "serve", *arguments)
    try:
        assert process.stdout is not None
        word, url = process.stdout.readline().split()
        assert word == "listening"
        yield url
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)
