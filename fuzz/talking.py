"""Running a session of a node with a peer, without sockets and threads, so that an input always does the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from culm.node.interests.policy import Policy
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import StoreWorker
from culm.node.surroundings import Surroundings
from fuzz import fresh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from culm.bamboo import Entry
    from culm.types import Buffer

_T = TypeVar("_T")
_PATIENCE = 120  # seconds: nothing here waits for anybody


class Transport:
    """Takes everything at once."""

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def abort(self) -> None:
        """Nothing is open."""


class Peer:
    """The other end of a connection: hears what is written, and proves itself where that is needed.

    ``rest`` is what it has to say then, piece by piece: one in answer to each time that something is written, and one
    whenever nothing else happens.
    """

    rest: Iterator[bytes] = iter(())

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.opened.set()

    def hears(self, data: bytes) -> bytes:  # noqa: ARG002 - one that does not listen
        """What it says to that at once."""
        return b""

    def greeting(self) -> bytes:
        """What it says first."""
        return b""


class Streams:
    """Both halves of a connection to a peer: what is written is heard at once."""

    def __init__(self, peer: Peer) -> None:
        self.reader = asyncio.StreamReader()
        self.transport = Transport()
        self._peer = peer
        self._closed = False

    def write(self, data: bytes) -> None:
        """Hand bytes to the peer."""
        if not self._closed:
            self.reader.feed_data(self._peer.hears(bytes(data)))

    async def drain(self) -> None:
        """All is taken at once; the others have their turn."""
        await asyncio.sleep(0)

    def get_extra_info(self, name: str) -> object:  # noqa: ARG002 - as every writer
        """Nothing is known of a connection to nowhere."""
        return None

    def write_eof(self) -> None:
        """The peer ends the connection, too."""
        self.close()

    def close(self) -> None:
        """The peer hears nothing more, and says nothing."""
        if not self._closed:
            self._closed = True
            self.reader.feed_eof()

    async def wait_closed(self) -> None:
        """It is closed at once."""

    @property
    def both(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """As a session takes them."""
        return self.reader, cast("asyncio.StreamWriter", self)

    async def say(self, worker: StoreWorker) -> None:
        """Say what there is to say, whenever nothing else happens; then end."""
        self.reader.feed_data(self._peer.greeting())
        await self._peer.opened.wait()
        await breathe(worker)
        for piece in self._peer.rest:
            if not self._closed:
                self.reader.feed_data(piece)
            await breathe(worker)
        self.close()


async def breathe(worker: StoreWorker) -> None:
    """Let everything run that is under way, on the loop and for the store."""
    for _ in range(8):
        await worker.run(int)
        await asyncio.sleep(0)


class Inline(ThreadPoolExecutor):
    """Runs functions at once, in place of a thread: so that an input always does the same."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__(1)

    def submit(self, function: Callable[..., _T], /, *args: object, **kwargs: object) -> Future[_T]:
        """Run it; its result is there already."""
        done: Future[_T] = Future()
        try:
            done.set_result(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
            done.set_exception(error)
        return done


def surroundings() -> Surroundings:
    """What a node takes from the world, without any chance: secrets are counted up."""
    counter = count(1)
    return Surroundings(
        secret_bytes=lambda size: next(counter).to_bytes(size, "big"),
        chance=lambda: 0.5,
        thread=Inline,
        threads=Inline,
        spent=lambda: 0.0,
        look_seconds=60,
    )


class Runs(Protocol):
    """A session."""

    async def run(self) -> None:
        """Run it."""


MakeSession = Callable[[StoreWorker, StoreSource, tuple[asyncio.StreamReader, asyncio.StreamWriter]], Runs]


def talk(
    peer: Callable[[], Peer],
    session: MakeSession,
    said: Callable[[Peer], Iterator[bytes]],
    items: Sequence[tuple[Entry, Buffer | None]],
) -> None:
    """Run a session over a store that holds these entries; the store has to be right behind it."""
    with fresh.store() as store:
        store.add(items)
        worker, source = StoreWorker(store, surroundings()), StoreSource(store, Policy())

        async def run() -> None:
            asyncio.get_running_loop().set_default_executor(Inline())
            other = peer()
            other.rest = said(other)
            streams = Streams(other)
            made = session(worker, source, streams.both)
            async with asyncio.timeout(_PATIENCE):
                running = asyncio.create_task(made.run())
                saying = asyncio.create_task(streams.say(worker))
                try:
                    await running
                finally:
                    saying.cancel()
                    await asyncio.gather(saying, return_exceptions=True)

        try:
            with asyncio.Runner() as runner:
                runner.run(run())
        finally:
            worker.close()
            source.close()
            problems = store.verify().problems
            assert not problems, problems[:3]
