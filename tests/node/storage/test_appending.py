"""Group commit: entries that are appended at the same time share a transaction.

The store's thread is one that the test holds back, so what waits meanwhile is known.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Entry, Identity
from culm.errors import AfterEndOfLog, StoreError, StoreFull
from culm.node.sharing.threads import Worker
from culm.node.storage import appending
from culm.node.storage.appending import Appends
from culm.store import Draft, SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from culm.errors import CulmError

AUTHOR = Identity(bytes(32))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """An empty store."""
    with SQLiteStore(tmp_path / "store.db") as store:
        yield store


class HeldBack(Executor):
    """A thread that makes no call before the test says so."""

    def __init__(self) -> None:
        self.calls: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._is_shut = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call."""
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self.calls.append((future, lambda: fn(*args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel what waits, and take no more. No call is under way that would have to be waited for."""
        assert wait
        self._is_shut = True
        while cancel_futures and self.calls:
            self.calls.pop(0)[0].cancel()

    async def step(self) -> None:
        """Make the call that waits longest, and let its result arrive."""
        future, call = self.calls.pop(0)
        future.set_result(call())
        await idle()


async def idle() -> None:
    """Let everything on the loop go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


class Scene:
    """Appends to a store, by a thread that is held back. ``groups``: how many drafts each transaction took."""

    def __init__(self, store: SQLiteStore) -> None:
        self.store = store
        self.thread = HeldBack()
        self.groups: list[int] = []
        self.told = 0
        self.worker = Worker(self.thread)
        self.appends = Appends(self.worker, self, self._tell)  # type: ignore[arg-type]

    def _tell(self) -> None:
        self.told += 1

    def append_each(self, drafts: Sequence[Draft]) -> list[list[Entry] | CulmError]:
        """Pass on to the store what a group is."""
        self.groups.append(len(drafts))
        return self.store.append_each(drafts)

    async def begin(self, *payloads: bytes, log_id: int = 7, is_end: bool = False) -> asyncio.Task[list[Entry]]:
        """Begin to append a draft."""
        task = asyncio.create_task(self.appends.append(Draft(AUTHOR, log_id, payloads, is_end)))
        await idle()
        return task

    @property
    def payloads(self) -> list[bytes]:
        """What log 7 has."""
        return [b"".join(self.store.payload(stored)) for stored in self.store.entries((AUTHOR.public, 7))]


def test_what_waits_shares_a_transaction(store: SQLiteStore) -> None:
    """An append that is alone begins at once. Those that come while the thread is busy are one group, in order."""

    async def main() -> None:
        scene = Scene(store)
        first = await scene.begin(b"1")
        assert 1 == len(scene.thread.calls)
        others = [await scene.begin(b"%d" % number) for number in range(2, 10)]
        assert 1 == len(scene.thread.calls)
        await scene.thread.step()
        assert ([9], 1) == (scene.groups, scene.told)
        assert list(range(1, 10)) == [task.result()[0].seq for task in (first, *others)]
        assert [b"%d" % number for number in range(1, 10)] == scene.payloads
        assert [] == scene.thread.calls

    asyncio.run(main())


def test_what_comes_while_a_group_is_written(store: SQLiteStore) -> None:
    """A draft that comes too late for the group under way is in the next one."""

    async def main() -> None:
        scene = Scene(store)
        first = await scene.begin(b"1")
        future, call = scene.thread.calls.pop(0)
        result = call()
        second = await scene.begin(b"2")
        future.set_result(result)
        await idle()
        assert (True, False) == (first.done(), second.done())
        await scene.thread.step()
        assert ([1, 1], [2]) == (scene.groups, [entry.seq for entry in second.result()])

    asyncio.run(main())


@pytest.mark.parametrize(("entries", "size"), [(2, 1000), (1000, 4), (2, 4)])
def test_large_groups_are_cut(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, entries: int, size: int) -> None:
    """A group ends before it has too many entries or bytes, unless one draft has; the rest follow by themselves."""
    monkeypatch.setattr(appending, "GROUP_ENTRIES", entries)
    monkeypatch.setattr(appending, "GROUP_BYTES", size)

    async def main() -> None:
        scene = Scene(store)
        tasks = [await scene.begin(b"xx") for _ in range(5)] + [await scene.begin(b"xx", b"xx", b"xx")]
        while scene.thread.calls:
            await scene.thread.step()
        assert [2, 2, 1, 1] == scene.groups
        assert [1, 2, 3, 4, 5, 6] == [task.result()[0].seq for task in tasks]

    asyncio.run(main())


def test_cancelled_before_it_is_taken(store: SQLiteStore) -> None:
    """A draft whose caller is cancelled before a transaction takes it is not appended; the others are."""

    async def main() -> None:
        scene = Scene(store)
        tasks = [await scene.begin(payload) for payload in (b"1", b"2", b"3")]
        tasks[1].cancel()
        await idle()
        await scene.thread.step()
        assert [b"1", b"3"] == scene.payloads
        only = await scene.begin(b"4")
        only.cancel()
        await idle()
        await scene.thread.step()
        assert ([2, 0], 1) == (scene.groups, scene.told)

    asyncio.run(main())


def test_cancelled_behind_it(store: SQLiteStore) -> None:
    """A draft that a transaction has taken is appended, though its caller is cancelled."""

    async def main() -> None:
        scene = Scene(store)
        task = await scene.begin(b"1")
        future, call = scene.thread.calls.pop(0)
        result = call()
        task.cancel()
        await idle()
        future.set_result(result)
        await idle()
        assert ([b"1"], True, 1) == (scene.payloads, task.cancelled(), scene.told)

    asyncio.run(main())


def test_errors_reach_their_callers(store: SQLiteStore) -> None:
    """Who appends to a log that has ended gets that error alone; what fails for a whole group all its callers get."""

    async def main() -> None:
        scene = Scene(store)
        tasks = [await scene.begin(b"1", is_end=True), await scene.begin(b"2"), await scene.begin(b"1", log_id=8)]
        await scene.thread.step()
        assert [None, AfterEndOfLog, None] == [task.exception() and type(task.exception()) for task in tasks]
        store.close()
        tasks = [await scene.begin(b"3"), await scene.begin(b"2", log_id=8)]
        await scene.thread.step()
        assert [StoreError, StoreError] == [type(task.exception()) for task in tasks]

    asyncio.run(main())


def test_a_disk_that_is_full_for_the_large(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a group does not fit on the disk each of its drafts is tried alone: a small one must not fail for a large."""
    append_each = SQLiteStore.append_each

    def full(store: SQLiteStore, drafts: Sequence[Draft]) -> list[list[Entry] | CulmError]:
        if any(len(payload) > 5 for draft in drafts for payload in draft.payloads):
            raise StoreFull("the disk is full; nothing was changed")
        return append_each(store, drafts)

    monkeypatch.setattr(SQLiteStore, "append_each", full)

    async def main() -> None:
        scene = Scene(store)
        tasks = [await scene.begin(payload) for payload in (b"1", b"larger than 5", b"2")]
        await scene.thread.step()
        assert [None, StoreFull, None] == [task.exception() and type(task.exception()) for task in tasks]
        assert [b"1", b"2"] == scene.payloads

    asyncio.run(main())


@pytest.mark.parametrize("is_under_way", [False, True])
def test_a_node_that_closes(store: SQLiteStore, is_under_way: bool) -> None:
    """Nobody waits for ever if the store is closed: what no transaction has taken is not appended, and told so."""

    async def main() -> None:
        scene = Scene(store)
        first = await scene.begin(b"1")
        second: asyncio.Task[list[Entry]] | None = None
        if is_under_way:
            future, call = scene.thread.calls.pop(0)
            result = call()
            second = await scene.begin(b"2")
            scene.worker.close()
            future.set_result(result)
        else:
            scene.worker.close()
        await idle()
        late = await scene.begin(b"3")
        refused = [task for task in (second, late) if task] if is_under_way else [first, late]
        assert [StoreError] * 2 == [type(task.exception()) for task in refused]
        assert ([b"1"] if is_under_way else []) == scene.payloads
        if is_under_way:
            assert 1 == first.result()[0].seq

    asyncio.run(main())
