"""A home for the commands."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from culm.cli import main
from tests.cli.culm import Culm

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def made_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home as ``culm init`` makes it: hundreds of tests begin with one, and a copy takes a tenth of the time."""
    home = tmp_path_factory.mktemp("made") / "home"
    assert 0 == main(["--home", str(home), "init"])
    return home


@pytest.fixture
def culm(made_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Culm:
    """The command line with a fresh home that has an identity."""
    shutil.copytree(made_home, tmp_path / "alice")
    return Culm(tmp_path / "alice", capsys)
