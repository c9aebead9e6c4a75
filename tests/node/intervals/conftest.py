"""Three peers that speak intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.node.links import Party
from tests.node.peers import Peer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def peers(parties: list[Party]) -> Iterator[list[Peer]]:
    """Alice, Bob and Carol."""
    made = [Peer(party) for party in parties]
    yield made
    for peer in made:
        for source in peer.sources:
            source.close()
