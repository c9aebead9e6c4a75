"""``culm completion``: shells complete commands, options, choices and files."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from culm.cli.command import Commands
from culm.cli.table import COMMANDS, GROUPS
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.culm import Culm

pytest.importorskip("shtab")
SHELLS = ("bash", "zsh", "fish")
# Has bash complete the last word of a line, as it does when somebody presses Tab, and prints the proposals.
_PRESS_TAB = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_shtab_culm
printf '%s\\n' "${COMPREPLY[@]}"
"""


def proposals(script: Path, folder: Path, *words: str) -> set[str]:
    """What bash proposes for the last of these words."""
    call = ["bash", "--norc", "-c", _PRESS_TAB, "-", str(script), *words]
    result = subprocess.run(call, capture_output=True, text=True, check=True, cwd=folder)
    return {line.strip() for line in result.stdout.splitlines()} - {""}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not there")
def test_in_bash(culm: Culm, tmp_path: Path) -> None:
    """Bash proposes commands at each level, the options and choices of a command, and file names."""
    script, folder = tmp_path / "script", tmp_path / "folder"
    script.write_text(culm("completion", "bash").out)
    folder.mkdir()
    (folder / "door.proof").touch()
    assert proposals(script, folder, "culm", "exp") == {"export"}
    assert {"unfollow", "unshare"} == proposals(script, folder, "culm", "un")
    assert proposals(script, folder, "culm", "identity", "") >= {"new", "list", "show", "export", "import"}
    assert proposals(script, folder, "culm", "sync", "--newest") == {"--newest", "--newest-first"}
    assert proposals(script, folder, "culm", "reconcile", "--split", "s") == {"sparing"}
    assert proposals(script, folder, "culm", "completion", "") >= set(SHELLS)
    assert "door.proof" in proposals(script, folder, "culm", "check", "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not there")
def test_in_fish(culm: Culm, tmp_path: Path) -> None:
    """Fish proposes the same, with what each command does."""
    script, folder = tmp_path / "culm.fish", tmp_path / "folder"
    script.write_text(culm("completion", "fish").out)
    folder.mkdir()
    (folder / "door.proof").touch()

    def proposed(line: str) -> dict[str, str]:
        call = ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"]
        result = subprocess.run(call, capture_output=True, text=True, check=True, cwd=folder, env=environ(tmp_path))
        assert result.stderr == ""
        return dict(line.partition("\t")[::2] for line in result.stdout.splitlines())

    assert proposed("culm exp") == {"export": "write logs to a file"}
    assert proposed("culm un").keys() == {"unfollow", "unshare"}
    assert proposed("culm identity ").keys() == {"new", "list", "show", "export", "import"}
    assert proposed("culm sync --newest").keys() == {"--newest", "--newest-first"}
    assert proposed("culm reconcile --split s").keys() == {"sparing"}
    assert proposed("culm check ").keys() == {"door.proof"}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not there")
def test_in_zsh(culm: Culm, tmp_path: Path) -> None:
    """Zsh proposes the same, from a folder in ``$fpath``: asked at a terminal with Control-D, as by a person."""
    (tmp_path / "_culm").write_text(culm("completion", "zsh").out)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("door.proof", "gate.proof"):
        (folder / name).touch()
    with at_a_terminal(["zsh", "-f", "-i"], folder, environ(tmp_path)) as (say, heard):
        say(f"fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D; PS1=REA''DY\n")
        heard("READY")
        for line, expected in (
            ("culm un", "unfollow unshare"),
            ("culm identity ", "new list show export import"),
            ("culm sync --newest", "--newest-first"),
            ("culm reconcile --split ", "even newest sparing"),
            ("culm check ", "door.proof gate.proof"),
        ):
            say(line + "\x04")  # Control-D lists what the word could become.
            heard(*expected.split())
            say("\x15")  # Control-U takes the line away.


def environ(home: Path) -> dict[str, str]:
    """The environment of a shell whose owner has set nothing."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "TERM": "dumb", "COLUMNS": "200", "LINES": "200"}


@contextmanager
def at_a_terminal(
    call: list[str], folder: Path, env: dict[str, str]
) -> Iterator[tuple[Callable[[str], object], Callable[..., None]]]:
    """A shell at a terminal of its own; how to type there, and how to wait until the screen has shown some words."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 200, 0, 0))
    shell = subprocess.Popen(call, stdin=there, stdout=there, stderr=there, cwd=folder, env=env, start_new_session=True)
    os.close(there)

    def heard(*words: str) -> None:
        shown, until = "", time.monotonic() + PATIENCE
        while not all(word in shown for word in words):
            assert time.monotonic() < until, shown
            if select.select([here], [], [], 1)[0]:
                shown += os.read(here, 65536).decode(errors="replace")

    try:
        yield (lambda text: os.write(here, text.encode())), heard
    finally:
        shell.kill()
        shell.wait()
        os.close(here)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_is_in_it(culm: Culm, tmp_path: Path, shell: str) -> None:
    """Each script has every command and option; where the shell is at hand, it reads the script without a complaint."""
    script = tmp_path / "script"
    script.write_text(culm("completion", shell).out)
    text = script.read_text()
    names = {words.rpartition(" ")[2] for commands in COMMANDS.values() for words in commands}
    options = {
        option.lstrip("-")
        for parser in Commands().loaded().values()
        for action in parser._actions
        for option in action.option_strings
    }
    assert {name for name in names | options if name not in text} == set()
    if shutil.which(shell):
        assert subprocess.run([shell, "-n", script], capture_output=True, check=True).stderr == b""


def test_the_tree_of_parsers() -> None:
    """The whole tree has each command in its place, and each parser parses as before."""
    whole = Commands().whole()
    assert whole.parse_args(["identity", "new", "x"]).name == "x"
    assert {words for commands in COMMANDS.values() for words in commands} - GROUPS == set(Commands().loaded())


def test_without_the_library(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library there is one line that says how to get it; a shell that is not known is a wrong call."""
    monkeypatch.setitem(sys.modules, "shtab", None)  # as Python notes that there is none
    result = culm("completion", "bash")
    assert (result.code, result.out) == (2, "")
    assert result.err == "culm: completion needs a library: pip install 'culm[terminal]'\n"
    assert culm("completion", "csh").code == 2
