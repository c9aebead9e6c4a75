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
