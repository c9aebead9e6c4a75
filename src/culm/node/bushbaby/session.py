"""One connection to a peer: the Bushbaby protocol, a socket, and what the node wants of it.

Two tasks. The *reader* takes what comes, in order: entries go to the ``Intake``, a HAVE is answered by a WANT once all
that came before it is stored. It stops reading while too much waits to be stored. The *writer* announces, serves the
peer's WANTs one page of entries after the other, and waits for the socket: a slow peer holds up itself and nobody else.
Neither waits for the other, so two nodes can never wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from culm.bushbaby import (
    Authenticated,
    BambooReceived,
    Connection,
    HaveReceived,
    PeerIdentified,
    WantItem,
    WantReceived,
)
from culm.bushbaby.grouping import CULM_STYLE, DEPLOYED_STYLE, item_size
from culm.node.bushbaby.announcing import Announcing
from culm.node.bushbaby.intake import Intake
from culm.node.bushbaby.ledger import MAX_ASKED, Ledger, Span
from culm.node.bushbaby.serving import PAGE_ENTRIES, Server
from culm.node.interests.missing import missing
from culm.node.sessions.stats import REFUSALS_KEPT, PeerRefused, PeerSilent, SessionStats, tell_refused
from culm.node.sessions.tasks import no_reader, peer_address, run_together
from culm.node.sharing.memory import MemoryBudget
from culm.node.sharing.turns import Portion
from culm.node.surroundings import clock
from culm.wire.base62 import encode_base62

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.bamboo import Entry, Identity
    from culm.bushbaby import BambooWriter, Event, HaveItem
    from culm.node.bushbaby.serving import Message
    from culm.node.config import NodeConfig
    from culm.node.interests.policy import Policy
    from culm.node.sharing.memory import MemoryShare
    from culm.node.storage.worker import AnyWorker
    from culm.store import ImportReport, Log, Sendable

_READ_BYTES = 128 * 1024
_WRITE_BYTES = 256 * 1024  # handed to the socket at once
_BOXES_KEPT = PAGE_ENTRIES + 64  # a connection is ended while it has these boxes left: a page never runs out
_CHECK_SECONDS = 0.25
_PIECES_A_STEP = 16
_INLINE_BYTES = 64 * 1024  # what a message may have come to that is decoded on the loop
_ENTRIES_A_TURN = 64
_ITEMS_A_TURN = 1024  # of a HAVE
_LOGS_A_TURN = 256  # that are looked up in the store

_logger = logging.getLogger("culm.node")


class BushbabySession:
    """Runs one connection until it is ended.

    ``called``: we made the connection. ``stored`` is called whenever entries of this peer were stored. ``refuses`` says
    why a peer of some identity is refused beyond the policy, or None. ``budget`` bounds the memory of its unfinished
    messages.
    ``peer`` is who the other side says it is, ``proved`` is set once it has proved that.
    """

    scheme: ClassVar[str] = "bushbaby"

    def __init__(
        self,
        identity: Identity,
        config: NodeConfig,
        worker: AnyWorker,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        called: bool,
        stored: Callable[[], None] = lambda: None,
        refuses: Callable[[bytes], str | None] = lambda _: None,
        budget: MemoryShare | None = None,
    ) -> None:
        self.config = config
        self.peer: bytes | None = None
        self.proved: bytes | None = None
        self._refuses = refuses
        self.stats = SessionStats()
        self.done = asyncio.Event()
        self._worker = worker
        self._reader, self._writer = streams
        guarded = bool(config.policy.allow_peers)
        self._connection = Connection(
            identity,
            config.clump,
            random_bytes=config.surroundings.secret_bytes,
            dialect=config.dialect,
            limits=config.protocol_limits,
            ask_first=True,
            # Of two that wait for each other's HELLO none would speak: who calls, speaks first.
            wait_for_hello=not called and (guarded if config.wait_for_hello is None else config.wait_for_hello),
            wait_for_auth=not called and (guarded if config.wait_for_auth is None else config.wait_for_auth),
            paced=True,
        )
        self._share = worker.share
        self._portion = Portion()
        self._budget = budget or MemoryBudget(config.limits.max_unfinished).share(None)
        self._ledger = Ledger(config.limits.max_logs)
        self._intake = Intake(worker, self._was_stored)
        self._server = Server(config.policy, config.limits.max_wants)
        self._stored = stored
        self._wake = asyncio.Event()
        self._announce = True
        self._handling = False
        self._answering = False  # WANTs came since our last HAVE: the next HAVE says "that is all"
        self._announcing = Announcing()
        self._reconsider = False  # the choices have changed
        now = clock()
        self._started = self._heard_at = self._spoke_at = self._news_at = now

    # -- life --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the peer ends the connection, or raise why it was ended: ``NetworkError``, ``ProtocolError``."""
        try:
            await run_together(
                self._read(), self._write(), self._watch(), writer=self._writer, flush=self._intake.flush
            )
        finally:
            self._reader = no_reader()
            self._connection.close()  # Frees its buffers now, not when it is collected: others wait for the memory.
            self._budget.leave()

    def store_changed(self) -> None:
        """The store has changed: announce what is new."""
        self._announce = True
        self._wake.set()

    async def change_policy(self, policy: Policy) -> None:
        """Go on with other choices: what the peer announced and is of interest now is asked for.

        ``PeerRefused`` ends the session if the peer is not allowed any more.
        """
        old, self.config = self.config.policy, replace(self.config, policy=policy)
        self._server.policy = policy
        if any(getattr(old, name) != getattr(policy, name) for name in ("unshared", "allow_authors", "block_authors")):
            self._announce = True
            self._announcing.start_anew()  # logs that are shared from now on are news
        self._reconsider = True
        self._wake.set()

    @property
    def address(self) -> str:
        """Where the peer is, as ``HOST:PORT``."""
        return peer_address(self._writer)

    @property
    def worn_out(self) -> bool:
        """Whether the connection has carried entries, and so many messages that either side ended it for that."""
        connection, stats = self._connection, self.stats
        most = max(connection.boxes_received, connection.limits.max_boxes - connection.boxes_left)
        return most > connection.limits.max_boxes - _BOXES_KEPT and stats.entries_received + stats.entries_sent > 0

    @property
    def is_culm(self) -> bool:
        """Whether the peer is a Culm node, too."""
        return self._connection.is_culm

    # -- reading -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while data := await self._reader.read(_READ_BYTES):
            self.stats.bytes_received += len(data)
            self._handling = True  # what is being taken in is not yet in any count
            at = 0
            while at < len(data):
                part = data[at : at + self._portion.size]
                await self._take(part)
                at += len(part)
                await self._budget.hold(self._connection.unfinished)
            self._handling = False
            self.stats.check_offences()
            self._wake.set()
        await self._intake.flush()

    async def _take(self, part: bytes) -> None:
        """Take some of what came, each message in a turn."""
        seconds, events = 0.0, self._connection.receive_data(part, clock())
        is_large = self._connection.unfinished > _INLINE_BYTES
        while True:
            if is_large:  # it may be the end of a message that takes long to decode
                event = await self._share.run(next, events, None)
                is_large = False
            else:
                async with self._share.turn():
                    began = self._share.spent()
                    event = next(events, None)
                    seconds += self._share.spent() - began
            if event is None:
                break
            self._heard_at = clock()
            await self._handle(event)
        self._portion.took(seconds, len(part))

    async def _handle(self, event: Event) -> None:
        match event:
            case BambooReceived():
                await self._take_entries(event)
            case HaveReceived():
                await self._take_have(event.items)
            case WantReceived():
                self._take_want(event.items)
            case PeerIdentified(public):
                if not self.config.policy.admits_peer(public):
                    raise PeerRefused("the peer is not allowed here")
                if (reason := self._refuses(public)) is not None:
                    raise PeerRefused(reason)
                self.peer = public
                self._connection.accept()
            case Authenticated(public, is_culm):
                self.proved = public
                self._server.style = CULM_STYLE if is_culm else DEPLOYED_STYLE
                for log in self.config.policy.promote:
                    self._server.push(log)
        self._wake.set()

    async def _take_entries(self, event: BambooReceived) -> None:
        self._ledger.heard = True
        while True:
            async with self._share.turn():
                some = list(islice(event.entries, _ENTRIES_A_TURN))
                wanted = [item for item in some if self._notes(*item)]
            if not some:
                return
            for entry, payload in wanted:
                await self._intake.add(entry, payload)

    def _notes(self, entry: Entry, payload: memoryview) -> bool:
        """Take notice of an entry that came; whether it is wanted."""
        policy, stats, ledger = self.config.policy, self.stats, self._ledger
        stats.entries_received += 1
        stats.payload_bytes += len(payload)
        ledger.shown(entry.log, entry.seq)
        ledger.received(entry.log, entry.seq)
        self._news_at = self._heard_at
        return policy.admits_author(entry.author) and (policy.curate is None or policy.curate(entry, payload))

    async def _was_stored(self, report: ImportReport, logs: set[Log]) -> None:
        await self._worker.run(self._ledger.stored, logs, self._missing)
        self.stats.forks += len(report.forks)
        for place, error in report.refused[: REFUSALS_KEPT - len(self.stats.refused)]:
            tell_refused(place, error, self._name)
        self.stats.note_refused(report.refused)
        if report.added or report.payloads:
            self._stored()
        self._announce |= bool(self._ledger.brought_by_others)
        self._wake.set()

    async def _take_have(self, items: list[HaveItem]) -> None:
        await self._intake.flush()
        self._ledger.heard = True
        self._news_at = self._heard_at
        logs: list[Log] = []
        for at in range(0, len(items), _ITEMS_A_TURN):
            async with self._share.turn():
                for author, log_id, newest in items[at : at + _ITEMS_A_TURN]:
                    log = (author, log_id)
                    self._ledger.announced(log, newest)
                    if self.config.policy.wants(log):
                        logs.append(log)
        await self._ask(logs, answer=True)

    async def _ask_anew(self) -> None:
        self._reconsider = False
        if self.peer is not None and not self.config.policy.admits_peer(self.peer):
            raise PeerRefused("the peer is not allowed here any more")
        await self._ask([log for log in self._ledger.peer_has if self.config.policy.wants(log)], answer=False)

    async def _ask(self, logs: list[Log], *, answer: bool) -> None:
        """Ask for what is missing of logs; to answer a HAVE, do so even if nothing is."""
        plan: list[tuple[Log, list[Span]]] = []
        for at in range(0, max(1, len(logs)), _LOGS_A_TURN):
            most = MAX_ASKED - sum(len(spans) for _, spans in plan)
            plan += await self._worker.run(self._ledger.plan, logs[at : at + _LOGS_A_TURN], self._missing, most)
        self._announce |= bool(self._ledger.brought_by_others)
        wants = [WantItem(*log, None, low, high) for log, spans in plan for low, high in spans]
        self.stats.missing += sum(want.high - want.low + 1 for want in wants if want.high and want.low)
        if wants or (answer and self.is_culm):
            self._connection.send_want(wants)
            self._wake.set()

    def _missing(self, log: Log, high: int, limit: int) -> list[tuple[int, int]]:
        """The spans to ask for of a log; runs on the store's thread."""
        return missing(self._worker.store, self.config.policy.interest(log), log, high, limit)

    def _take_want(self, items: list[WantItem]) -> None:
        self._news_at = self._heard_at
        self._ledger.want_received()
        if items:
            self._answering = True
            self._server.add(items)

    # -- writing -----------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        while True:
            self._wake.clear()
            self.stats.check_offences()  # what was stored since may have shown more
            await self._send_pending()
            if self._connection.replicating:
                if self._reconsider:
                    await self._ask_anew()
                if self._server.busy:
                    await self._serve()
                    continue
                if self._announce or self._answering:
                    await self._send_have()
                    continue
            self._check_done()
            await self._wake.wait()

    async def _send_pending(self) -> None:
        """Write what the connection has to say, as fast as the peer takes it."""
        connection = self._connection
        while True:
            while data := connection.data_to_send(_WRITE_BYTES):
                await self._send_bytes(data)
            deadline = connection.next_timer()
            if deadline is None:
                return
            if (wait := deadline - clock()) > 0:
                await asyncio.sleep(wait)
            connection.handle_timer(clock())

    async def _send_bytes(self, data: bytes) -> None:
        self._writer.write(data)
        self.stats.bytes_sent += len(data)
        self._spoke_at = clock()
        try:
            async with asyncio.timeout(self.config.limits.idle_seconds):
                await self._writer.drain()
        except TimeoutError:
            raise PeerSilent("the peer has stopped taking what it asked for") from None

    async def _serve(self) -> None:
        if self._connection.boxes_left < _BOXES_KEPT:
            # This connection carried as many messages as one may. The peer is to take them all, and then hangs up.
            _logger.info("out of messages for this connection; a new one can go on", extra={"peer": self._name})
            self._writer.write_eof()
            await asyncio.Future()
        for message in await self._worker.run(self._server.next_messages, self._worker.store):
            await self._send_message(message)
            await self._send_pending()

    async def _send_message(self, message: Message) -> None:
        sizes = [item_size(item) for item in message]
        if len(sizes) == 1 and not self._connection.can_send(sizes[0]):
            entry = message[0][0]
            reason = f"too large for a message: {sizes[0]} bytes"
            _logger.warning("held back an entry", extra={"peer": self._name, "seq": entry.seq, "reason": reason})
            return
        writer = self._connection.start_bamboo(sizes)
        for item in message:
            for entry in item:
                writer.write(entry.encoded)
                if entry.size:
                    writer.write(entry.start)
                if entry.size > len(entry.start):
                    await self._write_rest(writer, entry)
                self.stats.entries_sent += 1
        writer.send()
        self._news_at = clock()

    async def _write_rest(self, writer: BambooWriter, entry: Sendable) -> None:
        pieces = self._worker.store.payload_rest(entry)
        while some := await self._worker.run(lambda: list(islice(pieces, _PIECES_A_STEP))):
            for piece in some:
                writer.write(piece)

    async def _send_have(self) -> None:
        """Announce what changed since the last time, and what was served since."""
        self._announce, answering, self._answering = False, self._answering, False
        served, self._server.served = self._server.served, {}
        first = self._announcing.is_first
        news = await self._worker.run(self._announcing.look, self._worker.store, list(served), self._ledger)
        items = self._announcing.choose(news, served, self.config.policy, self._ledger)
        self._announce |= self._announcing.is_due
        if items or (answering and self.is_culm):
            self._ledger.have_sent(self._connection.send_have(items))
        elif first:
            self._connection.keep_alive()

    # -- watching ----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        limits = self.config.limits
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            now = clock()
            if not self._connection.replicating:
                if now - self._started > limits.handshake_seconds:
                    raise PeerSilent("the peer did not finish the handshake in time")
                continue
            if now - self._heard_at > limits.idle_seconds:
                raise PeerSilent(f"nothing came from the peer for {limits.idle_seconds:g} s")
            if now - self._spoke_at > limits.keepalive_seconds and not self._server.busy:
                self._spoke_at = now
                self._connection.keep_alive()
                self._wake.set()
            if now - self._news_at > limits.settle_seconds and self._intake.idle:
                if again := self._ledger.unfinished():
                    self._news_at = now
                    await self._ask(again, answer=False)
                self._wake.set()

    def _check_done(self) -> None:
        ledger = self._ledger
        settled = (
            self._connection.replicating
            and not (self._handling or self._announce or self._answering or self._server.busy)
            and self._intake.idle
        )
        quiet = clock() - self._news_at > self.config.limits.settle_seconds
        content = ledger.we_lack_nothing and ledger.peer_has_answered
        if settled and (content if self.is_culm else quiet and (ledger.we_lack_nothing or not ledger.heard)):
            self.done.set()

    @property
    def _name(self) -> str:
        return encode_base62(self.peer).decode() if self.peer else "a peer"
