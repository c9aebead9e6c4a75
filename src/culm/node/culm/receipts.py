"""Receipts: each side of a ``culm://`` session tells the other one what it holds of the other one's own logs.

*Why.* Offers tell a peer what it may lack. So a node that has just fetched a log from its author has no reason to offer
it back, and the author never learns that the entries have arrived.

*The way chosen.* It is offered back all the same, to its author alone, and only when the node has dealt with an offer
of the author's and has all that it wants of it: it is on the disk then. To a peer of an earlier version this is an
offer like any other, of no use to it. An author never answers the offer of a log of its own, so there is no echo of an
echo.

A log that both hold alike when they connect is not offered at all. There the comparison of heads is the receipt: what
the peer did not name, and was not named to it, it claims to hold as we do. Logs that changed during the comparison are
left out: their heads of before lead to no log any more, so that they are perhaps not named although they differ.

Looking runs on threads, and everything it finds is taken up on the event loop by ``send``.

Specification: docs/specs/culm.md, "News".
"""

from collections.abc import Callable, Container, Iterable
from itertools import islice

from culm.node.culm.offers import offer_of
from culm.node.held import HeldByPeers
from culm.node.interests import doubts
from culm.ranges import Range, RangeSet
from culm.session import Connection, Offer
from culm.session.messages import TIP_BYTES
from culm.store import ReadableStore
from culm.types import Log

_MOST_RANGES = 64  # Of a receipt: with more gaps an author learns of the first ones.
# A peer may offer logs of its own without end and take no answer, so what waits for it is bounded.
_MOST_DUE = 4096  # Receipts. Beyond that an author hears of a log when it is offered again, or compared.
_MOST_QUEUED = 64 * 1024  # Bytes of offers that the connection holds.
_AT_ONCE = 64
_MOST_COMPARED = 1024  # Own logs whose state is noted at a comparison, so that it takes a moment even with many logs.


class Receipts:
    """The receipts of one session. ``me`` is this node's identity, ``shares`` says whether a log may be told of."""

    def __init__(
        self, connection: Connection, held: HeldByPeers, me: bytes, address: str, shares: Callable[[Log], bool]
    ) -> None:
        self._connection = connection
        self._held = held
        self._me = me
        self._address = address
        self._shares = shares
        self._due: dict[Log, Offer] = {}  # To be told to the peer, the author of these logs.
        self._heard: list[tuple[Log, int, int]] = []  # Own logs, with what the peer says that it holds.
        self._compared: list[tuple[Log, int, int]] = []  # Own logs, as they were when the heads were compared.
        self._change = 0  # The store's last change by then.

    @property
    def is_pending(self) -> bool:
        """Whether there is something for ``send``."""
        return bool(self._due or self._heard)

    def settled(self, store: ReadableStore, offer: Offer) -> None:
        """An offer of the peer was looked at, and we hold all of it that we want."""
        is_theirs = offer.author == self._connection.peer != self._me
        if is_theirs and self._shares(offer.log) and (offer.log in self._due or len(self._due) < _MOST_DUE):
            self._due[offer.log] = _receipt(store, offer.log)

    def hear(self, store: ReadableStore, offer: Offer) -> None:
        """Note what the peer offers of a log of ours. Nothing is noted if it holds another entry than we do there."""
        if offer.author == self._me:
            newest, complete = _extent(offer.held)
            ours = doubts.digest_at(store, offer.log, newest)[:TIP_BYTES]
            if newest and ours == offer.tip:
                self._heard.append((offer.log, newest, complete))

    def send(self) -> None:
        """Tell the node what was found, and the peer as much of it as the connection has room for."""
        self.note()
        connection = self._connection
        while self._due and connection.offers_queued < _MOST_QUEUED:
            some = [self._due.pop(log) for log in list(islice(self._due, _AT_ONCE))]
            connection.offer(offer for offer in some if connection.their_interests.wants(offer.log))

    def note(self) -> None:
        """Tell the node what the peer says that it holds. On any thread."""
        heard, self._heard = self._heard, []
        for found in heard:
            self._note(found)

    def begin_comparison(self, store: ReadableStore) -> None:
        """Remember how own logs are now, before the snapshot that is compared."""
        self._change = store.change()
        logs = store.logs_by(self._me)[:_MOST_COMPARED]
        self._compared = [(log, *_extent(store.held(*log))) for log in logs]

    def end_comparison(self, store: ReadableStore, differ: Container[Log], takes_part: Callable[[Log], bool]) -> None:
        """The peer holds as we do all logs that took part, do not differ, and have not changed meanwhile."""
        compared, self._compared = self._compared, []
        changed = set(store.changed_logs(self._change, _MOST_COMPARED)[1]) if compared else set()
        if len(changed) == _MOST_COMPARED:  # Perhaps there are more; the next comparison says what is held alike.
            return
        for found in compared:
            if found[0] not in differ and found[0] not in changed and takes_part(found[0]):
                self._note(found)

    def _note(self, found: tuple[Log, int, int]) -> None:
        self._held.said(self._connection.peer, self._address, *found)


def _receipt(store: ReadableStore, log: Log) -> Offer:
    """What the store holds of a log, or of its beginning if that has many gaps.

    An offer may say too much of a log with many gaps, because asking for too much is harmless. A receipt may not.
    """
    offer = offer_of(store, log)
    if len(offer.held) <= _MOST_RANGES:
        return offer
    held = RangeSet(list(offer.held)[:_MOST_RANGES])
    tip = doubts.digest_at(store, log, max(item.last for item in held))[:TIP_BYTES]
    return offer._replace(held=held, tip=tip)


def _extent(held: Iterable[Range]) -> tuple[int, int]:
    """The newest number that is held, and up to which number everything is, payloads included."""
    held = list(held)
    newest = max((item.last for item in held), default=0)
    if not newest:
        return 0, 0
    missing = RangeSet([Range(1, newest)]).missing(held, newest)
    return newest, min((item.start for item in missing), default=newest + 1) - 1
