"""Fetching: which logs to ask a peer for, of those that it has offered, and when.

Offers may come by the hundred thousand, in a moment. Three things keep that in order:

- An offer is looked at on a thread and in turns: does the peer have anything that we lack? If not, it is dropped.
- At most ``_AT_ONCE`` logs are asked for at a time, each under a claim (``culm.node.culm.claims``). A log that another
  session of this node fetches waits until that session is done with it, and is then looked at anew.
- Offers that wait count against ``MOST_WAITING``. When they exceed it, the peer gets no more credit for offers.

When a log has come, it is looked at once more, because two things may have happened meanwhile. A fork may have come to
light; then the log is asked for again, since the peer may know of a fork at a lower place. Or part of the log is still
missing although the peer offered it, for instance because the peer was too busy; then it is asked for some more times.

Specification: docs/specs/culm.md, "What is fetched".
"""

import asyncio
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from typing import NamedTuple

from culm.errors import EncodingError, RemoteProtocolError
from culm.node.culm.claims import STALL_SECONDS, Claims
from culm.node.culm.offers import asked_of, doubted, lacks, newest_held, offer_of
from culm.node.culm.receipts import Receipts
from culm.node.interests.doubts import lowest_fork, newest_common
from culm.node.intervals.session import IntervalSession
from culm.node.sharing.turns import Share
from culm.node.storage.source import StoreSource
from culm.node.surroundings import clock
from culm.ranges import RangeSet
from culm.session import Offer
from culm.store import ReadableStore
from culm.types import Log

_AT_ONCE = 64  # Logs asked for at a time: enough to fill a link with small logs; each has requests open meanwhile.
_MOST_TRIES = 5  # Then a peer that offers what it does not send is not asked for it again, until it offers it anew.
MOST_WAITING = 1024 * 1024
"""Bytes of offers, as they came, that wait to be looked at; with more the peer has to wait before it offers more."""
_OFFER_BYTES = 128  # Each offer counts for so many bytes besides, because even an empty one takes memory.
_LOOK_SECONDS = 0.004  # Of looking at offers in one turn, so that the turn stays short.


class _Wish(NamedTuple):
    """A log to ask for."""

    offer: Offer  # The latest one of the log.
    in_any_case: bool = False  # Ask for its newest entry whatever was offered; the offer is looked at afterwards.

    @property
    def weight(self) -> int:
        """The bytes that it counts for while it waits."""
        return _OFFER_BYTES + len(self.offer.held.encode())


class _Request(NamedTuple):
    """What is asked for of a log."""

    wish: _Wish
    ranges: RangeSet
    held: RangeSet  # What the peer says that it holds; nothing if only the entry in doubt is asked for.
    doubted: int | None  # The number of an entry that may contradict ours.
    fork: int | None  # The lowest fork that was known when we asked; another one afterwards is a reason to ask again.
    compared: int | None = None  # The number of an entry that both hold, for the peer to compare.


