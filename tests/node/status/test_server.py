"""The server: who is answered, how, and that nobody who watches can hold it up.

They run really: the HTTP server and its clients are aiohttp's, and want real sockets.
"""

from __future__ import annotations

import asyncio
import importlib.resources
import json
import socket
import sys
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from culm.bamboo import Identity
from culm.errors import ConfigError
from culm.node.network.urls import PeerUrl
from culm.node.roster import Roster
from culm.node.service import NodeService
from culm.node.status import StatusSettings, holdings, status_server
from culm.node.status.crowd import Complaints
from culm.node.status.events import Full, Hub, event
from culm.node.status.guard import POLICY
from culm.node.status.reader import Reader, TooBusy
from culm.node.status.server import StatusServer
from culm.store import SQLiteStore
from culm.testing.builders import build_log
from culm.wire.places import log_text
from tests.node.links import CONFIG, run_really
from tests.node.peers import until
from tests.node.status.serving import ME, PLACE, Served, a_talk, next_event, served
from tests.patience import PATIENCE
from tests.store.below import database_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.store import ReadableStore

TOKEN = "a-long-enough-token"
LOG = quote(log_text((build_log(1, seed=2).identity.public, 2)), safe="")
PATHS = [
    "/",
    "/app.js",
    "/verify.js",
    "/culm.js",
    "/style.css",
    "/favicon.svg",
    "/api/overview",
    "/api/logs?order=missing&only=gaps&search=/2",
    f"/api/log?log={LOG}",
    f"/api/coverage?log={LOG}&low=2&high=30&cells=10",
    f"/api/links?log={LOG}&seq=13&count=20",
    f"/api/evidence?log={LOG}&seq=13",
    "/api/forks",
    "/api/following",
    "/api/history",
    "/api/problems",
    "/metrics",
    "/healthz",
]


def test_every_address_answers_safely(store: SQLiteStore) -> None:
    """Everything there is answers, with headers that keep others out of it, also where the answer is an error."""

    async def main() -> None:
        async with served(store.path) as page:
            for path in [*PATHS, "/nothing", "/api/log?log=x", "/../pyproject.toml", "/page/app.js", "/server.py"]:
                status, headers, _ = await page.get(path)
                assert (status == 200) == (path in PATHS), path
                assert POLICY == headers["Content-Security-Policy"]
                assert ("nosniff", "no-referrer", "DENY", "same-origin", "no-store", "culm") == tuple(
                    headers[name]
                    for name in (
                        "X-Content-Type-Options",
                        "Referrer-Policy",
                        "X-Frame-Options",
                        "Cross-Origin-Resource-Policy",
                        "Cache-Control",
                        "Server",
                    )
                )
                assert "Access-Control-Allow-Origin" not in headers

    assert "unsafe" not in POLICY
    run_really(main)


def test_nothing_but_the_page_itself_is_needed(store: SQLiteStore) -> None:
    """No file of the page names anything elsewhere, and every one that is named is there."""

    async def main() -> None:
        async with served(store.path) as page:
            _, _, html = await page.get("/")
            files = importlib.resources.files("culm.node.status").joinpath("page")
            for name in (
                "/",
                *(f"/{file.name}" for file in files.iterdir() if file.name not in ("index.html", "culm.js")),
            ):
                _, _, text = await page.get(name)
                assert "https:" not in text, name
                assert "http:" not in text.replace("http://www.w3.org/2000/svg", ""), name
                assert "innerHTML" not in text, name
            assert "<script>" not in html
            assert "style=" not in html

    run_really(main)


def test_other_names_are_refused(store: SQLiteStore) -> None:
    """A request that does not name this machine (DNS rebinding) is not answered, whatever it asks for."""

    async def main() -> None:
        async with served(store.path) as page:
            for path in PATHS:
                status, _, text = await page.get(path, headers={"Host": "evil.example:80"})
                assert 421 == status, path
                assert "identity" not in str(text)
            assert 200 == (await page.get("/", headers={"Host": "localhost:1"}))[0]

    run_really(main)


def test_other_sites_may_only_link_to_it(store: SQLiteStore) -> None:
    """A page from elsewhere gets nothing by itself; a user who follows its link does."""

    async def main() -> None:
        async with served(store.path) as page:
            for path in PATHS:
                headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
                assert 403 == (await page.get(path, headers=headers))[0], path
                assert 200 == (await page.get(path, headers={**headers, "Sec-Fetch-Site": "same-origin"}))[0]
            link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
            assert 200 == (await page.get("/", headers=link))[0]

    run_really(main)


