"""Group commit: entries that are appended at the same time share one transaction, and so one wait for the disk.

A commit is on the disk before it is reported, and a disk can confirm only some hundred of them a second. Appends that
each commit alone are therefore limited by the disk, however small they are. So the store's thread takes all that wait
when it begins a transaction. Meanwhile the next ones gather. Nobody waits for others to come: an append that is alone
begins at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from culm.bamboo import Entry
from culm.errors import CulmError, StoreError, StoreFull
from culm.node.sharing.threads import Worker
from culm.store import GROUP_BYTES, GROUP_ENTRIES, Draft, ToolStore

_Waiting = tuple[Draft, "asyncio.Future[list[Entry]]"]
_Result = list[Entry] | Exception
_Group = list[tuple["asyncio.Future[list[Entry]]", _Result]]


class Appends:
    """The way of a node's own entries to its store. ``appended`` is called after each transaction.

    All its methods run on the event loop, except for those whose names say that they run on the store's thread.
    """

    def __init__(self, worker: Worker, store: ToolStore, appended: Callable[[], None]) -> None:
        self._worker = worker
        self._store = store
        self._appended = appended
        self._waiting: deque[_Waiting] = deque()
        self._queued = False  # Whether a transaction is queued that has not taken its drafts yet.

    async def append(self, draft: Draft) -> list[Entry]:
        """Publish a draft's entries; they are on the disk when this returns. See ``ToolStore.append_each``.

        If the caller is cancelled before a transaction has taken the draft, nothing is appended. The same if the node
        stops before: ``StoreError`` says so.
        """
        future: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()
        self._waiting.append((draft, future))
        try:
            self._queue()
            return await future
        finally:
            future.cancel()

    def _queue(self) -> None:
        if self._queued:
            return
        self._queued = True  # First: the thread may begin at once, and takes it back.
        try:
            work = self._worker.start(self._on_thread)
        except RuntimeError:  # The store is closed, or being closed.
            self._queued = False
            self._refuse()
            return
        loop = asyncio.get_running_loop()

        # Not by a future of the loop: it would pass the result on in two turns of the loop more.
        def over(done: Future[_Group]) -> None:
            with suppress(RuntimeError):  # The loop is closed, so nobody waits any more.
                loop.call_soon_threadsafe(self._deliver, done)

        work.add_done_callback(over)

    def _refuse(self) -> None:
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(StoreError("nothing was appended: the node was closed before"))

    def _on_thread(self) -> _Group:
        self._queued = False  # First: what is added from here on may be too late for this group.
        group = self._group_on_thread()
        drafts = [draft for draft, _ in group]
        results: Sequence[_Result]
        try:
            results = self._store.append_each(drafts)
        except StoreFull as error:  # perhaps only for the largest
            results = [error] if len(drafts) == 1 else [self._alone_on_thread(draft) for draft in drafts]
        except Exception as error:  # noqa: BLE001 - each caller gets it, and raises it
            results = [error] * len(drafts)
        return [(future, result) for (_, future), result in zip(group, results, strict=True)]

    def _group_on_thread(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        entries = size = 0
        while self._waiting:
            draft, future = self._waiting[0]
            entries += len(draft.payloads)
            size += sum(map(len, draft.payloads))
            if group and (entries > GROUP_ENTRIES or size > GROUP_BYTES):
                break
            self._waiting.popleft()
            if not future.cancelled():
                group.append((draft, future))
        return group

    def _alone_on_thread(self, draft: Draft) -> _Result:
        try:
            return self._store.append_each([draft])[0]
        except CulmError as error:
            return error

    def _deliver(self, done: Future[_Group]) -> None:
        if done.cancelled():  # The store is being closed.
            self._queued = False
            self._refuse()
            return
        group = done.result()
        for future, result in group:
            if future.cancelled():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
        if group:
            self._appended()
        if self._waiting:
            self._queue()
