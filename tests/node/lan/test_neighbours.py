"""The list of neighbours: docs/specs/neighbours.md, "Finding"."""

from __future__ import annotations

import tracemalloc
from ipaddress import ip_address

import pytest

from culm.node.lan.neighbours import MAX_NEIGHBOURS, Neighbours
from culm.wire.announcement import HOUR_SECONDS, Announcement, clump_key, seal

CLUMP, OTHER, NOW = bytes(range(16)), bytes(16), 1_800_000_000
ME, BOB = b"m" * 32, b"b" * 32


def said(key: bytes, *hosts: str, clump: bytes = CLUMP, now: float = NOW) -> bytes:
    """What a node announces that listens at these hosts."""
    return seal(Announcement(key, tuple((ip_address(host), 7801) for host in hosts)), clump_key(clump), now)


def found(neighbours: Neighbours) -> dict[bytes, list[str]]:
    """The hosts of each neighbour."""
    return {each.key: [str(host) for host, _ in each.addresses] for each in neighbours}


def test_a_neighbour() -> None:
    """A neighbour is news once, and again when it has other addresses."""
    neighbours = Neighbours(CLUMP, ME)
    assert neighbours.take(said(BOB, "192.168.1.5"), NOW)
    assert not neighbours.take(said(BOB, "192.168.1.5"), NOW)
    assert neighbours.take(said(BOB, "192.168.1.6"), NOW)
    assert found(neighbours) == {BOB: ["192.168.1.6"]}


def test_who_is_none() -> None:
    """Neither a node of another clump is a neighbour, nor oneself, nor noise."""
    neighbours = Neighbours(CLUMP, ME)
    for data in (said(BOB, "192.168.1.5", clump=OTHER), said(ME, "192.168.1.5"), b"", bytes(100)):
        assert not neighbours.take(data, NOW)
    assert len(neighbours) == 0


@pytest.mark.parametrize("loopback", [False, True])
def test_the_loopback(loopback: bool) -> None:
    """A member cannot have a node call its own machine, unless the node uses the loopback's network."""
    neighbours = Neighbours(CLUMP, ME, loopback=loopback)
    assert neighbours.take(said(BOB, "127.0.0.1"), NOW) is loopback
    neighbours.take(said(BOB, "192.168.1.5", "::1"), NOW)
    assert found(neighbours) == {BOB: ["192.168.1.5", "::1"] if loopback else ["192.168.1.5"]}


def test_until_when() -> None:
    """A neighbour is forgotten when its announcement holds no longer, and stays if it announces itself anew."""
    neighbours, later = Neighbours(CLUMP, ME), NOW + 2 * HOUR_SECONDS
    neighbours.take(said(BOB, "192.168.1.5"), NOW)
    neighbours.expire(NOW + HOUR_SECONDS)
    assert len(neighbours) == 1
    neighbours.take(said(BOB, "192.168.1.5", now=later), later)
    neighbours.expire(later)
    assert len(neighbours) == 1
    neighbours.expire(later + 2 * HOUR_SECONDS)
    assert len(neighbours) == 0
    assert not neighbours.take(said(BOB, "192.168.1.5", now=later), later + 2 * HOUR_SECONDS)


def test_a_hostile_member() -> None:
    """A member that invents keys fills the list and nothing else; the neighbours before that stay, and can move."""
    neighbours = Neighbours(CLUMP, ME)
    neighbours.take(said(BOB, "192.168.1.5"), NOW)
    for at in range(2 * MAX_NEIGHBOURS):
        neighbours.take(said(at.to_bytes(32, "big"), "192.168.1.9"), NOW)
    assert len(neighbours) == MAX_NEIGHBOURS
    assert neighbours.take(said(BOB, "192.168.1.6"), NOW)
    assert found(neighbours)[BOB] == ["192.168.1.6"]


def test_strangers_leave_no_trace() -> None:
    """Thousands of announcements of strangers take no memory."""
    neighbours = Neighbours(CLUMP, ME)
    flood = [said(at.to_bytes(32, "big"), "192.168.1.9", clump=OTHER) for at in range(3000)]
    neighbours.take(flood[0], NOW)
    tracemalloc.start()
    try:
        for data in flood:
            neighbours.take(data, NOW)
        assert tracemalloc.get_traced_memory()[0] < 10_000
    finally:
        tracemalloc.stop()
    assert len(neighbours) == 0