async def connected(page: Served, count: int, host: str = "127.0.0.1") -> list[tuple[Any, Any]]:
    """Connections from an address that say nothing."""
    port = urlsplit(page.server.url).port
    return [await asyncio.open_connection("127.0.0.1", port, local_addr=(host, 0)) for _ in range(count)]


async def has_ended(reader: asyncio.StreamReader) -> bool:
    """Whether the server has ended a connection by now."""
    try:
        async with asyncio.timeout(0.05):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def closed(connections: list[tuple[Any, Any]]) -> None:
    """Let go of connections."""
    for _, writer in connections:
        writer.close()


def test_one_address_has_a_share(store: SQLiteStore) -> None:
    """A fourth connection of an address with a share of three ends its first; others keep theirs, and are answered."""

    async def main() -> None:
        async with served(store.path, most_from_address=3) as page:
            others = await connected(page, 3, "127.0.0.2")
            mine = await connected(page, 4)
            assert [True, False, False, False] == [await has_ended(reader) for reader, _ in mine]
            assert not any([await has_ended(reader) for reader, _ in others])
            assert 200 == (await page.get("/healthz"))[0], "a caller of the crowded address is answered, too"
            closed(mine + others)

    run_really(main)


def test_the_page_always_answers(store: SQLiteStore) -> None:
    """Where all places are taken, a caller gets one of the address that has the most, and /healthz answers."""

    async def main() -> None:
        async with served(store.path, most_connections=6, most_from_address=4) as page:
            many = await connected(page, 4, "127.0.0.2")
            few = await connected(page, 2, "127.0.0.3")
            assert 200 == (await page.get("/healthz"))[0]
            assert [True, False, False, False] == [await has_ended(reader) for reader, _ in many]
            assert not any([await has_ended(reader) for reader, _ in few])
            closed(many + few)

    run_really(main)


def test_who_follows_live_stays(store: SQLiteStore) -> None:
    """Of the connections of an address those without a request go first, so that a viewer keeps following."""

    async def main() -> None:
        async with (
            served(store.path, most_from_address=3) as page,
            page.client.get(page.server.url + "events") as stream,
        ):
            await next_event(stream, "overview")
            idle = await connected(page, 5)
            assert [True, True, True, False, False] == [await has_ended(reader) for reader, _ in idle]
            page.roster.began(a_talk(), "a caller", PLACE)
            await next_event(stream, "overview")
            closed(idle)

    run_really(main)


