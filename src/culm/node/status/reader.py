"""The store as the status page reads it: a reading connection of its own, on a thread of its own, within a time.

Neither the node's writer nor what answers its peers waits for anybody who looks at the page.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from culm.errors import StoreError
from culm.node.sharing.threads import Worker
from culm.store import ReadableStore, SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_T = TypeVar("_T")
_MOST_WAITING = 32


class TooBusy(StoreError):
    """Too many questions wait, or this one took too long."""


class Reader:
    """Asks a store. ``patience`` is the longest an answer may take, in seconds, its wait included."""

    def __init__(self, path: Path, patience: float) -> None:
        self._store = SQLiteStore(path, read_only=True)
        self._worker = Worker()
        self._patience = patience
        self._waiting = 0

    async def ask(self, question: Callable[[ReadableStore], _T]) -> _T:
        """The answer to a question that reads; ``TooBusy``, or another ``StoreError``."""
        if self._waiting >= _MOST_WAITING:
            raise TooBusy("too many requests wait for the store; try again")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience):
                return await self._worker.run(self._answer, question)
        except TimeoutError:
            raise TooBusy(f"the store did not answer within {self._patience:g} s") from None
        finally:
            self._waiting -= 1

    def _answer(self, question: Callable[[ReadableStore], _T]) -> _T:
        with self._store.survey().bounded(self._patience):
            return question(self._store)

    def close(self) -> None:
        """Finish what is under way and close the connection, without waiting for that."""
        self._worker.finish(self._store.close)
