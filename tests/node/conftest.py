"""Parties for the node's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.node.links import Party

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def parties(tmp_path: Path) -> Iterator[list[Party]]:
    """Alice, Bob and Carol."""
    made = [Party(tmp_path, number) for number in (1, 2, 3)]
    yield made
    for party in made:
        party.close()
