"""A store of one's own for every test that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.store import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "culm.store"


@pytest.fixture
def store(place: Path) -> Iterator[SQLiteStore]:
    """A new store."""
    with SQLiteStore(place) as store:
        yield store
