"""Holders of parts of a log as sources: all that they have comes over by every protocol, and they fill a node."""

from __future__ import annotations

from itertools import pairwise

import pytest

from culm.bamboo import path
from culm.node.interests.missing import EVERYTHING
from culm.testing import build_log
from tests.node.exchanging import PROTOCOLS, Wants, exchange, parties
from tests.node.peers import key

LOG = build_log(40)
HELD = [1, 4, *range(5, 11), 13, *range(17, 27), *range(30, 34)]
LOWEST = (31, 1, 21, 11)  # of the ten entries that each member of a chain has at first


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_all_that_a_partial_holder_has(protocol: str) -> None:
    """A fresh node gets all 23 entries of a holder with five gaps."""
    with parties(2) as (holder, fresh):
        holder.store.add(LOG.items([LOG.entries[seq - 1] for seq in HELD]))
        exchange(protocol, key(LOG), Wants(fresh, EVERYTHING), Wants(holder, EVERYTHING))
        assert fresh.holds() == {key(LOG): HELD}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_chain_of_partial_holders(protocol: str) -> None:
    """Four nodes with a quarter of the log each, and what is below it, pass all of it on to a fifth one."""
    with parties(5) as chain:
        for member, low in zip(chain[:4], LOWEST, strict=True):
            numbers = sorted({*path(low, 1), *range(low, low + 10)})
            member.store.add(LOG.items([LOG.entries[seq - 1] for seq in numbers]))
        for giver, taker in pairwise(chain):
            exchange(protocol, key(LOG), Wants(taker, EVERYTHING), Wants(giver, EVERYTHING))
        assert chain[4].holds() == {key(LOG): list(range(1, 41))}
