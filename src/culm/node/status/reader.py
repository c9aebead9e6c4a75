"""Reading the store for the status page: a connection and a thread of its own, and a time limit for each answer.

Some questions read millions of rows. On the node's own connection they would delay its peers; here they delay only
other viewers, and no longer than ``patience``.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from culm.errors import StoreError
from culm.node.sharing.threads import Worker
from culm.store import ReadableStore, SQLiteStore

_T = TypeVar("_T")
_MOST_WAITING = 32  # Requests that wait for the thread; with more, the last ones would run into the time limit anyway.


class TooBusy(StoreError):
    """Too many requests wait for the store, or an answer took too long."""


class Reader:
    """Asks a store. ``patience``: the most seconds for an answer, waiting included."""

    def __init__(self, path: Path, patience: float) -> None:
        self._store = SQLiteStore(path, read_only=True)
        self._worker = Worker()
        self._patience = patience
        self._waiting = 0

    async def ask(self, question: Callable[[ReadableStore], _T]) -> _T:
        """The answer to a question that only reads; ``TooBusy`` or another ``StoreError`` if there is none."""
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
        """Close the connection after the questions under way, without waiting for them."""
        self._worker.finish(self._store.close)
