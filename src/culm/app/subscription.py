"""News: every entry that becomes verified, once each, in order, for as long as the node is open.

The simple way is a queue for each consumer, filled as entries arrive. It fails when the consumer is slow: the queue
grows without bound, or entries have to be dropped. It also loses everything when the program ends.

So a subscription has no queue. The store numbers entries in the order in which they became verified, and the
subscription remembers only the position that it has read up to. It reads a page from there, delivers its entries, and
sleeps when there are no more; the node wakes it when the store has changed. A slow consumer costs a page of memory and
misses nothing. The position can be kept as a ``cursor``, with which another run of the program continues.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Self

from culm.bamboo import Entry
from culm.store import NewsPage, Position, StoredEntry


class Subscription:
    """An asynchronous iterator over entries that became verified, made by ``Node.subscribe``. For one task at a time.

    It delivers each entry once. The entries of a log come in ascending order, unless a gap is filled later. The
    iteration ends when the node closes, or after ``close``. Waiting for an entry can be cancelled, for instance by
    ``asyncio.timeout``, without losing an entry.
    """

    def __init__(
        self,
        read: Callable[[Position], Awaitable[NewsPage]],
        start: Position | asyncio.Future[Position],
    ) -> None:
        """Use ``Node.subscribe``."""
        self._read = read
        self._start = start
        self._position: Position | None = None  # the end of the last page
        self._given: Position | None = None  # after the last entry that was delivered
        self._page: deque[tuple[StoredEntry, Position]] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def cursor(self) -> str | None:
        """The position after the entry delivered last: pass it as ``since`` to ``Node.subscribe`` to continue there.

        Save it after you have processed that entry. If you save it before, a crash loses the entry; if you save it
        after, a crash delivers the entry again. It is valid for this store only. None until something was read.
        """
        return None if self._given is None else str(self._given)

    def close(self) -> None:
        """End the iteration, also for a consumer that is waiting."""
        self._closed = True
        self._changed.set()

    def store_changed(self) -> None:
        """Wake the consumer, because the store may have new entries."""
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        while not self._closed:
            if self._page:
                stored, self._given = self._page.popleft()
                return stored.entry
            self._changed.clear()  # before reading, so that a change during the read is not overlooked
            await self._next_page()
            if not (self._page or self._closed):
                await self._changed.wait()
        raise StopAsyncIteration

    async def _next_page(self) -> None:
        if self._position is None:
            self._position = self._given = await self._first()
        if self._position is None or self._closed:
            return
        page = await self._read(self._position)
        self._page.extend(page.entries)
        self._position = page.end

    async def _first(self) -> Position | None:
        """The position to start at; None if the node closed before the store had answered."""
        if isinstance(self._start, tuple):
            return self._start
        await asyncio.wait([self._start])  # Unlike a plain await, this does not cancel the future if it is cancelled.
        return None if self._start.cancelled() else self._start.result()
