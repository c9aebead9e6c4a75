"""A session by intervals: answers the peer's requests, and asks for what the node wants (docs/protocols/intervals.md).

A peer that asks for a log is asked for it in turn, because the protocol has no way to list what a peer has.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from culm.intervals import Connection, Doubted, Event, Request, RequestEnded
from culm.node.intervals.followed import FollowOptions
from culm.node.intervals.follower import Follower
from culm.node.intervals.peek import Peek
from culm.node.sessions.pointtopoint import INLINE_TURNS, PointToPointSession
from culm.node.sessions.session import Context, Purpose
from culm.node.sharing.rates import Streams
from culm.node.surroundings import clock
from culm.ranges import RangeSet
from culm.transfer import EntriesReceived, EntryReceived, PayloadFailed, PayloadReceived
from culm.types import Buffer, Log

_QUIET_SECONDS = 0.25  # A one-time sync stays so long after it sent entries, because the peer may ask for more by them.


class IntervalSession(PointToPointSession[Event]):
    """One session. The connection answers the peer's requests from the source."""

    scheme: ClassVar[str] = "intervals"
    connection: Connection
    asker: Follower

    def __init__(self, context: Context, streams: Streams, purpose: Purpose) -> None:
        connection = Connection(
            context.source, limits=purpose.limits, stateless=context.config.stateless, together=True
        )
        super().__init__(context, streams, connection, purpose)
        self.asker = Follower(
            connection,
            context.source,
            purpose.interest or context.config.policy.interest,
            purpose.options or FollowOptions(),
            live=purpose.is_live,
            claimed=self.witness.claimed,
            worth_asking=self.worth_asking,
        )
        self._shown: dict[Log, None] = {}  # Logs: the peer has seen a proof of ours since we asked last.
        self._shown_at = 0.0
        self.asker.add(purpose.logs)
        if purpose.peek is not None:
            purpose.peek.taken = self.driver.wake

    async def ask_for(self, wanted: Iterable[tuple[Log, RangeSet, RangeSet, int | None, int | None]]) -> None:
        """Ask for ranges of logs, for entries that may contradict ours, and whether others are ours.

        The peer has said what it holds.
        """
        async with self.driver.lock:
            for log, ranges, held, doubted, compared in wanted:
                self.asker.add_offered(log, ranges, held, doubted, compared)
        self.driver.wake()

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def _payload_left(self) -> int:
        return self.connection.ours.payload_left

    def receive(self, data: Buffer, now: float) -> Iterator[Event]:
        """Parse bytes, as ``Speaker.receive`` says.

        The follower hears of each event at once, because it may cancel a request, and that decides how the next bytes
        are read.
        """
        peek: Peek | None = self._purpose.peek
        for event in self.connection.receive_data(data, now):
            if peek is not None and peek.takes(event, self.connection):
                continue
            self.asker.handle(event)
            yield event

    def _refill(self) -> None:
        if not self._is_held_up:
            self.connection.refill()

    @property
    def _is_held_up(self) -> bool:
        """Whether a program has to take bytes before the peer gets credit for more."""
        return self._purpose.peek is not None and self._purpose.peek.is_full

    def _handle(self, event: Event) -> None:
        match event:
            case EntriesReceived() | EntryReceived() | PayloadReceived() | PayloadFailed():
                self._take(event)
            case _ if self._purpose.answers_only:
                self.driver.heard_news()
            case Request():
                self._mirror(event.log)
            case RequestEnded(_, log, doubted, has_shown_fork) if doubted is not None or has_shown_fork:
                if doubted is not None:
                    self.asker.doubt(log, doubted)
                if has_shown_fork and not self.is_live:
                    self._shown[log], self._shown_at = None, clock()
            case Doubted(log, seq):
                self.asker.doubt(log, seq, confirmed=True)
            case _:
                self.driver.heard_news()

    # -- writing -----------------------------------------------------------------------------------------------

    @property
    def _has_work(self) -> bool:
        asker = self.asker
        return bool(
            self._has_changed
            or self._mixed
            or self.arrivals.overtaken
            or asker.todo
            or self.connection.theirs.turns
            or self._purpose.peek is not None
            or (asker.is_storing and self.arrivals.idle)
        )

    @property
    def _is_small_work(self) -> bool:
        return not self.asker.todo and len(self.connection.theirs.turns) <= INLINE_TURNS

    def _compose(self) -> bool:
        if logs := self._take_changed_logs():
            self.connection.wake(logs)
            self.asker.changed(logs)
        if self._purpose.peek is not None:
            self._purpose.peek.begin(self.connection)
            self._refill()  # The program may have taken some bytes.
        self.asker.step()
        more = self.connection.respond(self.driver.write_bytes)
        self.stats.entries_sent = self.connection.theirs.entries_sent
        return more

    def _take_events(self) -> list[Event]:
        return self.connection.take_events()

    # -- watching ----------------------------------------------------------------------------------------------

    @property
    def may_be_silent(self) -> bool:
        """Whether both sides have what they asked for, and only wait for news, or the program takes its time.

        The protocol has no sign of life: a peer that follows the document says nothing until there is something new.
        """
        if self._is_held_up:
            return True
        return self.is_live and self.connection.is_waiting and self._has_all

    async def settle(self) -> None:
        """No useful message has come for a while: stop waiting for answers that may never come."""
        async with self.driver.lock:
            self.asker.settle()

    async def check_done(self) -> None:
        """Hand on logs that are done, if the ``Purpose`` asks for that; otherwise see whether all has come."""
        await super().check_done()
        async with self.driver.lock:
            if self._purpose.finished is not None:
                if finished := self.asker.release():
                    self._purpose.finished(finished)
            elif not self.is_live and self.asker.is_done and self.arrivals.idle:
                self._check_quiet()

    def _check_quiet(self) -> None:
        quiet = clock() - max(self.driver.news_at, self._shown_at)
        needed = _QUIET_SECONDS if self.stats.entries_sent or self._shown else 0.0
        if not (self.connection.theirs.is_content and quiet >= needed) and quiet <= self.config.limits.settle_seconds:
            return
        if self._shown:  # A proof can contradict what the peer holds farther down: it knows of a lower fork then.
            self.asker.ask_anew(self._shown)
            self._shown.clear()
            self.driver.wake()
        else:
            self.done.set()
