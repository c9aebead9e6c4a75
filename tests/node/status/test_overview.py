"""What is told of a node: sessions, rates, peers, and the metrics made of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from culm.errors import NetworkError
from culm.node.network.urls import PeerUrl
from culm.node.roster import Roster
from culm.node.status import holdings
from culm.node.status.overview import MOST_SESSIONS, NodeCollector, Rates, metrics_text, overview
from culm.wire.places import author_text
from tests.node.status.serving import ME, PLACE, a_talk

if TYPE_CHECKING:
    from pathlib import Path

    from culm.store import SQLiteStore


@pytest.fixture
def roster(tmp_path: Path) -> Roster:
    """A node that talks with nobody yet."""
    return Roster(ME, tmp_path / "store.db")


def test_a_session_from_its_beginning_to_its_end(roster: Roster) -> None:
    """An open session tells its peer and counts as they are now; an ended one why it ended, and its counts stay."""
    talk = a_talk()
    roster.began(talk, "a caller", PLACE)
    talk.peer = bytes(32)
    talk.stats.entries_received, talk.stats.missing = 40, 100
    (shown,) = overview(roster, Rates(), "1")["sessions"]
    assert ("bushbaby", PLACE, author_text(bytes(32))) == (shown["scheme"], shown["address"], shown["peer"])
    assert (40, 60) == (shown["entries_in"], shown["left"])
    roster.ended(talk, NetworkError("gone"))
    now = overview(roster, Rates(), "1")
    assert ([], 0) == (now["sessions"], now["session_count"])
    (ended,) = now["ended"]
    assert ("gone", 40) == (ended["why"], ended["entries_in"])
    assert 40 == roster.past["bushbaby"].entries_received
    assert now == json.loads(json.dumps(now))


def test_what_is_remembered_is_bounded(roster: Roster) -> None:
    """However many sessions come and go, and whatever they were refused, some are remembered and all are counted."""
    for _ in range(300):
        talk = a_talk()
        talk.stats.refused = ["no"] * 90
        roster.began(talk, "a caller", PLACE)
        roster.ended(talk, None)
    assert len(roster.recent) <= 20
    assert len(roster.past["bushbaby"].refused) <= 100
    assert 300 == roster.begun["bushbaby"]
    for _ in range(MOST_SESSIONS + 5):
        roster.began(a_talk(), "a caller", PLACE)
    now = overview(roster, Rates(), "1")
    assert (MOST_SESSIONS, MOST_SESSIONS + 5) == (len(now["sessions"]), now["session_count"])


def test_rates_follow_what_goes_through(roster: Roster) -> None:
    """A steady flow shows its rate after some seconds, and nothing once it has stopped for long."""
    talk = a_talk()
    roster.began(talk, "a caller", PLACE)
    rates = Rates()
    for second in range(30):
        talk.stats.bytes_received = 1000 * second
        talk.stats.entries_sent = 10 * second
        rates.update(roster.contacts(), float(second))
    (contact,) = roster.contacts()
    assert rates.of(contact).bytes_in == pytest.approx(1000, rel=0.01)
    assert rates.of(contact).entries_out == pytest.approx(10, rel=0.01)
    for second in range(30, 60):
        rates.update(roster.contacts(), float(second))
    assert rates.of(contact).bytes_in < 1


def test_peers_that_contact_is_kept_with(roster: Roster) -> None:
    """A peer is connected, or there is a reason why not."""
    here, there = PeerUrl("bushbaby", "192.0.2.1", 1), PeerUrl("intervals", "192.0.2.2", 2)
    roster.troubles = {here: None, there: "cannot reach it"}
    roster.began(a_talk(), str(here), PLACE)
    named = PeerUrl("bushbaby", "192.0.2.9", 1)
    roster.troubles[named], roster.names[named] = None, "alice"  # As the configuration calls this peer.
    roster.began(a_talk(), "alice", PLACE)
    expected = {"url": str(named), "name": "alice", "connected": True, "trouble": None, "retry_at": None}
    assert overview(roster, Rates(), "1")["peers"][-1] == expected
    del roster.troubles[named]
    peers = {peer["url"]: (peer["connected"], peer["trouble"]) for peer in overview(roster, Rates(), "1")["peers"]}
    assert {str(here): (True, None), str(there): (False, "cannot reach it")} == peers


def test_metrics_say_what_the_store_and_the_sessions_say(store: SQLiteStore, roster: Roster) -> None:
    """They are what Prometheus reads; counts of sessions that have ended stay in."""
    one, other = a_talk(), a_talk()
    roster.troubles = {PeerUrl("bushbaby", "192.0.2.1", 1): "no"}
    roster.began(one, "a caller", PLACE)
    roster.began(other, "a caller", PLACE)
    one.stats.entries_received, other.stats.entries_received = 5, 7
    roster.ended(one, None)
    text = metrics_text(NodeCollector(roster, "1.2.3", holdings.totals(store), 4, 2)).decode()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    summaries = list(store.logs())
    assert sum(log.entries for log in summaries) == found["culm_entries", "verified"]
    assert sum(log.invalid for log in summaries) == found["culm_entries", "invalid"]
    assert sum(log.waiting for log in summaries) == found["culm_entries", "waiting"]
    assert sum(log.payloads for log in summaries) == found["culm_payloads",]
    assert (3, 1, 1) == (found["culm_logs",], found["culm_forked_logs",], found["culm_logs_with_gaps",])
    assert 12 == found["culm_entries_received_total", "bushbaby"]
    assert (1, 2) == (found["culm_sessions", "bushbaby"], found["culm_sessions_begun_total", "bushbaby"])
    assert (1, 0) == (found["culm_peers", "failing"], found["culm_peers", "fine"])
    assert (4, 2) == (found["culm_status_viewers",], found["culm_status_viewers_dropped_total",])
    assert 1 == found["culm_info", "1.2.3"]
    assert found["process_open_fds",] > 0
