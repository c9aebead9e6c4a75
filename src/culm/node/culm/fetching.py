"""Which logs to ask a peer for: those that it named or offered and that have something for us, some at a time.

Specification: docs/specs/culm.md, "What is fetched".
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from culm.errors import EncodingError, RemoteProtocolError
from culm.node.culm.claims import STALL_SECONDS
from culm.node.culm.offers import asked_of, doubted, knows_lower_fork, lacks, lowest_fork, newest_held
from culm.node.surroundings import clock
from culm.ranges import RangeSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.node.culm.claims import Claims
    from culm.node.intervals.session import IntervalSession
    from culm.node.sharing.turns import Share
    from culm.node.storage.source import StoreSource
    from culm.session import Offer
    from culm.types import Log

_AT_ONCE = 64  # logs
_MOST_TRIES = 5
MOST_WAITING = 1024 * 1024
"""Bytes of offers that wait for their turn, counted as they came; then the peer has to wait before it says more."""
_OFFER_BYTES = 128  # that each counts for besides
_LOOK_SECONDS = 0.004  # of looking at offers, in one turn


class _Wish(NamedTuple):
    """What is asked for of a log: ranges, an entry that may contradict ours. ``fork``: the lowest one known then."""

    offer: Offer | None
    ranges: RangeSet
    doubted: int | None
    fork: int | None


class _Again(NamedTuple):
    """What to ask for once more: a log with what was offered of it, or first the log in any case."""

    log: Log
    offer: Offer | None
    in_any_case: bool


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
        self._weight = 0  # bytes of those
        self._waiting: set[Log] = set()  # of those wanted, what other sessions fetch
        self._busy: dict[Log, _Wish] = {}
        self._tries: dict[Log, int] = {}  # that brought not all
        self._finished: list[Log] = []  # of those, what came
        self._news = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether no more offers are to be taken for now."""
        return self._weight > MOST_WAITING

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to ask for, and everything that came is stored."""
        return not (self._wanted or self._busy) and self._transfer.arrivals.idle

    def offered(self, offers: Iterable[Offer]) -> None:
        """The peer has something."""
        policy = self._source.policy
        for offer in offers:
            if policy.wants(offer.log):
                if self._wanted.get(offer.log, offer) is None:
                    self._later[offer.log] = offer
                else:
                    self._want(offer.log, offer)
        self._news.set()

    def _want(self, log: Log, offer: Offer | None) -> None:
        self._want_no_more(log)
        self._wanted[log] = offer
        self._weight += _weight(offer)

    def _want_again(self, again: list[_Again]) -> None:
        for log, offer, in_any_case in again:
            if in_any_case:
                if (latest := self._wanted.get(log) or offer) is not None:
                    self._later[log] = latest
                self._want(log, None)
            elif log not in self._wanted:
                self._want(log, offer)

    def _want_no_more(self, log: Log) -> None:
        self._weight -= _weight(self._wanted.pop(log)) if log in self._wanted else 0

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
        return self._transfer.driver.news_at

    def brought(self, log: Log) -> int:
        """The bytes that came of a log which is being fetched."""
        return self._transfer.follower.brought(log)

    def claim_freed(self, log: Log) -> None:
        """A log that we wait for is free."""
        self._waiting.discard(log)
        self._news.set()

    def close(self) -> None:
        """The session is over: others may fetch what it did not."""
        self._claims.leave(self)
        self._wanted.clear()
        self._later.clear()

    # -- asking ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask, until cancelled."""
        while True:
            self._news.clear()
            if self._finished:
                self._want_again(await self._share.run(self._look_at_finished))
            wanted = list(self._wanted.items())  # offers come in while a thread looks at them
            chosen, useless = await self._share.run(self._choose, wanted)
            for log, offer in useless:
                if self._wanted.get(log) is offer:
                    self._want_no_more(log)
            if taken := self._take(chosen):
                await self._transfer.ask_for(taken)
            self._progressed()
            if chosen or useless or self._finished:
                continue
            try:
                async with asyncio.timeout(STALL_SECONDS if self._waiting else None):
                    await self._news.wait()
            except TimeoutError:
                self._waiting.clear()  # who fetches them may have stalled

    def _take(self, chosen: dict[Log, _Wish]) -> list[tuple[Log, RangeSet, int | None]]:
        """Of these logs what nobody else fetches."""
        taken = []
        for log, wish in chosen.items():
            if self._claims.take(log, self, clock()):
                if self._wanted.get(log) is wish.offer:  # else more was offered meanwhile, for the next time
                    self._want_no_more(log)
                taken.append((log, wish.ranges, wish.doubted))
            else:
                self._waiting.add(log)
                self._busy.pop(log, None)
        return taken

    def _choose(
        self, wanted: list[tuple[Log, Offer | None]]
    ) -> tuple[dict[Log, _Wish], list[tuple[Log, Offer | None]]]:
        """Logs to ask for now, and offers that are of no use: some of them, as far as a short time goes."""
        began = self._share.spent()
        chosen: dict[Log, _Wish] = {}
        useless: list[tuple[Log, Offer | None]] = []
        for log, offer in wanted:
            if len(self._busy) >= _AT_ONCE or ((chosen or useless) and self._share.spent() - began > _LOOK_SECONDS):
                break
            if log in self._busy or log in self._waiting:
                continue
            try:
                wish = self._wish(log, offer)
            except EncodingError as error:
                raise RemoteProtocolError(f"an offer of no ranges: {error}") from None
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
            if knows_lower_fork(store, offer):  # asked for there, the peer shows it, though we may know of a higher one
                doubt = offer.fork
            return _Wish(offer, asked_of(policy, offer), doubt or None, fork)

    def _look_at_finished(self) -> list[_Again]:
        """See what has become of the logs that were asked for; what is to be asked for again.

        One of which a fork came to light is asked for again: there may be one at a lower place. What was offered is not
        forgotten over that. One of which the peer has more is asked for again, too, some times: it may have been too
        busy to answer.
        """
        again: list[_Again] = []
        while self._finished:
            log = self._finished.pop()
            wish = self._busy[log]
            offer = self._later.pop(log, None) if wish.offer is None else wish.offer
            with self._source.lock:
                fork = lowest_fork(self._source.store, log)
                lacking = offer is not None and lacks(self._source.store, self._source.policy, offer)
            if fork != wish.fork:
                again.append(_Again(log, offer, in_any_case=True))
            elif lacking and self._tries.get(log, 0) < _MOST_TRIES:
                self._tries[log] = self._tries.get(log, 0) + 1
                again.append(_Again(log, offer, in_any_case=False))
            else:
                self._tries.pop(log, None)
            del self._busy[log]
        return again


def _weight(offer: Offer | None) -> int:
    return _OFFER_BYTES + (len(offer.held.encode()) if offer is not None else 0)
