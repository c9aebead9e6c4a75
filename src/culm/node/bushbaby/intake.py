"""Intake: entries that come in are collected in a group and stored while the next ones are read.

Storing each entry on its own would cost a transaction each; collecting all of them, unbounded memory. So there are two
buckets, as at a well: one is being emptied into the store while the other one fills. When the second bucket is full
before the first one is back, the session stops reading, and TCP stops the peer.

A third bucket stands between the two: signatures are checked on another thread, in batches because those are cheap, and
while the group before is written. From a bad one on the peer's entries are checked one by one, because a batch with
bad signatures costs more than that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from culm.bamboo import Entry, are_authentic
from culm.errors import BadSignature
from culm.node.sessions.storing import Storing
from culm.node.storage.worker import GROUP_ENTRIES, AnyWorker, group_entries
from culm.store import ImportReport, Item, authentic

_GROUP_BYTES = 3 * 1024 * 1024  # Payload bytes in a group, from which on ``add`` waits: there are three groups at most.
_FEWEST_CHECKED = 32  # Entries whose signatures are checked on another thread: to hand over fewer delays news.


class Intake(Storing):
    """Collects the entries of one session and has them stored.

    ``stored`` is awaited after each group, with what became of it and the entries in it. If storing fails (the disk is
    full), the next call here raises the error.
    """

    def __init__(self, worker: AnyWorker, stored: Callable[[ImportReport, list[Entry]], Awaitable[None]]) -> None:
        super().__init__()
        self._worker = worker
        self._stored = stored
        self._group: list[Item] = []
        self._bytes = 0
        self._checking: tuple[list[Item], asyncio.Task[list[bool]] | None] | None = None  # See ``_check_next``.
        self._is_distrusting = False  # The peer has sent a bad signature.

    async def add(self, items: Sequence[Item]) -> None:
        """Take entries, each with its payload (None: it did not come with one).

        Waits while a full group waits behind the one that is being stored.
        """
        self._group += items
        self._bytes += sum(len(payload) for _, payload in items if payload is not None)
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
        return bool(self._group or self._checking)

    async def _store_some(self) -> None:
        group, verdicts = self._checking or self._check_next()
        self._checking = None
        report, store = ImportReport(), self._worker.store
        if verdicts is None:
            report = await self._worker.run(store.add, group)
            self._is_distrusting |= any(isinstance(error, BadSignature) for _, error in report.refused)
        else:
            good = authentic(group, await verdicts, report)
            self._is_distrusting |= len(good) < len(group)
            if self._group:
                self._checking = self._check_next()
            report.merge(await self._worker.run(store.add, good, authenticated=True))
        await self._stored(report, [entry for entry, _ in group])

    def _check_next(self) -> tuple[list[Item], asyncio.Task[list[bool]] | None]:
        """The next group, and the check of its signatures that has begun; None: leave it to the store."""
        most = group_entries(self._worker)
        group, self._group = self._group[:most], self._group[most:]
        self._bytes = sum(len(payload) for _, payload in self._group if payload is not None)
        self._moved.set()
        if len(group) < _FEWEST_CHECKED and not self._is_distrusting:
            return group, None
        check = partial(are_authentic, [entry for entry, _ in group], in_batches=not self._is_distrusting)
        return group, asyncio.create_task(self._worker.share.run(check))
