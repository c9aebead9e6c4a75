"""One connection of a ``culm://`` session: what the node wants, finds out and fetches on it.

On the three streams of the connection work a ``Discovery``, which finds out what differs, an ``IntervalSession``, which
transfers, and ``Fetching``, which says what. What changes later is offered to the peer, as the peer offers it to us.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, cast

from culm.intervals import Limits as IntervalLimits
from culm.node.culm.discovery import Discovery
from culm.node.culm.fetching import Fetching
from culm.node.culm.interests import told_interests
from culm.node.culm.offers import offer_of
from culm.node.culm.streams import TransferReader, TransferWriter
from culm.node.intervals.session import IntervalSession
from culm.node.sessions.stats import PeerRefused, PeerSilent
from culm.node.sessions.tasks import end_of_one, no_reader, peer_address, run_together
from culm.node.sharing.turns import Portion
from culm.node.surroundings import clock
from culm.session import (
    Asked,
    Connection,
    Ended,
    Established,
    Event,
    InterestsTold,
    Named,
    Offer,
    Offered,
    Reconcile,
    Settled,
    Transferred,
)
from culm.session.handshake import NONCE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.bamboo import Identity
    from culm.node.config import NodeConfig
    from culm.node.culm.claims import Claims
    from culm.node.interests.policy import Policy
    from culm.node.storage.source import StoreSource
    from culm.node.storage.worker import AnyWorker
    from culm.ranges import RangeSet
    from culm.store import Log

_READ_BYTES = 256 * 1024
_WRITE_BYTES = 256 * 1024
_OFFER_SECONDS = 0.05  # what changes within such a time is told at once
_OFFERS_QUEUED = 256 * 1024  # bytes: a peer that does not take them is told no more for now
_KNOWN_OFFERS = 4096  # of the peer that are remembered, so that it is not told what it said


class _Transfers(IntervalSession):
    """The transfer stream; its bytes are counted with those around them."""

    def _count(self, *, received: int = 0, sent: int = 0) -> None:
        """Somebody else counts."""


class CulmSession:
    """Runs one connection until it is ended.

    ``peer``: the listener's key, if we called. ``live``: stay for what is new; else ``done`` is set once both sides
    have all that they want of each other. ``refuses`` says why a caller that has proved its identity is sent away,
    if it is.
    """

    scheme: ClassVar[str] = "culm"

    def __init__(
        self,
        identity: Identity,
        config: NodeConfig,
        worker: AnyWorker,
        source: StoreSource,
        claims: Claims,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        peer: bytes | None = None,
        live: bool = True,
        refuses: Callable[[bytes], str | None] = lambda _: None,
        stored: Callable[[], None] = lambda: None,
    ) -> None:
        self.config = config
        self.done = asyncio.Event()
        self._source = source
        self._reader, self._writer = streams
        self._live = live
        self._share = worker.share
        self._portion = Portion()
        nonce = config.surroundings.secret_bytes(NONCE_BYTES)
        if peer is None:
            self.connection = Connection.listening(
                identity, config.clump, nonce, lambda key: self.config.policy.admits_peer(key) and not refuses(key)
            )
        else:
            self.connection = Connection.calling(identity, peer, config.clump, nonce)
        self._wake = asyncio.Event()
        self._incoming = TransferReader(self._consumed)
        self._outgoing = TransferWriter(self.connection, self._wake.set)
        self._transfer = _Transfers(
            replace(config, limits=replace(config.limits, settle_seconds=config.limits.idle_seconds)),
            worker,
            source,
            (self._incoming, cast("asyncio.StreamWriter", self._outgoing)),
            live=False,
            mirrors=False,
            interest=self._interest,
            limits=IntervalLimits(),
            finished=self._were_fetched,
            stored=stored,
        )
        self.stats = self._transfer.stats  # what went through the session
        self._fetching = Fetching(source, worker.share, claims, self._transfer, self._fetched_some)
        self.discovery = Discovery(self.connection, worker, config, self._wake.set, self._check_settled)
        self._opened = asyncio.Event()
        self._flushed = asyncio.Event()
        self._peer_has: dict[Log, int] = {}
        self._told: int | None = None  # the store's change up to which the peer knows what there is
        self._changed = asyncio.Event()
        self._settled = self._peer_settled = 0

    @property
    def peer(self) -> bytes | None:
        """The other side's identity, once it is known."""
        return self.connection.peer

    @property
    def proved(self) -> bytes | None:
        """The other side's identity, if it has proved it."""
        return self.peer if self.connection.is_open else None

    @property
    def address(self) -> str:
        """Where the peer is, as ``HOST:PORT``."""
        return peer_address(self._writer)

    # -- life --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the peer ends the connection, or raise why it was ended: ``NetworkError``, ``ProtocolError``."""
        try:
            await run_together(
                self._read(), self._write(), self._live_on(), writer=self._writer, flush=self._transfer.arrivals.close
            )
        finally:
            self._fetching.close()
            self.discovery.close()
            self.connection.close()
            self._reader = no_reader()

    async def _live_on(self) -> None:
        """Everything that comes after the handshake, which must not take long."""
        try:
            async with asyncio.timeout(self.config.limits.handshake_seconds):
                await self._opened.wait()
        except TimeoutError:
            raise PeerSilent("the peer did not prove in time who it is") from None
        self.connection.tell_interests(told_interests(self._source, self.config.policy))
        self._wake.set()
        works = [self._transfer.run(), self.discovery.run(), self._fetching.run(), self._tell()]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            await end_of_one(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def store_changed(self) -> None:
        """The store has changed: the peer may wait for what is new."""
        self._changed.set()
        self._transfer.store_changed()

    async def change_policy(self, policy: Policy) -> None:
        """Go on with other choices."""
        if self.peer is not None and not policy.admits_peer(self.peer):
            self._writer.close()
            return
        self.config = self.discovery.config = replace(self.config, policy=policy)
        self._transfer.config = replace(self._transfer.config, policy=policy)
        if self._opened.is_set():
            self.connection.tell_interests(told_interests(self._source, policy))
            self.discovery.again()
            self._wake.set()

    # -- reading -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while data := await self._reader.read(_READ_BYTES):
            self.stats.bytes_received += len(data)
            at = 0
            while at < len(data):
                part = data[at : at + self._portion.size]
                async with self._share.turn():
                    began = self._share.spent()
                    for event in self.connection.receive_data(part, clock()):
                        self._handle(event)
                    self._portion.took(self._share.spent() - began, len(part))
                at += len(part)
                self.connection.hold(holds=self._fetching.is_full)
                self._wake.set()
        if not self._opened.is_set():
            raise PeerRefused("the peer ended the connection instead of opening a session")

    def _consumed(self, amount: int) -> None:
        self.connection.consumed(amount)
        self._wake.set()

    def _handle(self, event: Event) -> None:
        match event:
            case Transferred(data):
                self._incoming.feed_data(data)
            case Established():
                self._opened.set()
            case InterestsTold():
                self.discovery.interests_told()
            case Reconcile() | Asked():
                self.discovery.take(event)
            case Ended():
                self.discovery.take(event)
            case Named(offers):
                self.discovery.take(event)
                self._offered(offers)
            case Offered(offers):
                self._offered(offers)
            case Settled(number):
                self._peer_settled = max(self._peer_settled, number)
                self._check_settled()

    def _offered(self, offers: Iterable[Offer]) -> None:
        for offer in offers:
            self._peer_has.pop(offer.log, None)
            self._peer_has[offer.log] = _mark(offer)
        while len(self._peer_has) > _KNOWN_OFFERS:
            del self._peer_has[next(iter(self._peer_has))]
        self._fetching.offered(offers)

    # -- settling --------------------------------------------------------------------------------------------------

    def _interest(self, log: Log) -> RangeSet:
        return self.config.policy.interest(log)

    def _were_fetched(self, logs: list[Log]) -> None:
        self._fetching.finished(logs)

    def _fetched_some(self) -> None:
        """Something was begun or finished."""
        if not self._fetching.is_full:
            self.connection.hold(holds=False)
            self._wake.set()
        self._check_settled()

    def _check_settled(self) -> None:
        """Tell the peer when we have all that we want of it, as far as we know."""
        ended = self.discovery.ended
        if not self._fetching.is_idle:
            return
        if ended > self._settled:
            self._settled = ended
            self.connection.settle(ended)
            self._wake.set()
        if not self._live and 0 < ended <= min(self._settled, self._peer_settled) and not self.connection.is_comparing:
            self.done.set()

    # -- telling -----------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        """Offer what is new in the store to the peer, as far as it wants to know."""
        await self.discovery.begun.wait()
        self._told = self.discovery.change
        while True:
            await self._changed.wait()
            await asyncio.sleep(_OFFER_SECONDS)
            self._changed.clear()
            while self.connection.offers_queued > _OFFERS_QUEUED:
                self._flushed.clear()
                await self._flushed.wait()
            if offers := await self._share.run(self._news_for_peer):
                self.connection.offer(offers)
                self._wake.set()

    def _news_for_peer(self) -> list[Offer]:
        assert self._told is not None  # noqa: S101 - set before
        self._told, logs = self._source.changed_logs(self._told)
        theirs, policy = self.connection.their_interests, self.config.policy
        found = []
        for log in logs:
            if theirs.wants(log) and policy.shares(log):
                with self._source.lock:
                    offer = offer_of(self._source.store, log)
                if self._peer_has.get(log) != _mark(offer):
                    found.append(offer)
        return found

    # -- writing -----------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            self._wake.clear()
            while data := self.connection.data_to_send(_WRITE_BYTES):
                self.stats.bytes_sent += len(data)
                self._writer.write(data)
                self._outgoing.moved()
                self._flushed.set()
                await self._writer.drain()
            await self._wake.wait()


def _mark(offer: Offer) -> int:
    """By which to know an offer again."""
    return hash((offer.held.encode(), offer.tip, offer.fork))
