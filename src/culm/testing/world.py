"""A world for tests: nodes in one process, on a network that does as the test says, with a clock that jumps.

*The problem.* A test with real nodes waits: for sockets, for retries, for time-outs. It has to sleep and hope, so it is
slow, and fails on a busy machine. A cable that is pulled cannot be tested at all.

*The way chosen.* A world has an event loop of its own (``culm.testing.simulation``). When every task waits, its clock
jumps to the next timer, so that an hour takes as long as the work in it. Connections are in memory, and each node is on
a machine of its own, so that a test can cut two of them off from each other. Everything else is what users run: the
nodes, their protocols, TLS, and their stores, in files in memory (``culm.testing.memory``).

Nodes that a program opens itself work here, too. Whatever runs in ``World.run`` is on the machine ``127.0.0.1`` and
takes its threads from the world.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from contextvars import copy_context
from hashlib import blake2b
from inspect import isawaitable
from pathlib import Path
from random import Random
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from culm.app.node import Node
from culm.bamboo import Entry, Identity
from culm.errors import ConfigError, NotHeld
from culm.node.config import NodeConfig
from culm.node.surroundings import PRESENT, Surroundings
from culm.testing.memory import memory_folder
from culm.testing.simulation.host import Host
from culm.testing.simulation.loop import HOST, SimulatedLoop
from culm.testing.simulation.network import FATES, Connection, Network, Weather

HERE = "127.0.0.1"
# Seconds on the clock of the world. Two connected nodes that have nothing to do compute for about a second meanwhile.
_PATIENCE = 600.0
# A node that has failed for minutes calls again after up to a minute, and a call that gets no answer takes time, too.
_LONGEST_WAIT = 120.0
_FIRST_LOOK, _LAST_LOOK = 0.01, 1.0  # Seconds between two looks of ``until``, which grow so that waiting stays cheap.
# Between two looks at whether another process wrote to a store. None does, and each look of each node is a timer.
_LOOK_SECONDS = 0.5
_P = ParamSpec("_P")
_T = TypeVar("_T")


@contextmanager
def _on(host: Host) -> Iterator[None]:
    """Connections and tasks that are made in the block belong to this machine."""
    before = HOST.set(host)
    try:
        yield
    finally:
        HOST.reset(before)


def _on_its_machine(
    method: Callable[Concatenate[Node, _P], Awaitable[_T]],
) -> Callable[Concatenate[WorldNode, _P], Coroutine[Any, Any, _T]]:
    """The same method of a node, run on the node's machine."""

    async def run(self: WorldNode, *args: _P.args, **named: _P.kwargs) -> _T:
        with _on(self.host):
            return await method(self, *args, **named)

    return cast("Callable[Concatenate[WorldNode, _P], Coroutine[Any, Any, _T]]", functools.wraps(method)(run))


class WorldNode(Node):
    """A node of a world, made by ``World.node``. It is a ``Node`` on a machine of its own.

    ``url`` is the address at which it listens, for ``connect`` and ``sync`` of other nodes.
    """

    host: Host
    url: str

    listen = _on_its_machine(Node.listen)
    connect = _on_its_machine(Node.connect)
    sync = _on_its_machine(Node.sync)
    fetch = _on_its_machine(Node.fetch)
    fetch_bytes = _on_its_machine(Node.fetch_bytes)

    async def fetch_pieces(
        self, url: str, entry: Entry, first: int = 0, last: int | None = None
    ) -> AsyncGenerator[bytes]:
        """As ``Node.fetch_pieces``, on its machine."""
        async with aclosing(super().fetch_pieces(url, entry, first, last)) as pieces:
            while True:
                with _on(self.host):
                    piece = await anext(pieces, b"")
                if not piece:
                    return
                yield piece

    async def start(self) -> Self:
        """As ``Node.start``, on its machine."""
        with _on(self.host):
            return await super().start()


