"""What comes in on a session: entries are gathered into groups and stored while the next ones are read.

There is one import under way at most, and one group gathering behind it. When that is full, the session stops reading:
the peer has to wait, and memory stays bounded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from culm.node.storage.worker import GROUP_ENTRIES, group_entries

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from culm.bamboo import Entry
    from culm.node.storage.worker import AnyWorker
    from culm.store import ImportReport
    from culm.store.values import Bytes
    from culm.types import Log

_GROUP_BYTES = 4 * 1024 * 1024


class Intake:
    """Gathers entries and has them stored. ``stored`` is awaited after each group, with what became of it.

    An import that fails (the disk is full) raises from the next call here.
    """

    def __init__(self, worker: AnyWorker, stored: Callable[[ImportReport, set[Log]], Awaitable[None]]) -> None:
        self._worker = worker
        self._stored = stored
        self._group: list[tuple[Entry, Bytes | None]] = []
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()  # set when a group was taken, when all is stored, and when that failed
        self._failure: Exception | None = None

    async def add(self, entry: Entry, payload: memoryview) -> None:
        """Take an entry; waits while a full group is waiting behind the one being stored."""
        if self._failure is not None:
            raise self._failure
        self._group.append((entry, payload))
        self._bytes += len(payload)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        while len(self._group) >= GROUP_ENTRIES or self._bytes >= _GROUP_BYTES:
            await self._wait()

    async def flush(self) -> None:
        """Wait until everything taken is stored."""
        while self._task is not None:
            await self._wait()

    @property
    def idle(self) -> bool:
        """Whether everything taken is stored."""
        return self._task is None

    async def _wait(self) -> None:
        if self._failure is None:
            self._moved.clear()
            await self._moved.wait()
        if self._failure is not None:
            raise self._failure

    async def _work(self) -> None:
        try:
            while self._group:
                most = group_entries(self._worker)
                group, self._group = self._group[:most], self._group[most:]
                self._bytes = sum(len(payload) for _, payload in self._group if payload is not None)
                self._moved.set()
                logs = {entry.log for entry, _ in group}
                report = await self._worker.run(self._worker.store.add, group)
                await self._stored(report, logs)
        except Exception as failure:  # noqa: BLE001 - raised again where the session waits for it
            self._failure = failure
        else:
            self._task = None
        self._moved.set()
