"""One connection that speaks proposals: the protocol, and what the node wants of the peer.

A peer that proposes a log is asked for it in turn: the protocol has no way to list what a peer has, and none to say
that there is nothing more. A one-time sync ends when everything was asked for and answered, nothing has come for a
moment, and the peer has answered a ping since.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from culm.node.proposals.proposer import ProposalOptions, Proposer
from culm.node.sessions.peer import MIRRORED_LOGS, WRITE_BYTES, PeerSession
from culm.node.surroundings import clock
from culm.proposals import (
    SMALL,
    Connection,
    EntryReceived,
    Event,
    Freed,
    Limits,
    Offered,
    PayloadFailed,
    PayloadReceived,
    Setup,
    Skipped,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator

    from culm.bamboo import Entry
    from culm.node.config import NodeConfig
    from culm.node.interests.policy import Policy
    from culm.node.storage.source import StoreSource
    from culm.node.storage.worker import AnyWorker
    from culm.ranges import RangeSet
    from culm.store import ImportReport, Log

_INLINE_TURNS = 4  # answering so many proposals takes no thread
_QUIET_SECONDS = 0.25  # without news, before a one-time sync asks whether the peer is still there
_FETCHED = 1024  # payloads on their way to the store that are remembered
_FAREWELL_SECONDS = 2.0  # to end all proposals in order
_LARGEST_WINDOW = 1024 * 1024  # bytes of history that are kept for a peer that compresses


class ProposalSession(PeerSession):
    """Runs one connection until it is ended. ``called``: we opened it.

    ``logs`` are asked for from the beginning, others when the peer proposes them if ``mirrors`` says so. ``interest``
    says what of each log, by default the policy does. ``live``: go on with what is new; otherwise ``done`` is set once
    everything came.
    """

    scheme: ClassVar[str] = "proposals"

    def __init__(
        self,
        config: NodeConfig,
        worker: AnyWorker,
        source: StoreSource,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        called: bool,
        logs: Iterable[Log] = (),
        live: bool = True,
        mirrors: bool = True,
        options: ProposalOptions | None = None,
        interest: Callable[[Log], RangeSet] | None = None,
        limits: Limits | None = None,
        stored: Callable[[], None] = lambda: None,
        grew: Callable[[Log], None] | None = None,
    ) -> None:
        super().__init__(config, worker, source, streams, live=live, stored=stored, grew=grew)
        options = options or ProposalOptions()
        window = 0 if options.small else options.window
        self.session = Connection(
            source,
            proactive=called,
            setup=Setup(options.greedy, options.greedy, window, 0 if options.small else max(window, _LARGEST_WINDOW)),
            limits=limits or (SMALL if options.small else None),
        )
        self.connection = self.session.endpoint
        self.proposer = Proposer(
            self.connection, source, interest or config.policy.interest, config.policy.shares, options
        )
        self._mirrors = mirrors
        logs = list(logs)
        self._asks = bool(logs)
        self._fetching: dict[int, Entry] = {}  # by proposals: the entry whose payload is coming
        self._fetched: deque[Entry] = deque()  # payloads on their way to the store
        self._grew = grew
        self._grown: set[Log] = set()
        self._asked_at: float | None = None  # when we asked for a sign of life, before ending
        self._answers = 0
        self._farewell_at: float | None = None
        self._entries_seen, self._entries_at = 0, 0.0
        self.proposer.add(logs)

    async def _flush(self) -> None:
        try:
            await super()._flush()
        finally:  # also where storing failed: nobody is to wait for what does not come
            self._release([*self._fetching.values(), *self._fetched])

    async def change_policy(self, policy: Policy) -> None:
        """Go on with other interests: what is not wanted any more is taken back, and what is asked for."""
        logs = await self._share.run(self._newly_wanted, policy) if self._asks else []
        async with self._lock:
            self.config = replace(self.config, policy=policy)
            self.proposer.reconsider(policy.interest, policy.shares)
            self.proposer.add([log for log in policy.interests or () if isinstance(log, tuple)] + logs)
        self._wake.set()

    def log_grew(self, log: Log) -> None:
        """More of a payload that is being fetched is there, which a greedy session passes on; or no more will come."""
        self._grown.add(log)
        self._wake.set()

    # -- reading -----------------------------------------------------------------------------------------------

    def _expects_payload(self, size: int) -> bool:
        return self.connection.receiver.expects_payload(size)

    def _parse(self, data: bytes) -> Iterator[Event]:
        for event in self.session.receive_data(data, self._heard_at):
            self.proposer.handle(event)
            if isinstance(event, EntryReceived) and event.entry.size:
                self._begin_fetching(event.id, event.entry)
            yield event

    @property
    def _has_more(self) -> bool:
        return self.session.has_more

    def _begin_fetching(self, proposal_id: int, entry: Entry) -> None:
        """The payload of an entry comes next, so that nobody is told that it is not available."""
        self._end_fetching(proposal_id)
        self._fetching[proposal_id] = entry
        self._source.fetches(entry.log, entry.seq)

    def _end_fetching(self, proposal_id: int) -> None:
        entry = self._fetching.pop(proposal_id, None)
        if entry is not None:
            self._fetched.append(entry)

    def _release(self, entries: Iterable[Entry]) -> None:
        """These payloads are there, or will not come: who waits for them can pass on either."""
        logs: dict[Log, None] = {}
        for entry in entries:
            self._source.fetched(entry.log, entry.seq)
            logs[entry.log] = None
        if self._grew is not None:
            for log in logs:
                self._grew(log)

    def _refill(self) -> bytes:
        self.session.refill()
        return self.session.data_to_send()

    def _handle(self, event: Event) -> None:
        match event:
            case EntryReceived():
                self._take(event)
            case PayloadReceived():
                self._take(event)
                if event.complete:
                    self._end_fetching(event.id)
            case PayloadFailed():
                self._take(event)
                self._end_fetching(event.id)
            case Skipped() | Freed():
                self._end_fetching(event.id)
                self._news_at = self._heard_at
            case Offered(proposal):
                self._news_at = self._heard_at
                if self._mirrors and self.proposer.count < min(MIRRORED_LOGS, self.config.limits.max_logs):
                    self.proposer.add([proposal.log])
            case _:
                self._news_at = self._heard_at
        self._release([self._fetched.popleft() for _ in range(len(self._fetched) - _FETCHED)])
        self.stats.missing = self.proposer.missing
        for proof in self.proposer.proofs:
            self._take_proof(proof)
        self.proposer.proofs.clear()

    def _was_stored(self, report: ImportReport) -> None:
        super()._was_stored(report)
        if self.proposer.needs_storing or self._fetched:
            self._wake.set()

    def _look_again(self) -> None:
        if self._fetched:
            fetched, self._fetched = self._fetched, deque()
            self._release(fetched)
        if self.proposer.needs_storing:
            self.proposer.look_again()

    # -- writing -----------------------------------------------------------------------------------------------

    @property
    def _is_small_work(self) -> bool:
        return not self.proposer.has_work and self.connection.sender.turns <= _INLINE_TURNS

    def _compose(self) -> tuple[bytes, bool]:
        grown, self._grown = self._grown, set()
        logs = {*self._changed_logs(), *grown}
        if logs:
            self.connection.wake(logs)
            self.proposer.changed(logs)
        if self._farewell_at is None:
            self.proposer.step()
        elif not self.connection.exchanges:
            self.session.close()
        more = self.session.respond(WRITE_BYTES)
        self.stats.entries_sent = self.connection.sender.entries_sent
        return self.session.data_to_send(), more

    def _take_events(self) -> list[Event]:
        events = self.connection.take_events()
        for event in events:
            self.proposer.handle(event)
        return events

    # -- watching ----------------------------------------------------------------------------------------------

    def _keep_alive(self) -> bytes:
        self.session.keep_alive()
        return self.session.data_to_send()

    def _poll(self) -> None:
        self.proposer.poll()

    def _check_done(self) -> None:
        if self._live:
            return
        now = clock()
        if self._farewell_at is not None:
            if self.session.is_over or now - self._farewell_at > _FAREWELL_SECONDS:
                self.done.set()
            return
        quiet_since = max(self._news_at, self._sent_at)
        if not (self.proposer.is_done and self.arrivals.idle and now - quiet_since >= _QUIET_SECONDS):
            return
        if self._asked_at is None or self._asked_at < quiet_since:
            self._asked_at, self._answers = now, self.session.answers
            self.session.ping()
            self._wake.set()
        elif self.session.answers > self._answers:
            self._farewell_at = now
            self.proposer.is_ending = True
            for proposal_id in list(self.connection.exchanges):
                self.connection.cancel(proposal_id)
            self._wake.set()

    @property
    def _sent_at(self) -> float:
        """When an entry was sent last."""
        if self.connection.sender.entries_sent != self._entries_seen:
            self._entries_seen, self._entries_at = self.connection.sender.entries_sent, clock()
        return self._entries_at
