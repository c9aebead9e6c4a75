"""Storing while a session goes on: one task brings to the store what waits, and the session waits here for room.

What waits, and in which groups it is stored, differs between protocols (``culm.node.sessions.arrivals``,
``culm.node.bushbaby.intake``). The rest is the same. The task runs as long as anything is due. The session stops
reading until enough is stored, and TCP then stops the peer. A failure (the disk is full) is remembered and raised
wherever the session waits; nothing more is stored after it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable


class Storing(ABC):
    """What waits for the store, and the task that stores it."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()  # Set when less waits than before, when all is stored, and when storing failed.
        self._failure: BaseException | None = None

    @property
    @abstractmethod
    def _is_due(self) -> bool:
        """Whether there is something to store now."""

    @abstractmethod
    async def _store_some(self) -> None:
        """Store the next part of what is due."""

    def _start(self) -> None:
        if self._task is None and self._failure is None and self._is_due:
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._is_due:
                await self._store_some()
                self._moved.set()
        except Exception as failure:  # noqa: BLE001 - raised again where the session waits for it
            self._failure = failure
        self._task = None
        self._moved.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; raises the error that storing has failed with."""
        while self._failure is None and not holds():
            self._moved.clear()
            await self._moved.wait()
        if self._failure is not None:
            raise self._failure
