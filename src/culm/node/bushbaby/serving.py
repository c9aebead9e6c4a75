"""Serving a peer's WANTs: requests become messages with entries, read from the store a page at a time.

A request can name all logs of an author, a whole log, a certificate pool or a span of 2^64 entries. It costs as much as
is found, because entries that are not held are skipped and not counted through. Pages keep both the memory and the
calls of the store's thread short, however large a request is. Requests themselves are small and wait in a queue; a peer
that makes it longer than ``max_wants`` is disconnected.

Specification: docs/specs/bushbaby.md, "WANT".
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from culm.bamboo import MAX_U64, certificate_pool
from culm.bushbaby import WantItem
from culm.bushbaby.grouping import CULM_STYLE, MAX_COVER_BYTES, Style, items_of, messages_of
from culm.errors import RemoteProtocolError
from culm.node.bushbaby.deliveries import Deliveries
from culm.node.interests.policy import Policy
from culm.ranges.runs import runs_of
from culm.store import ReadableStore, Sendable
from culm.types import Log, Run

Message = list[list[Sendable]]  # Items, each of one entry or of several.

PAGE_ENTRIES = 256
"""Entries that are read from the store at once. They wait in memory until the peer has taken them."""
_LEAST_ROOM = 64  # Entries: with less room in a page, the next span waits for the next page.
_LOOKS = 128  # Looks into the store in one call of its thread, so that many requests that find nothing hold up nobody.
_COVER_BACK = 100  # Entries looked at, back from one with an empty payload, to find one that can end its item.


@dataclass(slots=True)
class Served:
    """What a peer got of a log that it asked for. ``is_lacking``: we do not hold all of what it asked for."""

    any_sent: bool = False
    is_lacking: bool = False


class Server:
    """The requests of one peer that wait, and how far the first of them was served.

    ``style`` says how entries are grouped into messages for this peer. ``served`` collects what became of each log that
    was asked for, until the session takes it for the next HAVE. ``deliveries``: for a peer that asks for what it was
    sent. ``held_back`` has the first entry of each log that such a peer cannot take, and the log's newest one.
    """

    def __init__(self, policy: Policy, max_wants: int) -> None:
        self.style: Style = CULM_STYLE
        self.served: dict[Log, Served] = {}
        self.policy = policy
        self.deliveries: Deliveries | None = None
        self.held_back: dict[Log, Run] = {}
        self._max_wants = max_wants
        self._wants: deque[WantItem] = deque()
        self._spans: deque[tuple[Log, int, int]] = deque()

    def add(self, wants: Iterable[WantItem]) -> None:
        """Queue requests; ``RemoteProtocolError`` if more than ``max_wants`` wait."""
        self._wants.extend(wants)
        if len(self._wants) > self._max_wants:
            raise RemoteProtocolError(f"the peer sent requests faster than we serve: more than {self._max_wants} wait")

    def ignore(self, wants: Iterable[WantItem]) -> None:
        """Let the next HAVE say that these requests are over; nothing is sent."""
        for want in wants:
            if want.log_id is not None:
                self.served.setdefault((want.author, want.log_id), Served())

    def push(self, log: Log) -> None:
        """Queue a whole log that the peer has not asked for, because the operator promotes it."""
        self._spans.append((log, 1, MAX_U64))

    @property
    def busy(self) -> bool:
        """Whether any request is left to serve."""
        return bool(self._wants or self._spans)

    def next_messages(self, store: ReadableStore, now: float) -> list[Message]:
        """The next messages, with at most ``PAGE_ENTRIES`` entries. None if the first ``_LOOKS`` looks find nothing.

        Short answers share messages, because the deployed peer hangs up when many come. Runs on the store's thread.
        """
        items: Message = []
        room = PAGE_ENTRIES
        for _ in range(_LOOKS):
            if self._wants and not self._spans:
                self._expand(store, self._wants.popleft(), now)
                continue
            if not self._spans or room < _LEAST_ROOM:
                break
            log, low, high = self._spans.popleft()
            found = self._read(store, log, low, high, room)
            seqs = [entry.seq for item in found for entry in item]
            if self.deliveries is not None and seqs:
                self.deliveries.sent(log, seqs, now)
            items += found
            room -= len(seqs)
        return list(messages_of(items, self.style))

    def _read(self, store: ReadableStore, log: Log, low: int, high: int, most: int) -> Message:
        """The first items of a span; the rest of it waits in front of the other spans."""
        page = store.sendables(log, low, high, most)
        more = len(page) == most and page[-1].seq < high
        items, left = items_of(page, self.style)
        is_lacking = not _is_whole(page, low, page[-1].seq if more else high)
        if left and more and items:
            self._spans.appendleft((log, left[0].seq, high))
        else:
            if more:
                self._spans.appendleft((log, page[-1].seq + 1, high))
            if left:
                cover = _covered(store, log, left)
                items += cover
                if not cover:
                    is_lacking = True
                    self.held_back.setdefault(log, (left[0].seq, left[-1].seq))
        share = self.served.setdefault(log, Served())
        share.any_sent |= bool(items)
        share.is_lacking |= is_lacking
        return items

    def _expand(self, store: ReadableStore, want: WantItem, now: float) -> None:
        logs = store.logs_by(want.author) if want.log_id is None else [(want.author, want.log_id)]
        for log in logs:
            if self.policy.shares(log):
                self.served.setdefault(log, Served())
                for span in spans_of(want, is_deployed=self.deliveries is not None and self.style.join_empty):
                    due = [span] if self.deliveries is None else self.deliveries.due(log, span, now)
                    self._spans.extend((log, low, high) for low, high in due)


def _is_whole(page: list[Sendable], low: int, high: int) -> bool:
    """Whether a page has every entry from ``low`` to ``high``; of an open span, every one up to the page's last."""
    if high == MAX_U64:
        high = page[-1].seq if page else low - 1
    return len(page) == high - low + 1


def _covered(store: ReadableStore, log: Log, left: list[Sendable]) -> list[list[Sendable]]:
    """Entries with empty payloads as one item, ended by an earlier entry with a payload; [] if none is near.

    An item of a message consists of entries without payloads and a last one with its payload.
    """
    first = left[0].seq
    for earlier in reversed(store.sendables(log, max(1, first - _COVER_BACK), first, _COVER_BACK)):
        if 0 < earlier.size <= MAX_COVER_BYTES:
            return [[*left, earlier]]
    return []


def spans_of(want: WantItem, *, is_deployed: bool) -> list[Run]:
    """The spans of numbers that a request for a log denotes, ascending.

    The deployed peer asks for a certificate pool if it has no entry of a log. It asks for the rest only in another
    connection, so it gets the whole log up to that entry. Others get the pool up to that entry, as the document says.
    """
    if want.low is not None and want.high is not None:
        return [(want.low, want.high)]
    if want.pool is None:
        return [(1, MAX_U64)]
    if is_deployed:
        return [(1, want.pool)]
    return list(runs_of(seq for seq in reversed(certificate_pool(want.pool)) if seq <= want.pool))
