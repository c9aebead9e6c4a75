"""One connection that speaks intervals: the protocol, a socket, and what the node wants of the peer.

Three tasks, as in ``culm.node.session``. The *reader* takes what comes and hands it to the way to the store; it stops
reading while too much waits to be stored, and gives the peer credit for as much as was dealt with. The *writer* asks
for what is missing and answers the peer's requests, a bounded amount at a time, and waits for the socket. The *watch*
looks after silence.

A peer that asks for a log is asked for it in turn: the protocol has no way to list what a peer has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from culm.bamboo import ForkProof
from culm.errors import RemoteProtocolError
from culm.intervals import (
    Connection,
    EntryReceived,
    Event,
    Limits,
    PayloadFailed,
    PayloadReceived,
    Requested,
    RequestEnded,
)
from culm.node.arrivals import Arrivals
from culm.node.follow import Follower, FollowOptions
from culm.node.stats import REFUSALS_KEPT, PeerSilent, SessionStats
from culm.node.tasks import run_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.bamboo import Entry
    from culm.node.config import NodeConfig
    from culm.node.source import StoreSource
    from culm.node.worker import StoreWorker
    from culm.ranges import RangeSet
    from culm.store import ImportReport, Log

_READ_BYTES = 256 * 1024
_WRITE_BYTES = 256 * 1024  # made at once for the socket
_INLINE_BYTES = 4096  # what is so small is taken at once, without a thread
_INLINE_TURNS = 4  # the same for answering so many requests
_MIRRORED_LOGS = 16_384  # that a peer is asked for because it asked for them
_CHECK_SECONDS = 0.25
_QUIET_SECONDS = 0.25  # after we sent something, before a one-time sync ends

_logger = logging.getLogger("culm.node")


class IntervalSession:
    """Runs one connection until it is ended.

    ``logs`` are asked for from the beginning, others when the peer asks for them if ``mirrors`` says so. ``interest``
    says what of each log, by default the policy does. ``live``: go on with what is new; otherwise ``done`` is set once
    everything came and the peer has what it asked for.
    """

    def __init__(
        self,
        config: NodeConfig,
        worker: StoreWorker,
        source: StoreSource,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        logs: Iterable[Log] = (),
        live: bool = True,
        mirrors: bool = True,
        options: FollowOptions | None = None,
        interest: Callable[[Log], RangeSet] | None = None,
        limits: Limits | None = None,
        stored: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self.stats = SessionStats()
        self.done = asyncio.Event()
        self.connection = Connection(source, limits=limits)
        self.follower = Follower(
            self.connection, source, interest or config.policy.interest, options or FollowOptions(), live=live
        )
        self.arrivals = Arrivals(worker, self._was_stored, config.policy.curate)
        self._source = source
        self._live = live
        self._mirrors = mirrors
        self._reader, self._writer = streams
        self._stored = stored
        self._lock = asyncio.Lock()  # the connection is used by one at a time
        self._wake = asyncio.Event()
        self._change = -1
        self._changed = True
        now = time.monotonic()
        self._heard_at = self._spoke_at = self._news_at = self._polled_at = now
        self._unsent_at: float | None = None
        self.follower.add(logs)

    # -- life --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the peer ends the connection, or raise why it was ended: ``NetworkError``, ``ProtocolError``."""
        await run_together(self._read(), self._write(), self._watch(), writer=self._writer, flush=self.arrivals.close)

    def store_changed(self) -> None:
        """The store has changed: the peer may wait for what is new."""
        self._changed = True
        self._wake.set()

    # -- reading -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        limits = self.config.limits
        while data := await self._reader.read(_READ_BYTES):
            self._heard_at = time.monotonic()
            self.stats.bytes_received += len(data)
            async with self._lock:
                if len(data) <= _INLINE_BYTES or self.connection.expects_payload(len(data)):
                    events, failure = self._receive(data)
                else:  # signatures are to be checked
                    events, failure = await asyncio.to_thread(self._receive, data)
            for event in events:
                self._handle(event)
            self.arrivals.end_of_chunk()
            if failure is not None:
                raise failure
            await self.arrivals.room()
            async with self._lock:
                self.connection.refill()
                self._put(self.connection.data_to_send())
            if self.connection.turns or self.follower.has_work or self.follower.is_done:
                self._wake.set()
            if limits.max_rate:
                await asyncio.sleep(len(data) / limits.max_rate)

    def _receive(self, data: bytes) -> tuple[list[Event], RemoteProtocolError | None]:
        """What some bytes say, up to where they break the protocol."""
        events: list[Event] = []
        try:
            for event in self.connection.receive_data(data):
                events.append(event)
                if not isinstance(event, EntryReceived | PayloadReceived):
                    self.follower.handle(event)
                elif (isinstance(event, PayloadReceived) and event.complete) or isinstance(event, EntryReceived):
                    self.follower.progressed(event.id)
        except RemoteProtocolError as error:
            return events, error
        return events, None

    def _handle(self, event: Event) -> None:
        stats = self.stats
        match event:
            case EntryReceived():
                stats.entries_received += 1
                self._news_at = self._heard_at
                self.arrivals.take(event)
            case PayloadReceived():
                stats.payload_bytes += len(event.data)
                self._news_at = self._heard_at
                self.arrivals.take(event)
            case PayloadFailed():
                self._refuse(event.entry, "the payload that came is not the one the entry names")
                self.arrivals.take(event)
            case Requested(request):
                self._news_at = self._heard_at
                if self._mirrors and self.follower.count < min(_MIRRORED_LOGS, self.config.limits.max_logs):
                    self.follower.add([request.log])
            case RequestEnded(_, log, doubted) if doubted is not None:
                self.follower.doubt(log, doubted)
            case _:
                self._news_at = self._heard_at
        stats.missing = self.follower.missing
        for proof in self.follower.proofs:
            self._take_proof(proof)
        self.follower.proofs.clear()

    def _take_proof(self, entries: tuple[Entry, ...]) -> None:
        proof = ForkProof.of(*entries) if len(entries) > 1 else None
        if proof is not None:
            self.arrivals.take_proof(proof)
        else:
            self.arrivals.take_entry(entries[0])

    def _refuse(self, entry: Entry, reason: str) -> None:
        if len(self.stats.refused) < REFUSALS_KEPT:
            self.stats.refused.append(f"{entry.place}: {reason}")
        _logger.warning("refused: %s %s", entry.place, reason)

    def _was_stored(self, report: ImportReport) -> None:
        self.stats.forks += len(report.forks)
        for place, error in report.refused[: REFUSALS_KEPT - len(self.stats.refused)]:
            self.stats.refused.append(f"{place}: {error}")
            _logger.warning("refused: %s %s", place, error)
        if report.added or report.payloads:
            self.store_changed()
            self._stored()
        if self.follower.needs_storing:
            self._wake.set()

    # -- writing -----------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            self._wake.clear()
            if self.follower.needs_storing and self.arrivals.idle:
                self.follower.look_again()
            async with self._lock:
                if self.follower.has_work or self.connection.turns > _INLINE_TURNS:
                    data, more = await asyncio.to_thread(self._compose)
                else:  # a millisecond's work
                    data, more = self._compose()
                self._put(data)
            for event in self.connection.take_events():
                self._handle(event)
            self.stats.entries_sent = self.connection.entries_sent
            if data:
                await self._writer.drain()
                self._unsent_at = None
            if not more:
                self._check_done()
                if not data:
                    await self._wake.wait()

    def _put(self, data: bytes) -> None:
        """Hand bytes to the socket, in the order in which the connection gave them: whoever does holds the lock."""
        if data:
            self._spoke_at = time.monotonic()
            self._unsent_at = self._unsent_at or self._spoke_at
            self.stats.bytes_sent += len(data)
            self._writer.write(data)

    def _compose(self) -> tuple[bytes, bool]:
        """Bytes for the peer, and whether there are more at once."""
        if self._changed:
            self._changed = False
            self._change, logs = self._source.changed_logs(self._change)
            self.connection.wake(logs)
        self.follower.step()
        more = self.connection.respond(_WRITE_BYTES)
        return self.connection.data_to_send(), more

    # -- watching ----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        limits = self.config.limits
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            now = time.monotonic()
            if not self._writer.transport.get_write_buffer_size():
                self._unsent_at = None
            if self._unsent_at is not None and now - self._unsent_at > limits.idle_seconds:
                raise PeerSilent(f"the peer took nothing for {limits.idle_seconds:g} s")
            if now - self._heard_at > limits.idle_seconds:
                raise PeerSilent(f"nothing came from the peer for {limits.idle_seconds:g} s")
            if now - self._spoke_at > limits.keepalive_seconds and self._unsent_at is None:
                async with self._lock:
                    self.connection.keep_alive()
                    self._put(self.connection.data_to_send())
            if now - self._news_at > limits.settle_seconds:
                async with self._lock:
                    self.follower.settle()
                    if self._live and now - self._polled_at > self.config.interval:
                        self._polled_at = now
                        self.follower.poll()
            self._wake.set()

    def _check_done(self) -> None:
        if self._live or not (self.follower.is_done and self.arrivals.idle):
            return
        quiet = time.monotonic() - self._news_at
        needed = _QUIET_SECONDS if self.stats.entries_sent else 0.0
        if (self.connection.peer_is_content and quiet >= needed) or quiet > self.config.limits.settle_seconds:
            self.done.set()
