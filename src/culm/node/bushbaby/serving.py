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
from culm.node.interests.policy import Policy
from culm.ranges.runs import runs_of
from culm.store import ReadableStore, Sendable
from culm.types import Log, Run

Message = list[list[Sendable]]  # Items, each of one entry or of several.

PAGE_ENTRIES = 256
"""Entries that are read from the store at once. They wait in memory until the peer has taken them."""
_LOOKS = 64  # Looks into the store in one call of its thread, so that many requests that find nothing hold up nobody.
_COVER_BACK = 100  # Entries looked at, back from one with an empty payload, to find one that can end its item.


@dataclass(slots=True)
class Served:
    """What a peer got of a log that it asked for. ``is_lacking``: we do not hold all of what it asked for."""

    any_sent: bool = False
    is_lacking: bool = False


class Server:
    """The requests of one peer that wait, and how far the first of them was served.

    ``style`` says how entries are grouped into messages for this peer. ``served`` collects what became of each log that
    was asked for, until the session takes it for the next HAVE.
    """

    def __init__(self, policy: Policy, max_wants: int) -> None:
        self.style: Style = CULM_STYLE
        self.served: dict[Log, Served] = {}
        self.policy = policy
        self._max_wants = max_wants
        self._wants: deque[WantItem] = deque()
        self._spans: deque[tuple[Log, int, int]] = deque()

    def add(self, wants: Iterable[WantItem]) -> None:
        """Queue requests; ``RemoteProtocolError`` if more than ``max_wants`` wait."""
        self._wants.extend(wants)
        if len(self._wants) > self._max_wants:
            raise RemoteProtocolError(f"the peer sent requests faster than we serve: more than {self._max_wants} wait")

    def push(self, log: Log) -> None:
        """Queue a whole log that the peer has not asked for, because the operator promotes it."""
        self._spans.append((log, 1, MAX_U64))

    @property
    def busy(self) -> bool:
        """Whether any request is left to serve."""
        return bool(self._wants or self._spans)

    def next_messages(self, store: ReadableStore) -> list[Message]:
        """The next messages to send. None if no request is left, or if the first ``_LOOKS`` looks found nothing.

        Runs on the store's thread.
        """
        for _ in range(_LOOKS):
            if not self.busy:
                break
            if not self._spans:
                self._expand(store, self._wants.popleft())
                continue
            log, low, high = self._spans.popleft()
            page = store.sendables(log, low, high, PAGE_ENTRIES)
            more = len(page) == PAGE_ENTRIES and page[-1].seq < high
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
                    is_lacking |= not cover
            share = self.served.setdefault(log, Served())
            share.any_sent |= bool(items)
            share.is_lacking |= is_lacking
            if items:
                return list(messages_of(items, self.style))
        return []

    def _expand(self, store: ReadableStore, want: WantItem) -> None:
        logs = store.logs_by(want.author) if want.log_id is None else [(want.author, want.log_id)]
        for log in logs:
            if self.policy.shares(log):
                self.served.setdefault(log, Served())
                self._spans.extend((log, low, high) for low, high in spans_of(want))


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


def spans_of(want: WantItem) -> list[Run]:
    """The spans of numbers that a request for a log denotes, ascending.

    A certificate pool includes the members above the entry, because the deployed implementation answers so.
    """
    if want.low is not None and want.high is not None:
        return [(want.low, want.high)]
    if want.pool is None:
        return [(1, MAX_U64)]
    return list(runs_of(reversed(certificate_pool(want.pool))))
