"""A session by proposals: confirms what the peer proposes, and proposes what the node wants.

A peer that proposes a log is asked for it in turn, because the protocol has no way to list what a peer has.

Nor has the protocol a way to say that there is nothing more. A peer that is silent may have nothing, or be busy with
its disk. So a one-time sync ends in four steps: everything was proposed and answered; nothing has come for a moment;
the peer has answered a ping since, so it has dealt with everything that we sent before; all proposals are cancelled.
The moment need not pass if the peer has said by a ping on the data channel that it has sent all that it has, as each
node does once after each round of proposals, and if we have sent nothing that it may have to answer to.
"""

from collections import deque
from collections.abc import Iterator
from typing import ClassVar

from culm import proposals
from culm.bamboo import Entry
from culm.node.proposals.options import ProposalOptions
from culm.node.proposals.proposer import Proposer
from culm.node.sessions.pointtopoint import INLINE_TURNS, PointToPointSession
from culm.node.sessions.session import Context, Purpose
from culm.node.sharing.rates import Streams
from culm.node.surroundings import clock
from culm.transfer import EntriesReceived, EntryReceived, PayloadFailed, PayloadReceived
from culm.types import Buffer, Log

# Without anything new, before a one-time sync sends the ping that shows whether the peer is busy.
_QUIET_SECONDS = 0.25
_FETCHED = 1024  # Runs of payloads remembered as on their way to the store; the oldest of more are stored by then.
_FAREWELL_SECONDS = 2.0  # To end all proposals in order; a peer that takes longer finds the connection closed.
_LARGEST_WINDOW = 1024 * 1024  # Bytes of history kept for a peer that compresses: so much each session may cost.


