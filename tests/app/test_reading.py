"""What a program reads: small things on the event loop, unless the disk is slow, and the rest on a thread."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from culm.app.reading import Reads
from culm.bamboo import Identity
from culm.errors import StoreError
from culm.store import SQLiteStore, ToolStore
from tests.node.links import run_really

ME = Identity(bytes(32))


def thread_of(_: ToolStore) -> int:
    """On which thread this runs."""
    return threading.get_ident()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with an entry."""
    with SQLiteStore(tmp_path / "store.db") as store:
        store.append(ME, 1, [b"one"])
    return tmp_path / "store.db"


def test_small_reads_stay_on_the_loop(path: Path) -> None:
    """A small read runs on the event loop's thread, any other on the reader's."""

    async def body() -> None:
        reads = Reads.open(path)
        here = threading.get_ident()
        assert await reads.small(thread_of) == here
        assert await reads.run(thread_of) != here
        await reads.close()

    run_really(body)  # threads are what this is about


def test_a_slow_disk_sends_reads_to_the_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a slow read the next ones go to the thread for half a second, and then the loop is tried again."""
    now = 100.0

    def slow(_: ToolStore) -> None:
        nonlocal now
        now += 0.011

    async def body() -> None:
        nonlocal now
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        reads = Reads.open(path)
        here = threading.get_ident()
        await reads.small(slow)
        assert await reads.small(thread_of) != here
        now += 0.49
        assert await reads.small(thread_of) != here
        now += 0.02
        assert await reads.small(thread_of) == here
        await reads.close()

    run_really(body)  # threads are what this is about


def test_a_slow_read_that_fails_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that took long and then failed sends the next one to the thread, too."""
    now = 100.0

    def fail(_: ToolStore) -> None:
        nonlocal now
        now += 1
        raise StoreError("the disk cannot be read")

    async def body() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        reads = Reads.open(path)
        with pytest.raises(StoreError, match="cannot be read"):
            await reads.small(fail)
        assert await reads.small(thread_of) != threading.get_ident()
        await reads.close()

    run_really(body)  # threads are what this is about


def test_small_reads_give_way(path: Path) -> None:
    """A coroutine that reads without end lets others run: at least once in 32 reads."""

    async def body() -> None:
        reads = Reads.open(path)
        others = asyncio.Event()
        asyncio.get_running_loop().call_soon(others.set)
        for _ in range(32):
            await reads.small(thread_of)
        assert others.is_set()
        await reads.close()

    run_really(body)  # threads are what this is about
