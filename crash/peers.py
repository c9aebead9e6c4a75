"""The node that the victims talk to: one for each worker, which is never killed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Self

from crash.material import copy_home
from crash.victims import command, environment
from culm.bamboo import Identity
from culm.node.home import Home

if TYPE_CHECKING:
    from pathlib import Path

    from crash.material import Material

CLUMP = "crash"
_SCHEMES = ("culm", "bushbaby", "intervals", "proposals")


class Peers:
    """A node with all logs, started when it is first asked for."""

    def __init__(self, folder: Path, material: Material, *, number: int) -> None:
        self.home = Home.find(folder / "peer")
        self._material = material
        self._number = number
        self._errors = folder / "peer.log"
        self._process: subprocess.Popen[str] | None = None
        self._urls: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()

    def url(self, scheme: str) -> str:
        """Where the node is to be reached."""
        if self._process is None:
            self._start()
        return self._urls[scheme]

    def _start(self) -> None:
        copy_home(self._material.source, self.home.path)
        self.home.add_identity("peer", Identity(self._number.to_bytes(32, "big")), None)
        arguments = ["--home", str(self.home.path), "serve", "--clump", CLUMP, "--identity", "peer"]
        for name in ("max_address_calls", "max_address_sessions", "max_sessions"):
            arguments += ["--limit", f"{name}=100000"]
        for scheme in _SCHEMES:
            arguments += ["--listen", f"{scheme}://127.0.0.1:0"]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command("culm.cli", arguments), stdout=subprocess.PIPE, stderr=errors, text=True, env=environment()
            )
        assert self._process.stdout is not None
        for scheme in _SCHEMES:
            word, _, url = self._process.stdout.readline().strip().partition(" ")
            if word != "listening" or not url.startswith(scheme):
                raise RuntimeError(f"the peer does not listen: {self._errors.read_text()}")
            self._urls[scheme] = url
