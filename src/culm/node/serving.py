"""Serving a peer's WANTs: from requests to pages of entries, read from the store a page at a time.

A request can name all logs of an author, a whole log, a certificate pool or a span of 2^64 entries: it costs what it
finds. Only so many requests wait at once; a peer that asks for more is disconnected.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, certificate_pool
from culm.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from culm.bushbaby import WantItem
    from culm.node.policy import Policy
    from culm.store import Log, Sendable, SQLiteStore

PAGE_ENTRIES = 256


class Server:
    """The requests of one peer that wait, and how far the first of them was served."""

    def __init__(self, policy: Policy, max_wants: int) -> None:
        self._policy = policy
        self._max_wants = max_wants
        self._wants: deque[WantItem] = deque()
        self._spans: deque[tuple[Log, int, int]] = deque()
        self.served: dict[Log, None] = {}

    def add(self, wants: Iterable[WantItem]) -> None:
        """Queue requests; ``RemoteProtocolError`` if more than the limit wait."""
        self._wants.extend(wants)
        if len(self._wants) > self._max_wants:
            raise RemoteProtocolError(f"more than {self._max_wants} requests wait to be served")

    def push(self, log: Log) -> None:
        """Queue a whole log that was not asked for."""
        self._spans.append((log, 1, MAX_U64))

    @property
    def busy(self) -> bool:
        """Whether anything is left to serve."""
        return bool(self._wants or self._spans)

    def next_page(self, store: SQLiteStore) -> tuple[Log, list[Sendable]] | None:
        """The next entries to send, of one log, ascending; None if nothing is left. Runs on the store's thread."""
        while self.busy:
            if not self._spans:
                self._expand(store, self._wants.popleft())
                continue
            log, low, high = self._spans.popleft()
            page = store.sendables(log, low, high, PAGE_ENTRIES)
            if len(page) == PAGE_ENTRIES and page[-1].seq < high:
                self._spans.appendleft((log, page[-1].seq + 1, high))
            if page:
                return log, page
        return None

    def _expand(self, store: SQLiteStore, want: WantItem) -> None:
        if want.log_id is None:
            logs = [(offer.author, offer.log_id) for offer in store.offers() if offer.author == want.author]
        else:
            logs = [(want.author, want.log_id)]
        for log in logs:
            if self._policy.shares(log):
                self.served[log] = None
                for low, high in _spans_of(want):
                    self._spans.append((log, low, high))


def _spans_of(want: WantItem) -> list[tuple[int, int]]:
    """The spans of numbers a request denotes, ascending."""
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
