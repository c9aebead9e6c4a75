"""A one-time sync with a peer: until both sides have all that the other can give."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from culm.errors import NetworkError
from culm.node.bushbaby.session import BushbabySession
from culm.node.culm.claims import Claims
from culm.node.culm.session import CulmSession
from culm.node.intervals.session import IntervalSession
from culm.node.network.transport import connect
from culm.node.proposals.proposer import ProposalOptions
from culm.node.proposals.session import ProposalSession
from culm.node.sessions.stats import SessionStats
from culm.node.sharing.peering import Peering
from culm.node.storage.changes import changes
from culm.node.storage.folding import folding
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import StoreWorker
from culm.node.surroundings import clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from culm.bamboo import Identity
    from culm.node.config import NodeConfig
    from culm.node.intervals.follower import FollowOptions
    from culm.node.network.urls import PeerUrl
    from culm.node.service import AnySession
    from culm.node.sessions.peer import PeerSession
    from culm.node.sharing.rates import Streams
    from culm.ranges import RangeSet
    from culm.store import Log, SQLiteStore

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
    started = clock()
    summary = SyncSummary()
    worker = StoreWorker(store, config.surroundings)
    try:
        while True:
            session = BushbabySession(identity, config, worker, await _connected(config, url), called=True)
            try:
                await _until_done(session, partial(_told, progress, summary))
                break
            except NetworkError:
                if not session.worn_out:
                    raise
            finally:
                summary.add(session.stats)
    finally:
        summary.seconds = clock() - started
        worker.close()
    return summary


async def sync_securely(
    identity: Identity,
    config: NodeConfig,
    store: SQLiteStore,
    url: PeerUrl,
    *,
    live: bool = False,
    progress: Callable[[SessionStats], None] = lambda _: None,
) -> SyncSummary:
    """Exchange with a ``culm://`` peer what both sides want of each other; ``NetworkError`` if that breaks off.

    ``live``: stay, and pass on what is new, until cancelled.
    """
    started = clock()
    summary = SyncSummary()
    worker = StoreWorker(store, config.surroundings)
    source = StoreSource(store, config.policy)
    session: CulmSession | None = None
    try:
        streams = await _connected(config, url)
        session = CulmSession(identity, config, worker, source, Claims(), streams, peer=url.key, live=live)
        async with folding(worker), _watched(session, worker, config):
            await _until_done(session, progress)
    finally:
        if session is not None:
            summary.add(session.stats)
        summary.seconds = clock() - started
        worker.close()
        source.close()
    return summary


async def sync_logs(
    config: NodeConfig,
    store: SQLiteStore,
    url: PeerUrl,
    logs: Iterable[Log],
    *,
    options: FollowOptions | ProposalOptions | None = None,
    live: bool = False,
    interest: Callable[[Log], RangeSet] | None = None,
    progress: Callable[[SessionStats], None] = lambda _: None,
) -> SyncSummary:
    """Ask a peer for logs, and answer what it asks for in turn; ``NetworkError`` if that breaks off.

    The protocol is the one that ``options`` are of, intervals without any. ``live``: stay, and pass on what is new,
    until cancelled. ``interest`` narrows what is asked for of a log.
    """
    started = clock()
    summary = SyncSummary()
    worker = StoreWorker(store, config.surroundings)
    source = StoreSource(store, config.policy)
    session: PeerSession | None = None
    try:
        streams = await _connected(config, url)
        if isinstance(options, ProposalOptions):
            session = ProposalSession(
                config,
                worker,
                source,
                streams,
                called=True,
                logs=logs,
                live=live,
                mirrors=live,
                options=options,
                interest=interest,
            )
        else:
            session = IntervalSession(
                config,
                worker,
                source,
                streams,
                logs=logs,
                live=live,
                mirrors=live,
                options=options,
                interest=interest,
            )
        async with folding(worker), _watched(session, worker, config) if live else nullcontext():
            await _until_done(session, progress)
    finally:
        if session is not None:
            summary.add(session.stats)
        summary.seconds = clock() - started
        worker.close()
        source.close()
    return summary


@asynccontextmanager
async def _watched(session: PeerSession | CulmSession, worker: StoreWorker, config: NodeConfig) -> AsyncIterator[None]:
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


def _told(progress: Callable[[SessionStats], None], before: SessionStats, stats: SessionStats) -> None:
    """Tell of a session together with those before it."""
    total = SessionStats()
    total.add(before)
    total.add(stats)
    progress(total)


async def _connected(config: NodeConfig, url: PeerUrl) -> Streams:
    """Connect to a peer, at the pace that goes for it."""
    return Peering(config).paced(await connect(url), config.for_peer(url)[1])


async def _until_done(session: AnySession, progress: Callable[[SessionStats], None]) -> None:
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
