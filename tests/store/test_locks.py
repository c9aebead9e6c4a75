"""Several who use one store: locks, threads, readers while somebody writes."""

from __future__ import annotations

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.errors import StoreError, StoreLocked
from culm.store import SQLiteStore
from culm.testing import build_log
from tests.store.below import database_of
from tests.store.model import look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


LOG = build_log(40, payload_size=3000)
NAME = LOG.entries[0].log
AUTHOR = Identity(bytes(32))


@contextmanager
def locked(place: Path, how: str = "IMMEDIATE") -> Iterator[None]:
    """Another connection in the middle of a writing transaction."""
    other = sqlite3.connect(place, isolation_level=None)
    try:
        other.execute(f"BEGIN {how}")
        yield
    finally:
        other.close()


def test_locked(place: Path) -> None:
    """While another writes, writing gives up after the time allowed and changes nothing; reading goes on."""
    with SQLiteStore(place, lock_timeout=0.05) as store:
        store.add(LOG.items()[:5])
        before = look(store, NAME)
        with locked(place):
            start = time.monotonic()
            for write in (
                lambda: store.add(LOG.items()),
                lambda: store.append(AUTHOR, 0, [b"x"]),
                lambda: store.forget(LOG.entries[0].place),
            ):
                with pytest.raises(StoreLocked, match="locked"):
                    write()

            assert time.monotonic() - start < 5
            assert before == look(store, NAME)
        assert 35 == store.add(LOG.items()).added


@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
@pytest.mark.parametrize("new", [True, False])
def test_locked_when_opened(place: Path, how: str, *, new: bool) -> None:
    """A store that another keeps locked is not waited for longer than allowed, be it new or not."""
    if new:
        place.touch()
    else:
        SQLiteStore(place).close()
    with locked(place, how):
        start = time.monotonic()
        with pytest.raises(StoreLocked, match="locked"):
            SQLiteStore(place, lock_timeout=0.05)

        assert time.monotonic() - start < 2.5


def test_a_new_store_that_another_holds_for_a_moment(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening waits for whoever holds the file, and goes on once it is free."""
    place.touch()
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waits: list[float] = []

    def meanwhile(seconds: float) -> None:
        waits.append(seconds)
        other.close()

    monkeypatch.setattr("culm.store.database.time.sleep", meanwhile)
    with SQLiteStore(place, lock_timeout=5) as store:
        assert 40 == store.add(LOG.items()).added
    assert len(waits) == 1


def test_a_payload_sink_that_is_locked_out(place: Path) -> None:
    """Bytes that could not be stored as another process was writing are still there to be stored later."""
    with SQLiteStore(place, lock_timeout=0.05) as store:
        store.add([(LOG.entries[0], None)])
        sink = store.payload_sink(LOG.entries[0].place)
        sink.write(LOG.payloads[LOG.entries[0].hash])
        with locked(place), pytest.raises(StoreLocked):
            sink.finish()
        sink.finish()

        assert [] == store.missing(NAME, 1)


def test_one_store_in_two_threads(place: Path) -> None:
    """While a thread is in a transaction, another is told to open a store of its own: it would report what is not so.

    Appended in between, an entry would be on the disk only if the other's transaction succeeds.
    """
    with SQLiteStore(place) as store, ThreadPoolExecutor(1) as thread:
        with database_of(store).transaction():
            for use in (
                lambda: store.append(AUTHOR, 1, [b"lost"]),
                lambda: list(store.logs()),
                database_of(store).snapshot().__enter__,
            ):
                with pytest.raises(StoreError, match="another thread is using this store"):
                    thread.submit(use).result()
        thread.submit(store.append, AUTHOR, 1, [b"kept"]).result()
        assert [1] == [log.newest for log in store.logs()]


def test_opened_by_many_at_once(place: Path) -> None:
    """A new store that several make at the same moment is made once."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        try:
            barrier.wait()
            SQLiteStore(place).close()
        except BaseException as failure:  # noqa: BLE001 - shown by the test
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == failures
    with SQLiteStore(place) as store:
        assert 0 == store.change()


def read_until(place: Path, done: threading.Event, failures: list[object]) -> None:
    """Read the log again and again until the writer is done; anything but a later whole group is a failure."""
    try:
        with SQLiteStore(place, read_only=True) as reader:
            last, change = 0, 0
            while last < 40:
                over = done.is_set()
                held = [stored.entry.seq for stored in reader.entries(NAME)]
                newest = max((offer.newest for offer in reader.offers()), default=0)
                whole = held == list(range(1, len(held) + 1)) and len(held) % 4 == 0
                if not whole or not last <= len(held) <= newest or reader.change() < change or (over and newest < 40):
                    failures.append((last, held, newest))
                    return
                last, change = len(held), reader.change()
    except BaseException as failure:  # noqa: BLE001 - shown by the test
        failures.append(failure)


def test_many_readers_while_one_writes(place: Path) -> None:
    """Readers see every state as it was committed, each a later one than the last, and never half of one."""
    failures: list[object] = []
    done = threading.Event()
    with SQLiteStore(place) as store:
        readers = [threading.Thread(target=read_until, args=(place, done, failures)) for _ in range(4)]
        for reader in readers:
            reader.start()
        for at in range(0, 40, 4):
            store.add(LOG.items()[at : at + 4])
        done.set()
        for reader in readers:
            reader.join()

    assert [] == failures
