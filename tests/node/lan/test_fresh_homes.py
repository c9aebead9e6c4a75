"""Two people on one network, with the commands that they type."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.cli.culm import start, started

if TYPE_CHECKING:
    from pathlib import Path

CLUMP = "5d" * 32
LONGEST = 10.0  # seconds


def culm(home: Path, *arguments: object) -> str:
    """What a command prints."""
    process = start(home, *arguments)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out


def serve(home: Path) -> list[object]:
    """How a node is started that is found. Only on loopback, because other machines are none of a test's business."""
    (home / "culm.toml").write_text('lan_at = ["127.0.0.1"]\nlisten = ["culm://127.0.0.1:0"]\n')
    return ["--lan", "--clump-hex", CLUMP]


@pytest.mark.subprocess
def test_from_init_to_received(tmp_path: Path) -> None:
    """Fresh homes of two people: each types ``init`` and ``serve``, nobody an address, and what one wrote arrives."""
    alice, bob = tmp_path / "alice", tmp_path / "bob"
    began = time.monotonic()
    culm(alice, "init")
    culm(alice, "append", 1, "--text", "the kettle is on")
    culm(bob, "init")
    with ExitStack() as stack:
        for home in (alice, bob):
            stack.enter_context(started(home, *serve(home)))
        author = culm(alice, "identity", "show").strip()
        following = start(bob, "tail", f"{author}/1", "-f")
        stack.callback(following.communicate)
        stack.callback(following.kill)
        assert following.stdout is not None
        line = following.stdout.readline()
    assert line.split(maxsplit=1)[1] == "the kettle is on\n"
    assert time.monotonic() - began < LONGEST
