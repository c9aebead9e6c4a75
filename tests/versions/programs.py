"""The command line of a version, as a program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SECONDS = 120.0  # for one command, on a machine that does other things, too


class CommandFailed(Exception):
    """A command ended with an error, or not at all."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of Culm: what it is called here, and the folder with its packages."""

    name: str
    source: Path

    def run(self, home: Path, *arguments: object) -> str:
        """Run a command in a home; what it printed."""
        command = self._command(home, arguments)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=self._environment(), timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"{self._told(arguments)}: no end after {_SECONDS:g} s") from None
        if done.returncode:
            raise CommandFailed(f"{self._told(arguments)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def json(self, home: Path, *arguments: object) -> Any:
        """The same with ``--json``; what that says."""
        return json.loads(self.run(home, *arguments, "--json"))

    @contextmanager
    def serving(self, home: Path, scheme: str, *arguments: str) -> Iterator[str]:
        """A node that serves a home by one protocol; its address."""
        command = self._command(home, ("serve", "--listen", f"{scheme}://127.0.0.1:0", *arguments))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self._environment())
        try:
            assert process.stdout is not None
            word, _, address = process.stdout.readline().strip().partition(" ")
            if word != "listening":
                raise CommandFailed(f"{self.name}: culm serve does not say where it listens")
            yield address
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=_SECONDS)

    def _told(self, arguments: tuple[object, ...]) -> str:
        return f"{self.name}: culm {' '.join(map(str, arguments))}"

    @staticmethod
    def _command(home: Path, arguments: tuple[object, ...]) -> list[str]:
        return [sys.executable, "-m", "culm.cli", "--home", str(home), *map(str, arguments)]

    def _environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key != "CULM_HOME"}
        return {**kept, "PYTHONPATH": str(self.source)}
