"""The check of two versions against each other, with this version in both places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.compare import ROOT
from tests.versions import checks
from tests.versions.programs import CommandFailed, Version

if TYPE_CHECKING:
    from pathlib import Path

HERE = Version("this tree", ROOT / "src")


def test_a_version_fits_itself(tmp_path: Path) -> None:
    """Two nodes of one version exchange what both share, and the check that says so passes."""
    checks.sessions("culm", HERE, HERE, tmp_path)


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    """A command that the version cannot do fails the check, with the version's own words."""
    with pytest.raises(CommandFailed, match="this tree: culm logs: exit code 2: "):
        HERE.run(tmp_path / "nothing", "logs")


def test_what_was_not_exchanged_is_told(tmp_path: Path) -> None:
    """If the peer shares nothing, the check fails instead of comparing nothing."""
    one = checks.make_home(HERE, tmp_path, "listener")
    assert checks.names(HERE, one) == {(checks.author(HERE, one), number) for number in (1, 2, 3)}
