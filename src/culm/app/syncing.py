"""One-time exchanges with a peer, while the node runs: each with its own connection to the store's file.

The running node may be in session with the same peer. The exchange is a session of its own all the same, because only
then does it have its own counts, and an end.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from culm.bamboo import Entry, Identity
from culm.errors import ConfigError, NetworkError, NotHeld, PayloadDamaged, PayloadMismatch
from culm.node.asking import How, Wanted, check_how, logs_to_ask_for, narrowed
from culm.node.config import NodeConfig
from culm.node.held import HeldByPeers
from culm.node.interests.missing import lacking
from culm.node.interests.policy import Policy
from culm.node.intervals.peek import Peek
from culm.node.network.transport import connect
from culm.node.network.urls import WEB_SCHEMES, PeerUrl
from culm.node.roster import OneTime
from culm.node.schemes import scheme_of
from culm.node.sessions.session import Context, Purpose, Session
from culm.node.sessions.stats import SessionStats
from culm.node.sessions.tasks import until_one_ends
from culm.node.sharing.kept import KeptPeers
from culm.node.sharing.peering import Peering, place_of
from culm.node.storage.healing import tell_damage
from culm.node.storage.source import StoreSource
from culm.node.storage.worker import StoreWorker
from culm.node.sync import SyncSummary, sync
from culm.ranges import RangeSet
from culm.store import PayloadState, ReadableStore, SQLiteStore, StoredEntry, ToolStore
from culm.types import Log

Progress = Callable[[SessionStats], None]
Tell = Callable[..., object]
"""Hears what happens with the peer, as ``Roster.tell`` does."""
FETCHING = ("culm", "intervals", *WEB_SCHEMES)
"""Protocols by which single entries can be fetched."""
_MOST_TOLD = 1000  # Spans of each range that a fetch says the peer lacks.


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a fetch did: the counts, and what the peer does not have of it, as (log, first, last)."""

    summary: SyncSummary
    lacking: list[tuple[Log, int, int]]


async def exchange(
    identity: Identity,
    config: NodeConfig,
    path: Path,
    url: PeerUrl,
    wanted: Wanted,
    how: How | None,
    progress: Progress,
    kept: KeptPeers | None = None,
    held: HeldByPeers | None = None,
    tell: Tell = lambda *_, **__: None,
) -> SyncSummary:
    """Exchange with a peer what both sides want, once; see ``Node.sync``."""
    scheme = scheme_of(url)
    check_how(how, url)
    store = await asyncio.to_thread(SQLiteStore, path)
    try:
        purpose = Purpose(is_live=False, mirrors=False, options=how or config.how_for(url))
        if scheme.asks_by_log:
            purpose = await asyncio.to_thread(asking_by_log, purpose, store, config.policy, wanted)
        elif wanted:
            config = replace(config, policy=narrowed(config.policy, wanted))
        return await sync(identity, config, store, url, purpose, progress, kept=kept, held=held, tell=tell)
    finally:
        store.close()


def asking_by_log(purpose: Purpose, store: ReadableStore, policy: Policy, wanted: Wanted) -> Purpose:
    """A purpose with the logs to ask for: those named, else those of interest."""
    logs = tuple(wanted) or tuple(logs_to_ask_for(store, policy))
    if not logs and not purpose.is_live:
        raise ConfigError("no logs to ask for: name them as AUTHOR/LOG, because the protocol cannot list a peer's logs")
    # As it is now for what was named; the policy's, which may change, for all other logs.
    named = narrowed(policy, wanted).interests or {}
    return replace(purpose, logs=logs, interest=lambda log: named.get(log) or policy.interest(log))


async def fetch(
    identity: Identity | None,
    config: NodeConfig,
    store: ToolStore,
    url: PeerUrl,
    wanted: Mapping[Log, RangeSet],
    progress: Progress,
    tell: Tell = lambda *_, **__: None,
) -> Fetched:
    """Get entries of logs with what verifies them, payloads included that were deleted; see ``Node.fetch``."""
    await asyncio.to_thread(_want_again, store, wanted)
    purpose = Purpose(is_live=False, mirrors=False)
    if scheme_of(url).asks_by_log:
        purpose = replace(purpose, logs=tuple(wanted), interest=lambda log: wanted.get(log, RangeSet()))
    else:  # No other log has a part, so that nothing else comes or goes.
        authors, nobody = frozenset(author for author, _ in wanted), frozenset[bytes]()
        interests: dict[bytes | Log, RangeSet] = dict(wanted.items())
        policy = replace(config.policy, allow_authors=authors, block_authors=nobody, own=nobody)
        config = replace(config, policy=replace(policy, interests=interests, hoard=False, promote=frozenset()))
    summary = await sync(identity, config, store, url, purpose, progress, tell=tell)
    return Fetched(summary, await asyncio.to_thread(_lacking, store, wanted))


