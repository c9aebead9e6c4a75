"""Calls that are wrong, or only look so: one short line, which says what to do, and exit code 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.culm import Culm

LOG = "0" * 43 + "/1"
NOWHERE = "intervals://127.0.0.1:1"
COLUMNS = 100


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("syncc",), "there is no command 'syncc'; did you mean sync? (see culm --help)"),
        (("frobnicate",), "there is no command 'frobnicate' (see culm --help)"),
        (("wire", "chekc"), "there is no command 'chekc'; did you mean check? (see culm wire --help)"),
        (("sync", NOWHERE, "--upload", "8MB"), "unknown option '--upload' (see culm sync --help)"),
        (("sync", NOWHERE, LOG, "--uplaod", LOG), "unknown option '--uplaod' (see culm sync --help)"),
        (("show", LOG, "x", "y"), "unknown argument 'x' (see culm show --help)"),
        (("sync", NOWHERE, "--clump", "a", "x"), "'x' is not AUTHOR/LOG"),
    ],
)
def test_one_short_line(culm: Culm, arguments: tuple[str, ...], expected: str) -> None:
    """A wrong call is one line that fits on a terminal, and names the help of the command that was called."""
    assert (2, "", f"culm: {expected}\n") == culm(*arguments)
    assert len(expected) < COLUMNS


@pytest.mark.parametrize("place", range(4))
def test_options_stand_anywhere(culm: Culm, place: int) -> None:
    """The names of logs may stand behind options, too: the call is understood, and nobody listens there."""
    words = ["sync", NOWHERE, LOG, LOG]
    words[1 + place : 1 + place] = ["--clump", "a"]
    assert (3, "", f"culm: cannot reach {NOWHERE}: Connection refused\n") == culm(*words)
