"""Nodes joined by socket pairs: real streams, no network."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from culm.bamboo import Identity
from culm.errors import CulmError
from culm.node.bushbaby.session import BushbabySession
from culm.node.config import NodeConfig, NodeLimits
from culm.node.interests.policy import Policy
from culm.node.sessions.session import Context, Purpose
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import StoreWorker
from culm.store import SQLiteStore
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

QUICK = NodeLimits(handshake_seconds=5, idle_seconds=5, keepalive_seconds=1, settle_seconds=2)
CONFIG = NodeConfig(b"Quagga", limits=QUICK)
T = TypeVar("T")
_OPEN: list[asyncio.StreamWriter] = []  # closed at the end of ``run``


class Party:
    """A person with an identity and a store."""

    def __init__(self, folder: Path, number: int) -> None:
        self.identity = Identity(bytes([number]) * 32)
        self.store = SQLiteStore(folder / f"{number}.db")
        self.view = SQLiteStore(self.store.path, read_only=True)  # the sessions use the other one, in their thread
        self.worker = StoreWorker(self.store)
        self.sessions: list[BushbabySession] = []
        self.sources: list[StoreSource] = []

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
        self.worker.close()
        self.view.close()
        self.store.close()


async def stream_pair() -> tuple[Any, Any]:
    """Two ends of a connection, as streams."""
    near, far = [await asyncio.open_connection(sock=end) for end in socket.socketpair()]
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


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run a test's coroutine, with a bound on its time."""

    async def bounded() -> T:
        try:
            return await asyncio.wait_for(main(), PATIENCE)
        finally:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            while _OPEN:
                writer = _OPEN.pop()
                writer.close()
                await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    return asyncio.run(bounded())
