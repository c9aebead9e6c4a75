"""Intake: entries that come in are collected in a group and stored while the next ones are read.

Storing each entry on its own would cost a transaction each; collecting all of them, unbounded memory. So there are two
buckets, as at a well: one is being emptied into the store while the other one fills. When the second bucket is full
before the first one is back, the session stops reading, and TCP stops the peer.
"""

from collections.abc import Awaitable, Callable

from culm.bamboo import Entry
from culm.node.sessions.storing import Storing
from culm.node.storage.worker import GROUP_ENTRIES, AnyWorker, group_entries
from culm.store import ImportReport
from culm.types import Buffer

_GROUP_BYTES = 4 * 1024 * 1024  # Payload bytes in a group, from which on ``add`` waits, because entries may be large.


class Intake(Storing):
    """Collects the entries of one session and has them stored.

    ``stored`` is awaited after each group, with what became of it and the entries in it. If storing fails (the disk is
    full), the next call here raises the error.
    """

    def __init__(self, worker: AnyWorker, stored: Callable[[ImportReport, list[Entry]], Awaitable[None]]) -> None:
        super().__init__()
        self._worker = worker
        self._stored = stored
        self._group: list[tuple[Entry, Buffer | None]] = []
        self._bytes = 0

    async def add(self, entry: Entry, payload: memoryview | None) -> None:
        """Take an entry with its payload (None: it did not come with one).

        Waits while a full group waits behind the one that is being stored.
        """
        self._group.append((entry, payload))
        self._bytes += len(payload or b"")
        self._start()
        await self._until(lambda: len(self._group) < GROUP_ENTRIES and self._bytes < _GROUP_BYTES)

    async def flush(self) -> None:
        """Wait until everything taken is stored."""
        await self._until(lambda: self._task is None)

    @property
    def idle(self) -> bool:
        """Whether everything taken is stored; not if storing has failed."""
        return self._task is None and self._failure is None

    @property
    def _is_due(self) -> bool:
        return bool(self._group)

    async def _store_some(self) -> None:
        most = group_entries(self._worker)
        group, self._group = self._group[:most], self._group[most:]
        self._bytes = sum(len(payload) for _, payload in self._group if payload is not None)
        self._moved.set()
        report = await self._worker.run(self._worker.store.add, group)
        await self._stored(report, [entry for entry, _ in group])
