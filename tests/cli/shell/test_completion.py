"""``culm completion``: shells complete commands, options, choices and files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from culm.cli.command import Commands
from culm.cli.table import COMMANDS, GROUPS

if TYPE_CHECKING:
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
