"""Parties for the node's tests, and those of them who speak proposals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.node.links import Party
from tests.node.proposing import ProposalPeer

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


@pytest.fixture
def peers(parties: list[Party]) -> Iterator[list[ProposalPeer]]:
    """Alice, Bob and Carol. Those of one test share what they know to be under way, as a node's sessions do."""
    made = [ProposalPeer(party) for party in parties]
    yield made
    for peer in made:
        for source in peer.sources:
            source.close()
