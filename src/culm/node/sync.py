"""A one-time sync with a peer: until both sides have all that the other can give."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
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
class SyncSummary(SessionStats):
    """What a sync did, over one session or several. ``seconds`` counts from the call to the end."""

    seconds: float = 0.0


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
