"""Which logs to ask a peer for: those that it named or offered and that have something for us, some at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from culm.errors import RemoteProtocolError
from culm.node.claims import STALL_SECONDS
from culm.node.offers import asked_of, doubted, knows_lower_fork, lacks, lowest_fork, newest_held
from culm.node.surroundings import clock
from culm.ranges import RangeSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.node.claims import Claims
    from culm.node.intervals import IntervalSession
    from culm.node.source import StoreSource
    from culm.node.turns import Share
    from culm.session import Offer
    from culm.store import Log

_AT_ONCE = 64  # logs
_MOST_TRIES = 5
_MOST_WANTED = 1_000_000  # logs that wait for their turn


class _Wish(NamedTuple):
    """What is asked for of a log: ranges, an entry that may contradict ours. ``fork``: the lowest one known then."""

    offer: Offer | None
    ranges: RangeSet
    doubted: int | None
    fork: int | None


class Fetching:
    """Asks one peer, through ``transfer``, for one log after the other.

    A log that another session of this node fetches waits for that; what is then still missing is asked for.
    ``progressed`` is called whenever something was begun or finished.
    """

    def __init__(
        self,
        source: StoreSource,
        share: Share,
        claims: Claims,
        transfer: IntervalSession,
        progressed: Callable[[], None],
    ) -> None:
        self._source = source
        self._share = share
        self._claims = claims
        self._transfer = transfer
        self._progressed = progressed
        self._wanted: dict[Log, Offer | None] = {}  # None: to be asked for in any case
        self._later: dict[Log, Offer] = {}  # of those to be asked for in any case: to be looked at behind that
        self._waiting: set[Log] = set()  # of those wanted, what other sessions fetch
        self._busy: dict[Log, _Wish] = {}
        self._tries: dict[Log, int] = {}  # that brought not all
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
            if policy.wants(offer.log):
                if self._wanted.get(offer.log, offer) is None:
                    self._later[offer.log] = offer
                else:
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
            chosen, useless = await self._share.run(self._choose)
            for log, offer in useless:
                if self._wanted.get(log) is offer:
                    del self._wanted[log]
            taken = []
            for log, wish in chosen.items():
                if self._claims.take(log, self, clock()):
                    if self._wanted.get(log) is wish.offer:  # else more was offered meanwhile, for the next time
                        self._wanted.pop(log, None)
                    taken.append((log, wish.ranges, wish.doubted))
                else:
                    self._waiting.add(log)
                    self._busy.pop(log, None)
            if taken:
                await self._transfer.ask_for(taken)
            self._progressed()
            if chosen or useless or self._finished:
                continue
            try:
                async with asyncio.timeout(STALL_SECONDS if self._waiting else None):
                    await self._news.wait()
            except TimeoutError:
                self._waiting.clear()  # who fetches them may have stalled

    def _choose(self) -> tuple[dict[Log, _Wish], list[tuple[Log, Offer | None]]]:
        """Logs to ask for now, and offers that are of no use."""
        self._look_at_finished()
        chosen: dict[Log, _Wish] = {}
        useless: list[tuple[Log, Offer | None]] = []
        for log, offer in list(self._wanted.items()):
            if len(self._busy) >= _AT_ONCE:
                break
            if log in self._busy or log in self._waiting:
                continue
            wish = self._wish(log, offer)
            if wish is not None:
                chosen[log] = self._busy[log] = wish
            else:
                useless.append((log, offer))
        return chosen, useless

    def _wish(self, log: Log, offer: Offer | None) -> _Wish | None:
        """What to ask for of a log; None if the peer has nothing for us."""
        with self._source.lock:
            store, policy = self._source.store, self._source.policy
            fork = lowest_fork(store, log)
            if offer is None:
                return _Wish(None, RangeSet(), newest_held(store, log) or None, fork)
            if not lacks(store, policy, offer):
                return None
            doubt = doubted(store, offer)
            if knows_lower_fork(store, offer):  # whatever is asked for makes the peer show it
                doubt = newest_held(store, log) or offer.fork
            return _Wish(offer, asked_of(policy, offer), doubt or None, fork)

    def _look_at_finished(self) -> None:
        """See what has become of the logs that were asked for.

        One of which a fork came to light is asked for again: there may be one at a lower place. What was offered is not
        forgotten over that. One of which the peer has more is asked for again, too, some times: it may have been too
        busy to answer.
        """
        while self._finished:
            log = self._finished.pop()
            wish = self._busy[log]
            offer = self._later.pop(log, None) if wish.offer is None else wish.offer
            with self._source.lock:
                fork = lowest_fork(self._source.store, log)
                lacking = offer is not None and lacks(self._source.store, self._source.policy, offer)
            if fork != wish.fork:
                if (latest := self._wanted.get(log) or offer) is not None:
                    self._later[log] = latest
                self._wanted[log] = None
            elif lacking and self._tries.get(log, 0) < _MOST_TRIES:
                self._tries[log] = self._tries.get(log, 0) + 1
                self._wanted.setdefault(log, offer)
            else:
                self._tries.pop(log, None)
            del self._busy[log]
