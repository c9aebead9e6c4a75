"""The node: listeners, contacts, sessions, and the news that goes between them."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from culm.errors import ConfigError, CulmError, NetworkError, ProtocolError
from culm.node.folding import folding
from culm.node.intervals import IntervalSession
from culm.node.peer import PeerSession
from culm.node.proposals import ProposalSession
from culm.node.reconcile import Listening
from culm.node.roster import Roster
from culm.node.session import Session
from culm.node.source import StoreSource
from culm.node.stats import PeerRefused
from culm.node.urls import PeerUrl
from culm.node.worker import StoreWorker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from culm.bamboo import Entry, Identity
    from culm.node.config import NodeConfig
    from culm.node.policy import Policy
    from culm.store import Log, SQLiteStore
    from culm.store.interface import Bytes

_LOOK_SECONDS = 0.02  # how often is looked whether another process wrote to the store
_POLL_SECONDS = 0.25  # how often the store is asked for changes, whatever it looks like
_MAX_BACKOFF = 10.0  # times the interval between contacts
_STREAM_LIMIT = 512 * 1024
CONNECT_SECONDS = 10.0

_logger = logging.getLogger("culm.node")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(url: PeerUrl) -> Streams:
    """Connect to a peer; ``NetworkError`` if that fails or takes more than ten seconds."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(url.host, url.port, limit=_STREAM_LIMIT)
    except TimeoutError:
        raise NetworkError(f"{url} does not answer") from None
    except OSError as error:
        raise NetworkError(f"cannot reach {url}: {_reason(error)}") from None


