"""The session that fills the store of a live stream: a node's session with one peer, in a thread of its own.

Spark calls a stream's methods from one thread, and only when a batch is due. The peer must be answered all the time. So
the session has a thread with an event loop, and the two threads share nothing but the store's file and the reason why
the session ended. Everything else is as in a node: the peer proves its key, entries are verified before they are
stored, and no peer gets more memory than the limits allow.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

from culm.bamboo import Identity
from culm.errors import CulmError, NetworkError
from culm.node.config import NodeConfig
from culm.node.home import DEFAULT_IDENTITY, Home
from culm.node.interests.policy import Policy
from culm.node.network.backoff import Backoff
from culm.node.network.urls import PeerUrl
from culm.node.sessions.session import Purpose
from culm.node.sessions.stats import PeerRefused, SessionStats
from culm.node.sync import sync
from culm.ranges import Range, RangeSet
from culm.spark.reading.wanted import Wanted
from culm.spark.source.options import Options
from culm.types import Log

# Seconds for which a peer that was reached before may be away before the query fails: a restart of the peer is no
# reason to fail, and a peer that is gone must not look like one that has nothing new.
_AWAY_SECONDS = 60.0
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.5, 10.0  # between two attempts to reach it again
_STOP_SECONDS = 10.0  # for the session to end in order; then the process ends without it, and the store is whole
_logger = logging.getLogger("culm.spark")


class Feed:
    """Brings into a store what a peer has, of what the options want.

    A home that is not there is made, with a new identity. ``ConfigError`` if the identity has a passphrase: nobody is
    there to type it.
    """

    def __init__(self, url: PeerUrl, options: Options) -> None:
        self._url = url
        self._home = Home.find(Path(options.home or ""))
        if not self._home.store_path.exists():
            self._home.create()
        if not self._home.identity_names():
            self._home.add_identity(options.identity or DEFAULT_IDENTITY, Identity.create(), None)
        clump = self._home.settings(None).clump if options.clump is None else options.clump.encode()
        self._identity = self._home.identity(options.identity)
        policy = Policy(own=self._home.own_authors(), interests=interests(options.wanted))
        self._config = NodeConfig(clump or b"", policy=policy)
        self._thread: Thread | None = None
        self._stop: Event = Event()
        self._trouble: CulmError | None = None
        self._heard = 0.0  # when bytes of the peer came last

    @property
    def store_path(self) -> Path:
        """The store's file."""
        return self._home.store_path

    def once(self) -> None:
        """Get what the peer has now. ``NetworkError``, ``ProtocolError`` or ``StoreError`` if that fails."""
        asyncio.run(self._session(is_live=False))

    def start(self) -> None:
        """Begin to get what the peer has, and what it gets later."""
        self._thread = Thread(target=self._run, name="culm-feed", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise why the session ended for good, if it did."""
        if self._trouble is not None:
            raise self._trouble

    def stop(self) -> None:
        """End the session."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    # -- on the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._until_stopped())
        except CulmError as error:
            self._trouble = error
        except Exception as error:  # noqa: BLE001 - a stream must not stand still without a word
            self._trouble = CulmError(f"the session with {self._url} failed: {error!r}")

    async def _until_stopped(self) -> None:
        keeping = asyncio.create_task(self._keep())
        stopped = asyncio.create_task(asyncio.to_thread(self._stop.wait))
        await asyncio.wait((keeping, stopped), return_when=asyncio.FIRST_COMPLETED)
        self._stop.set()
        keeping.cancel()
        await asyncio.gather(keeping, stopped, return_exceptions=True)
        if not keeping.cancelled() and (error := keeping.exception()) is not None:
            raise error

    async def _keep(self) -> None:
        """Stay in session. A peer that breaks the rules is an error at once, and so is one that was never reached."""
        backoff = Backoff(_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS, random.random)
        away_since = 0.0
        while True:
            try:
                await self._session(is_live=True)
            except NetworkError as error:
                now = time.monotonic()
                if self._heard > away_since and not isinstance(error, PeerRefused):
                    away_since = now
                    backoff.succeeded()
                if not self._heard or now - away_since > _AWAY_SECONDS:
                    raise
                _logger.warning("%s: %s; calling again", self._url, error)
            await asyncio.sleep(backoff.failed())

    async def _session(self, *, is_live: bool) -> None:
        """One session; one that is live ends only with an error."""
        received = 0

        def note(stats: SessionStats) -> None:
            nonlocal received
            if stats.bytes_received > received:
                received, self._heard = stats.bytes_received, time.monotonic()

        store = await asyncio.to_thread(self._home.store)
        try:
            purpose = Purpose(is_live=is_live, mirrors=False)
            await sync(self._identity, self._config, store, self._url, purpose, note)
        finally:
            store.close()


def interests(wanted: Wanted) -> Mapping[bytes | Log, RangeSet] | None:
    """What to ask the peer for; None for everything, which is so if neither authors nor logs are named.

    Payloads that would not get into a row are not asked for.
    """
    if not wanted.chooses_logs:
        return None
    names: list[bytes | Log] = [*(wanted.authors or ()), *(wanted.logs or ())]
    return dict.fromkeys(names, RangeSet([_asked(wanted.span, wanted.payload_limit)]))


def _asked(span: Range, payload_limit: int) -> Range:
    if payload_limit < 0:
        return replace(span, payloads=False)
    if span.size_limit and span.size_limit <= payload_limit:
        return span
    return replace(span, size_limit=payload_limit + 1)
