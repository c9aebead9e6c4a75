"""News as they come: what is verified in a store, entry by entry, once each, for as long as the node is open.

A subscription has no queue. It reads pages from the store, from the position it has reached, and sleeps when there is
nothing more: a consumer that is slow costs a page of memory, and misses nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from culm.bamboo import Entry
    from culm.store import NewsPage, Position, StoredEntry


class Subscription:
    """An asynchronous iterator over entries that became verified, made by ``Node.subscribe``. For one task at a time.

    It gives each entry once, those of a log in ascending order as far as they became verified in that order (a gap can
    be filled later). It ends when the node closes, or after ``close``. Waiting for an entry may be cancelled, as by
    ``asyncio.timeout``: nothing is lost by that.
    """

    def __init__(
        self,
        read: Callable[[Position], Awaitable[NewsPage]],
        start: Position | asyncio.Future[Position],
    ) -> None:
        """Use ``Node.subscribe``."""
        self._read = read
        self._start = start
        self._position: Position | None = None  # up to which was read
        self._given: Position | None = None  # behind the last entry that was given
        self._page: deque[tuple[StoredEntry, Position]] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def cursor(self) -> str | None:
        """Where to go on, in this program or another one: pass it as ``since`` to ``Node.subscribe``.

        It stands behind the entry given last. Keep it when that entry is dealt with: what is kept earlier can be lost
        in a crash, what is kept later can be given twice. It means something for this store only. None as long as
        nothing was read.
        """
        return None if self._given is None else str(self._given)

    def close(self) -> None:
        """End the iteration: who waits for an entry gets none."""
        self._closed = True
        self._changed.set()

    def store_changed(self) -> None:
        """There may be news."""
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        while not self._closed:
            if self._page:
                stored, self._given = self._page.popleft()
                return stored.entry
            self._changed.clear()
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
        """Where to begin; None if the node closed before that was known."""
        if isinstance(self._start, tuple):
            return self._start
        await asyncio.wait([self._start])  # which leaves it alone if this is cancelled
        return None if self._start.cancelled() else self._start.result()
