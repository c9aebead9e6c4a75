"""A status page on its own, for the tests: a roster and a store, and no node."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

from culm.node.roster import Roster
from culm.node.sessions.stats import SessionStats
from culm.node.status.server import StatusServer
from culm.node.status.settings import StatusSettings
from culm.testing.builders import build_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from culm.store import SQLiteStore

ME = build_log(1, seed=99).identity.public
PLACE = "192.0.2.1:7878"


class Talk:
    """What a session tells of itself, without being one."""

    scheme = "bushbaby"

    def __init__(self, peer: bytes | None = None) -> None:
        self.stats = SessionStats()
        self.peer = peer
        self.over_because = ""


def a_talk(peer: bytes | None = None) -> Any:
    """Something to put in the place of a session."""
    return Talk(peer)


class Served:
    """A page that is served, and a client of it."""

    def __init__(self, server: StatusServer, roster: Roster, client: aiohttp.ClientSession) -> None:
        self.server = server
        self.roster = roster
        self.client = client

    async def get(self, path: str, **settings: Any) -> tuple[int, Any, Any]:
        """Ask for something: the answer's status, headers and content (JSON if it is that)."""
        settings.setdefault("allow_redirects", False)
        method = settings.pop("method", "GET")
        async with self.client.request(method, self.server.url + path.lstrip("/"), **settings) as answer:
            is_json = answer.content_type == "application/json"
            return answer.status, answer.headers, await (answer.json() if is_json else answer.text())


@asynccontextmanager
async def served(path: Path, *, token: str | None = None, **settings: Any) -> AsyncIterator[Served]:
    """Serve the page of a store."""
    roster = Roster(ME, path)
    settings = {"tick": 0.02, "patience": 5.0} | settings
    async with (
        StatusServer(roster, StatusSettings("127.0.0.1", 0, token, **settings)) as server,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client,
    ):
        yield Served(server, roster, client)


async def next_event(answer: aiohttp.ClientResponse, kind: str) -> str:
    """The data of the next event of a kind."""
    async with asyncio.timeout(10):
        while True:
            if (await answer.content.readline()).decode().strip() == f"event: {kind}":
                return (await answer.content.readline()).decode().removeprefix("data: ").strip()


def fill(store: SQLiteStore) -> None:
    """A whole log, one with gaps, one with a fork."""
    store.add(build_log(20, seed=1, log_id=1).items())
    store.add([item for item in build_log(40, seed=2, log_id=2).items() if item[0].seq in (1, 2, 3, 4, 13, 31, 40)])
    forked = build_log(12, seed=3, log_id=3)
    store.add([*forked.items(), (forked.make(8, b"another"), b"another")])
