"""The check of two versions against each other, with this version in both places.

Its commands run in this process, because starting a program for each of a hundred would take most of a minute.
"""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import TYPE_CHECKING

import pytest

from bench.compare import ROOT
from culm.cli import main
from tests.versions import checks
from tests.versions.programs import CommandFailed, Version

if TYPE_CHECKING:
    from pathlib import Path


class Here(Version):
    """This version: what it serves with is a program all the same."""

    def run(self, home: Path, *arguments: object) -> str:
        """Run a command in a home; what it printed."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["--home", str(home), *map(str, arguments)])
        if code:
            raise CommandFailed(f"{code}: {err.getvalue()}")
        return out.getvalue()


HERE = Here("this tree", ROOT / "src")


@pytest.mark.subprocess
def test_a_version_fits_itself(tmp_path: Path) -> None:
    """Two nodes of one version exchange what both share, and the check that says so passes."""
    checks.sessions("culm", HERE, HERE, tmp_path)


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    """A command that the version cannot do fails the check, with the version's own words."""
    with pytest.raises(CommandFailed, match="this tree: culm logs: exit code 2: "):
        Version("this tree", ROOT / "src").run(tmp_path / "nothing", "logs")


def test_what_was_not_exchanged_is_told(tmp_path: Path) -> None:
    """If the peer shares nothing, the check fails instead of comparing nothing."""
    one = checks.make_home(HERE, tmp_path, "listener")
    assert checks.names(HERE, one) == {(checks.author(HERE, one), number) for number in (1, 2, 3)}