def test_malformed_requests_are_a_line_a_minute(store: SQLiteStore, caplog: pytest.LogCaptureFixture) -> None:
    """Thirty requests that cannot be read are answered with 400, and are one line of the log, without a trace."""

    async def main() -> None:
        async with served(store.path) as page:
            port = urlsplit(page.server.url).port
            for _ in range(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
                assert (await reader.readline()).startswith(b"HTTP/1.0 400")
                writer.close()

    run_really(main)
    lines = [record for record in caplog.records if record.levelname != "DEBUG"]
    (line,) = lines
    assert "refused a request to the status page: Duplicate 'Host' header found. (peer 127.0.0.1)" == line.message
    assert line.exc_info is None


def test_complaints_come_back_after_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """What callers get wrong and what fails here are told once a minute each, so that neither hides the other."""
    times = [0.0, 30.0, 59.9, 60.0, 61.0]
    complaints = Complaints(lambda: times[0])
    while times:
        complaints.exception("Error handling request from %s", "192.0.2.1", exc_info=BadHttpMessage("a\nb"))
        complaints.exception("Unhandled exception", exc_info=ValueError("c"))
        del times[0]
    theirs = "refused a request to the status page: a b (peer 192.0.2.1)"
    assert [theirs, "failed to answer a request to the status page"] * 2 == [line.message for line in caplog.records]
    assert [None, ValueError] * 2 == [record.exc_info and record.exc_info[0] for record in caplog.records]


def test_nothing_can_be_changed(store: SQLiteStore) -> None:
    """Every method but GET and HEAD is refused."""

    async def main() -> None:
        async with served(store.path) as page:
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
                status, headers, _ = await page.get("/api/logs", method=method)
                assert (405, "GET, HEAD") == (status, headers["Allow"])
            assert 200 == (await page.get("/api/logs", method="HEAD"))[0]
            assert 200 == (await page.get("/events", method="HEAD"))[0]

    run_really(main)


def test_a_token_is_asked_for(store: SQLiteStore) -> None:
    """Without the token nothing is told but that the node lives; with it, in a header, everything is."""

    async def main() -> None:
        async with served(store.path, token=TOKEN) as page:
            for path in PATHS:
                is_open = path in ("/healthz", "/style.css", "/favicon.svg")
                for headers in ({}, {"Authorization": "Bearer wrong-wrong-wrong"}, {"Authorization": f"Basic {TOKEN}"}):
                    status, answered, _ = await page.get(path, headers=headers)
                    assert (200 if is_open else 401) == status, path
                    assert is_open or "Bearer" in answered["WWW-Authenticate"]
                assert 200 == (await page.get(path, headers={"Authorization": f"Bearer {TOKEN}"}))[0]

    run_really(main)


def test_a_token_becomes_a_cookie(store: SQLiteStore) -> None:
    """``?token=`` is turned into a cookie that scripts cannot read, that is not the token, and that opens the page."""

    async def main() -> None:
        async with served(store.path, token=TOKEN) as page:
            assert 401 == (await page.get("/?token=wrong-wrong-wrong"))[0]
            assert 401 == (await page.get(f"/api/overview?token={TOKEN}"))[0]
            status, headers, _ = await page.get(f"/?token={TOKEN}")
            assert (303, "/") == (status, headers["Location"])
            cookie = headers["Set-Cookie"]
            assert TOKEN not in cookie
            assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
            pair = cookie.partition(";")[0]
            assert 200 == (await page.get("/api/overview", headers={"Cookie": pair}))[0]
            for forged in (pair[:-1] + ("0" if pair[-1] != "0" else "1"), pair.partition("=")[0] + "=\u00e9"):
                assert 401 == (await page.get("/api/overview", headers={"Cookie": forged}))[0]
        async with served(store.path, token=TOKEN) as page:
            assert 401 == (await page.get("/api/overview", headers={"Cookie": pair}))[0], "it ends with the process"

    run_really(main)


def test_beyond_this_machine_a_token_is_a_must(store: SQLiteStore) -> None:
    """A server that others could reach cannot be made without a token."""
    with pytest.raises(ConfigError, match="token"):
        StatusServer(Roster(ME, store.path), StatusSettings("0.0.0.0", 0))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/log", 400),
        ("/api/log?log=x/1", 400),
        ("/api/log?log=" + 43 * "0" + "/1", 404),
        ("/api/logs?order=up", 400),
        ("/api/logs?search=%3Cscript%3E", 400),
        ("/api/logs?offset=-1", 400),
        ("/api/logs?limit=1e9", 400),
        (f"/api/coverage?log={LOG}&low=0", 400),
        (f"/api/coverage?log={LOG}&low=9&high=3", 400),
        (f"/api/links?log={LOG}&seq=18446744073709551616", 400),
        (f"/api/proof?log={LOG}", 404),
        ("/api/nothing", 404),
        ("/api/logs?search=" + 7000 * "x", 400),
        ("/api/logs?search=/" + 5000 * "9", 400),
        ("/api/logs?search=" + 66 * "a", 400),
        ("/api/logs?search=" + 31 * "ab" + "%20c", 400),
        ("/api/logs?limit=" + 5000 * "9", 400),
    ],
)
def test_bad_requests(store: SQLiteStore, path: str, status: int) -> None:
    """What cannot be meant is answered with an error, never with a failure of the server."""

    async def main() -> None:
        async with served(store.path) as page:
            found, _, content = await page.get(path)
            assert status == found
            assert "/api/nothing" == path or list(content) == ["error"]

    run_really(main)


def test_the_proof_is_a_file(store: SQLiteStore) -> None:
    """A proof is something to download, under a name that nobody else chooses."""
    log = quote(log_text((build_log(1, seed=3).identity.public, 3)), safe="")

    async def main() -> None:
        async with served(store.path) as page, page.client.get(page.server.url + f"api/proof?log={log}") as answer:
            assert "attachment" in answer.headers["Content-Disposition"]
            assert (await answer.read()).startswith(b"CULMBUNDLE1\n")

    run_really(main)


