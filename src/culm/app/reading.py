"""What a program reads from its node: small things at once, everything else on a thread.

*The problem.* The event loop must not wait for the disk, so the simple way is to read on a thread. To get to a thread
and back costs several times what SQLite needs to find an entry that is in memory. A program that reads entries one by
one would then spend its time on being woken.

*The way chosen.* A read of bounded size (one entry, a payload of one page) runs on the event loop, over a connection
of its own. Usually the pages are in memory, and the answer costs some tens of microseconds. If a read turns out to be
slow, the disk is busy or the pages are cold: the next reads go to the thread for a while. So a slow disk holds up the
loop for one small read in that time, not for each.

A coroutine that never waits keeps the loop from everybody else. Therefore one of ``_IN_A_ROW`` small reads gives way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from culm.node.storage.worker import StoreWorker
from culm.store import SQLiteStore, ToolStore

# Of a small read. From memory it computes for a tenth of a millisecond, but may have to wait as long as the interpreter
# lets another thread run (5 ms), so a shorter time would call a busy program a slow disk.
_SLOW_SECONDS = 0.01
_PAUSE_SECONDS = 0.5  # On the thread after a slow read, so that a slow disk costs the loop a fiftieth of its time.
_IN_A_ROW = 32  # Small reads after which the loop serves others: about a millisecond.
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Reads:
    """Two connections for reading: one of the event loop, and one of a thread. Neither waits for a writer."""

    def __init__(self, here: SQLiteStore, there: SQLiteStore) -> None:
        self._here = here
        self._worker = StoreWorker(there)
        self._on_thread_until = 0.0
        self._in_a_row = 0

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open both connections; to be called on a thread."""
        here = SQLiteStore(path, read_only=True)
        try:
            return cls(here, SQLiteStore(path, read_only=True))
        except BaseException:
            here.close()
            raise

    async def run(self, function: Callable[Concatenate[ToolStore, _P], _T], *args: _P.args, **named: _P.kwargs) -> _T:
        """Call a function with a store, on the thread."""
        return await self._worker.run(function, self._worker.store, *args, **named)

    async def small(self, function: Callable[Concatenate[ToolStore, _P], _T], *args: _P.args, **named: _P.kwargs) -> _T:
        """The same for a function that reads a few pages at most: on the event loop, as long as reading is quick."""
        clock = asyncio.get_running_loop().time
        began = clock()
        if began < self._on_thread_until:
            return await self.run(function, *args, **named)
        self._in_a_row += 1
        if self._in_a_row >= _IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
            began = clock()
        try:
            return function(self._here, *args, **named)
        finally:
            if (now := clock()) - began > _SLOW_SECONDS:
                self._on_thread_until = now + _PAUSE_SECONDS

    async def close(self) -> None:
        """Close both connections, the thread's behind the questions that are under way."""
        self._here.close()
        await self._worker.run(self._worker.store.close)
        self._worker.close()
