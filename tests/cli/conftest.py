"""A home for the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.culm import Culm

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def culm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Culm:
    """The command line with a fresh home that has an identity."""
    made = Culm(tmp_path / "alice", capsys)
    assert made("init").code == 0
    return made
