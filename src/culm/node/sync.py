"""A one-time sync: exchange with one peer until each side has all that the other can give and it wants.

There is no node behind it. One session runs over one connection, with the same speakers as in a node, until its
``done`` is set. Some protocols limit the messages of a connection; then the next connection goes on.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from culm.bamboo import Identity
from culm.errors import NetworkError, PayloadDamaged
from culm.node.bushbaby.remembered import Dialects, Remembered
from culm.node.config import NodeConfig
from culm.node.held import HeldByPeers
from culm.node.network.transport import connect
from culm.node.network.urls import PeerUrl
from culm.node.roster import OneTime
from culm.node.schemes import scheme_of
from culm.node.sessions.session import Context, Purpose, Session
from culm.node.sessions.stats import SessionStats
from culm.node.sessions.tasks import beside
from culm.node.sharing.kept import KeptPeers
from culm.node.sharing.peering import Peering, address_of, place_of
from culm.node.sharing.rates import Streams
from culm.node.storage.healing import tell_damage
from culm.node.storage.source import StoreSource
from culm.node.storage.wal import folding, watch_changes
from culm.node.storage.worker import StoreWorker
from culm.node.surroundings import clock
from culm.store import ToolStore
from culm.types import Log

_PROGRESS_SECONDS = 0.1  # Between two calls of ``progress``: often enough for a line that people watch.
_ONCE = Purpose(is_live=False, mirrors=False)


@dataclass(slots=True)
class SyncSummary(SessionStats):
    """What a sync did, over one session or several. ``seconds`` counts from the call to the end.

    ``withheld`` counts the logs of the store that were kept from the peer because they are shared in other clumps only.
    ``not_received`` counts the logs that were asked for by name but have not come: the store lacks all of each.
    """

    seconds: float = 0.0
    withheld: int = 0
    not_received: int = 0


async def sync(
    identity: Identity | None,
    config: NodeConfig,
    store: ToolStore,
    url: PeerUrl,
    purpose: Purpose = _ONCE,
    progress: Callable[[SessionStats], None] = lambda _: None,
    *,
    dial: Callable[[PeerUrl], Awaitable[Streams]] | None = None,
    kept: KeptPeers | None = None,
    held: HeldByPeers | None = None,
    tell: Callable[..., object] = lambda *_, **__: None,
) -> SyncSummary:
    """Exchange with a peer, by the protocol of its address, everything both sides are willing to.

    ``identity`` is needed only where the protocol proves who we are. ``purpose`` says what to ask for, where the
    protocol asks by log, and whether to stay for what is new until cancelled. ``progress`` is called several times a
    second. ``dial`` opens a connection in another way than usual. ``NetworkError`` if it breaks off before everything
    was exchanged. A connection that has carried all the messages it may is followed by another one.

    ``kept`` is what is known of peers. A session that went well is noted there, and the dialect that was heard. No
    penalty is asked for or given, because the user has named this peer and sees the error. ``held`` notes what the peer
    holds of the identity's logs. ``tell`` hears what happens, as ``Roster.tell`` of a node does.
    """
    started = clock()
    summary = SyncSummary()
    scheme = scheme_of(url)
    assert scheme.session is not None  # noqa: S101 - ``PeerUrl.parse`` accepts no other address for a peer
    worker = StoreWorker(store, config.surroundings)
    source = StoreSource(store, config.policy, config.clump)
    store.receive_in(config.clump, config.policy.own | ({identity.public} if identity else set()))
    kept = kept or KeptPeers()
    peering = Peering(config, kept=kept)
    remembered = Remembered(Dialects(kept))
    policed, held, told = replace(config, policy=source.policy), held or HeldByPeers(), OneTime(url, tell)
    context = Context(identity, policed, worker, source, bushbaby=remembered, held=held, happened=told.happened)
    purpose = replace(purpose, called=True, key=url.key)
    is_watched = purpose.is_live or scheme.watches_store
    is_over = False
    try:
        kept.exchange()
        async with folding(worker):
            while not is_over:
                with told.calling():
                    streams = await (dial(url) if dial else connect(url, config.for_peer(url)[1].token_file))
                address, at = address_of(streams[1]), replace(context, address=place_of(streams[1]))
                session = scheme.session(at, peering.paced(streams, config.for_peer(url)[1]), purpose)
                async with beside(watch_changes(worker, session.store_changed)) if is_watched else nullcontext():
                    with told.during(session, at.address):
                        is_over = await _until_over(session, worker, summary, progress)
                summary.add(session.stats)
                if not session.stats.offences:
                    peering.went_well(address, session.proved, session.stats)
            summary.withheld = await worker.run(store.withheld, config.clump)
            summary.not_received = await worker.run(_not_received, store, purpose.logs)
    finally:
        kept.exchange()
        summary.seconds = clock() - started
        worker.close()
        context.source.close()
    return summary


def _not_received(store: ToolStore, logs: tuple[Log, ...]) -> int:
    return sum(store.lookup(log).entry_extent() is None and not store.waiting(log, 1) for log in logs)


async def _until_over(
    session: Session[Any], worker: StoreWorker, before: SessionStats, progress: Callable[[SessionStats], None]
) -> bool:
    """Run a session until it is done; False if its connection is worn out, or another one has to go on.

    Also False if the peer asked for a payload that was damaged on our disk: the next session asks for that payload.
    """
    running = asyncio.create_task(session.run())
    over = asyncio.Event() if session.is_live else session.done  # A live session goes on when all has come.
    done = asyncio.create_task(over.wait())
    try:
        while not (done.done() or running.done()):
            await asyncio.wait((running, done), timeout=_PROGRESS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            total = SessionStats()
            total.add(before)
            total.add(session.stats)
            progress(total)
        if over.is_set():
            return True
        error = running.exception() or NetworkError(
            "the peer ended the connection before everything was exchanged; sync again for the rest"
        )
        if session.over_because or (session.worn_out and isinstance(error, NetworkError)):
            return False
        if isinstance(error, PayloadDamaged) and await worker.run(worker.store.drop_damaged, error):
            tell_damage(error.place)
            return False
        raise error
    finally:
        done.cancel()
        running.cancel()
        await asyncio.gather(running, done, return_exceptions=True)
