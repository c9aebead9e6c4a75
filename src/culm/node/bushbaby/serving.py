"""Serving a peer's WANTs: from requests to messages' worth of entries, read from the store a page at a time.

A request can name all logs of an author, a whole log, a certificate pool or a span of 2^64 entries: it costs what it
finds. Only so many requests wait at once; a peer that asks for more is disconnected.

Specification: docs/specs/bushbaby.md, "WANT".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, certificate_pool
from culm.bushbaby.grouping import CULM_STYLE, MAX_COVER_BYTES, items_of, messages_of
from culm.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.bushbaby import WantItem
    from culm.bushbaby.grouping import Style
    from culm.node.interests.policy import Policy
    from culm.store import ReadableStore, Sendable
    from culm.types import Log

    Message = list[list[Sendable]]  # items, each one entry or several

PAGE_ENTRIES = 256
_LOOKS = 64  # into the store, at a time
_COVER_BACK = 100  # how far back an entry is looked for that can stand behind empty payloads


@dataclass(slots=True)
class Served:
    """What a peer got of a log that it asked for: whether anything, and whether something of it is not here."""

    any_sent: bool = False
    is_lacking: bool = False


class Server:
    """The requests of one peer that wait, and how far the first of them was served.

    ``style`` says how messages for this peer are made up. ``served`` collects what became of the logs asked for.
    """

    def __init__(self, policy: Policy, max_wants: int) -> None:
        self.style: Style = CULM_STYLE
        self.served: dict[Log, Served] = {}
        self.policy = policy
        self._max_wants = max_wants
        self._wants: deque[WantItem] = deque()
        self._spans: deque[tuple[Log, int, int]] = deque()

    def add(self, wants: Iterable[WantItem]) -> None:
        """Queue requests; ``RemoteProtocolError`` if more than the limit wait."""
        self._wants.extend(wants)
        if len(self._wants) > self._max_wants:
            raise RemoteProtocolError(f"the peer sent requests faster than we serve: more than {self._max_wants} wait")

    def push(self, log: Log) -> None:
        """Queue a whole log that was not asked for."""
        self._spans.append((log, 1, MAX_U64))

    @property
    def busy(self) -> bool:
        """Whether anything is left to serve."""
        return bool(self._wants or self._spans)

    def next_messages(self, store: ReadableStore) -> list[Message]:
        """The next entries to send as messages; none if nothing is left, or was found for a while.

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
    """Whether a page has every entry of a span; of one without an end, every entry up to the page's last."""
    if high == MAX_U64:
        high = page[-1].seq if page else low - 1
    return len(page) == high - low + 1


def _covered(store: ReadableStore, log: Log, left: list[Sendable]) -> list[list[Sendable]]:
    """Entries with empty payloads as an item that ends with another one; nothing if there is none to end it with."""
    first = left[0].seq
    for earlier in reversed(store.sendables(log, max(1, first - _COVER_BACK), first, _COVER_BACK)):
        if 0 < earlier.size <= MAX_COVER_BYTES:
            return [[*left, earlier]]
    return []


def spans_of(want: WantItem) -> list[tuple[int, int]]:
    """The spans of numbers that a request for a log denotes, ascending.

    A certificate pool includes the members above the entry, as the deployed peer answers it.
    """
    if want.low is not None and want.high is not None:
        return [(want.low, want.high)]
    if want.pool is None:
        return [(1, MAX_U64)]
    spans: list[tuple[int, int]] = []
    for seq in reversed(certificate_pool(want.pool)):
        if spans and spans[-1][1] == seq - 1:
            spans[-1] = (spans[-1][0], seq)
        else:
            spans.append((seq, seq))
    return spans
