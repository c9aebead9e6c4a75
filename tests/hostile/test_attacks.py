"""Attacks on a node in a process of its own: what the attacker gets, and what it costs the node.

These are those that cost little; ``make hostile`` tries all, for longer, and with an honest peer meanwhile.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from culm.store import SQLiteStore
from tests.hostile.attack import QUICK_OPTIONS
from tests.hostile.honest import sync_once
from tests.hostile.node import Node, is_confirmed
from tests.hostile.on_quotas import overfilled
from tests.hostile.table import ATTACKS
from tests.hostile.trial import try_once
from tests.node.lan.test_multicast import multicast_works

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.hostile.attack import Attack
    from tests.hostile.node import Kind

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="costs are read from /proc, addresses are 127.x.y.z"),
    pytest.mark.xdist_group("hostile"),  # one node for all
    pytest.mark.subprocess,
]
_MORE_MEMORY, _MORE_CPU = 2, 10  # times the limits, which `make hostile` holds to: this runs on any machine
QUICK = [attack for attack in ATTACKS if attack.is_quick]
FIXTURES: dict[Kind, str] = {
    "all": "node",
    "parts": "partial_node",
    "scarce": "scarce_node",
    "quotas culm": "limited_node",
    "lan": "finding_node",
    "lan crowded": "crowded_node",
}
ASKED = (
    "flood of requests|too many requests|asks and cancels",
    "credit that overflows",
    "claimed size|size claimed by a member",
    "tiny messages|tiny packets",
    "replayed",
    "another clump",
    "reflected",
    "behind the end",
    "two faces",
    "wrong at the end",
    "wrong again and again",
    "stalled handshake|slow TLS",
    "a thousand connections",
    "every descriptor",
    "newest entry claimed",
    "pools that never come",
    "pools that grow",
    "store with triggers",
    "archive with|pipes|Parquet",
    "a disk to be filled",
    "forged announcements|replayed announcements|invented keys|moving key",
    "names that never resolve|addresses of one name|huge texts|names that point around",
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that follows everything."""
    yield from _served(tmp_path_factory.mktemp("node"), "all")


@pytest.fixture(scope="module")
def partial_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that follows parts of one author's logs."""
    yield from _served(tmp_path_factory.mktemp("partial"), "parts")


@pytest.fixture(scope="module")
def scarce_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that follows everything and may have few files and connections open."""
    yield from _served(tmp_path_factory.mktemp("scarce"), "scarce")


@pytest.fixture(scope="module")
def limited_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with quotas, which it has to keep to."""
    home = tmp_path_factory.mktemp("quotas")
    yield from _served(home, "quotas culm")
    assert overfilled(home) == []


@pytest.fixture(scope="module")
def finding_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that finds neighbours."""
    yield from _finding(tmp_path_factory.mktemp("lan"), "lan")


@pytest.fixture(scope="module")
def crowded_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that finds neighbours, too many of them."""
    yield from _finding(tmp_path_factory.mktemp("crowded"), "lan crowded")


def _finding(home: Path, kind: Kind) -> Iterator[Node]:
    if not multicast_works():
        pytest.skip("this machine has no multicast on its loopback")
    yield from _served(home, kind)


def _served(home: Path, kind: Kind) -> Iterator[Node]:
    """A node that is patient for three seconds only; it has to end as it should, having complained of peers only."""
    served = Node(home, kind, QUICK_OPTIONS)
    try:
        yield served
    finally:
        code = served.stop()
    assert code == 0
    assert served.failures == []
    assert not is_confirmed(home)
    with SQLiteStore(home / "store.db") as store:
        report = store.verify()
    assert report.problems == []


@pytest.mark.parametrize("attack", QUICK, ids=[attack.id for attack in QUICK])
def test_attack(attack: Attack, request: pytest.FixtureRequest) -> None:
    """The attacker gets what it should and no more, and what the node spends on it is bounded."""
    node: Node = request.getfixturevalue(FIXTURES[attack.kind])
    address = f"127.9.{QUICK.index(attack) + 1}.1"
    tried = try_once(attack, node, address)
    assert node.lives
    assert re.search(attack.gets, tried.got)
    assert attack.says is None or tried.reason is not None, node.said_of(address)
    assert tried.cost.memory <= _MORE_MEMORY * attack.memory
    assert tried.cost.cpu <= _MORE_CPU * attack.cpu
    assert tried.cost.connections <= attack.connections


@pytest.mark.parametrize("scheme", ["culm", "bushbaby", "intervals", "proposals"])
@pytest.mark.parametrize("kind", ["all", "scarce"])
def test_an_honest_peer(kind: Kind, scheme: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Who does nothing wrong gets everything from a node that was attacked."""
    node: Node = request.getfixturevalue(FIXTURES[kind])
    with SQLiteStore(tmp_path / "store.db") as store:
        assert sync_once(scheme, node.target, store) == ""


def test_every_kind_of_attack_is_there() -> None:
    """Of each kind that a node has to stand there is one, and every attack says what it does."""
    for pattern in ASKED:
        assert any(re.search(pattern, attack.name) for attack in ATTACKS), pattern
    assert len({attack.id for attack in ATTACKS}) == len(ATTACKS)
    assert all(attack.claim.endswith(".") for attack in ATTACKS)
