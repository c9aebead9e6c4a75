"""The node: listeners, contacts, sessions, and the news that goes between them."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from contextlib import suppress
from typing import TYPE_CHECKING

from culm.errors import ConfigError, CulmError, NetworkError, ProtocolError
from culm.node.reconcile import Listening
from culm.node.session import PeerRefused, Session
from culm.node.urls import PeerUrl
from culm.node.worker import StoreWorker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from culm.bamboo import Identity
    from culm.node.config import NodeConfig
    from culm.store import SQLiteStore

_POLL_SECONDS = 0.1  # how often the store is asked whether another process changed it
_MAX_BACKOFF = 10.0  # times the interval between contacts
_STREAM_LIMIT = 256 * 1024
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


def _reason(error: OSError) -> str:
    """The system's words for an error: asyncio's own repeat the address."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


class Node:
    """Serves a store to peers and keeps up with them until it is stopped. The store is used by the node alone."""

    def __init__(self, identity: Identity, config: NodeConfig, store: SQLiteStore) -> None:
        self.config = config
        self.sessions: set[Session] = set()
        self._identity = identity
        self._worker = StoreWorker(store)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._comparisons = 0
        self._change = -1

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
            await stop.wait()
        finally:
            await self._stop()

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, url: PeerUrl) -> PeerUrl:
        if url.scheme == "negentropy" and self.config.policy.allow_peers:
            # Nobody proves who they are there.
            raise ConfigError(f"{url} would show what is held to peers that are not on the allow list")
        accept = self._accept_comparison if url.scheme == "negentropy" else self._accept
        try:
            server = await asyncio.start_server(accept, url.host, url.port, limit=_STREAM_LIMIT)
        except OSError as error:
            raise ConfigError(f"cannot listen at {url}: {_reason(error)}") from None
        self._servers.append(server)
        return PeerUrl(url.scheme, url.host, server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._admitted(writer):
            with suppress(CulmError):  # it was logged
                await self._run_session((reader, writer), "a caller", called=False)

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

    async def _run_session(self, streams: Streams, name: str, *, called: bool) -> None:
        session = Session(self._identity, self.config, self._worker, streams, called=called, stored=self._tell_sessions)
        self.sessions.add(session)
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

    async def _keep_contact(self, url: PeerUrl) -> None:
        backoff = 1.0
        while True:
            try:
                await self._run_session(await connect(url), str(url), called=True)
                backoff = 1.0
            except CulmError as error:
                _logger.info("%s: %s", url, error)
                backoff = min(backoff * 2, _MAX_BACKOFF)
            await asyncio.sleep(self.config.interval * backoff * random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    async def _watch_store(self) -> None:
        """Notice entries that other processes appended."""
        while True:
            change = await self._worker.run(self._worker.store.change)
            if change != self._change:
                self._change = change
                self._tell_sessions()
            await asyncio.sleep(_POLL_SECONDS)

    def _tell_sessions(self) -> None:
        for session in self.sessions:
            session.store_changed()

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._worker.close()
