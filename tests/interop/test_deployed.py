"""Culm and the deployed Bushbaby peer, as ``tests.interop.deployed`` models it: what it costs, and that all arrives.

Specification: docs/specs/bushbaby.md, "The deployed peer".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from culm.node.interests.missing import EVERYTHING
from culm.testing.builders import build_log
from tests.interop.deployed import (
    BAMBOO,
    HAVE,
    WANT,
    DeployedConnection,
    DeployedPeer,
    entries_of,
    lipmaa,
    pool,
)
from tests.interop.meeting import Meeting, bytes_of, give, sync_with
from tests.node.exchanging import Wants, exchange
from tests.node.links import Party

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.testing.builders import LogBuilder

VECTORS = Path(__file__).parents[1] / "vectors" / "bushbaby"
SESSION = json.loads((VECTORS / "session.json").read_text())[0]


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Party]:
    """A person with a store."""
    made = Party(tmp_path, 1)
    yield made
    made.close()


def meeting(*, work_is_life: bool = False) -> Meeting:
    """The deployed peer, without any logs."""
    return Meeting(DeployedPeer(b"\x20" * 32, b"Quagga", work_is_life=work_is_life))


def numbers(peer: DeployedPeer, log: LogBuilder) -> list[int]:
    """What the peer has stored of a log."""
    return sorted(peer.store.get((log.identity.public, log.log_id), {}))


# -- the model ------------------------------------------------------------------------------------------------------


def test_the_model_knows_the_links() -> None:
    """Lipmaalinks and certificate pools are those of the vectors."""
    for row in json.loads((VECTORS / "lipmaa.json").read_text()):
        if row["seq"] > 1:
            assert lipmaa(row["seq"]) == row["link"]
        assert pool(row["seq"]) == sorted(row["cert_pool"])


def test_the_model_says_what_the_deployed_peer_said() -> None:
    """Given the recorded peer's keys and nonces, the model sends its recorded messages, byte for byte."""
    theirs, ours = SESSION["initiator"], SESSION["responder"]
    peer = DeployedPeer(bytes.fromhex(ours["long_term_secret"]), b"Quagga")
    answer = bytes.fromhex(ours["messages"][-1]["plaintext"])
    at = 1
    while at < len(answer):  # Entries as CBOR text strings of one or two bytes of length.
        size = int.from_bytes(answer[at + 1 : at + 2 + (answer[at] == 0x79)], "big")
        at += 2 + (answer[at] == 0x79)
        peer.hold(answer[at : at + size])
        at += size
    randoms = iter([ours["ephemeral_secret"], *(message["nonce"] for message in ours["messages"][1:])])
    connection = DeployedConnection(peer, lambda _: bytes.fromhex(next(randoms)), 0.0)
    sent, now = b"", 0.0
    for message in theirs["messages"]:
        connection.receive(bytes.fromhex(message["raw"]))
        sent += connection.advance(now := connection.next_timer())
    for _ in range(10):
        sent += connection.advance(now := max(now, connection.next_timer()))
    assert sent.hex() == ours["stream"]
    stored = [stored for log in peer.store.values() for stored in log.values()]
    assert len(stored) == len(ours["messages"][-1]["decoded"]) + len(theirs["messages"][-1]["decoded"])
    assert all(next(entries_of(item)).item == item for item in stored)


