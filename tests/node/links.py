"""The parties of the node's tests, and the world they run in: a clock that jumps, a network in memory.

``run`` runs a test on the loop of the simulation. When all tasks wait, its clock jumps to the next timer, so that a
test about an hour of silence takes a moment, and ``until`` costs no time however seldom it looks. The streams of
``stream_pair`` and what a node listens on are connections of the simulated network without its troubles; a store's
thread is simulated as well, because a real one would take real time, at which the clock would have jumped already.

A test that needs real threads or real sockets runs with ``run_really``, and says why it does.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from culm.bamboo import Identity
from culm.errors import CulmError
from culm.node.bushbaby.session import BushbabySession
from culm.node.config import NodeConfig, NodeLimits
from culm.node.interests.policy import Policy
from culm.node.sessions.session import Context, Purpose
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import StoreWorker
from culm.node.surroundings import Surroundings
from culm.store import SQLiteStore
from culm.testing.simulation.host import Host, SimulatedThread
from culm.testing.simulation.loop import SimulatedLoop
from culm.testing.simulation.network import Network, Weather
from tests.blank import blank_store
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

QUICK = NodeLimits(handshake_seconds=5, idle_seconds=5, keepalive_seconds=1, settle_seconds=2)
T = TypeVar("T")
_OPEN: list[asyncio.StreamWriter] = []  # closed at the end of ``run``


HERE = "127.0.0.1"
"""Where the nodes of a test listen, and call: the only machine of the simulated network."""


class World:
    """One machine with its loop, on a network where nothing breaks.

    Bytes take a moment on their way. Without it a caller's first ones would be there before the listener's task has
    begun, which no real network does and TLS does not bear.
    """

    def __init__(self) -> None:
        self.loop = SimulatedLoop()
        calm = Weather(latency=0.001)
        self.network = Network(self.loop, Random(1), lambda *_: None, Counter(), calm)
        self.host = Host(self.loop, "here", HERE, None, Random(2))
        self.network.add(self.host)
        self.loop.network = self.network
        self.loop.thread = self.host.thread


_WORLD: contextvars.ContextVar[World | None] = contextvars.ContextVar("_WORLD", default=None)


class PartyThread(Executor):
    """The thread of a party's store: simulated while a world runs; outside of one, calls are made at once.

    A party is made before its world, and one party can be in several worlds one after the other, so which of both it is
    can only be known when a call comes.
    """

    def __init__(self) -> None:
        self._thread: tuple[World, SimulatedThread] | None = None

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have a call made."""
        world = _WORLD.get()
        if world is not None:
            if self._thread is None or self._thread[0] is not world:
                self._thread = world, world.host.thread()
            return self._thread[1].submit(fn, *args, **kwargs)
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do what is left, unless it is to be cancelled."""
        if self._thread is not None:
            self._thread[1].shutdown(wait, cancel_futures=cancel_futures)


SURROUNDINGS = Surroundings(thread=PartyThread, threads=PartyThread)
CONFIG = NodeConfig(b"Quagga", limits=QUICK, surroundings=SURROUNDINGS)


class Party:
    """A person with an identity and a store."""

    def __init__(self, folder: Path, number: int, surroundings: Surroundings = SURROUNDINGS) -> None:
        self.identity = Identity(bytes([number]) * 32)
        self.sessions: list[BushbabySession] = []
        self.sources: list[StoreSource] = []
        self._path = folder / f"{number}.db"
        self._surroundings = surroundings

    @cached_property
    def store(self) -> SQLiteStore:
        """The store. It is opened when it is first used, since most tests leave a party or two alone."""
        return blank_store(self._path)

    @cached_property
    def view(self) -> SQLiteStore:
        """A reader of the store: the sessions use the store itself, in their thread."""
        return SQLiteStore(self.store.path, read_only=True)

    @cached_property
    def worker(self) -> StoreWorker:
        """What the sessions use the store through."""
        return StoreWorker(self.store, self._surroundings)

    def holds(self) -> dict[tuple[bytes, int], list[int]]:
        """The numbers of the verified entries held with their payload, by log."""
        return {
            (log.author, log.log_id): [
                stored.entry.seq for stored in self.view.entries((log.author, log.log_id)) if stored.payload_complete
            ]
            for log in self.view.logs()
        }

    async def session(
        self, streams: Any, *, called: bool, policy: Policy | None = None, **settings: Any
    ) -> BushbabySession:
        """A session of this party over some streams; its news go to its other sessions."""
        config = replace(CONFIG, policy=policy or Policy(), **settings)
        source = StoreSource(self.view, config.policy)
        self.sources.append(source)

        def tell() -> None:
            for session in self.sessions:
                session.store_changed()

        context = Context(self.identity, config, self.worker, source, stored=tell)
        session = BushbabySession(context, streams, Purpose(called=called))
        self.sessions.append(session)
        return session

    def close(self) -> None:
        """Close the store."""
        for source in self.sources:
            source.close()
        for name in ("worker", "view", "store"):
            if name in vars(self):  # it was opened
                getattr(self, name).close()


async def stream_pair() -> tuple[Any, Any]:
    """Two ends of a connection, as streams."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *streams: answered.set_result(streams), HERE, 0)
    near = await asyncio.open_connection(HERE, server.sockets[0].getsockname()[1])
    far = await answered
    server.close()
    _OPEN.extend((near[1], far[1]))
    return near, far


async def until_done(one: BushbabySession, other: BushbabySession) -> list[CulmError | None]:
    """Run two sessions until the first, the caller, is done (or fails); why each ended."""
    tasks = [asyncio.create_task(session.run()) for session in (one, other)]
    done = asyncio.create_task(one.done.wait())
    await asyncio.wait([*tasks, done], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    finished = one.done.is_set()
    done.cancel()
    if finished:
        tasks[0].cancel()
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE)
    return [result if isinstance(result, CulmError) else None for result in results]


async def sync(
    one: Party, other: Party, ours: dict[str, Any] | None = None, theirs: dict[str, Any] | None = None
) -> Any:
    """One party calls the other; the caller's session, and why each side ended."""
    near, far = await stream_pair()
    caller = await one.session(near, called=True, **(ours or {}))
    callee = await other.session(far, called=False, **(theirs or {}))
    return caller, await until_done(caller, callee)


async def _bounded(main: Callable[[], Awaitable[T]], patience: float = PATIENCE) -> T:
    """A test's coroutine, with a bound on its time; at its end nothing is left open."""
    try:
        return await asyncio.wait_for(main(), patience)
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        while _OPEN:
            writer = _OPEN.pop()
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def run(main: Callable[[], Awaitable[T]], patience: float = PATIENCE) -> T:
    """Run a test's coroutine in a world of its own, in no time; ``patience`` is in its seconds."""

    def in_world() -> T:
        world = World()
        _WORLD.set(world)
        try:
            result: T = world.loop.run_until_complete(world.host.start(_bounded(main, patience)))
            assert world.loop.complaints == []
        finally:
            world.loop.wind_up()
            world.loop.close()
        return result

    return contextvars.copy_context().run(in_world)


def run_really(main: Callable[[], Awaitable[T]]) -> T:
    """Run a test's coroutine with real time, threads and sockets, because it is about one of these."""
    return asyncio.run(_bounded(main))
