"""Syncs over a command's stdin and stdout, as ``ssh HOST culm serve --stdio`` has them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.culm import start
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from tests.cli.culm import Culm


@pytest.mark.subprocess
@pytest.mark.parametrize("protocol", ["intervals", "proposals"])
def test_a_sync_over_pipes(culm: Culm, protocol: str) -> None:
    """A node on another machine, behind a command with pipes as ssh is one, and a home here: each gets the other's log.

    The far side prints nothing of its own, and ends with the connection.
    """
    bob = culm.at("bob")
    bob("init")
    logs = [f"{home('identity', 'show').out.split()[-1]}/1" for home in (culm, bob)]
    culm("append", 1, "--text", "from alice")
    bob("append", 1, "--text", "from bob")
    far = shlex.join([sys.executable, "-m", "culm.cli", "--home", str(culm.home), "serve", "--stdio", protocol])
    result = bob("sync", f"{protocol}+exec:sh -c {shlex.quote(f'cat | {far} | cat')}", *logs, "--json")
    assert (result.code, result.json["entries_received"], result.json["entries_sent"]) == (0, 1, 1)
    assert bob.held() == culm.held()


def test_the_end_of_stdin_ends_a_node(culm: Culm) -> None:
    """``culm serve --stdio`` ends in order when its peer hangs up, and has printed nothing but its protocol."""
    process = start(culm.home, "serve", "--stdio", "negentropy", stdin=subprocess.PIPE)
    out, err = process.communicate("\x01\x61", timeout=PATIENCE)  # One message, of the version alone.
    assert (process.returncode, out, err) == (0, "\x01\x61", "")


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("protocol", "script", "end"),
    [
        ("intervals", "echo the key is not known >&2; exit 255", "ended with exit code 255"),
        (
            "intervals",
            "head -c 1 >/dev/null; exit 3",
            "ended with exit code 3",
        ),  # It has read some bytes, and left others.
        ("proposals", "exit 0", "ended with exit code 0"),
        ("bushbaby", "kill -9 $$", "was killed by signal 9"),
    ],
)
def test_a_command_that_ends_at_once(culm: Culm, protocol: str, script: str, end: str) -> None:
    """The error says what has ended and how, where the command's own words are, and what the command has to do."""
    culm("init")
    culm("append", 1, "--text", "one")
    command = shlex.join(["sh", "-c", script])
    result = culm("sync", f"{protocol}+exec:{command}", "--clump", "c")
    assert result.code == 3
    assert result.err.splitlines()[-1] == (
        f"culm: the command {end} before it sent anything: {command}; its own messages, if any, are on stderr;"
        f" it has to speak {protocol} until its stdin ends, as culm serve --stdio {protocol} does"
    )


@pytest.mark.subprocess
def test_a_comparison_with_a_command_that_ends_at_once(culm: Culm) -> None:
    """The same when sets are compared."""
    culm("init")
    culm("append", 1, "--text", "one")
    result = culm("reconcile", culm.home, "negentropy+exec:sh -c 'exit 3'")
    assert (result.code, result.out) == (3, "")
    assert "the command ended with exit code 3 before it sent anything" in result.err


@pytest.mark.subprocess
def test_logs_of_a_clump_over_pipes(culm: Culm) -> None:
    """A log that is shared in a clump only goes to nobody who names none. Both sides say so, and what changes it."""
    bob = culm.at("bob")
    bob("init")
    culm("append", 1, "--text", "in the family")
    author = culm("identity", "show").out.split()[-1]
    culm("share", f"{author}/1", "--clump", "family")
    far = f"intervals+exec:{sys.executable} -m culm.cli --home"

    asked = bob("sync", f"{far} {culm.home} serve --stdio", f"{author}/1")
    assert (asked.code, asked.out.split(" (")[0]) == (0, "received 0 entries")
    assert "nothing came of 1 log asked for" in asked.err
    assert "culm serve --clump NAME" in asked.err

    offered = culm("sync", f"{far} {bob.home} serve --stdio")
    assert "not offered: 1 log shared in a clump only; sync with --clump NAME, or see culm share" in offered.err

    served = bob("sync", f"{far} {culm.home} serve --stdio --clump family", f"{author}/1")
    assert (served.out.split(" (")[0], served.err) == ("received 1 entry", "")
