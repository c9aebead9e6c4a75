"""A one-time sync with a peer: until both sides have all that the other can give."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from culm.errors import NetworkError
from culm.node.node import connect
from culm.node.session import Session, SessionStats
from culm.node.worker import StoreWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.bamboo import Identity
    from culm.node.config import NodeConfig
    from culm.node.urls import PeerUrl
    from culm.store import SQLiteStore

_PROGRESS_SECONDS = 0.1


@dataclass(slots=True)
class SyncSummary:
    """What a sync did. ``seconds`` counts from the call to the end. ``complete``: nothing announced is lacking."""

    entries_received: int = 0
    entries_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    payload_bytes: int = 0
    missing: int = 0
    seconds: float = 0.0
    forks: int = 0
    refused: list[str] = field(default_factory=list)

    def add(self, stats: SessionStats) -> None:
        """Add what went through a session."""
        self.entries_received += stats.entries_received
        self.entries_sent += stats.entries_sent
        self.bytes_received += stats.bytes_received
        self.bytes_sent += stats.bytes_sent
        self.payload_bytes += stats.payload_bytes
        self.missing += stats.missing
        self.forks += stats.forks
        self.refused += stats.refused


async def sync(
    identity: Identity,
    config: NodeConfig,
    store: SQLiteStore,
    url: PeerUrl,
    progress: Callable[[SessionStats], None] = lambda _: None,
) -> SyncSummary:
    """Connect to ``url`` and exchange everything both sides are willing to; ``NetworkError`` if that breaks off.

    ``progress`` is called several times a second.
    """
    started = time.monotonic()
    summary = SyncSummary()
    worker = StoreWorker(store)
    try:
        while True:
            session = Session(identity, config, worker, await connect(url), called=True)
            try:
                await _until_done(session, progress)
                break
            except NetworkError:
                if not session.worn_out:
                    raise
            finally:
                summary.add(session.stats)
    finally:
        summary.seconds = time.monotonic() - started
        worker.close()
    return summary


async def _until_done(session: Session, progress: Callable[[SessionStats], None]) -> None:
    running = asyncio.create_task(session.run())
    done = asyncio.create_task(session.done.wait())
    try:
        while not done.done():
            finished, _ = await asyncio.wait(
                (running, done), timeout=_PROGRESS_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            progress(session.stats)
            if running in finished and not done.done():
                running.result()
                raise NetworkError("the peer ended the connection before everything was exchanged")
    finally:
        done.cancel()
        running.cancel()
        await asyncio.gather(running, done, return_exceptions=True)