async def listen_at(
    url: PeerUrl, accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> tuple[asyncio.Server, PeerUrl]:
    """Listen; the server, and its address with the port that it got. ``ConfigError`` if that cannot be."""
    try:
        server = await asyncio.start_server(accept, url.host, url.port, limit=_STREAM_LIMIT)
    except OSError as error:
        raise ConfigError(f"cannot listen at {url}: {_reason(error)}") from None
    return server, PeerUrl(url.scheme, url.host, server.sockets[0].getsockname()[1])


def _reason(error: OSError) -> str:
    """The system's words for an error: asyncio's own repeat the address."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


class Node:
    """Serves a store to peers and keeps up with them until it is stopped. The store is used by the node alone."""

    def __init__(self, identity: Identity, config: NodeConfig, store: SQLiteStore) -> None:
        self.config = config
        self.sessions: set[Session | PeerSession] = set()
        self.roster = Roster(identity.public, store.path)
        self._identity = identity
        self._worker = StoreWorker(store)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._comparisons = 0
        self._source: StoreSource | None = None

    async def run(
        self,
        listen: Sequence[PeerUrl],
        peers: Sequence[PeerUrl],
        *,
        stop: asyncio.Event,
        listening: Callable[[PeerUrl], None] = lambda _: None,
    ) -> None:
        """Listen, contact the peers, and go on until ``stop`` is set. ``listening`` is called for each listener.

        ``ConfigError`` if an address cannot be listened at.
        """
        try:
            for url in listen:
                listening(await self._listen(url))
            self._start(self._watch_store())
            for url in peers:
                self._start(self._keep_contact(url))
            async with folding(self._worker):
                await stop.wait()
        finally:
            await self._stop()

    async def append(self, identity: Identity, log_id: int, payload: Iterable[Bytes], *, is_end: bool = False) -> Entry:
        """Publish the next entry of the identity's log, and tell the peers at once. See ``SQLiteStore.append``."""
        entry = await self._worker.run(self._worker.store.append, identity, log_id, payload, is_end=is_end)
        self._tell_sessions()
        return entry

    async def change_policy(self, policy: Policy) -> None:
        """Go on with other choices. Sessions with proposals change at once, the others when they are made anew."""
        self.config = replace(self.config, policy=policy)
        if self._source is not None:
            self._source.policy = policy
        for session in list(self.sessions):
            if isinstance(session, ProposalSession):
                await session.change_policy(policy)

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, url: PeerUrl) -> PeerUrl:
        if url.scheme != "bushbaby" and self.config.policy.allow_peers:
            # Nobody proves who they are there.
            raise ConfigError(f"{url} would show what is held to peers that are not on the allow list")
        accept = {
            "bushbaby": self._accept,
            "intervals": self._accept_intervals,
            "proposals": self._accept_proposals,
            "negentropy": self._accept_comparison,
        }[url.scheme]
        server, place = await listen_at(url, accept)
        self._servers.append(server)
        self.roster.listeners.append(place)
        return place

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._admitted(writer):
            with suppress(CulmError, asyncio.CancelledError):  # it was logged; or the node stops
                await self._run(self._bushbaby((reader, writer), called=False), "a caller")

    async def _accept_intervals(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._admitted(writer):
            with suppress(CulmError, asyncio.CancelledError):
                await self._run(self._intervals((reader, writer)), "a caller")

    async def _accept_proposals(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._admitted(writer):
            with suppress(CulmError, asyncio.CancelledError):
                await self._run(self._proposals((reader, writer), called=False), "a caller")

    async def _accept_comparison(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._admitted(writer):
            return
        self._comparisons += 1
        try:
            await Listening(self._worker, self.config.policy, self.config.limits, (reader, writer)).run()
        except CulmError as error:
            _logger.warning("dropped a caller who compares: %s", error)
        finally:
            self._comparisons -= 1

    def _admitted(self, writer: asyncio.StreamWriter) -> bool:
        """Whether there is room for a connection, whose task is then among the node's; else it is closed."""
        count = len(self.sessions) + self._comparisons
        if count >= self.config.limits.max_sessions:
            _logger.warning("refused a connection: %d sessions are open", count)
            writer.close()
            return False
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    def _bushbaby(self, streams: Streams, *, called: bool) -> Session:
        return Session(self._identity, self.config, self._worker, streams, called=called, stored=self._tell_sessions)

    def _intervals(self, streams: Streams, *, logs: Iterable[Log] = ()) -> IntervalSession:
        return IntervalSession(
            self.config,
            self._worker,
            self._shared_source(),
            streams,
            logs=logs,
            stored=self._tell_sessions,
            grew=self._tell_of_growth,
        )

    def _proposals(self, streams: Streams, *, called: bool, logs: Iterable[Log] = ()) -> ProposalSession:
        return ProposalSession(
            self.config,
            self._worker,
            self._shared_source(),
            streams,
            called=called,
            logs=logs,
            options=self.config.proposals,
            stored=self._tell_sessions,
            grew=self._tell_of_growth,
        )

    def _shared_source(self) -> StoreSource:
        if self._source is None:
            self._source = StoreSource(self._worker.store, self.config.policy)
        return self._source

    async def _run(self, session: Session | PeerSession, name: str) -> None:
        self.sessions.add(session)
        self.roster.began(session, name)
        try:
            await session.run()
        except PeerRefused as error:
            _logger.warning("%s: %s", name, error)
            raise
        except (NetworkError, ProtocolError) as error:
            _logger.warning("dropped %s: %s", name, error)
            raise
        except CulmError as error:
            _logger.error("ended the session with %s: %s", name, error)  # noqa: TRY400 - the reason says it
            raise
        else:
            _logger.info("%s ended the session", name)
        finally:
            self.sessions.discard(session)
            self.roster.ended(session, sys.exception())

    async def _keep_contact(self, url: PeerUrl) -> None:
        backoff = 1.0
        self.roster.troubles[url] = None
        while True:
            try:
                streams = await connect(url)
                self.roster.troubles[url] = None
                await self._run(await self._calling(url, streams), str(url))
                backoff = 1.0
            except CulmError as error:
                _logger.info("%s: %s", url, error)
                self.roster.troubles[url] = str(error)
                backoff = min(backoff * 2, _MAX_BACKOFF)
            await asyncio.sleep(self.config.interval * backoff * random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    async def _calling(self, url: PeerUrl, streams: Streams) -> Session | PeerSession:
        """The session of a connection that we opened."""
        if url.scheme == "bushbaby":
            return self._bushbaby(streams, called=True)
        logs = await self._worker.run(logs_to_ask_for, self._worker.store, self.config.policy)
        if url.scheme == "intervals":
            return self._intervals(streams, logs=logs)
        return self._proposals(streams, called=True, logs=logs)

    async def _watch_store(self) -> None:
        async for _ in changes(self._worker):
            self._tell_sessions()

    def _tell_sessions(self) -> None:
        for session in self.sessions:
            session.store_changed()

    def _tell_of_growth(self, log: Log) -> None:
        for session in self.sessions:
            if isinstance(session, PeerSession):
                session.log_grew(log)

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._worker.close()
        if self._source is not None:
            self._source.close()


async def changes(worker: StoreWorker) -> AsyncIterator[int]:
    """The number of the store's last change, whenever there is a new one, by whichever process.

    It is noticed soon by the file that is written, and for sure by asking the store.
    """
    change, asked, written = -1, 0.0, None
    while True:
        now = time.monotonic()
        if (seen := _written(worker.store.path)) != written or now - asked > _POLL_SECONDS:
            written, asked = seen, now
            if (last := await worker.run(worker.store.change)) != change:
                change = last
                yield change
        await asyncio.sleep(_LOOK_SECONDS)


def _written(store: Path) -> tuple[int, int] | None:
    """When, and how large, the file was written that every change goes to first."""
    try:
        status = store.with_name(store.name + "-wal").stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def logs_to_ask_for(store: SQLiteStore, policy: Policy) -> list[Log]:
    """The logs of the interests, those of authors as far as they are held; without interests all that are held."""
    held = [(summary.author, summary.log_id) for summary in store.logs()]
    named = [log for log in policy.interests or () if isinstance(log, tuple)]
    return [log for log in dict.fromkeys([*named, *held]) if policy.wants(log)]