# -- what it costs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work_is_life", [False, True])
@pytest.mark.parametrize("length", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_log_costs_little_more_than_its_bytes(alice: Party, length: int, work_is_life: bool) -> None:
    """A peer that stores three entries a second gets the log once, and has all of it when the sync says so."""
    log = build_log(length, seed=5)
    alice.store.add(log.items())
    met = meeting(work_is_life=work_is_life)
    summary = sync_with(alice, met)
    assert numbers(met.peer, log) == list(range(1, length + 1))
    assert met.peer.size() <= 1.3 * bytes_of(log)
    assert met.lost == 0
    assert summary.unconfirmed == 0
    assert met.ends[0][1] == "silence"


@pytest.mark.slow
def test_many_small_logs_arrive_at_the_first_try(alice: Party) -> None:
    """400 logs of one entry travel in few messages, so that the peer does not hang up."""
    logs = [build_log(1, seed=5, log_id=log_id) for log_id in range(400)]
    for log in logs:
        alice.store.add(log.items())
    met = meeting()
    sync_with(alice, met)
    assert [numbers(met.peer, log) for log in logs] == [[1]] * 400
    assert len(met.ends) == 1
    assert sum(kind == BAMBOO and size > 100 for kind, size in met.peer.received) < 20  # without signs of life


def test_a_log_of_empty_payloads_ends_at_once(alice: Party, caplog: pytest.LogCaptureFixture) -> None:
    """What the peer cannot take is asked for once, told to the user once, and never announced again."""
    log = build_log(0, seed=5)
    for _ in range(10):
        log.append(b"")
    alice.store.add(log.items())
    met = meeting()
    summary = sync_with(alice, met)
    assert summary.seconds < 10
    assert met.peer.count(HAVE) <= 1
    assert numbers(met.peer, log) == []
    assert ["held back an entry"] == [record.getMessage().partition(":")[0] for record in caplog.records]


def test_a_log_with_a_small_end_of_empty_payloads(alice: Party) -> None:
    """Empty payloads at the end of a log go with an earlier entry behind them, and arrive."""
    log = build_log(5, seed=5)
    for _ in range(60):
        log.append(b"")
    alice.store.add(log.items())
    met = meeting()
    summary = sync_with(alice, met)
    assert numbers(met.peer, log) == list(range(1, 66))
    assert summary.unconfirmed == 0


PARTS = [1, 4, *range(5, 11), 13, *range(17, 27), *range(30, 34)]


def test_the_holder_of_parts_passes_them_on(alice: Party, tmp_path: Path) -> None:
    """A node that holds 23 entries of a log, with holes, gives all of them to another node."""
    log = build_log(40, seed=5)
    alice.store.add(log.items([log.entries[seq - 1] for seq in PARTS]))
    bob = Party(tmp_path, 2)
    exchange("bushbaby", (log.identity.public, 0), Wants(bob, EVERYTHING), Wants(alice, EVERYTHING))
    assert list(bob.holds().values()) == [PARTS]
    bob.close()


def test_the_deployed_peer_gets_the_parts_that_it_can_link(alice: Party) -> None:
    """The deployed peer stores the parts whose lipmaalink it holds. It asks for the holes in vain, and not for ever."""
    log = build_log(40, seed=5)
    alice.store.add(log.items([log.entries[seq - 1] for seq in PARTS]))
    met = meeting()
    summary = sync_with(alice, met)
    assert set(PARTS) == set(numbers(met.peer, log))
    assert met.peer.size() <= 1.3 * sum(len(log.entries[seq - 1].encoded) + 20 for seq in PARTS)
    assert summary.unconfirmed == 0


def test_a_forgotten_payload_is_a_hole(alice: Party) -> None:
    """Of ten entries with one forgotten payload, the deployed peer gets those that do not hang on the forgotten one."""
    log = build_log(10, seed=5)
    alice.store.add(log.items())
    alice.store.forget(log.entries[4].place)
    met = meeting()
    summary = sync_with(alice, met)
    assert numbers(met.peer, log) == [1, 2, 3, 4, 8, 9, 10]
    assert summary.entries_sent == 9 + 2 + 2  # It refuses 6 and 7, so they are sent three times.
    assert summary.unconfirmed == summary.entries_sent


def test_what_the_deployed_peer_lacks_itself_is_not_waited_for(alice: Party) -> None:
    """A deployed peer announces a log with holes: what it has comes, and the sync ends."""
    log = build_log(20, seed=5)
    met = meeting()
    give(met.peer, log)
    for seq in (6, 15):
        del met.peer.store[log.identity.public, 0][seq]
    summary = sync_with(alice, met)
    assert summary.entries_received == 18
    assert len(met.peer.asked) == 3  # The whole log, and both holes once.
    assert summary.seconds < 20


def test_a_peer_that_refuses_what_it_asks_for_is_no_endless_sync(alice: Party) -> None:
    """A peer that stores nothing and asks again gets the log three times at most; the entries count as unconfirmed."""
    log = build_log(30, seed=5)
    alice.store.add(log.items())
    met = meeting()
    met.peer.refuses = True
    summary = sync_with(alice, met)
    assert met.peer.size() < 4 * bytes_of(log)
    assert summary.unconfirmed >= 30


def test_both_ways_at_once(alice: Party) -> None:
    """Each side has a log that the other lacks: both get them in one sync."""
    ours, theirs = build_log(30, seed=5), build_log(40, seed=6)
    alice.store.add(ours.items())
    met = meeting()
    give(met.peer, theirs)
    summary = sync_with(alice, met)
    assert numbers(met.peer, ours) == list(range(1, 31))
    assert alice.holds()[theirs.identity.public, 0] == list(range(1, 41))
    assert (summary.entries_received, summary.entries_sent) == (40, 30)
    assert met.peer.count(WANT) >= 1
