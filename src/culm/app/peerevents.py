"""Peer events as an asynchronous iterator.

They are kept nowhere, unlike entries (``culm.app.subscription``), so this is a queue. Callers decide how many events
there are: anybody may connect a thousand times. A program that does not read therefore loses the oldest ones, and
``missed`` says how many.
"""

import asyncio
from collections import deque
from typing import Self

from culm.node.peerevents import PeerEvent

_MOST = 1000  # Events that wait for the program: some hundred kilobytes.


class PeerEvents:
    """An asynchronous iterator over what happens with peers from now on, made by ``Node.peer_events``.

    For one task at a time. It ends when the node closes, or after ``close``. ``missed`` counts events that were dropped
    because more than a thousand waited.
    """

    def __init__(self, most: int = _MOST) -> None:
        """Use ``Node.peer_events``."""
        self.missed = 0
        self._waiting: deque[PeerEvent] = deque(maxlen=most)
        self._news = asyncio.Event()
        self._closed = False

    def take(self, event: PeerEvent) -> None:
        """Something has happened."""
        self.missed += len(self._waiting) == self._waiting.maxlen
        self._waiting.append(event)
        self._news.set()

    def close(self) -> None:
        """End the iteration, also for a consumer that is waiting."""
        self._closed = True
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> PeerEvent:
        while not (self._closed or self._waiting):
            self._news.clear()
            await self._news.wait()
        if self._closed:
            raise StopAsyncIteration
        return self._waiting.popleft()
