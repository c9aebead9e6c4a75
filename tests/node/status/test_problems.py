"""What is wrong, and what to do about it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import CulmError, NetworkError, PayloadDamaged, RemoteProtocolError, StoreLocked, WrongClump
from culm.node.names import Name, Names
from culm.node.network.urls import PeerUrl
from culm.node.roster import Roster
from culm.node.sessions.stats import PeerRefused
from culm.node.status.overview import Rates, overview
from culm.node.status.problems import damaged, unreached, what_to_do
from culm.node.status.server import StatusServer
from culm.node.status.settings import StatusSettings
from culm.node.status.sources import Sources
from culm.store import SQLiteStore
from culm.testing.builders import build_log
from culm.wire.places import log_text
from tests.node.links import run_really
from tests.node.status.serving import ME, PLACE, Served, a_talk, next_event, served
from tests.store.damage import flip

if TYPE_CHECKING:
    from pathlib import Path

HERE, THERE = PeerUrl("bushbaby", "192.0.2.1", 1), PeerUrl("intervals", "192.0.2.2", 2)


def test_what_to_do_follows_from_the_error() -> None:
    """Errors that need different things of a person say so; what no rule knows points at the log."""
    kinds = (NetworkError, RemoteProtocolError, PeerRefused, StoreLocked, PayloadDamaged, CulmError)
    assert len(kinds) == len({what_to_do(kind) for kind in kinds})
    assert "log" in what_to_do(CulmError)
    assert "the same clump" in what_to_do(WrongClump)


@pytest.mark.parametrize("error", [None, asyncio.CancelledError()])
def test_a_good_end_is_no_problem(tmp_path: Path, error: BaseException | None) -> None:
    """A session that the peer ended in order, or that ended with the node, has nothing to do about it."""
    roster = Roster(ME, tmp_path / "store.db")
    for reason in (error, NetworkError("gone")):
        talk = a_talk()
        roster.began(talk, "a caller", PLACE)
        roster.ended(talk, reason)
    bad, good = overview(roster, Rates(), "1")["ended"]
    assert (what_to_do(NetworkError), "") == (bad["todo"], good["todo"])


def test_peers_out_of_reach(tmp_path: Path) -> None:
    """Only a peer with trouble and without a session is a problem; it says when it is called again."""
    roster = Roster(ME, tmp_path / "store.db", started=0)
    roster.troubles = {HERE: "lost once", THERE: "refused"}
    roster.waits(THERE, 30)
    roster.began(a_talk(), str(HERE), PLACE)
    (found,) = unreached(roster)
    assert (str(THERE), "refused", True) == (found["url"], found["trouble"], bool(found["todo"]))
    assert roster.retries[THERE] == found["retry_at"]


def test_damage_is_listed(tmp_path: Path) -> None:
    """A damaged payload is named, with its author's name, until it has come again."""
    log = build_log(3, seed=3)
    with SQLiteStore(tmp_path / "store.db") as store:
        store.add(log.items())
        flip(store.path, 2)
        store.drop_damaged(PayloadDamaged("a test", log.entries[1].place, log.entries[1].hash, None))
        names = Names({log.identity.public: Name("alice")})
        (found,) = damaged(store, names)
        assert (log_text((log.identity.public, 0)), "2", "alice") == (found["log"], found["seq"], found["name"]["text"])
        store.add(log.items())
        assert [] == damaged(store, names)


def test_a_home_that_cannot_be_read_is_a_finding(store: SQLiteStore) -> None:
    """A look through the home that fails is a problem on the page; viewers are told of it, and the page goes on."""

    def examine() -> list[dict[str, Any]]:
        raise PermissionError("cannot read it")

    async def main() -> None:
        roster = Roster(ME, store.path)
        settings = StatusSettings("127.0.0.1", 0, tick=0.02)
        async with StatusServer(roster, settings, Sources(examine=examine)) as server, served(store.path) as plain:
            page = Served(server, roster, plain.client)
            async with page.client.get(server.url + "events") as stream:
                while json.loads(await next_event(stream, "overview"))["problem_count"] == 0:
                    pass
            _, _, found = await page.get("/api/problems")
            assert [("home", "cannot read it")] == [(one["check"], one["what"]) for one in found["findings"]]

    run_really(main)


def test_the_home_is_looked_through_once_a_minute(store: SQLiteStore) -> None:
    """Viewers see what a doctor finds, and however many ask, the home is looked through once; problems are counted."""
    looks: list[int] = []
    finding = {"level": "problem", "check": "disk", "what": "full", "todo": "free some space"}

    def examine() -> list[dict[str, Any]]:
        looks.append(1)
        return [finding, {**finding, "level": "note"}]

    async def main() -> None:
        roster = Roster(ME, store.path)
        roster.troubles[THERE] = "refused"
        async with (
            StatusServer(roster, StatusSettings("127.0.0.1", 0), Sources(examine=examine)) as server,
            served(store.path) as plain,
        ):
            page = Served(server, roster, plain.client)
            answers = await asyncio.gather(*(page.get("/api/problems") for _ in range(5)))
            assert [2, 2, 2, 2, 2] == [len(found["findings"]) for _, _, found in answers]
            assert [str(THERE)] == [peer["url"] for peer in answers[0][2]["peers"]]
            _, _, now = await page.get("/api/overview")
            assert 2 == now["problem_count"]
        assert [1] == looks

    run_really(main)
