"""A node's sessions with a peer, for streams: one that lasts as long as a query, or one for each batch.

Everything is as in a node: a peer proves its key where the protocol has keys, entries are verified before they are
stored, and no peer gets more memory than the limits allow.

Spark calls a stream's methods from one thread, and only when a batch is due. A ``culm://`` peer must be answered all
the time. So that session has a thread with an event loop, and the two threads share nothing but the store's file and
the reason why the session ended.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from threading import Event, Thread

from culm.bamboo import Identity
from culm.errors import NetworkError
from culm.node.config import NodeConfig, NodeLimits
from culm.node.home import DEFAULT_IDENTITY, Home
from culm.node.interests.policy import Policy
from culm.node.network.urls import PeerUrl
from culm.node.sessions.session import Purpose
from culm.node.sessions.stats import PeerRefused, SessionStats
from culm.node.sync import sync
from culm.ranges import Range, RangeSet
from culm.spark.reading.found import Wanted
from culm.spark.source.rows import Options
from culm.spark.source.spool import Spool
from culm.staging import staged_folder
from culm.store import ReadableStore, SQLiteStore
from culm.types import Log

# Seconds for which a peer that was reached before may be away before the query fails: a restart of the peer is no
# reason to fail, and a peer that is gone must not look like one that has nothing new.
_AWAY_SECONDS = 60.0
_RETRY_SECONDS = 1.0  # between two attempts to reach it again
# Seconds without a byte in the middle of an answer, on top of the wait that the user chose. That wait is for a peer
# that has nothing to say; a peer that owes an answer gets this much more before the query fails.
_ANSWER_SECONDS = 30.0
_STOP_SECONDS = 10.0  # for the session to end in order; then the process ends without it, and the store is whole
_logger = logging.getLogger("culm.spark")


@contextmanager
def fetched(url: PeerUrl, spans: Mapping[Log, Range], wait: float) -> Iterator[ReadableStore]:
    """A store, for this block, with what a peer has of these parts of logs.

    ``wait``: seconds of silence after which the peer has nothing to add. ``NetworkError`` if it cannot be reached.
    """
    config = NodeConfig(b"", limits=NodeLimits(settle_seconds=wait, idle_seconds=wait + _ANSWER_SECONDS))
    asked = {log: RangeSet([span]) for log, span in spans.items()}
    purpose = Purpose(is_live=False, mirrors=False, logs=tuple(spans), interest=lambda log: asked.get(log, RangeSet()))
    with staged_folder(Path(gettempdir(), "stream")) as folder, SQLiteStore(folder / "store.db") as store:
        asyncio.run(sync(None, config, store, url, purpose))
        yield store


class _StopAskedError(Exception):
    """The query has ended, so the session ends, too."""


class Feed:
    """Brings into a store what a peer has, of what the options want. ``spool`` reads it there.

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
        self.spool = Spool(self._home.store_path, options.wanted, options.wait)
        self._thread = Thread(target=self._run, name="culm-feed", daemon=True)
        self._stop = Event()
        self._trouble: Exception | None = None
        self._heard = 0.0  # when bytes of the peer came last

    def once(self) -> None:
        """Get what the peer has now. ``NetworkError``, ``ProtocolError`` or ``StoreError`` if that fails."""
        self._session(is_live=False)
        self._stop.set()  # ``go_on`` finds nothing more to do
        self.spool.wait_no_longer()

    def go_on(self) -> None:
        """Get what the peer has, and what it gets later, from the first call on, unless it was to be ``once``.

        Raises why the session ended for good, if it did.
        """
        if self._thread.ident is None:
            self._thread.start()
        if self._trouble is not None:
            raise self._trouble

    def stop(self) -> None:
        """End the session."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)
        self.spool.close()

    # -- on the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Stay in session. A peer that breaks the rules is an error at once, and so is one that was never reached."""
        away_since = float("-inf")
        try:
            while not self._stop.wait(_RETRY_SECONDS if self._heard else 0):
                before = self._heard
                try:
                    self._session(is_live=True)
                except NetworkError as error:
                    if self._heard > before and not isinstance(error, PeerRefused):
                        away_since = time.monotonic()
                    if time.monotonic() - away_since > _AWAY_SECONDS:
                        raise
                    _logger.warning("%s: %s; calling again", self._url, error)
        except Exception as error:  # noqa: BLE001 - a stream must not stand still without a word
            self._trouble = error

    def _session(self, *, is_live: bool) -> None:
        """One session; one that is live ends only with an error."""
        received = 0

        def note(stats: SessionStats) -> None:
            nonlocal received
            if self._stop.is_set():
                raise _StopAskedError
            if stats.bytes_received > received:
                received, self._heard = stats.bytes_received, time.monotonic()

        purpose = Purpose(is_live=is_live, mirrors=False)
        with self._home.store() as store:
            asyncio.run(sync(self._identity, self._config, store, self._url, purpose, note))


def interests(wanted: Wanted) -> Mapping[bytes | Log, RangeSet] | None:
    """What to ask the peer for; None for everything, which is so if neither authors nor logs are named.

    Payloads that would not get into a row are not asked for.
    """
    if wanted.named is None:
        return None
    span, above = wanted.span, wanted.payload_limit + 1  # the first size that is too large; 0 without payloads
    span = replace(span, payloads=span.payloads and above > 0, size_limit=min(span.size_limit or above, above))
    return dict.fromkeys(wanted.named, RangeSet([span]))
