"""A store of one's own for every test that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.testing import LogBuilder
from tests.blank import blank_store
from tests.store.large import LARGE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from culm.store import SQLiteStore


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where a store may be made."""
    return tmp_path / "culm.store"


@pytest.fixture
def store(place: Path) -> Iterator[SQLiteStore]:
    """A new store."""
    with blank_store(place) as store:
        yield store


@pytest.fixture
def log() -> LogBuilder:
    """A log of three entries, the second with a large payload."""
    builder = LogBuilder(Identity(bytes(32)))
    for payload in (b"first", LARGE, b"third"):
        builder.append(payload)
    return builder


@pytest.fixture
def bare(place: Path, log: LogBuilder) -> Iterator[SQLiteStore]:
    """A store that holds the log's entries without any payload."""
    with blank_store(place) as store:
        store.add([(entry, None) for entry in log.entries])
        yield store