class Fetching:
    """Asks one peer for logs, through the interval session ``transfer``.

    ``receipts`` tell the peer that its own logs have come. ``progressed`` is called whenever a log was begun or
    finished, or an offer was found useless. ``forked`` is called with the logs in which a fetch has shown a fork, or a
    lower one, before ``is_idle`` can be true: the peer should hear of it.
    """

    def __init__(
        self,
        source: StoreSource,
        share: Share,
        claims: Claims,
        transfer: IntervalSession,
        receipts: Receipts,
        progressed: Callable[[], None],
        forked: Callable[[list[Log]], None],
    ) -> None:
        self._source = source
        self._forked = forked
        self._receipts = receipts
        self._share = share
        self._claims = claims
        self._transfer = transfer
        self._progressed = progressed
        self._wanted: dict[Log, _Wish] = {}  # Not asked for yet.
        self.weight = 0  # Bytes that ``_wanted`` counts for.
        self._waiting: set[Log] = set()  # Wanted logs that other sessions have claimed.
        self._busy: dict[Log, _Request] = {}
        self._compared: dict[Log, int] = {}  # See ``_comparison``.
        self._tries: dict[Log, int] = {}  # How often a log was asked for and did not come in full.
        self._finished: list[Log] = []  # Busy logs that have come and are to be looked at once more.
        self._news = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether the peer has to wait before it may offer more."""
        return self.weight > MOST_WAITING

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to ask for, everything that came is stored, and its author was told so."""
        return not (self._wanted or self._busy or self._receipts.is_pending) and self._transfer.arrivals.idle

    def offered(self, offers: Iterable[Offer]) -> None:
        """Take offers of the peer. A log's later offer replaces an earlier one that still waits."""
        policy = self._transfer.config.policy
        for offer in offers:
            if policy.wants(offer.log):
                earlier = self._wanted.get(offer.log)
                has_to_show = self._has_to_show(offer)
                self._want(offer.log, _Wish(offer, has_to_show or (earlier is not None and earlier.in_any_case)))
        self._news.set()

    def _has_to_show(self, offer: Offer) -> bool:
        """Whether the peer has to send the newest entry of a log of our own, which we hold."""
        witness = self._transfer.witness
        if not witness.concerns(offer.log):  # Of the other logs no ranges are read here: that would take long.
            return False
        with suppress(EncodingError):  # The offer is refused when it is looked at.
            return bool(witness.claimed(offer.log, max((item.last for item in offer.held), default=0)))
        return False

    def compared(self, named: Container[Log], takes_part: Callable[[Log], bool]) -> None:
        """The first comparison is over: the peer claims to hold the same as we of all logs that were not ``named``.

        Of our own logs it has to show that (``culm.node.sessions.witness``).
        """
        for log in self._transfer.witness.unconfirmed():
            if log in named:
                self._transfer.witness.claimed(log, 0)  # What the peer has of it later, it may have from us.
            elif takes_part(log):
                self.offered([self._source.ask(offer_of, log)])

    def _want(self, log: Log, wish: _Wish) -> None:
        self._want_no_more(log)
        self._wanted[log] = wish
        self.weight += wish.weight

    def _want_no_more(self, log: Log) -> None:
        self.weight -= self._wanted.pop(log).weight if log in self._wanted else 0

    def finished(self, logs: list[Log]) -> None:
        """All that the peer has of these logs has come: let other sessions fetch them, and look at them once more."""
        for log in logs:
            self._finished.append(log)
            self._claims.release(log, self)
        self._news.set()

    # -- for the other sessions --------------------------------------------------------------------------------

    @property
    def news_at(self) -> float:
        """When the peer last sent something of use, on the event loop's clock."""
        return self._transfer.driver.news_at

    def brought(self, log: Log) -> int:
        """The bytes that have come of a log since it was asked for."""
        return self._transfer.asker.brought(log)

    def claim_freed(self, log: Log) -> None:
        """Another session has released a log that we wait for: look at it again."""
        self._waiting.discard(log)
        self._news.set()

    @property
    def has_rest(self) -> bool:
        """Whether there is something for ``hear_rest``."""
        return bool(self._wanted) or self._receipts.is_pending

    def hear_rest(self) -> None:
        """The connection is over: note what the peer offered last of our own logs. On a thread."""
        for wish in list(self._wanted.values()):
            with suppress(EncodingError):
                self._source.ask(self._receipts.hear, wish.offer)
        self._receipts.note()

    def close(self) -> None:
        """The session is over: release its logs, so that others fetch what it did not."""
        self._claims.leave(self)
        self._wanted.clear()

    # -- asking ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask for what is wanted, until cancelled."""
        while True:
            self._news.clear()
            if self._finished:
                again = await self._share.run(self._look_at_finished)
                self._forked([log for log, wish in again if wish.in_any_case])
                for log, wish in again:
                    latest = self._wanted.get(log)  # A newer offer may have come meanwhile.
                    if latest is None or wish.in_any_case:
                        self._want(log, wish if latest is None else latest._replace(in_any_case=True))
            wanted = list(self._wanted.items())  # A copy, because offers come in while a thread looks at them.
            # With nothing wanted, as after most looks, a turn on a thread would find nothing.
            chosen, useless = await self._share.run(self._choose, wanted) if wanted else ({}, [])
            for log, wish in useless:
                if self._wanted.get(log) is wish:  # Otherwise a newer offer has come meanwhile.
                    self._want_no_more(log)
            if taken := self._take(chosen):
                await self._transfer.ask_for(taken)
            self._receipts.send()
            self._progressed()
            if chosen or useless or self._finished:
                continue
            try:
                async with asyncio.timeout(STALL_SECONDS if self._waiting else None):
                    await self._news.wait()
            except TimeoutError:
                self._waiting.clear()  # A session that holds them may have stalled, and does not tell us: try again.

    def _take(self, chosen: dict[Log, _Request]) -> list[tuple[Log, RangeSet, RangeSet, int | None, int | None]]:
        """Claim logs; what to ask for of those that no other session holds."""
        taken = []
        for log, request in chosen.items():
            if self._claims.take(log, self, clock()):
                if self._wanted.get(log) is request.wish:  # Otherwise a newer offer waits for the next time.
                    self._want_no_more(log)
                taken.append((log, request.ranges, request.held, request.doubted, request.compared))
            else:
                self._waiting.add(log)
                self._busy.pop(log, None)
        return taken

    def _choose(self, wanted: list[tuple[Log, _Wish]]) -> tuple[dict[Log, _Request], list[tuple[Log, _Wish]]]:
        """Logs to ask for now, and offers that are of no use: as many of both as a short turn finds. On a thread."""
        began = self._share.spent()
        chosen: dict[Log, _Request] = {}
        useless: list[tuple[Log, _Wish]] = []
        for log, wish in wanted:
            if len(self._busy) >= _AT_ONCE or ((chosen or useless) and self._share.spent() - began > _LOOK_SECONDS):
                break
            if log in self._busy or log in self._waiting:
                continue
            try:
                request = self._source.ask(self._request, log, wish)
            except EncodingError as error:
                raise RemoteProtocolError(f"the peer's offer holds ranges that cannot be used: {error}") from None
            if request is not None:
                chosen[log] = self._busy[log] = request
            else:
                useless.append((log, wish))
                self._source.ask(self._receipts.settled, wish.offer)
        return chosen, useless

    def _request(self, store: ReadableStore, log: Log, wish: _Wish) -> _Request | None:
        """What to ask for of a log; None if the peer has nothing for us."""
        offer, policy, fork = wish.offer, self._transfer.config.policy, lowest_fork(store, log)
        self._receipts.hear(store, offer)
        if wish.in_any_case:
            return _Request(wish, RangeSet(), RangeSet(), newest_held(store, log) or None, fork)
        if not lacks(store, policy, offer):
            return None if policy.shares(log) else self._comparison(store, log, wish, fork)
        return _Request(wish, asked_of(policy, offer), offer.held, doubted(store, offer), fork)

    def _comparison(self, store: ReadableStore, log: Log, wish: _Wish, fork: int | None) -> _Request | None:
        """Ask whether an entry that both hold is the same, of a log that we may not show; once for each number."""
        seq = newest_common(store, log, wish.offer.held)
        if seq <= self._compared.get(log, 0):
            return None
        self._compared[log] = seq
        return _Request(wish, RangeSet(), RangeSet(), None, fork, seq)

    def _look_at_finished(self) -> list[tuple[Log, _Wish]]:
        """The logs to ask for again, of those that have come; see the module's last paragraph. On a thread."""
        again: list[tuple[Log, _Wish]] = []
        while self._finished:
            log = self._finished.pop()
            request = self._busy[log]
            offer = request.wish.offer
            fork = self._source.ask(lowest_fork, log)
            lacking = self._source.ask(lacks, self._transfer.config.policy, offer)
            if fork != request.fork:
                again.append((log, _Wish(offer, in_any_case=True)))
            elif lacking and self._tries.get(log, 0) < _MOST_TRIES:
                self._tries[log] = self._tries.get(log, 0) + 1
                again.append((log, _Wish(offer)))
            else:
                self._tries.pop(log, None)
                self._source.ask(self._receipts.hear, offer)  # Once more: now the entry to compare may be held.
                self._source.ask(self._receipts.settled, offer)
            del self._busy[log]
        return again
