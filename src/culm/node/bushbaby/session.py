"""A session by Bushbaby: announces logs, serves WANTs, and asks for what a HAVE shows to be missing.

*Reading.* What comes is dealt with in order. Entries go to the ``Intake``. A HAVE is answered by a WANT once everything
that came before it is stored, because only then it is known what is missing.

*Writing* goes one message at a time. What the peer asked for comes first, a page of the store at a time. Announcements
come last, because a HAVE tells the peer that its requests were served (``culm.node.bushbaby.ledger``).

*The end.* A Culm peer says with its WANTs that it lacks nothing. Other implementations do not answer every HAVE, and
silence is how they say that they lack nothing. With them a one-time sync is over when it has been quiet for
``settle_seconds``. If they were sent entries, it is over when they hang up, because they lose what they have not stored
by the end of the connection (``culm.node.bushbaby.deliveries``). They also announce their logs only once on a
connection. So a session that stays ends on purpose after each ``interval``, and the next one hears their news.

Specification: docs/specs/bushbaby.md, "The deployed peer", "Connections without use".
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from itertools import islice
from typing import ClassVar

from culm import bushbaby
from culm.bamboo import Entry, ForkProof
from culm.bamboo.base62 import encode_base62
from culm.bushbaby import Dialect
from culm.bushbaby.grouping import CULM_STYLE, DEPLOYED_STYLE, item_size
from culm.errors import NotHeld, PayloadMismatch
from culm.node.bushbaby.announcing import Announcing
from culm.node.bushbaby.deliveries import HANG_UP_SECONDS, Deliveries
from culm.node.bushbaby.doubts import Doubts
from culm.node.bushbaby.intake import Intake
from culm.node.bushbaby.ledger import MAX_ASKED, Ledger
from culm.node.bushbaby.refusals import Refusals
from culm.node.bushbaby.serving import PAGE_ENTRIES, Message, Server
from culm.node.interests.missing import missing
from culm.node.interests.policy import Policy
from culm.node.sessions.session import Context, Purpose, Session
from culm.node.sessions.stats import PeerRefused, refusal
from culm.node.sharing.memory import MemoryBudget
from culm.node.sharing.rates import Streams
from culm.node.surroundings import clock
from culm.store import ImportReport, PayloadState, Sendable
from culm.types import Log, Run
from culm.wire.places import log_text

# All nonces of a connection are remembered, so it carries only so many messages. Serving stops with this many left:
# enough for a page, with a message for each entry at worst, and for announcements and signs of life behind it.
_BOXES_KEPT = PAGE_ENTRIES + 64
_PIECES_A_STEP = 16  # Pieces of a large payload read in one call of the store's thread, so that the call stays short.
_INLINE_BYTES = 64 * 1024  # A larger message takes long to decode once it is complete, so it is decoded on a thread.
_ENTRIES_A_TURN = 64  # Entries looked at in one turn, so that it takes a fraction of a millisecond.
_ITEMS_A_TURN = 1024  # Items of a HAVE looked at in one turn, for the same reason.
# For the peer's HELLO, before ours goes out in a dialect that the peer may not understand. If both listen, who was
# called gives in first: a caller's HELLO comes right behind its connection, however long the link is.
_HELLO_SECONDS, _HELLO_SECONDS_CALLING = 0.25, 1.0
_LOGS_A_TURN = 256  # Logs looked up in one call of the store's thread, for the same reason.
_GIVE_UP_SECONDS = 10.0  # Of silence, after which a peer that is no Culm node does not have what it was asked for.
_SETTLED = (PayloadState.COMPLETE, PayloadState.FORGOTTEN)  # An entry that comes once more brings nothing new then.
_ENDS_SECONDS = 5.0  # Of silence before its end, from which on a peer has hung up because it had nothing left to do.

_logger = logging.getLogger("culm.node")


class BushbabySession(Session[bushbaby.Event]):
    """One session. Reading goes on event by event, because answering a HELLO decides how the next bytes are read."""

    scheme: ClassVar[str] = "bushbaby"
    batch: ClassVar[int] = 1
    may_differ: ClassVar[str] = "use another clump or dialect"
    hears_whole_messages: ClassVar[bool] = True
    connection: bushbaby.Connection

    def __init__(self, context: Context, streams: Streams, purpose: Purpose) -> None:
        config = context.config
        guarded = bool(config.policy.allow_peers)
        waits = not purpose.called
        patience = _HELLO_SECONDS if waits else _HELLO_SECONDS_CALLING
        dialect, is_known = (config.dialect or Dialect.DEPLOYED), config.dialect is not None
        if purpose.called and not is_known:
            dialect, is_known = context.bushbaby.dialects.at(context.address)
        connection = bushbaby.Connection(
            context.needed_identity(),
            config.clump,
            random_bytes=config.surroundings.secret_bytes,
            options=bushbaby.Options(
                dialect,
                config.protocol_limits,
                any_dialect=config.dialect is None,
                hello_seconds=0.0 if is_known else patience,
                ask_first=True,
                # Only a listener may wait: if both sides waited for the other one's HELLO, none would speak.
                wait_for_hello=waits and (guarded if config.wait_for_hello is None else config.wait_for_hello),
                wait_for_auth=waits and (guarded if config.wait_for_auth is None else config.wait_for_auth),
                paced=True,
            ),
        )
        super().__init__(context, streams, connection, purpose)
        self._peer: bytes | None = None
        self._worker = context.worker
        self._budget = context.budget or MemoryBudget(config.limits.max_unfinished).share(None)
        self._ledger = Ledger(config.limits.max_logs)
        self._intake = Intake(context.worker, self._was_stored)
        self._server = Server(config.policy, config.limits.max_wants)
        self._page: deque[Message] = deque()  # Messages that were read from the store and not sent yet.
        self._announcing = Announcing(context.bushbaby.held_back, context.bushbaby.gaps_told)
        self._deliveries = Deliveries()
        self._began_at = clock()
        self._over = asyncio.Event()
        self._doubts = Doubts()
        self._refusals = Refusals()
        self._coming: set[bytes] = set()  # With quotas: the entries that are weighed and not stored yet, by their hash.
        self._answering = False  # WANTs came since our last HAVE, so the next HAVE has to end the serving of them.
        self._reconsider = False  # The operator's choices have changed.

    @property
    def peer(self) -> bytes | None:
        """The identity (32 bytes) that the other side claims; None before it did."""
        return self._peer

    @property
    def is_open(self) -> bool:
        """Whether the handshake is over."""
        return self.connection.replicating

    @property
    def worn_out(self) -> bool:
        """Whether the connection was of use and has carried as many messages as one may, so that a new one goes on."""
        boxes, stats, most = self.connection.boxes, self.stats, self.connection.options.limits.max_boxes
        is_worn_out = min(boxes.left, most - boxes.received) < _BOXES_KEPT
        return is_worn_out and stats.entries_received + stats.entries_sent > 0

    @property
    def may_be_silent(self) -> bool:
        """A peer that is no Culm node says nothing when it lacks nothing."""
        return self.connection.replicating and not (self.connection.is_culm or self._is_lacking)

    @property
    def _is_lacking(self) -> bool:
        """Whether the peer has announced what has not come from it."""
        return self._ledger.heard and not self._ledger.we_lack_nothing

    def works(self) -> Iterable[Coroutine[object, object, None]]:
        """What ends the session on purpose."""
        return (self._until_over(),)

    async def _until_over(self) -> None:
        await self._over.wait()

    def store_changed(self) -> None:
        """The store has changed: announce to the peer what is new to it."""
        self._announcing.is_due = True
        self.driver.wake()

    async def change_policy(self, policy: Policy) -> None:
        """Go on with other choices: ask for what the peer has announced and is wanted now.

        If the peer is not allowed any more, ``run`` ends with ``PeerRefused`` soon.
        """
        old, self.config = self.config.policy, replace(self.config, policy=policy)
        self._server.policy = policy
        if any(getattr(old, name) != getattr(policy, name) for name in ("unshared", "allow_authors", "block_authors")):
            self._announcing.start_anew()  # Logs that are shared from now on are news to the peer.
        self._reconsider = True
        self.driver.wake()

    async def lost(self, log: Log, seq: int) -> None:
        """The payload of an entry was damaged on our disk: ask the peer for it again, if it has announced as much."""
        if self._ledger.peer_has.get(log, 0) >= seq and self.config.policy.wants(log):
            await self._ask([log], answer=False)

    async def flush(self) -> None:
        """Store the entries that came before the connection ended."""
        await self._intake.flush()

    def close(self) -> None:
        """Free buffers at once, not when garbage is collected, because other connections wait for the memory."""
        self.connection.close()
        self._budget.leave()
        if self.is_live and self._deliveries.is_pending(clock()):
            reason = f"{self._deliveries.unconfirmed} entries; what is lost is sent again"
            _logger.info("sent, not confirmed", extra={"peer": self._name, "reason": reason})

    # -- reading -----------------------------------------------------------------------------------------------

    def is_light(self, size: int) -> bool:  # noqa: ARG002 - what has come before decides
        """Whether the next bytes are decoded quickly. If they complete a long message, they are not, however few."""
        return self.connection.unfinished <= _INLINE_BYTES

    async def handle(self, events: list[bushbaby.Event]) -> None:
        """Act on events, in their order."""
        for event in events:
            await self._handle(event)
        self.driver.wake()

    async def _handle(self, event: bushbaby.Event) -> None:
        match event:
            case bushbaby.BambooReceived():
                await self._take_entries(event)
            case bushbaby.HaveReceived():
                await self._take_have(event.items)
            case bushbaby.WantReceived():
                self._take_want(event.items)
            case bushbaby.ForksReceived():
                await self._take_forks(event.proofs)
            case bushbaby.OtherDialect(dialect):
                raise PeerRefused(
                    f"the peer speaks the other dialect, {dialect.value!r}; without --dialect, this node speaks both"
                )
            case bushbaby.PeerIdentified(public):
                self._greet(public)
            case bushbaby.Authenticated(public, is_culm):
                self._begin(public, is_culm=is_culm)

    def _greet(self, public: bytes) -> None:
        """The peer has said who it is."""
        if self.is_called:
            self._context.bushbaby.dialects.heard(self._context.address, self.connection.dialect)
        if not self.config.policy.admits_peer(public):
            raise PeerRefused("the peer is not on this node's list of allowed peers")
        if seconds := self._context.refuses(public):
            raise PeerRefused(refusal(seconds))
        self._peer = public
        self.connection.accept()

    def _begin(self, public: bytes, *, is_culm: bool) -> None:
        """The peer has proved who it is."""
        self.proved = public
        if self.is_called:
            self._context.bushbaby.dialects.opened(self._context.address)
        if not is_culm:
            self._server.deliveries = self._deliveries
            self._server.style = DEPLOYED_STYLE if self.connection.is_deployed else CULM_STYLE
        for log in self.config.policy.promote:
            self._server.push(log)

    async def make_room(self) -> None:
        """Wait until the memory budget has room for the message that is coming."""
        await self._budget.hold(self.connection.unfinished)

    def end_chunk(self) -> None:
        """``RemoteProtocolError`` if the peer sent too much that is wrong."""
        self.stats.check_offences()

    async def end_of_stream(self) -> None:
        """Store the entries that came. If that fails, the failure is the reason for the end of the session."""
        await self._intake.flush()
        if not self.connection.is_culm and self.connection.replicating and not self._is_lacking:
            if clock() - self.driver.spoke_at > _ENDS_SECONDS:
                self._deliveries.confirm()
            if self._deliveries.is_taken and (self._ledger.heard or self.stats.entries_sent):
                self._finish()
        if not (self.is_called or self.connection.replicating):
            self.over_because = f"the peer hung up before the handshake was over; it may {self.may_differ}"
        elif self.is_called and not self.connection.replicating and self._may_speak_otherwise():
            self.over_because = "the peer hung up at our HELLO; calling it once more in the other dialect"
        else:
            await super().end_of_stream()

    def _may_speak_otherwise(self) -> bool:
        """Whether a peer that has hung up may understand the other dialect."""
        connection, dialects = self.connection, self._context.bushbaby.dialects
        if not connection.options.any_dialect or connection.said is None:
            return False
        if self._peer is not None:
            return connection.said is not connection.dialect and dialects.heard_late(self._context.address)
        return dialects.refused(self._context.address, connection.said)

    async def _take_entries(self, event: bushbaby.BambooReceived) -> None:
        self._ledger.heard = True
        while True:
            async with self._share.turn():
                some = list(islice(event.entries, _ENTRIES_A_TURN))
                wanted = [item for item in some if self._notes(*item)]
            if not some:
                return
            await self._intake.add(wanted)

    def _notes(self, entry: Entry, payload: memoryview) -> bool:
        """Count an entry that came; whether to keep it."""
        policy, stats, ledger = self.config.policy, self.stats, self._ledger
        stats.entries_received += 1
        stats.payload_bytes += len(payload)
        ledger.shown(entry.log, entry.seq)
        ledger.received(entry.log, entry.seq)
        self.driver.heard_news()
        if policy.quotas is None:
            return policy.admits_author(entry.author) and policy.keeps(entry, payload)
        if self._repeats(entry) or not (policy.admits_author(entry.author) and policy.keeps(entry, payload)):
            return False
        self._coming.add(entry.hash)
        return True

    def _repeats(self, entry: Entry) -> bool:
        """Whether an entry of others is held, or on its way to the store. It must not be weighed again.

        Otherwise a peer could use up the quota of an author by sending the author's entries again and again.
        """
        if entry.author in self.config.policy.own:
            return False
        if entry.hash in self._coming:
            return True
        held = self._context.source.get(entry.log, entry.seq)
        return held is not None and held.entry == entry and held.payload_state in _SETTLED

    async def _was_stored(self, report: ImportReport, entries: list[Entry]) -> None:
        self._coming.difference_update(entry.hash for entry in entries)
        refused = {place for place, _ in report.refused}
        for place, error in report.refused:
            if place is not None and isinstance(error, PayloadMismatch):
                self.note_wrong(place)
            elif place is not None:
                self._refusals.note(place, error)
                self.stats.entries_received -= 1
        for entry in entries:
            if entry.place not in refused:
                self.witness.take(entry)
        await self._worker.run(self._ledger.stored, {entry.log for entry in entries}, self._missing)
        self.note_stored(report, self._name)
        await self._show_forks(proof.log for proof in report.forks)
        self._announcing.is_due |= bool(self._ledger.brought_by_others or report.forks)
        self.driver.wake()

    async def poll(self) -> None:
        """Ask again for what the store had no room for: by now it may have."""
        if logs := [log for log in self._refusals.forgive() if log in self._ledger.peer_has]:
            await self._ask(logs, answer=False)

    async def _take_have(self, items: list[bushbaby.HaveItem]) -> None:
        await self._intake.flush()
        self._ledger.heard = True
        if items or self.connection.is_culm:
            self.driver.heard_news()
        logs: list[Log] = []
        for at in range(0, len(items), _ITEMS_A_TURN):
            async with self._share.turn():
                for item in items[at : at + _ITEMS_A_TURN]:
                    log = (item.author, item.log_id)
                    self._ledger.announced(log, item.newest)
                    self._doubts.hear(item)
                    self.witness.claimed(log, item.newest)
                    if self.config.policy.wants(log):
                        logs.append(log)
        # Before the answer, because a peer that lacks nothing may hang up after it.
        await self._show_forks((item.author, item.log_id) for item in items)
        await self._ask(logs, answer=True)

    async def _take_forks(self, proofs: list[ForkProof]) -> None:
        self.driver.heard_news()
        for proof in proofs:
            policy = self.config.policy
            if policy.admits_author(proof.author) and (
                policy.quotas is None or policy.quotas.takes_proof((proof.first, proof.second))
            ):
                self._doubts.knows(proof.log, proof.position)
                await self._intake.add([(proof.first, None), (proof.second, None)])

    async def _show_forks(self, logs: Iterable[Log]) -> None:
        """Send the proofs of forks in these logs that the peer does not know, if it can read them."""
        if (
            not (self.connection.tells_forks and self.connection.replicating)
            or self.connection.boxes.left < _BOXES_KEPT
        ):
            return
        rest, shares = iter(logs), self.config.policy.shares
        while some := list(islice(rest, _LOGS_A_TURN)):
            if proofs := await self._worker.run(self._doubts.unknown, self._worker.store, some, shares):
                self.connection.send_forks(proofs)
                if self.connection.is_culm:  # The answer comes behind the proof of a lower fork that these lead to.
                    self._ledger.unanswered += self.connection.send_have([])
                self.driver.wake()

    async def _ask_anew(self) -> None:
        self._reconsider = False
        if self.peer is not None and not self.config.policy.admits_peer(self.peer):
            raise PeerRefused("the peer is no longer on this node's list of allowed peers")
        await self._ask([log for log in self._ledger.peer_has if self.config.policy.wants(log)], answer=False)

    async def _ask(self, logs: list[Log], *, answer: bool) -> None:
        """Send a WANT for what is missing of logs. ``answer``: a HAVE needs one even if nothing is missing."""
        plan: list[tuple[Log, list[Run]]] = []
        for at in range(0, max(1, len(logs)), _LOGS_A_TURN):
            most = MAX_ASKED - sum(len(spans) for _, spans in plan)
            plan += await self._worker.run(self._ledger.plan, logs[at : at + _LOGS_A_TURN], self._missing, most)
        self._announcing.is_due |= bool(self._ledger.brought_by_others)
        wants = [bushbaby.WantItem(*log, None, low, high) for log, spans in plan for low, high in spans]
        self.stats.missing += sum(want.high - want.low + 1 for want in wants if want.high and want.low)
        if wants or (answer and self.connection.is_culm):
            self.connection.send_want(wants)
            self.driver.wake()

    def _missing(self, log: Log, high: int, limit: int) -> list[Run]:
        """The spans to ask for of a log, with the entries that the peer is to show; runs on the store's thread."""
        store = self._worker.store
        interest = self.worth_asking(log, self.config.policy.interest(log))
        spans = missing(store, interest, log, high, limit)
        spans += self._doubts.spans(store, log, is_shown=self.config.policy.shares(log))
        spans = self._refusals.leave_out(log, spans)
        again = self.witness.asked.get(log)
        if again == high and not any(low <= high <= last for low, last in spans):
            spans.append((high, high))
        return spans[:limit]

    def _take_want(self, items: list[bushbaby.WantItem]) -> None:
        self._ledger.want_received()
        if items:
            self.driver.heard_news()
            self._answering = True
            if self.config.ignore_want:
                self._server.ignore(items)
            else:
                self._server.add(items)

    # -- writing -----------------------------------------------------------------------------------------------

    async def compose(self) -> bool:
        """Queue one message; whether there was one. Entries that the peer asked for go before announcements."""
        self.stats.check_offences()  # Storing may have found more wrong entries since the last chunk was read.
        connection = self.connection
        # While the connection's pace holds messages back, queueing more would only take memory.
        if not connection.replicating or connection.next_timer() is not None:
            return False
        if self._reconsider:
            await self._ask_anew()
        if self._page:
            await self._send_message(self._page.popleft())
        elif self._server.busy:
            if connection.boxes.left < _BOXES_KEPT:
                extra = {"peer": self._name}
                _logger.info("reached the limit of messages for one connection; continuing on a new one", extra=extra)
                await self.driver.end_writing()
            self._page.extend(await self._worker.run(self._server.next_messages, self._worker.store, clock()))
            self._tell_held_back()
        elif self._announcing.is_due or self._answering:
            await self._send_have()
        else:
            return False
        return True

    async def _send_message(self, message: Message) -> None:
        sizes = [item_size(item) for item in message]
        if len(sizes) == 1 and not self.connection.can_send(sizes[0]):
            entry = message[0][0]
            reason = (
                f"the entry and its payload take {sizes[0]} bytes, more than a bushbaby:// message can hold;"
                " peers can get it by culm://"
            )
            _logger.warning("held back an entry", extra={"peer": self._name, "seq": entry.seq, "reason": reason})
            return
        writer = self.connection.start_bamboo(sizes)
        for at, item in enumerate(message):
            try:
                for entry in item:
                    await self._write_entry(writer, entry)
            except NotHeld:  # The owner deleted this payload a moment ago; the message has not left yet.
                if others := message[:at] + message[at + 1 :]:
                    await self._send_message(others)
                return
        writer.send()
        self.stats.entries_sent += sum(map(len, message))
        self.driver.news_at = clock()

    async def _write_entry(self, writer: bushbaby.BambooWriter, entry: Sendable) -> None:
        writer.write(entry.encoded)
        if entry.size:
            writer.write(entry.start)
        if entry.size <= len(entry.start):
            return
        pieces = self._worker.store.payload_rest(entry)
        while some := await self._worker.run(lambda: list(islice(pieces, _PIECES_A_STEP))):
            for piece in some:
                writer.write(piece)

    async def _send_have(self) -> None:
        """Announce what has changed since the last HAVE, and what was served since."""
        answering, self._answering = self._answering, False
        served, self._server.served = self._server.served, {}
        first = self._announcing.is_first
        news = await self._worker.run(
            self._announcing.look, self._worker.store, list(served), self._ledger, self.config.policy
        )
        # A log without a valid entry is not announced, so the peer would not ask for its fork.
        forked = [each.log for each in news.changed if not each.newest or each.log in self._ledger.peer_has]
        await self._show_forks([*forked, *(log for log, share in served.items() if share.is_lacking)])
        is_culm = self.connection.is_culm
        items = self._announcing.choose(news, served, self._ledger, is_culm=is_culm)
        if self.config.withhold_have:
            items = []
        if items or (answering and is_culm):
            self._ledger.unanswered += self.connection.send_have(items)
        elif first:
            self.connection.keep_alive()

    async def check_done(self) -> None:
        """Set ``done`` if both sides have all that they want. A peer that is no Culm node shows it by being quiet."""
        ledger = self._ledger
        settled = (
            self.connection.replicating
            and not (self.driver.is_taking or self._announcing.is_due or self._answering)
            and not (self._server.busy or self._page)
            and self._intake.idle
        )
        content = ledger.we_lack_nothing and not ledger.unanswered
        if settled and ledger.we_lack_nothing:
            await self.witness.settle()
        if settled and (content if self.connection.is_culm else self._is_quiet(clock())):
            self.settled()
            self._finish()

    def _is_quiet(self, now: float) -> bool:
        """Whether a peer that is no Culm node has been silent for so long that nothing more will come."""
        sent = self._deliveries
        if self._is_lacking or now - self.driver.news_at <= self.config.limits.settle_seconds:
            return False
        hangs_up = max(self.driver.spoke_at, sent.busy_until) + HANG_UP_SECONDS
        return not sent.unconfirmed or (sent.is_taken and now > hangs_up)

    def _finish(self) -> None:
        self.stats.unconfirmed = self._deliveries.unconfirmed
        self.done.set()

    # -- watching ----------------------------------------------------------------------------------------------

    def keep_alive(self) -> None:
        """Send an empty message, unless entries for the peer are on their way anyway.

        A peer that is no Culm node may hang up when nothing is under way: it calls again, and then has news to tell. If
        we have called it, we do that ourselves.
        """
        if not (self._server.busy or self._page) and (self.connection.is_culm or self._is_under_way(clock())):
            self.connection.keep_alive()

    def _is_under_way(self, now: float) -> bool:
        if self.is_live:
            is_young = self.is_called and now - self._began_at <= self.config.interval
            return is_young or self._is_lacking or self._deliveries.is_pending(now)
        return self._is_lacking or not self._deliveries.is_taken

    async def settle(self) -> None:
        """Ask again for what the peer announced and did not send, now that it is quiet."""
        if not self._intake.idle:
            return
        # On the store's thread, which begins and ends requests: looked through here, they could change meanwhile.
        if again := await self._worker.run(self._ledger.unfinished):
            self.driver.news_at = clock()
            await self._ask(again, answer=False)
        elif not self.connection.is_culm:
            await self._look_after(clock())

    async def _look_after(self, now: float) -> None:
        """See whether a quiet peer that is no Culm node has stored what it was sent, and end a session of no use."""
        quiet = now - self.driver.news_at
        if quiet > _GIVE_UP_SECONDS and self._is_lacking:
            await self._worker.run(self._ledger.give_up, self._missing)
        if self._server.busy or self._page:
            return
        log = self._deliveries.question(now)
        offer = None if log is None else await self._worker.run(self._worker.store.offer, log)
        if offer is not None and offer.newest and not self.config.withhold_have:
            self.connection.send_have([bushbaby.HaveItem(offer.author, offer.log_id, offer.newest)])
            self.driver.wake()
        if self.is_live and not self._is_under_way(now) and (self.is_called or quiet > self.config.limits.idle_seconds):
            self.over_because = "the peer was quiet, and tells its news at the beginning of a connection"
            self._over.set()

    def _tell_held_back(self) -> None:
        """Write a line for each log whose newest entries the peer cannot take, once in the life of the node."""
        for log, (first, last) in self._server.held_back.items():
            if self._context.bushbaby.held_back.get(log) != (first, last):
                reason = (
                    f"entries {first} to {last} have empty payloads, which this peer cannot take at the end of a log;"
                    " it can get them by culm://, or behind an entry with a payload"
                )
                extra = {"peer": self._name, "log": log_text(log), "seq": first, "reason": reason}
                _logger.warning("held back an entry", extra=extra)
                self._context.bushbaby.held_back[log] = first, last
        self._server.held_back.clear()

    @property
    def _name(self) -> str:
        return encode_base62(self._peer).decode() if self._peer else "a peer"
