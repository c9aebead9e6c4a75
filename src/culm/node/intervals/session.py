"""One connection that speaks intervals: the protocol, and what the node wants of the peer.

A peer that asks for a log is asked for it in turn: the protocol has no way to list what a peer has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from culm.intervals import Connection, Doubted, Event, Limits, Requested, RequestEnded
from culm.node.intervals.follower import Follower, FollowOptions
from culm.node.sessions.peer import MIRRORED_LOGS, WRITE_BYTES, PeerSession
from culm.node.surroundings import clock
from culm.transfer import EntryReceived, PayloadFailed, PayloadReceived

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator

    from culm.node.config import NodeConfig
    from culm.node.interests.policy import Policy
    from culm.node.storage.source import StoreSource
    from culm.node.storage.worker import AnyWorker
    from culm.ranges import RangeSet
    from culm.store import ImportReport, Log

_INLINE_TURNS = 4  # answering so many requests takes no thread
_QUIET_SECONDS = 0.25  # after we sent something, before a one-time sync ends


class IntervalSession(PeerSession):
    """Runs one connection until it is ended.

    ``logs`` are asked for from the beginning, others when the peer asks for them if ``mirrors`` says so. ``interest``
    says what of each log, by default the policy does. ``live``: go on with what is new; otherwise ``done`` is set once
    everything came and the peer has what it asked for. ``finished``, if there is one, is called with logs of which
    everything came, which are then followed no longer; they were asked for by ``ask_for``.
    """

    scheme: ClassVar[str] = "intervals"

    def __init__(
        self,
        config: NodeConfig,
        worker: AnyWorker,
        source: StoreSource,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        *,
        logs: Iterable[Log] = (),
        live: bool = True,
        mirrors: bool = True,
        options: FollowOptions | None = None,
        interest: Callable[[Log], RangeSet] | None = None,
        limits: Limits | None = None,
        finished: Callable[[list[Log]], None] | None = None,
        stored: Callable[[], None] = lambda: None,
        grew: Callable[[Log], None] | None = None,
    ) -> None:
        super().__init__(config, worker, source, streams, live=live, stored=stored, grew=grew)
        self.connection = Connection(source, limits=limits)
        self.follower = Follower(
            self.connection, source, interest or config.policy.interest, options or FollowOptions(), live=live
        )
        self._mirrors = mirrors
        self._finished = finished
        logs = list(logs)
        self._asks = bool(logs)
        self.follower.add(logs)

    async def ask_for(self, wishes: Iterable[tuple[Log, RangeSet, int | None]]) -> None:
        """Ask for ranges of logs that the peer has, and for entries that may contradict ours."""
        async with self._lock:
            for log, ranges, doubted in wishes:
                self.follower.add_offered(log, ranges, doubted)
        self._wake.set()

    async def change_policy(self, policy: Policy) -> None:
        """Go on with other interests: what is not wanted any more is taken back, and what is asked for."""
        logs = await self._share.run(self._newly_wanted, policy) if self._asks else []
        async with self._lock:
            self.config = replace(self.config, policy=policy)
            self.follower.reconsider(policy.interest)
            self.follower.add([log for log in policy.interests or () if isinstance(log, tuple)] + logs)
        self._wake.set()

    # -- reading -----------------------------------------------------------------------------------------------

    def _expects_payload(self, size: int) -> bool:
        return self.connection.expects_payload(size)

    def _parse(self, data: bytes) -> Iterator[Event]:
        for event in self.connection.receive_data(data, self._heard_at):
            self.follower.handle(event)
            yield event

    def _refill(self) -> bytes:
        self.connection.refill()
        return self.connection.data_to_send()

    def _handle(self, event: Event) -> None:
        match event:
            case EntryReceived() | PayloadReceived() | PayloadFailed():
                self._take(event)
            case Requested(request):
                self._news_at = self._heard_at
                if self._mirrors and self.follower.count < min(MIRRORED_LOGS, self.config.limits.max_logs):
                    self.follower.add([request.log])
            case RequestEnded(_, log, doubted) if doubted is not None:
                self.follower.doubt(log, doubted)
            case Doubted(log, seq):
                self.follower.doubt(log, seq, confirmed=True)
            case _:
                self._news_at = self._heard_at
        self.stats.missing = self.follower.missing
        for proof in self.follower.proofs:
            self._take_proof(proof)
        self.follower.proofs.clear()

    def _was_stored(self, report: ImportReport) -> None:
        super()._was_stored(report)
        if self.follower.needs_storing:
            self._wake.set()

    def _look_again(self) -> None:
        if self.follower.needs_storing:
            self.follower.look_again()

    # -- writing -----------------------------------------------------------------------------------------------

    @property
    def _is_small_work(self) -> bool:
        return not self.follower.has_work and self.connection.turns <= _INLINE_TURNS

    def _compose(self) -> tuple[bytes, bool]:
        if logs := self._changed_logs():
            self.connection.wake(logs)
            self.follower.changed(logs)
        self.follower.step()
        more = self.connection.respond(WRITE_BYTES)
        self.stats.entries_sent = self.connection.entries_sent
        return self.connection.data_to_send(), more

    def _take_events(self) -> list[Event]:
        return self.connection.take_events()

    # -- watching ----------------------------------------------------------------------------------------------

    def _keep_alive(self) -> bytes:
        self.connection.keep_alive()
        return self.connection.data_to_send()

    def _settle(self) -> None:
        self.follower.settle()

    def _poll(self) -> None:
        self.follower.poll()

    def _check_done(self) -> None:
        if self._finished is not None:
            if finished := self.follower.release():
                self._finished(finished)
            return
        if self._live or not (self.follower.is_done and self.arrivals.idle):
            return
        quiet = clock() - self._news_at
        needed = _QUIET_SECONDS if self.stats.entries_sent else 0.0
        if (self.connection.peer_is_content and quiet >= needed) or quiet > self.config.limits.settle_seconds:
            self.done.set()
