"""Long lists on a terminal are shown by ``$PAGER``."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm

LINES = 12


@pytest.fixture
def home(culm: Culm, tmp_path: Path) -> Path:
    """A home with a log that is longer than the terminal, called alice."""
    lines = tmp_path / "lines"
    lines.write_text("x\n" * 20)
    culm("append", 1, "--lines", lines)
    culm("append", 2, "--text", "short")
    culm("name", culm("identity", "show").out.strip(), "alice")
    return culm.home


def on_a_terminal(home: Path, *arguments: str, **environment: str) -> str:
    """What a command prints on a terminal of 12 lines."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (LINES, 80))
    known = {key: text for key, text in os.environ.items() if key not in {"PAGER", "LESS", "COLUMNS", "LINES"}}
    call = [sys.executable, "-m", "culm.cli", "--home", str(home), *arguments]
    process = subprocess.Popen(
        call, stdout=theirs, stdin=theirs, stderr=theirs, env=known | {"TERM": "xterm", **environment}
    )
    os.close(theirs)
    shown = bytearray()
    try:
        while select.select([ours], [], [], PATIENCE)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux's way to say that the other end is closed.
                break
            if not piece:
                break
            shown += piece
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        os.close(ours)
    return shown.decode().replace("\r\n", "\n")


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A pager that marks what it shows."""
    script = tmp_path / "my pager"
    script.write_text('#!/bin/sh\necho "[$1"; cat; echo "$LESS]"\n')
    script.chmod(0o755)
    return f"'{script}' shown"


def test_a_long_list(home: Path, pager: str) -> None:
    """A list that is longer than the terminal goes through the pager, whole; ``$LESS`` is set for less."""
    shown = on_a_terminal(home, "show", "alice/1", PAGER=pager)
    assert shown.startswith("[shown\n")
    assert shown.endswith("FRX]\n")
    assert shown.count("verified") == 20
    assert on_a_terminal(home, "show", "alice/1", PAGER=pager, LESS="S").endswith("S]\n")


def test_no_pager(home: Path, pager: str) -> None:
    """A short list, ``--no-pager``, an empty ``$PAGER``, cat and a dumb terminal: the list is printed."""
    for arguments, environment in (
        (("show", "alice/2"), {"PAGER": pager}),
        (("show", "alice/1", "--no-pager"), {"PAGER": pager}),
        (("--no-pager", "show", "alice/1"), {"PAGER": pager}),
        (("show", "alice/1", "--json"), {"PAGER": pager}),
        (("show", "alice/1"), {"PAGER": ""}),
        (("show", "alice/1"), {"PAGER": "cat"}),
        (("show", "alice/1"), {"PAGER": "'"}),
        (("show", "alice/1"), {"PAGER": pager, "TERM": "dumb"}),
        (("show", "alice/1"), {"PAGER": "/nowhere/less"}),
    ):
        shown = on_a_terminal(home, *arguments, **environment)
        assert "[shown" not in shown
        assert "verified" in shown


def test_a_pager_that_ends_early(home: Path) -> None:
    """A person who has seen enough ends the pager, and the command with it, without an error."""
    assert on_a_terminal(home, "show", "alice/1", PAGER="true") == ""


def test_a_pipe(culm: Culm, home: Path, pager: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where stdout is no terminal there is no pager, because a program reads."""
    monkeypatch.setenv("PAGER", pager)
    assert culm("show", "alice/1").out.count("\n") == 21
    assert home == culm.home
