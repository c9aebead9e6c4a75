"""A one-time sync: exchange with one peer until each side has all that the other can give and it wants.

There is no node behind it. One session runs over one connection, with the same speakers as in a node, until its
``done`` is set. Some protocols limit the messages of a connection; then the next connection goes on.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from culm.bamboo import Identity
from culm.errors import NetworkError
from culm.node.config import NodeConfig
from culm.node.network.transport import connect
from culm.node.network.urls import PeerUrl
from culm.node.schemes import scheme_of
from culm.node.sessions.session import Context, Purpose, Session
from culm.node.sessions.stats import SessionStats
from culm.node.sharing.peering import Peering
from culm.node.sharing.rates import Streams
from culm.node.storage.changes import changes
from culm.node.storage.folding import folding
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import StoreWorker
from culm.node.surroundings import clock
from culm.store import ToolStore

_PROGRESS_SECONDS = 0.1  # Between two calls of ``progress``: often enough for a line that people watch.
_ONCE = Purpose(is_live=False, mirrors=False)


@dataclass(slots=True)
class SyncSummary(SessionStats):
    """What a sync did, over one session or several. ``seconds`` counts from the call to the end."""

    seconds: float = 0.0


async def sync(
    identity: Identity | None,
    config: NodeConfig,
    store: ToolStore,
    url: PeerUrl,
    purpose: Purpose = _ONCE,
    progress: Callable[[SessionStats], None] = lambda _: None,
) -> SyncSummary:
    """Exchange with a peer, by the protocol of its address, everything both sides are willing to.

    ``identity`` is needed only where the protocol proves who we are. ``purpose`` says what to ask for, where the
    protocol asks by log, and whether to stay for what is new until cancelled. ``progress`` is called several times a
    second. ``NetworkError`` if the connection breaks off before everything was exchanged. A connection that has carried
    all the messages it may is followed by another one.
    """
    started = clock()
    summary = SyncSummary()
    worker = StoreWorker(store, config.surroundings)
    context = Context(identity, config, worker, StoreSource(store, config.policy))
    purpose = replace(purpose, called=True, key=url.key)
    try:
        while not await _sync_once(context, url, purpose, summary, progress):
            pass
    finally:
        summary.seconds = clock() - started
        worker.close()
        context.source.close()
    return summary


async def _sync_once(
    context: Context, url: PeerUrl, purpose: Purpose, summary: SyncSummary, progress: Callable[[SessionStats], None]
) -> bool:
    """Exchange over one connection; False if it is worn out and another one has to go on."""
    scheme, worker, config = scheme_of(url), context.worker, context.config
    assert scheme.session is not None  # noqa: S101 - ``PeerUrl.parse`` accepts no other address for a peer
    assert isinstance(worker, StoreWorker)  # noqa: S101 - ``sync`` has made it
    session = scheme.session(context, await _connected(config, url), purpose)
    is_watched = purpose.is_live or scheme.watches_store
    try:
        async with folding(worker), _watched(session, worker, config) if is_watched else nullcontext():
            await _until_done(session, partial(_progress_of_all, progress, summary))
    except NetworkError:
        if not session.worn_out:
            raise
        return False
    finally:
        summary.add(session.stats)
    return True


@asynccontextmanager
async def _watched(session: Session[Any], worker: StoreWorker, config: NodeConfig) -> AsyncIterator[None]:
    """Tell a session of the store's changes, for as long as the block lasts."""

    async def watch() -> None:
        async for _ in changes(worker, config.surroundings):
            session.store_changed()

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _progress_of_all(progress: Callable[[SessionStats], None], before: SessionStats, stats: SessionStats) -> None:
    """Call ``progress`` with what went through a session and those before it together."""
    total = SessionStats()
    total.add(before)
    total.add(stats)
    progress(total)


async def _connected(config: NodeConfig, url: PeerUrl) -> Streams:
    """Connect to a peer, within the bandwidth caps that go for it."""
    return Peering(config).paced(await connect(url), config.for_peer(url)[1])


async def _until_done(session: Session[Any], progress: Callable[[SessionStats], None]) -> None:
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
                raise NetworkError(
                    "the peer ended the connection before everything was exchanged; sync again for the rest"
                )
    finally:
        done.cancel()
        running.cancel()
        await asyncio.gather(running, done, return_exceptions=True)
