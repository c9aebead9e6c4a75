"""What sessions of both Point-2-Point protocols have in common: a socket, the way to the store, and three tasks.

The *reader* takes what comes, some of it in each turn (``culm.node.sharing.turns``), and hands it to the way to the
store; it stops reading while too much waits to be stored, and gives the peer credit for as much as was dealt with. The
*writer* asks for what is missing and answers what the peer asks for, a bounded amount at a time, and waits for the
socket. The *watch* looks after silence.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from culm.bamboo import ForkProof
from culm.errors import PayloadMismatch, RemoteProtocolError, StoreError
from culm.node.sessions.arrivals import Arrivals
from culm.node.sessions.stats import REFUSALS_KEPT, PeerSilent, SessionStats, tell_refused
from culm.node.sessions.tasks import no_reader, peer_address, run_together
from culm.node.sharing.rates import unsent
from culm.node.sharing.turns import Portion
from culm.node.surroundings import clock
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.bamboo import Entry
    from culm.node.config import NodeConfig
    from culm.node.interests.policy import Policy
    from culm.node.storage.source import StoreSource
    from culm.node.storage.worker import AnyWorker
    from culm.store import ImportReport, Log

_READ_BYTES = 256 * 1024
WRITE_BYTES = 256 * 1024  # made at once for the socket
_INLINE_BYTES = 4096  # what is so small is taken at once, without a thread
_MOST_UNSENT = 1024 * 1024  # bytes that wait for the peer to take them, at which no more is read from it
MIRRORED_LOGS = 16_384  # that a peer is asked for because it asked for them
_CHECK_SECONDS = 0.25


class PeerSession(ABC):
    """Runs one connection until it is ended. ``done`` is set once a one-time sync has nothing left to do."""

    scheme: ClassVar[str]
    peer: bytes | None = None  # nobody proves who they are

    def __init__(
        self,
        config: NodeConfig,
        worker: AnyWorker,
        source: StoreSource,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        live: bool,
        stored: Callable[[], None],
        grew: Callable[[Log], None] | None = None,
    ) -> None:
        self.config = config
        self.stats = SessionStats()
        self.done = asyncio.Event()
        self.arrivals = Arrivals(worker, self._was_stored, config.policy.curate, grew)
        self._share = worker.share
        self._portion = Portion()
        self._source = source
        self._live = live
        self._reader, self._writer = streams
        self._stored = stored
        self._lock = asyncio.Lock()  # the protocol is used by one at a time
        self._wake = asyncio.Event()
        self._change = -1
        self._changed = True
        self._is_taking = False  # what was said is not on its way to the store yet
        self._heard_at = self._spoke_at = self._news_at = self._polled_at = clock()
        self._unsent_at: float | None = None

    @property
    def news_at(self) -> float:
        """When something of use came from the peer."""
        return self._news_at

    # -- life --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the peer ends the connection, or raise why it was ended: ``NetworkError``, ``ProtocolError``."""
        try:
            await run_together(self._read(), self._write(), self._watch(), writer=self._writer, flush=self._flush)
        finally:
            self._reader = no_reader()

    async def _flush(self) -> None:
        await self.arrivals.close()

    @property
    def address(self) -> str:
        """Where the peer is, as ``HOST:PORT``."""
        return peer_address(self._writer)

    def store_changed(self) -> None:
        """The store has changed: the peer may wait for what is new."""
        self._changed = True
        self._wake.set()

    @abstractmethod
    async def change_policy(self, policy: Policy) -> None:
        """Go on with other choices."""

    def _newly_wanted(self, policy: Policy) -> list[Log]:
        """The logs of which anything is held and that are of interest."""
        return [log for log in self._source.logs() if policy.wants(log)]

    def log_grew(self, log: Log) -> None:  # noqa: B027 - of no use to protocols that send what was verified only
        """More bytes of a payload that is being fetched are there, or it is not being fetched any more."""

    def _changed_logs(self) -> list[Log]:
        """The logs that have changed since this was asked last."""
        if not self._changed:
            return []
        self._changed = False
        if self._change < 0:  # nobody waits for anything yet
            self._change = self._source.change()
            return []
        self._change, logs = self._source.changed_logs(self._change)
        return logs

    # -- what the protocol does --------------------------------------------------------------------------------

    @abstractmethod
    def _expects_payload(self, size: int) -> bool:
        """Whether the next so many bytes are, as far as can be told, those of a large payload."""

    @abstractmethod
    def _parse(self, data: bytes) -> Iterable[Any]:
        """What some bytes say, noted where it matters for asking. ``RemoteProtocolError`` ends the connection."""

    @property
    def _has_more(self) -> bool:
        """Whether more was said than was to be dealt with at once: no bytes are to be parsed until it is."""
        return False

    @abstractmethod
    def _handle(self, event: Any) -> None:  # noqa: ANN401 - each protocol has its own
        """Do what an event asks for."""

    @abstractmethod
    def _refill(self) -> bytes:
        """Everything that came is dealt with: bytes that give the peer credit."""

    @abstractmethod
    def _compose(self) -> tuple[bytes, bool]:
        """Bytes for the peer, and whether there are more at once."""

    @property
    @abstractmethod
    def _is_small_work(self) -> bool:
        """Whether composing takes a millisecond at most."""

    @abstractmethod
    def _take_events(self) -> Iterable[Any]:
        """What happened while composing."""

    @abstractmethod
    def _keep_alive(self) -> bytes:
        """A sign of life."""

    def _settle(self) -> None:  # noqa: B027 - only some need it
        """Nothing came for a while."""

    @abstractmethod
    def _poll(self) -> None:
        """Ask again for what the peer did not have: it answers without keeping what is asked open."""

    @abstractmethod
    def _check_done(self) -> None:
        """Whether a one-time sync has nothing left to do."""

    def _look_again(self) -> None:  # noqa: B027 - not every protocol asks in rounds
        """Everything that came is stored."""

    # -- reading -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while data := await self._reader.read(_READ_BYTES):
            self._heard_at = clock()
            self._count(received=len(data))
            self._is_taking = True
            at = 0
            while at < len(data):
                at += await self._take_some(data, at)
            self.arrivals.end_of_chunk()
            self._is_taking = False
            async with self._lock:
                self._put(self._refill())
            if unsent(self._writer) > _MOST_UNSENT:  # who does not take our answers is asked nothing more
                await self._writer.drain()
            self._wake.set()

    async def _take_some(self, data: bytes, at: int) -> int:
        """Take some of what came, in its turn; how many bytes."""
        async with self._lock:
            is_payload = self._expects_payload(len(data) - at)
            part = data[at:] if is_payload else data[at : at + self._portion.size]
            if is_payload or len(part) <= _INLINE_BYTES:
                async with self._share.turn():
                    events, failure = self._receive(part)
            else:  # signatures are to be checked
                events, failure = await self._share.run(self._receive, part)
        await self._deal_with(events, failure)
        while self._has_more:
            async with self._lock:
                events, failure = await self._share.run(self._receive, b"")
            await self._deal_with(events, failure)
        return len(part)

    async def _deal_with(self, events: list[Any], failure: RemoteProtocolError | None) -> None:
        async with self._lock, self._share.turn():
            for event in events:
                self._handle(event)
        if failure is not None:
            raise failure
        if not self.config.proposals.greedy:  # greedy peers pass on what nobody could check
            self.stats.check_offences()
        await self.arrivals.room()

    def _count(self, *, received: int = 0, sent: int = 0) -> None:
        """Bytes went over the wire."""
        self.stats.bytes_received += received
        self.stats.bytes_sent += sent

    def _receive(self, data: bytes) -> tuple[list[Any], RemoteProtocolError | None]:
        """What some bytes say, up to where they break the protocol."""
        events: list[Any] = []
        began = self._share.spent()
        try:
            for event in self._parse(data):
                events.append(event)  # noqa: PERF402 - those before a failure are kept
        except RemoteProtocolError as error:
            return events, error
        self._portion.took(self._share.spent() - began, len(data))
        return events, None

    def _take(self, event: EntryReceived | PayloadReceived | PayloadFailed) -> None:
        """Hand what came to the way to the store."""
        stats = self.stats
        if isinstance(event, EntryReceived):
            stats.entries_received += 1
            self._news_at = self._heard_at
        elif isinstance(event, PayloadReceived):
            stats.payload_bytes += len(event.data)
            self._news_at = self._heard_at
        else:
            self._refuse(event.entry, is_theirs=event.is_theirs)
        self.arrivals.take(event)

    def _take_proof(self, entries: tuple[Entry, ...]) -> None:
        proof = ForkProof.of(*entries) if len(entries) > 1 else None
        if proof is not None:
            self.arrivals.take_proof(proof)
        else:
            self.arrivals.take_entry(entries[0])

    def _refuse(self, entry: Entry, *, is_theirs: bool) -> None:
        reason = "the payload that came is not the one the entry names"
        if not is_theirs:
            reason += ", or the beginning that was held is not"
        if len(self.stats.refused) < REFUSALS_KEPT:
            tell_refused(entry.place, reason)
        error = PayloadMismatch(reason, entry.place) if is_theirs else StoreError(reason)
        self.stats.note_refused([(entry.place, error)])

    def _was_stored(self, report: ImportReport) -> None:
        self.stats.forks += len(report.forks)
        for place, error in report.refused[: REFUSALS_KEPT - len(self.stats.refused)]:
            tell_refused(place, error)
        self.stats.note_refused(report.refused)
        if report.added or report.payloads:
            self.store_changed()
            self._stored()

    # -- writing -----------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            self._wake.clear()
            async with self._lock:
                if self.arrivals.idle and not self._is_taking:
                    self._look_again()
                if self._is_small_work:
                    async with self._share.turn():
                        data, more = self._compose()
                else:
                    data, more = await self._share.run(self._compose)
                self._put(data)
                for event in self._take_events():
                    self._handle(event)
            if data:
                await self._writer.drain()
                self._unsent_at = None
            if not more:
                async with self._lock:
                    self._check_done()
                if not data:
                    await self._wake.wait()

    def _put(self, data: bytes) -> None:
        """Hand bytes to the socket, in the order in which the protocol gave them: whoever does holds the lock."""
        if data:
            self._spoke_at = clock()
            self._unsent_at = self._unsent_at or self._spoke_at
            self._count(sent=len(data))
            self._writer.write(data)

    # -- watching ----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        limits = self.config.limits
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            now = clock()
            if not self._writer.transport.get_write_buffer_size():
                self._unsent_at = None
            if self._unsent_at is not None and now - self._unsent_at > limits.idle_seconds:
                raise PeerSilent(f"the peer took nothing for {limits.idle_seconds:g} s")
            if now - self._heard_at > limits.idle_seconds:
                raise PeerSilent(f"nothing came from the peer for {limits.idle_seconds:g} s")
            if now - self._spoke_at > limits.keepalive_seconds and self._unsent_at is None:
                async with self._lock:
                    self._put(self._keep_alive())
            if now - self._news_at > limits.settle_seconds:
                async with self._lock:
                    self._settle()
            if self._live and now - self._polled_at > self.config.interval:
                self._polled_at = now
                async with self._lock:
                    self._poll()
            self._wake.set()