class ProposalSession(PointToPointSession[proposals.Event]):
    """One session. ``asker`` also says what to answer to the peer's proposals."""

    scheme: ClassVar[str] = "proposals"
    connection: proposals.Connection
    asker: Proposer

    def __init__(self, context: Context, streams: Streams, purpose: Purpose) -> None:
        policy = context.config.policy
        options: ProposalOptions = purpose.options or context.config.proposals
        window = 0 if options.small else options.window
        largest = 0 if options.small else max(window, _LARGEST_WINDOW)
        setup = proposals.Setup(options.greedy, options.greedy, window, largest)
        connection = proposals.Connection(
            context.source,
            proactive=purpose.called,
            setup=setup,
            limits=purpose.limits or (proposals.SMALL if options.small else None),
            together=True,
        )
        super().__init__(context, streams, connection, purpose)
        self.asker = Proposer(
            connection.endpoint,
            context.source,
            purpose.interest or policy.interest,
            policy.shares,
            options,
            witness=self.witness,
            worth_asking=self.worth_asking,
        )
        self._endpoint = connection.endpoint
        # Runs of entries: by proposal that whose payload is coming; and those whose payload is on its way to the store.
        self._fetching: dict[int, tuple[Log, int, int]] = {}
        self._fetched: deque[tuple[Log, int, int]] = deque()
        self._grown: set[Log] = set()
        self._asked_at: float | None = None  # When the last ping before the end was sent.
        self._answers = 0  # Answers to pings that had come then.
        self._farewell_at: float | None = None  # When all proposals were cancelled, to end the session.
        self._rests = self._peer_rests = False  # Whether a side has sent all that it has.
        self._rest_said = True  # Whether we need not say so, as long as the peer has not proposed or answered anything.
        self._entries_seen, self._entries_at = 0, 0.0  # Entries sent when we looked last, and when the last one was.
        self.asker.add(purpose.logs)

    async def flush(self) -> None:
        """Store all that came before the end. Sessions that wait for payloads which do not come any more go on."""
        try:
            await super().flush()
        finally:  # Also where storing failed: otherwise other sessions would wait for ever.
            self._fetched.extend(self._fetching.values())
            self._release(0)

    def log_grew(self, log: Log) -> None:
        """More of a payload is there, which a greedy session passes on at once; or no more of it will come."""
        self._grown.add(log)
        self.driver.wake()

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def _payload_left(self) -> int:
        return self._endpoint.receiver.payload_left

    def receive(self, data: Buffer, now: float) -> Iterator[proposals.Event]:
        """Parse bytes. The proposer hears of events at once, because the next bytes may depend on what it answers."""
        for event in self.connection.receive_data(data, now):
            self.asker.handle(event)
            self._rests, self._peer_rests = False, isinstance(event, proposals.Rested)
            self._follow(event)
            if isinstance(event, proposals.Offered | proposals.Adjust | proposals.Cancelled):
                self._rest_said = False
            yield event

    def _follow(self, event: proposals.Event) -> None:
        """Note which payloads are on their way, in the order in which it is said: of each proposal one at a time.

        Until a payload is stored no peer is told that we lack it.
        """
        match event:
            case EntriesReceived(proposal_id, items):
                self._end_fetching(proposal_id)
                first, last = items[0][0], items[-1][0]
                self._fetched.append(run := (first.log, first.seq, last.seq))
                self._source.fetches(*run)
            case EntryReceived(proposal_id, entry) if entry.size:
                self._begin_fetching(proposal_id, entry)
            case PayloadReceived(proposal_id, complete=True) | PayloadFailed(proposal_id):
                self._end_fetching(proposal_id)
            case proposals.Skipped(proposal_id) | proposals.Freed(proposals.Proposal(proposal_id)):
                self._end_fetching(proposal_id)

    def _begin_fetching(self, proposal_id: int, entry: Entry) -> None:
        self._end_fetching(proposal_id)
        self._fetching[proposal_id] = run = entry.log, entry.seq, entry.seq
        self._source.fetches(*run)

    def _end_fetching(self, proposal_id: int) -> None:
        run = self._fetching.pop(proposal_id, None)
        if run is not None:
            self._fetched.append(run)

    def _release(self, most: int) -> None:
        """All but so many of the payloads that came are stored, or will not be: wake the sessions that wait for them.

        These can send them now, or have to say that we lack them.
        """
        runs = [self._fetched.popleft() for _ in range(len(self._fetched) - most)]
        for run in runs:
            self._source.fetched(*run)
        for log in dict.fromkeys(log for log, _, _ in runs):
            self._context.grew(log)

    def _refill(self) -> None:
        self.connection.refill()

    def _handle(self, event: proposals.Event) -> None:
        match event:
            case proposals.Rested():
                pass
            case EntriesReceived() | EntryReceived() | PayloadReceived() | PayloadFailed():
                self._take(event)
            case proposals.Offered(proposal):
                self._mirror(proposal.log)
            case _:
                self.driver.heard_news()
        if len(self._fetched) > _FETCHED:
            self._release(_FETCHED)

    def _look_again(self) -> None:
        self._release(0)
        super()._look_again()

    # -- writing -----------------------------------------------------------------------------------------------

    @property
    def _is_small_work(self) -> bool:
        return not (self.asker.todo or self.asker.offers.todo) and len(self._endpoint.sender.turns) <= INLINE_TURNS

    def _compose(self) -> bool:
        has_stored = self.arrivals.idle and not self.driver.is_taking  # So changes that are taken below are all.
        grown, self._grown = self._grown, set()
        if logs := {*self._take_changed_logs(), *grown}:
            self._endpoint.wake(logs)
            self.asker.changed(logs)
        if self._farewell_at is None:
            self.asker.step()
        elif not self._endpoint.exchanges:
            self.connection.close()
        more = self.connection.respond(self.driver.write_bytes)
        self.stats.entries_sent = self._endpoint.sender.entries_sent
        self._rests = has_stored and self.asker.is_done and not self._endpoint.sender.turns
        if self._rests and not self._rest_said and self._farewell_at is None:
            self._rest_said = True
            self.connection.rest()
        return more

    def _take_events(self) -> list[proposals.Event]:
        had_asked, events = self.asker.is_done, self._endpoint.take_events()
        for event in events:
            self.asker.handle(event)
            self._follow(event)
        if had_asked and not self.asker.is_done:
            self.driver.wake()  # The asker had its turn before.
        return events

    # -- watching ----------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """No useful message has come for a while: see whether both hold the same newest entries."""
        async with self.driver.lock:
            self.asker.settle()

    async def check_done(self) -> None:
        """Bring the end of a one-time sync one step further; see the module's last paragraph."""
        if self._both_rest or clock() - self.driver.news_at >= _QUIET_SECONDS:
            await super().check_done()
        if self.is_live:
            return
        async with self.driver.lock:
            if self._farewell_at is None:
                self._check_quiet()
            elif self.connection.is_over or clock() - self._farewell_at > _FAREWELL_SECONDS:
                self.done.set()

    def _check_quiet(self) -> None:
        now, quiet_since = clock(), max(self.driver.news_at, self._sent_at)
        needed = 0.0 if self._both_rest else _QUIET_SECONDS
        if not (self.asker.is_done and self.arrivals.idle and now - quiet_since >= needed):
            return
        self.asker.settle()
        if self._asked_at is None or self._asked_at < quiet_since:
            self._asked_at, self._answers = now, self.connection.answers
            self.connection.keep_alive()
            self.driver.wake()
        elif self.connection.answers > self._answers:
            self._farewell_at = now
            self.asker.is_ending = True
            for proposal_id in list(self._endpoint.exchanges):
                self._endpoint.cancel(proposal_id, proposals.Code.END_OF_RANGE)
            self.driver.wake()

    @property
    def _both_rest(self) -> bool:
        """Whether both sides have sent all that they have, and the peer need not answer to any entry of ours."""
        is_settled = self._rests and not (self._has_changed or self.driver.is_taking)
        return is_settled and self._peer_rests and not self.stats.entries_sent

    @property
    def _sent_at(self) -> float:
        """When an entry was sent last."""
        if self._endpoint.sender.entries_sent != self._entries_seen:
            self._entries_seen, self._entries_at = self._endpoint.sender.entries_sent, clock()
        return self._entries_at
