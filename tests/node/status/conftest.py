"""A store with something in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.store import SQLiteStore
from tests.node.status.serving import fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """A whole log, one with gaps, one with a fork."""
    with SQLiteStore(tmp_path / "store.db") as opened:
        fill(opened)
        yield opened