def test_what_happens_is_told_at_once(store: SQLiteStore) -> None:
    """Who watches is told of a new entry, by whichever process, and of a new session."""
    log = build_log(21, seed=1, log_id=1)

    async def main() -> None:
        async with served(store.path) as page, page.client.get(page.server.url + "events") as stream:
            assert "text/event-stream" == stream.content_type
            before = json.loads(await next_event(stream, "overview"))
            await until(lambda: len(page.server.hub) == 1)
            await next_event(stream, "overview")  # the first turn has come: changes from here on are told
            await asyncio.to_thread(store.add, log.items(log.entries[-1:]))
            changed = json.loads(await next_event(stream, "changed"))
            assert [log_text(log.entries[0].log)] == changed["logs"]
            # The totals of a busy machine come later, since they may take a tenth of the time only.
            after = before
            while after["totals"] == before["totals"]:
                after = json.loads(await next_event(stream, "overview"))
            assert before["totals"]["entries"] + 1 == after["totals"]["entries"]
            page.roster.began(a_talk(), "a caller", PLACE)
            while json.loads(await next_event(stream, "overview"))["session_count"] != 1:
                pass

    run_really(main)


@pytest.mark.slow
def test_totals_are_computed_for_a_tenth_of_the_time(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the store changes each second, totals that take two seconds are computed again after 20 more, not sooner.

    Without a change they are not computed again at all.
    """
    log = build_log(60, seed=9, log_id=9)
    now = 0.0
    computed: list[float] = []

    def totals(view: ReadableStore) -> dict[str, int]:
        nonlocal now
        computed.append(now)
        now += 2
        return holdings.totals(view)

    monkeypatch.setattr("culm.node.status.server.holdings", SimpleNamespace(totals=totals))
    monkeypatch.setattr("culm.node.status.server.time", SimpleNamespace(monotonic=lambda: now))

    async def main() -> None:
        nonlocal now
        async with served(store.path, tick=60) as page:
            for entry in log.entries[:50]:
                await asyncio.to_thread(store.add, log.items([entry]))
                await page.get("/api/overview")
                now += 1
            assert [0.0, 22.0, 44.0] == computed
            for _ in range(50):
                _, _, overview = await page.get("/api/overview")
                assert overview["totals"]["logs"] == 4
                now += 1
            assert [0.0, 22.0, 44.0, 66.0] == computed

    run_really(main)


@pytest.mark.slow
def test_only_so_many_may_watch(store: SQLiteStore) -> None:
    """One viewer more than may is told to come back, and gets in once another has left."""

    async def main() -> None:
        async with served(store.path, most_viewers=1) as page:
            stream = await page.client.get(page.server.url + "events")
            await next_event(stream, "overview")
            assert 503 == (await page.get("/events"))[0]
            stream.close()
            page.server.hub.send(b": anybody?\n\n")
            await until(lambda: len(page.server.hub) == 0)
            async with page.client.get(page.server.url + "events") as again:
                await next_event(again, "overview")

    run_really(main)


def test_who_takes_nothing_is_dropped(store: SQLiteStore) -> None:
    """A viewer who reads nothing is let go; one who reads gets everything, and the server waits for neither."""

    async def main() -> None:
        async with served(store.path, tick=60) as page:
            port = urlsplit(page.server.url).port
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", port))
            deaf.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with page.client.get(page.server.url + "events") as stream:
                await next_event(stream, "overview")
                await until(lambda: len(page.server.hub) == 2)
                sent = 0
                while page.server.hub.dropped == 0:
                    page.server.hub.send(event("overview", {"number": sent, "filling": "x" * 100_000}))
                    assert sent == json.loads(await next_event_large(stream))["number"]
                    sent += 1
                    assert sent < 1000
                assert 1 == len(page.server.hub)
            deaf.close()

    run_really(main)


async def next_event_large(answer: Any) -> str:
    """The data of the next event, of any size."""
    text = b""
    async with asyncio.timeout(10):
        while not text.endswith(b"\n\n"):
            text += await answer.content.readany()
    return text.partition(b"data: ")[2].decode()


def test_the_hub_waits_for_nobody() -> None:
    """A message goes to everybody who has room; who has none is dropped once, and there is room for another."""
    dropped: list[str] = []

    async def main() -> None:
        hub = Hub(2)
        slow = hub.join(lambda: dropped.append("slow"))
        quick = hub.join(lambda: dropped.append("quick"))
        with pytest.raises(Full):
            hub.join(lambda: None)
        for number in range(40):
            hub.send(b"%d" % number)
            assert b"%d" % number == await quick.get()
        assert (["slow"], 1, 1) == (dropped, hub.dropped, len(hub))
        assert b"0" == await slow.get()
        hub.join(lambda: None)

    run_really(main)


def test_events_stay_on_their_line() -> None:
    """Whatever a name holds, an event is its two lines and cannot hold another one."""
    text = event("overview", {"name": "x\n\nevent: forged\ndata: {}\r\n\u2028"})
    assert 3 == text.count(b"\n")
    assert b"\r" not in text


def test_answers_take_bounded_time(store: SQLiteStore) -> None:
    """A question that takes too long, and those that have waited too long behind it, are refused; then it goes on."""
    begun, go_on = threading.Event(), threading.Event()

    def endless(_: object) -> bool:
        begun.set()
        return go_on.wait(PATIENCE)

    async def main() -> None:
        reader = Reader(store.path, 0.2)
        try:
            slow = asyncio.create_task(reader.ask(endless))
            await asyncio.to_thread(begun.wait, 10)
            behind = [asyncio.create_task(reader.ask(lambda store: store.change())) for _ in range(40)]
            results = await asyncio.gather(slow, *behind, return_exceptions=True)
            assert {TooBusy} == {type(result) for result in results}
            go_on.set()
            assert store.change() == await reader.ask(lambda store: store.change())
        finally:
            go_on.set()
            reader.close()

    run_really(main)


def _query_nothing(store: ReadableStore) -> object:
    assert isinstance(store, SQLiteStore)
    return database_of(store).read("SELECT * FROM nowhere")


def test_a_store_that_cannot_be_read(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page stays up and says so, without the store's path; ``/healthz`` fails."""

    async def main() -> None:
        async with served(store.path) as page:
            reader = page.server._store

            async def broken(_question: Callable[[SQLiteStore], object]) -> object:
                return await type(reader).ask(reader, _query_nothing)

            monkeypatch.setattr(reader, "ask", broken)
            for path in ("/healthz", "/api/logs"):
                status, _, content = await page.get(path)
                assert (503, {"error": "the store cannot be read"}) == (status, content), "and nothing of its path"
            assert 200 == (await page.get("/"))[0]

    run_really(main)


def test_an_address_that_is_taken(store: SQLiteStore) -> None:
    """It is a wrong call, told in one line, and leaves nothing open."""

    async def main() -> None:
        async with served(store.path) as page:
            port = urlsplit(page.server.url).port
            assert port is not None
            with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: another program listens there"):
                async with StatusServer(Roster(ME, store.path), StatusSettings("127.0.0.1", port)):
                    raise AssertionError

    run_really(main)


@pytest.mark.parametrize("part", ["aiohttp", "prometheus_client"])
def test_what_is_not_installed(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Without the optional packages one line says how to get them."""
    monkeypatch.setitem(sys.modules, part, None)
    for name in [name for name in sys.modules if name.startswith("culm.node.status.")]:
        monkeypatch.delitem(sys.modules, name)
    node = NodeService(Identity(bytes(32)), CONFIG, store)
    with pytest.raises(ConfigError, match=r"pip install 'culm\[status\]'"):
        status_server(node, StatusSettings("127.0.0.1", 0))


def test_a_node_fills_the_roster(store: SQLiteStore) -> None:
    """A running node tells its listeners, whom it cannot reach, and when it tries again."""

    async def main() -> None:
        node = NodeService(Identity(bytes(32)), CONFIG, store)
        stop = asyncio.Event()
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            nobody = f"intervals://127.0.0.1:{closed.getsockname()[1]}"
            listen = [PeerUrl("intervals", "127.0.0.1", 0)]
            running = asyncio.create_task(node.run(listen, [PeerUrl.parse(nobody)], stop=stop))
            await until(lambda: any(node.roster.troubles.values()))
            ((url, trouble),) = node.roster.troubles.items()
            assert nobody == str(url)
            assert "refused" in (trouble or "")
            await until(lambda: url in node.roster.retries)
            assert 0 < node.roster.retries[url] - time.time() <= 60
            assert ["intervals"] == [place.scheme for place in node.roster.listeners]
            assert node.roster.listeners[0].port > 0
        stop.set()
        await running

    run_really(main)
