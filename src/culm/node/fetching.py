"""Which logs to ask a peer for: those that it named or offered and that have something for us, some at a time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from culm.errors import RemoteProtocolError
from culm.node.claims import STALL_SECONDS
from culm.node.offers import doubted, lacks, lowest_fork, newest_held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.node.claims import Claims
    from culm.node.intervals import IntervalSession
    from culm.node.source import StoreSource
    from culm.session import Offer
    from culm.store import Log

_AT_ONCE = 64  # logs
_MOST_WANTED = 1_000_000  # logs that wait for their turn


class Fetching:
    """Asks one peer, through ``transfer``, for one log after the other.

    A log that another session of this node fetches waits for that; what is then still missing is asked for.
    ``progressed`` is called whenever something was begun or finished.
    """

    def __init__(
        self, source: StoreSource, claims: Claims, transfer: IntervalSession, progressed: Callable[[], None]
    ) -> None:
        self._source = source
        self._claims = claims
        self._transfer = transfer
        self._progressed = progressed
        self._wanted: dict[Log, Offer | None] = {}  # None: to be asked for in any case
        self._waiting: set[Log] = set()  # of those wanted, what other sessions fetch
        self._busy: dict[Log, int | None] = {}  # being fetched, with the lowest fork that was known at the beginning
        self._finished: list[Log] = []  # of those, what came
        self._news = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to ask for, and everything that came is stored."""
        return not (self._wanted or self._busy) and self._transfer.arrivals.idle

    def offered(self, offers: Iterable[Offer]) -> None:
        """The peer has something. ``RemoteProtocolError`` if it is too much."""
        policy = self._source.policy
        for offer in offers:
            if policy.wants(offer.log) and self._wanted.get(offer.log, offer) is not None:
                self._wanted[offer.log] = offer
        if len(self._wanted) > _MOST_WANTED:
            raise RemoteProtocolError(f"the peer offers more than {_MOST_WANTED} logs")
        self._news.set()

    def finished(self, logs: list[Log]) -> None:
        """Of these logs everything came that the peer has."""
        for log in logs:
            self._finished.append(log)
            self._claims.release(log, self)
        self._news.set()

    # -- for the other sessions --------------------------------------------------------------------------------

    @property
    def news_at(self) -> float:
        """When the peer sent something of use."""
        return self._transfer.news_at

    def claim_freed(self, log: Log) -> None:
        """A log that we wait for is free."""
        self._waiting.discard(log)
        self._news.set()

    def close(self) -> None:
        """The session is over: others may fetch what it did not."""
        self._claims.leave(self)

    # -- asking ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask, until cancelled."""
        while True:
            self._news.clear()
            chosen, doubts = await asyncio.to_thread(self._choose)
            for log in chosen:
                if self._claims.take(log, self, time.monotonic()):
                    self._wanted.pop(log, None)
                else:
                    self._waiting.add(log)
                    self._busy.pop(log, None)
            if taken := [log for log in chosen if log not in self._waiting]:
                await self._transfer.ask_for(taken, doubts)
            self._progressed()
            if chosen or self._finished:
                continue
            try:
                await asyncio.wait_for(self._news.wait(), STALL_SECONDS if self._waiting else None)
            except TimeoutError:
                self._waiting.clear()  # who fetches them may have stalled

    def _choose(self) -> tuple[list[Log], list[tuple[Log, int]]]:
        """Logs to ask for now, and entries that may contradict ours; what turns out to be of no use is forgotten."""
        self._look_for_forks()
        chosen: list[Log] = []
        doubts: list[tuple[Log, int]] = []
        for log, offer in list(self._wanted.items()):
            if len(self._busy) >= _AT_ONCE:
                break
            if log in self._busy or log in self._waiting:
                continue
            with self._source.lock:
                store, policy = self._source.store, self._source.policy
                wanted = offer is None or lacks(store, policy, offer)
                fork = lowest_fork(store, log)
                doubt = newest_held(store, log) if offer is None else doubted(store, offer)
            if wanted and doubt:
                doubts.append((log, doubt))
            if wanted:
                chosen.append(log)
                self._busy[log] = fork
            elif self._wanted.get(log) is offer:
                del self._wanted[log]
        return chosen, doubts

    def _look_for_forks(self) -> None:
        """A log of which a fork came to light is asked for again: there may be one at a lower place."""
        while self._finished:
            log = self._finished.pop()
            with self._source.lock:
                fork = lowest_fork(self._source.store, log)
            if self._busy.get(log) != fork:
                self._wanted[log] = None
            self._busy.pop(log, None)
