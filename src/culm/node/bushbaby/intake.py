"""Intake: entries that come in are collected in a group and stored while the next ones are read.

Storing each entry on its own would cost a transaction each; collecting all of them, unbounded memory. So there are two
buckets, as at a well: one is being emptied into the store while the other one fills. When the second bucket is full
before the first one is back, the session stops reading, and TCP stops the peer.
"""

import asyncio
from collections.abc import Awaitable, Callable

from culm.bamboo import Entry
from culm.node.storage.worker import GROUP_ENTRIES, AnyWorker, group_entries
from culm.store import ImportReport
from culm.store.values import Bytes
from culm.types import Log

_GROUP_BYTES = 4 * 1024 * 1024  # Payload bytes in a group, from which on ``add`` waits, because entries may be large.


class Intake:
    """Collects the entries of one session and has them stored.

    ``stored`` is awaited after each group, with what became of it and the logs in it. If storing fails (the disk is
    full), the next call here raises the error.
    """

    def __init__(self, worker: AnyWorker, stored: Callable[[ImportReport, set[Log]], Awaitable[None]]) -> None:
        self._worker = worker
        self._stored = stored
        self._group: list[tuple[Entry, Bytes | None]] = []
        self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()  # Set when a group was taken away, when all is stored, and when storing failed.
        self._failure: Exception | None = None

    async def add(self, entry: Entry, payload: memoryview) -> None:
        """Take an entry with its payload. Waits while a full group waits behind the one that is being stored."""
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
