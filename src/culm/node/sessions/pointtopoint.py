"""What sessions of both Point-2-Point protocols have in common: how what comes reaches the store, and news the peer.

Both transfer entries and payloads of named logs in an order that the receiver chose, and both give credit for bytes.
What to ask for is decided by an *asker*: the follower of intervals, the proposer of proposals. Entries and payloads
take one way to the store, the ``Arrivals``. Credit is given once they are on it, so that a peer
can never send more than we have room for. Parsing includes checking signatures, on a thread where there are many.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from culm.bamboo import Entry
from culm.errors import PayloadMismatch, Place, StoreError
from culm.node.interests.policy import Policy
from culm.node.intervals.follower import Follower
from culm.node.proposals.proposer import Proposer
from culm.node.sessions.arrivals import WRONG, Arrivals, PiecesMixed
from culm.node.sessions.session import Context, Purpose, Session
from culm.node.sharing.rates import Streams
from culm.store import ImportReport
from culm.transfer import EntriesReceived, EntryReceived, PayloadFailed, PayloadReceived
from culm.types import Log
from culm.wire.connection import ProtocolConnection

EventT = TypeVar("EventT")

INLINE_TURNS = 4
"""Requests or proposals that are answered on the loop: so few take less than handing them to a thread does."""

MIRRORED_LOGS = 16_384
"""Logs a peer is asked for because it asked for them: what such a peer can make us remember stays bounded."""

_LARGE_PART = 64 * 1024  # Of a payload, parsed by itself although entries follow: those take a thread, and it does not.
_INLINE_BYTES = 4096  # Parsed on the loop: at most a few signatures, which take less than a switch of threads.


class PointToPointSession(Session[EventT]):
    """A session by intervals or by proposals. ``arrivals`` is the way to the store, ``asker`` says what to ask for."""

    asker: Follower | Proposer

    def __init__(
        self, context: Context, streams: Streams, connection: ProtocolConnection[EventT], purpose: Purpose
    ) -> None:
        super().__init__(context, streams, connection, purpose)
        self.arrivals = Arrivals(
            context.worker,
            self._was_stored,
            context.config.policy,
            context.grew,
            self._is_for_another,
            self._had_no_room,
        )
        self._source = context.source
        self._mixed: list[Place] = []  # Payloads whose pieces from several peers proved wrong together.
        self._mirrored: dict[Log, None] = {}  # Also those that are not wanted now: a quota may have room again.
        self._change = -1  # The store's change that the peer has been served up to; -1: nobody waits for anything yet.
        self._has_changed = True

    async def flush(self) -> None:
        """The connection is over: store the entries and payloads that came before."""
        await self.arrivals.close()

    def store_changed(self) -> None:
        """The store has changed: the peer may wait for what is new."""
        self._has_changed = True
        self.driver.wake()

    def _take_changed_logs(self) -> list[Log]:
        """The logs that have changed since the last call."""
        if not self._has_changed:
            return []
        self._has_changed = False
        if self._change < 0:
            self._change = self._source.ask(lambda store: store.change())
            return []
        self._change, logs = self._source.ask(lambda store: store.changed_logs(self._change))
        return logs

    async def change_policy(self, policy: Policy) -> None:
        """Go on with other choices: take back what is not wanted any more, and ask for what is."""
        logs = [*self._mirrored, *(log for log in policy.interests or () if isinstance(log, tuple))]
        if self._purpose.logs:
            logs += await self._share.run(self._source.ask, lambda store: [held.log for held in store.logs()])
        async with self.driver.lock:
            self.config = replace(self.config, policy=policy)
            self.asker.reconsider(policy)
            self.asker.add(logs)  # Those of them that are wanted.
        self.driver.wake()

    async def lost(self, log: Log, seq: int) -> None:
        """The payload of an entry was damaged on our disk: ask the peer for it again."""
        async with self.driver.lock:
            self.asker.lost(log, seq)
        self.driver.wake()

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _payload_left(self) -> int:
        """How many of the next bytes are, as far as can be told, those of a payload that has begun: no signatures."""

    def part_size(self, available: int, portion: int) -> int:
        """All of a large payload that has come, because it costs little; else what makes a short turn."""
        left = self._payload_left
        return min(available, left) if left >= min(available, _LARGE_PART) else min(available, portion)

    def is_light(self, size: int) -> bool:
        """Whether so many bytes are parsed within a millisecond."""
        return 0 < size <= _INLINE_BYTES or self._payload_left >= size

    async def handle(self, events: list[EventT]) -> None:
        """Do what events ask for, in one turn."""
        async with self.driver.lock, self._share.turn():
            self._handle_all(events)

    def _handle_all(self, events: Iterable[EventT]) -> None:
        for event in events:
            self._handle(event)
            self.stats.missing = self.asker.missing
            for entries in self.asker.proofs:
                self.arrivals.take_proof(entries)
            self.asker.proofs.clear()

    @abstractmethod
    def _handle(self, event: EventT) -> None:
        """Do what one event asks for. Called with the lock held."""

    def _mirror(self, log: Log) -> None:
        """The peer asks for a log: ask the peer for it, too, if that is among the session's purposes."""
        self.driver.heard_news()
        most = min(MIRRORED_LOGS, self.config.limits.max_logs)
        if self._purpose.mirrors and max(len(self.asker.logs), len(self._mirrored)) < most:
            self._mirrored[log] = None
            self.asker.add([log])

    async def make_room(self) -> None:
        """Wait while too much waits to be stored; ``RemoteProtocolError`` if the peer sent too much that is wrong."""
        if not self.config.proposals.greedy:  # Greedy peers pass on what nobody could check yet: that is no offence.
            self.stats.check_offences()
        await self.arrivals.room()

    def end_chunk(self) -> None:
        """Send entries and payloads on their way to the store, and give the peer credit for them."""
        self.arrivals.end_of_chunk()
        self._refill()

    @abstractmethod
    def _refill(self) -> None:
        """Give the peer credit for the bytes that came."""

    def _take(self, event: EntriesReceived | EntryReceived | PayloadReceived | PayloadFailed) -> None:
        """Send entries, or bytes of a payload, on the way to the store."""
        stats = self.stats
        if isinstance(event, EntriesReceived):
            self.witness.take(event.items[-1][0])  # Of neighbours the newest shows as much as all of them.
            stats.entries_received += len(event.items)
            stats.payload_bytes += sum(len(payload) for _, payload in event.items)
            self.driver.heard_news()
        elif isinstance(event, EntryReceived):
            self.witness.take(event.entry)
            stats.entries_received += 1
            self.driver.heard_news()
        elif isinstance(event, PayloadReceived):
            stats.payload_bytes += len(event.data)
            self.driver.heard_news()
        elif not event.is_taken_back:
            self._refuse(event.entry, is_theirs=event.is_theirs)
        self.arrivals.take(event)

    def _refuse(self, entry: Entry, *, is_theirs: bool) -> None:
        if is_theirs:
            self.note_wrong(entry.place)
        else:
            self._ask_whole(entry.place)
        reason = WRONG
        if not is_theirs:
            reason += "; its beginning was held before, so either that or what the peer sent is wrong"
        self.stats.note_refused(entry.place, PayloadMismatch(reason, entry.place) if is_theirs else StoreError(reason))

    def _ask_whole(self, place: Place) -> None:
        """The pieces of a payload proved wrong together: have it fetched whole from one peer. Holds the lock."""
        self.note_wrong(place, is_theirs=False)
        self.asker.lost((place.author, place.log_id), place.seq)

    def _is_for_another(self, entry: Entry) -> bool:
        """Whether another session fetches a payload alone, so that bytes which still come here are of no use."""
        return self._context.wrong.is_for_another(self, entry.log, entry.seq, self._now())

    def _had_no_room(self, log: Log) -> None:
        self.asker.had_no_room(log)

    def _was_stored(self, report: ImportReport) -> None:
        for place, error in report.refused:
            if place and isinstance(error, PiecesMixed):
                self._mixed.append(place)
            elif place and isinstance(error, PayloadMismatch):
                self.note_wrong(place)
        self.note_stored(report)
        if report.added or report.payloads:
            self.store_changed()
        self.driver.wake()  # The asker may have waited until everything that came is stored.

    # -- writing -----------------------------------------------------------------------------------------------

    async def compose(self) -> bool:
        """Ask for what is missing, and answer what the peer asked for; whether there is more at once."""
        if not self._has_work:
            return False
        async with self.driver.lock:
            for place in self._mixed:
                self._ask_whole(place)
            self._mixed.clear()
            while self.arrivals.overtaken:
                place = self.arrivals.overtaken.pop()
                self.asker.lost((place.author, place.log_id), place.seq)
            if self.arrivals.idle and not self.driver.is_taking:
                self._look_again()
            if self._is_small_work:
                async with self._share.turn():
                    more = self._compose()
            else:
                more = await self._share.run(self._compose)
            self._handle_all(self._take_events())
        return more

    @property
    def _has_work(self) -> bool:
        """Whether composing could do anything. Large payloads ask for it with each piece that comes or is stored."""
        return True

    def _look_again(self) -> None:
        """Everything that came is stored: see what is still missing."""
        self.asker.look_again()

    @property
    @abstractmethod
    def _is_small_work(self) -> bool:
        """Whether composing takes a millisecond at most."""

    @abstractmethod
    def _compose(self) -> bool:
        """See ``compose``. May run on a thread, with the lock held."""

    @abstractmethod
    def _take_events(self) -> Iterable[EventT]:
        """What happened while composing."""

    # -- watching ----------------------------------------------------------------------------------------------

    @property
    def _has_all(self) -> bool:
        """Whether all that was asked for has come and is stored."""
        return self.asker.is_done and self.arrivals.idle and not self.driver.is_taking

    async def check_done(self) -> None:
        """Let the store hear what the peer has shown, once nothing more is on its way."""
        if self._has_all:
            await self.witness.settle()
            if self.asker.logs:  # A caller may not have said yet which logs it is about.
                self.settled()

    async def poll(self) -> None:
        """Ask again for what the peer did not have."""
        async with self.driver.lock:
            self.asker.poll()
