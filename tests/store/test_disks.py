"""Folders and files without permissions, and full disks."""

from __future__ import annotations

import errno
import os
import tempfile
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.errors import StoreError, StoreFull
from culm.store import SQLiteStore
from culm.testing import build_log
from tests.store.below import database_of
from tests.store.model import look

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = build_log(40, payload_size=3000)
NAME = LOG.entries[0].log
AUTHOR = Identity(bytes(32))


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of the superuser, to whom no permission is ever denied."""
    superuser = os.geteuid() == 0
    if superuser:
        os.seteuid(65534)
    try:
        yield
    finally:
        if superuser:
            os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can get to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        Path(folder).chmod(0o755)


def test_a_file_that_may_not_be_read(open_folder: Path) -> None:
    """A store that belongs to someone else is an error that names it."""
    place = open_folder / "store"
    SQLiteStore(place).close()
    place.chmod(0o000)
    with as_nobody():
        for read_only in (False, True):
            with pytest.raises(StoreError, match=f"{place}: .*cannot be opened"):
                SQLiteStore(place, read_only=read_only)


def test_a_file_that_may_not_be_written(open_folder: Path) -> None:
    """A store that may be read but not written is an error that names it, when it is to be written at the latest."""
    place = open_folder / "store"
    SQLiteStore(place).close()
    place.chmod(0o444)
    open_folder.chmod(0o777)
    with as_nobody(), pytest.raises(StoreError, match=f"{place}: .*permission"), SQLiteStore(place) as store:
        store.add(LOG.items())


def test_a_folder_that_may_not_be_written(open_folder: Path) -> None:
    """Where no file may be made no store can be made."""
    open_folder.chmod(0o555)
    with as_nobody(), pytest.raises(StoreError, match="cannot be opened"):
        SQLiteStore(open_folder / "store")

    assert [] == list(open_folder.iterdir())


def test_a_folder_that_may_not_be_entered(open_folder: Path) -> None:
    """A folder that is closed to us is an error of the store, for reading and for writing."""
    SQLiteStore(open_folder / "store").close()
    open_folder.chmod(0o600)
    with as_nobody():
        for read_only in (False, True):
            with pytest.raises(StoreError, match="store: "):
                SQLiteStore(open_folder / "store", read_only=read_only)


# -- full disks ------------------------------------------------------------------------------------------------


@contextmanager
def full(store: SQLiteStore, pages: int) -> Iterator[None]:
    """A disk with room for that many more pages of the store's file."""
    connection = database_of(store).connection
    (count,) = connection.execute("PRAGMA page_count").fetchone()
    (limit,) = connection.execute("PRAGMA max_page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {count + pages}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA max_page_count = {limit}")


@pytest.mark.parametrize("pages", [0, 1, 2, 5, 20])
def test_a_full_disk_when_adding(store: SQLiteStore, pages: int) -> None:
    """When the disk is full an addition is undone as a whole; with room again it succeeds."""
    store.add(LOG.items()[:10])
    before = look(store, NAME), store.change()
    with full(store, pages):
        with pytest.raises(StoreFull, match="the disk is full; nothing was changed"):
            store.add(LOG.items())

        assert before == (look(store, NAME), store.change())
    assert 30 == store.add(LOG.items()).added
    assert [] == store.verify().problems


@pytest.mark.parametrize("pages", [0, 3])
def test_a_full_disk_when_appending(store: SQLiteStore, pages: int) -> None:
    """When the disk is full nothing is published: the number is free for the next attempt."""
    store.append(AUTHOR, 0, [b"1"])
    with full(store, pages), pytest.raises(StoreFull):
        store.append(AUTHOR, 0, [bytes(200_000)])

    assert 2 == store.append(AUTHOR, 0, [b"2"]).seq
    assert [] == store.verify().problems


def test_a_full_disk_when_writing_a_payload(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full what was stored of a payload stays, and the transfer goes on there when there is room."""
    builder = build_log(0)
    payload = bytes(range(256)) * 16_384
    entry = builder.append(payload)
    store.add([(entry, None)])
    sink = store.payload_sink(entry.place)
    pieces = [payload[at : at + 65536] for at in range(0, len(payload), 65536)]
    room, write = iter([1_000_000, 48_576, 700_000]), os.pwrite

    def into_what_is_left(file: int, parts: list[memoryview], offset: int) -> int:
        left = next(room, 0)
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, b"".join(parts)[:left], offset)

    with monkeypatch.context() as patch:
        patch.setattr("os.pwritev", into_what_is_left)
        with pytest.raises(StoreFull):
            deque(map(sink.write, pieces))
    again = store.payload_sink(entry.place)
    reached = again.offset
    again.write(payload[reached:])
    again.finish()

    assert 1024 * 1024 == reached
    assert {entry: payload} == look(store, entry.log).payloads
    assert [] == store.verify().problems


def test_a_disk_that_was_full_for_a_moment(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same transfer goes on when there is room again, though somebody still looks at the error."""
    builder = build_log(0)
    payload = bytes(range(256)) * 8192
    entry = builder.append(payload)
    store.add([(entry, None)])
    sink = store.payload_sink(entry.place)
    middle = len(payload) // 2

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.pwritev", full)
        with pytest.raises(StoreFull) as kept:
            sink.write(payload[:middle])
    sink.write(payload[middle:])
    sink.finish()

    assert kept.tb is not None
    assert {entry: payload} == look(store, entry.log).payloads