async def read_pieces(
    identity: Identity,
    config: NodeConfig,
    store: ToolStore,
    url: PeerUrl,
    entry: Entry,
    first: int,
    last: int,
    tell: Tell = lambda *_, **__: None,
) -> AsyncGenerator[bytes]:
    """Ask a peer for a part of a payload; see ``Node.fetch_pieces``."""
    if not 0 <= first <= last < entry.size:
        raise ConfigError(f"the payload of entry {entry.seq} has {entry.size} bytes; it has no bytes {first} to {last}")
    if await asyncio.to_thread(store.get, entry.place) is None:
        raise NotHeld("the store does not have this entry: fetch it first, without its payload if need be")
    peek = Peek(entry, first, last)
    asking = asyncio.create_task(_ask(identity, config, store, url, peek, entry.author, tell))
    asking.add_done_callback(lambda _: peek.finish())
    try:
        async for piece in peek.pieces():
            yield piece
        await asking
    finally:
        peek.finish()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    if peek.is_wrong:
        raise PayloadMismatch("the payload that the peer sent does not match the hash in its entry", entry.place)
    if not peek.is_complete and peek.has_ended:
        raise NotHeld("the peer does not have these bytes")
    if not peek.is_complete:
        raise NetworkError("the peer ended the connection before all bytes had come")


async def _ask(
    identity: Identity, config: NodeConfig, store: ToolStore, url: PeerUrl, peek: Peek, author: bytes, tell: Tell
) -> None:
    """The session in which a peek is answered, until that is over."""
    nobody = frozenset[bytes]()
    policy = replace(config.policy, interests={}, allow_authors=frozenset({author}), block_authors=nobody)
    config = replace(config, policy=replace(policy, own=nobody, hoard=False, promote=frozenset()))
    scheme, worker = scheme_of(url), StoreWorker(store, config.surroundings)
    told = OneTime(url, tell)
    context = Context(identity, config, worker, StoreSource(store, config.policy), happened=told.happened)
    assert scheme.session is not None  # noqa: S101 - ``FETCHING`` names no other protocol
    try:
        purpose = Purpose(called=True, key=url.key, mirrors=False, peek=peek)
        with told.calling():
            streams = await connect(url, config.for_peer(url)[1].token_file)
        session = scheme.session(context, Peering(config).paced(streams), purpose)
        with told.during(session, place_of(streams[1])):
            await until_one_ends(session.run(), _all_come(peek, session, config.limits.settle_seconds))
    finally:
        worker.close()
        context.source.close()


async def _all_come(peek: Peek, session: Session[Any], seconds: float) -> None:
    """Wait until all bytes have come, the peer has ended its answer, or nothing came for ``seconds``; then hang up.

    A peer without them says nothing, or that it has no more to say.
    """
    come = -1
    while not peek.over.is_set() and (peek.received > come or peek.is_full):
        # Until then the session looks at the clock: a peer behind a pipe may take long to start.
        if session.is_open and session.stats.bytes_received:
            come = peek.received
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await peek.over.wait()
    peek.has_ended = True
    peek.finish()
    await session.driver.send_now()  # That the request is cancelled.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await peek.quiet.wait()  # Bytes that met a closed connection would count as broken off.
            await session.driver.end_writing()


def _want_again(store: ToolStore, wanted: Mapping[Log, RangeSet]) -> None:
    """Let payloads be fetched that were deleted, or that turn out to be damaged."""
    found: list[StoredEntry] = []
    for log, ranges in wanted.items():
        for item in ranges:
            held = store.entries(log, item.start, item.last)
            found += (stored for stored in held if item.contains_payload(stored.entry.seq, stored.entry.size))
    for stored in found:
        place = stored.entry.place
        if stored.payload_state is PayloadState.FORGOTTEN:
            store.want_again(place)
        elif stored.payload_complete:
            try:
                store.check_payload(stored)
            except PayloadDamaged as damage:
                if store.drop_damaged(damage):
                    tell_damage(place)


def _lacking(store: ToolStore, wanted: Mapping[Log, RangeSet]) -> list[tuple[Log, int, int]]:
    return [
        (log, low, high)
        for log, ranges in wanted.items()
        for item in ranges
        if not item.is_open
        for low, high in lacking(store, log, item, item.start, _MOST_TOLD)
    ]