@asynccontextmanager
async def _within(seconds: float, what: str, advice: str = "") -> AsyncIterator[None]:
    """As ``asyncio.timeout``, with an error that says what did not happen."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():  # One of the program's own.
            raise
        raise TimeoutError(f"{what} after {seconds:g} s on the world's clock{advice}") from error


class World:
    """Nodes, their network, and a clock: ``with World() as world: world.run(test(world))``.

    ``seed`` is what latencies and retries are drawn from. ``folder`` is for files of the test, in memory and deleted at
    the end.

    Leaving the ``with`` block closes the nodes. It raises ``RuntimeError`` if a task in the world ended with an error
    that nothing handled, because a program would lose that error.
    """

    def __init__(self, seed: int = 1) -> None:
        self.folder: Path
        self._random = Random(seed)  # noqa: S311 - the same for each run of a test
        self._loop = SimulatedLoop()
        self._network = Network(self._loop, self._random, lambda *_: None, Counter(), Weather(latency=0.01))
        self._loop.network = self._network
        self._loop.thread = lambda: self._machine().thread()
        self._around = self._new_machine("here", HERE)
        self._machines: dict[str, Host] = {}
        self._nodes: list[WorldNode] = []
        self._surroundings = Surroundings(
            chance=self._random.random,
            thread=self._loop.thread,
            threads=self._loop.thread,
            look_seconds=_LOOK_SECONDS,
            collect=lambda: None,
        )
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self.folder = self._open.enter_context(memory_folder())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._open:
            try:
                self.run(self._close())
                complaints = list(self._loop.complaints)
            finally:
                self._loop.wind_up()
                self._loop.close()
        if complaints and kind is None:
            what = complaints[0]
            raise RuntimeError(f"an error that nothing handled: {what['message']}") from what.get("exception")

    async def _close(self) -> None:
        for node in self._nodes:
            await node.close()

    def _machine(self) -> Host:
        host = HOST.get()
        return host if isinstance(host, Host) else self._around

    def _new_machine(self, name: str, address: str) -> Host:
        machine = Host(self._loop, name, address, None, self._random)
        self._network.add(machine)
        return machine

    # -- running -----------------------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, _T], seconds: float = _PATIENCE) -> _T:
        """Run a coroutine in the world; nodes work only meanwhile. May be called again.

        ``TimeoutError`` after so many seconds on the world's clock. ``Stalled`` if every task waits for something that
        cannot come, such as a thread that the program made itself.
        """

        async def bounded() -> _T:
            async with _within(seconds, "not done", "; World.run(..., seconds=N) allows more"):
                return await main

        def in_world() -> _T:
            PRESENT.set(self._surroundings)
            return self._loop.run_until_complete(self._around.start(bounded()))

        return copy_context().run(in_world)

    async def until(self, condition: Callable[[], object], seconds: float = _LONGEST_WAIT) -> None:
        """Wait until something is true; ``condition`` may be an ``async`` function. ``TimeoutError`` if it does not.

        ``seconds`` are those of the world's clock.
        """
        look = _FIRST_LOOK
        async with _within(seconds, "still not true"):
            while True:
                found = condition()
                if await found if isawaitable(found) else found:
                    return
                await asyncio.sleep(look)
                look = min(2 * look, _LAST_LOOK)

    async def arrived(self, entry: Entry, *nodes: Node, seconds: float = _LONGEST_WAIT) -> None:
        """Wait until nodes have an entry, verified, with its whole payload. ``TimeoutError`` as for ``until``."""

        async def has(node: Node) -> bool:
            if await node.entry((entry.author, entry.log_id), entry.seq) != entry:
                return False
            with suppress(NotHeld):
                async for _ in node.payload_pieces(entry, entry.size, raw=True):
                    pass
                return True
            return False

        async with _within(seconds, f"{entry.name} has not arrived"):
            for node in nodes:
                await self.until(functools.partial(has, node), seconds)

    def time(self) -> float:
        """Seconds on the world's clock."""
        return self._loop.time()

    # -- nodes -------------------------------------------------------------------------------------------------

    async def node(self, name: str = "alice", *, clump: str = "tests", config: NodeConfig | None = None) -> WorldNode:
        """An open node that listens. The world closes it; closing it sooner is fine.

        The name decides the identity, the store, and the machine: after ``close``, a node of the same name has all that
        was in the store. ``ConfigError`` if a node of that name is open.
        """
        if any(node.host.name == name and not node.is_closed for node in self._nodes):
            raise ConfigError(f"a node named {name} is open in this world: close it first, or use another name")
        if name not in self._machines:
            self._machines[name] = self._new_machine(name, f"10.0.0.{len(self._machines) + 1}")
        identity = Identity(blake2b(name.encode(), digest_size=32).digest())
        path = self.folder / f"{blake2b(name.encode(), digest_size=8).hexdigest()}.db"
        node = WorldNode.open(store=path, identity=identity, clump=clump, config=config)
        node.host = self._machines[name]
        self._nodes.append(node)
        await node.start()
        node.url = await node.listen(f"culm://{node.host.address}:0")
        return node

    # -- faults ------------------------------------------------------------------------------------------------

    def cut(self, one: WorldNode, other: WorldNode | None = None) -> None:
        """Let nothing through between two nodes until ``mend``. Neither learns of it, as with a pulled cable.

        Without ``other``: between a node and all others that the world has now, and the nodes that programs opened.
        """
        for address in self._others(one, other):
            self._network.cut_off(one.host.address, address)

    def mend(self, one: WorldNode, other: WorldNode | None = None) -> None:
        """Take back ``cut``. What was under way arrives."""
        for address in self._others(one, other):
            self._network.join(one.host.address, address)

    def delay(self, one: WorldNode, other: WorldNode | None = None, *, seconds: float) -> None:
        """Let bytes take so long from one node to the other from now on, and as long back.

        A node gives up a new connection after 10 seconds, and needs to hear from the other side several times by then.
        """
        for address in self._others(one, other):
            self._network.delay(one.host.address, address, seconds)

    def drop(
        self, one: WorldNode, other: WorldNode | None = None, *, after: int | None = None, fate: str = "reset"
    ) -> int:
        """Break the open connections between two nodes; returns how many. The nodes may connect again.

        ``after``: not now, but when a connection has carried so many bytes more in one direction. ``fate`` is one of
        ``culm.testing.simulation.network.FATES``: ``"reset"`` is noticed on both sides, ``"lost"`` on neither for half
        a minute, ``"garbled"`` changes one byte. ``ConfigError`` for another one.
        """
        if fate not in FATES:
            raise ConfigError(f"no fate of a connection: {fate!r}; there are {', '.join(FATES)}")
        found: list[Connection] = []
        for address in self._others(one, other):
            found += self._network.between(one.host.address, address)
        for connection in found:
            if after is None:
                connection.befall(fate, 0)
            else:
                connection.befall_after(fate, after)
        return len(found)

    def _others(self, one: WorldNode, other: WorldNode | None) -> list[str]:
        if other is not None:
            return [other.host.address]
        return [address for address in self._network.up if address != one.host.address]
