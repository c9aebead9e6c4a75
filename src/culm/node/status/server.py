"""The HTTP server of the status page: its addresses and their answers.

It runs on the node's event loop and only reads: the node's roster directly, and the store through a ``Reader``, because
the store may take seconds to answer and the loop must not wait.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib.resources import files
from typing import Any, Self, cast

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

import culm
from culm.errors import ConfigError, CulmError, NotHeld, PayloadDamaged, StoreError
from culm.node.network.accepting import listening
from culm.node.roster import Roster
from culm.node.sessions.tasks import reason_of
from culm.node.status import holdings, queries
from culm.node.status.asked import following
from culm.node.status.crowd import Complaints, Crowd, Door
from culm.node.status.events import HEARTBEAT, Full, Hub, event
from culm.node.status.guard import Guard
from culm.node.status.overview import NodeCollector, Rates, metrics_text, overview
from culm.node.status.payloads import Payloads, not_shown
from culm.node.status.problems import damaged, unreached
from culm.node.status.queries import QUESTIONS, Query, Question
from culm.node.status.reader import Reader, TooBusy
from culm.node.status.settings import StatusSettings
from culm.node.status.sources import Sources
from culm.node.status.vitals import History, LastChange, disk, flow_of

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEARTBEAT_SECONDS = 15.0  # Silence after which a comment is sent, because proxies close idle connections.
_CHANGED_LOGS = 50  # logs named in one message; with more, it only says that there are more
_MOST_BODY = 1024  # bytes of a request's body, because no address here reads one
_EXAMINE_SECONDS = 60.0  # Between two looks through the home, because each opens its files.
_REST = 10  # The totals are computed again after 10 times as long as they took, so that they use a tenth of the thread.


class StatusServer:
    """Serves the page while its context is open. ``url`` is its address, with the real port."""

    def __init__(self, roster: Roster, settings: StatusSettings, sources: Sources | None = None) -> None:
        settings.check()
        self._sources = sources or Sources()
        self._roster = roster
        self._settings = settings
        self.hub = Hub(settings.most_viewers)
        self.url = ""
        self._rates = Rates()
        self._history = History()
        self._changed = LastChange()
        self._disk: dict[str, int] = {}
        self._examining = asyncio.Lock()
        self._findings: list[dict[str, Any]] = []
        self._examine_at = 0.0  # earliest time to look through the home again
        self._crowd = Crowd(settings)
        self._stack = AsyncExitStack()
        self._totals: tuple[int, dict[str, int]] = (-1, {})
        self._totals_at = 0.0  # earliest time to compute them again

    async def __aenter__(self) -> Self:
        """Start to serve; ``ConfigError`` if the address cannot be used."""
        settings = self._settings
        async with AsyncExitStack() as stack:
            self._store = await asyncio.to_thread(Reader, self._roster.store_path, settings.patience)
            stack.callback(self._store.close)
            runner = web.AppRunner(
                self._app(), access_log=None, logger=Complaints(), keepalive_timeout=30, shutdown_timeout=1
            )
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            stack.callback(self.hub.close)
            http = cast("web.Server", runner.server)
            try:
                listener = await listening(lambda: Door(self._crowd, http), settings.host, settings.port)
            except OSError as error:
                raise ConfigError(
                    f"cannot serve the status page at {settings.host}:{settings.port}: {reason_of(error)}"
                ) from None
            stack.callback(listener.close)
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            self.url = f"http://{host}:{listener.sockets[0].getsockname()[1]}/"
            watching = asyncio.create_task(self._watch())
            stack.push_async_callback(_cancelled, watching)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop serving and disconnect all viewers."""
        await self._stack.aclose()

    def _app(self) -> web.Application:
        guard = Guard(self._settings)
        app = web.Application(middlewares=[self._counted(), guard.middleware(), _explained], client_max_size=_MOST_BODY)
        app.on_response_prepare.append(guard.prepare)
        routes: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
            "/api/overview": self._overview,
            "/api/following": self._following,
            "/api/history": self._hour,
            "/api/problems": self._problems,
            "/api/proof": self._proof,
            "/events": self._events,
            "/metrics": self._metrics,
            "/healthz": self._healthz,
        }
        payloads = Payloads(self._store, self._sources, self._settings.patience)
        shown = self._settings.payloads
        routes["/api/preview"] = payloads.preview if shown else not_shown
        routes["/api/payload"] = payloads.download if shown else not_shown
        for name, question in QUESTIONS.items():
            routes[f"/api/{name}"] = partial(self._answer, question)
        for path, handler in routes.items():
            app.router.add_get(path, handler)
        for name, (kind, content) in _page().items():
            path = "/" if name == "index.html" else f"/{name}"
            app.router.add_get(path, partial(_file, kind=kind, content=content))
        return app

    def _counted(self) -> Middleware:
        @web.middleware
        async def counted(request: web.Request, handler: Handler) -> web.StreamResponse:
            with self._crowd.busy(request.transport):
                return await handler(request)

        return counted

    # -- the page's questions ----------------------------------------------------------------------------------

    async def _overview(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(await self._now())

    async def _now(self) -> dict[str, Any]:
        totals = await self._held()
        out_of_reach = unreached(self._roster)
        sick = sum(finding["level"] == "problem" for finding in self._findings)
        return overview(self._roster, self._rates, culm.__version__, self._sources.names()) | {
            "totals": totals,
            "disk": self._disk,
            "changed_at": self._changed.at,
            "payloads_shown": self._settings.payloads,
            "problem_count": totals["damaged"] + len(out_of_reach) + sick,
        }

    async def _held(self) -> dict[str, int]:
        """The store's totals, computed again only after a change, and for a tenth of the time at most."""
        change = await self._store.ask(lambda store: store.change())
        self._changed.noticed(change, self._roster.store_path)
        if change != self._totals[0] and time.monotonic() >= self._totals_at:
            begun = time.monotonic()
            self._totals = change, await self._store.ask(holdings.totals)
            self._disk = await self._store.ask(disk)
            now = time.monotonic()
            self._totals_at = now + _REST * (now - begun)
        return self._totals[1]

    async def _answer(self, question: Callable[[Query], Question], request: web.Request) -> web.StreamResponse:
        answer = partial(question(request.query), known=self._sources.known())
        return web.json_response(await self._store.ask(answer))

    async def _following(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(following(self._sources.known()))

    async def _hour(self, _request: web.Request) -> web.StreamResponse:
        return web.json_response(self._history.plain())

    async def _problems(self, _request: web.Request) -> web.StreamResponse:
        names = self._sources.names()
        answer = {
            "peers": unreached(self._roster),
            "damaged": await self._store.ask(partial(damaged, names=names)),
            "findings": await self._examined(),
        }
        return web.json_response(answer)

    async def _examined(self) -> list[dict[str, Any]]:
        """What a doctor finds, looked for once a minute at most, however many viewers ask."""
        async with self._examining:
            if time.monotonic() >= self._examine_at:
                self._findings = await asyncio.to_thread(self._look_through)
                self._examine_at = time.monotonic() + _EXAMINE_SECONDS
        return self._findings

    def _look_through(self) -> list[dict[str, Any]]:
        try:
            return list(self._sources.examine())
        except (CulmError, OSError) as error:  # A home that cannot be read must not end the page.
            return [{"level": "problem", "check": "home", "what": str(error), "todo": "run culm doctor"}]

    async def _proof(self, request: web.Request) -> web.StreamResponse:
        which = queries.log(request.query)
        content = await self._store.ask(partial(holdings.proof_file, which=which))
        name = f"fork-{which[0].hex()[:16]}-{which[1]}.culm"
        return web.Response(
            body=content,
            content_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    # -- for programs ------------------------------------------------------------------------------------------

    async def _metrics(self, _request: web.Request) -> web.StreamResponse:
        held = await self._held()
        text = metrics_text(NodeCollector(self._roster, culm.__version__, held, len(self.hub), self.hub.dropped))
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _healthz(self, _request: web.Request) -> web.StreamResponse:
        await self._store.ask(lambda store: store.change())
        return web.Response(text="ok\n")

    # -- live --------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Look at the node every ``tick`` seconds, and send changes to the viewers."""
        change, told, quiet = -1, b"", 0.0
        while True:
            self._rates.update(self._roster.contacts(), time.monotonic())
            self._history.update(flow_of(self._roster), time.monotonic())
            if len(self.hub):
                await self._examined()
                with suppress(StoreError):  # busy or locked now; the next tick tries again
                    last, logs = await self._store.ask(partial(holdings.changes, since=change, most=_CHANGED_LOGS))
                    if last != change:
                        if change >= 0:
                            value = {"change": last, "logs": logs, "more": len(logs) == _CHANGED_LOGS}
                            self.hub.send(event("changed", value))
                        change = last
                    now = event("overview", await self._now())
                    if now != told:
                        self.hub.send(now)
                        told, quiet = now, 0.0
                quiet += self._settings.tick
                if quiet >= _HEARTBEAT_SECONDS:
                    self.hub.send(HEARTBEAT)
                    quiet = 0.0
            else:
                change, told = -1, b""
            await asyncio.sleep(self._settings.tick)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        if transport is None or request.method == "HEAD":
            return web.Response(content_type="text/event-stream")
        try:
            viewer = self.hub.join(transport.abort)
        except Full:
            return web.json_response(
                {"error": f"too many viewers: this node allows {self._settings.most_viewers} at once"},
                status=503,
                headers={"Retry-After": "10"},
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        try:
            first = event("overview", await self._now())
            await response.prepare(request)
            await response.write(first)
            while message := await viewer.get():
                async with asyncio.timeout(self._settings.patience):
                    await response.write(message)
        except (TimeoutError, ConnectionError):
            transport.abort()
        finally:
            self.hub.leave(viewer)
        return response


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@web.middleware
async def _explained(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors into answers of one line."""
    try:
        return await handler(request)
    except NotHeld as error:
        return web.json_response({"error": str(error)}, status=404)
    except ConfigError as error:
        return web.json_response({"error": str(error)}, status=400)
    except TooBusy as error:
        return web.json_response({"error": str(error)}, status=503, headers={"Retry-After": "2"})
    except PayloadDamaged as error:
        return web.json_response({"error": f"{error}; it is not shown, and asked for again"}, status=503)
    except StoreError:
        return web.json_response({"error": "the store cannot be read"}, status=503, headers={"Retry-After": "2"})


def _page() -> dict[str, tuple[str, bytes]]:
    """The page's files: content type and bytes by name.

    ``culm.js`` is built from ``web/`` where node is. Elsewhere it is an empty module, and the page shows no tick.
    """
    found = {"culm.js": (_TYPES["js"], b"export {};\n")}
    for file in files("culm.node.status").joinpath("page").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            found[file.name] = kind, file.read_bytes()
    return found


async def _file(_request: web.Request, *, kind: str, content: bytes) -> web.StreamResponse:
    return web.Response(body=content, content_type=kind, charset="utf-8")
