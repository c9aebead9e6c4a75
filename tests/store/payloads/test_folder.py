"""The folder of large payloads by itself: short writes, files that are gone, and what is brought to the disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.errors import StoreDamaged, StoreError
from culm.store import PayloadState, SQLiteStore
from culm.store.payloads import pieces
from culm.store.payloads.folder import Folder
from culm.testing import LogBuilder
from tests.store.below import database_of

if TYPE_CHECKING:
    from pathlib import Path

AUTHOR = Identity(bytes(32))
LARGE = bytes(1024 * 1024 + 1)  # the smallest that is a file


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """The folder of a store that is not there: it needs none."""
    return Folder(tmp_path / "store")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, int]]:
    """What is brought to the disk, in that order, and how many bytes each file has by then."""
    found: list[tuple[Path, int]] = []

    def sync(path: Path) -> None:
        found.append((path, path.stat().st_size if path.is_file() else 0))

    monkeypatch.setattr("culm.store.payloads.folder.sync", sync)
    return found


def test_the_system_may_write_less(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system leaves out of a write is written behind it, wherever the parts begin."""
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda file, parts, offset: pwrite(file, b"".join(parts)[:3], offset))
    name = folder.create()
    folder.write(name, 0, b"0123456789")
    folder.write(name, 5, b"abc", b"", b"d", bytearray(b"efgh"))

    assert b"01234abcdefgh" == (folder.path / name).read_bytes() == folder.read(name, 0, 99)
    assert b"abc" == folder.read(name, 5, 3)
    assert 13 == folder.size(name)


def test_more_parts_than_a_system_takes(folder: Folder) -> None:
    """Parts in any number are written one behind the other: a single call takes no more than some systems allow."""
    name = folder.create()
    parts = [number.to_bytes(3) for number in range(2_000)]
    folder.write(name, 0, *parts)

    assert b"".join(parts) == folder.read(name, 0, 9_999)


def test_files_that_are_gone(folder: Folder) -> None:
    """A file that is gone has no bytes, cannot be written to, and is no reason to stop."""
    name = folder.create()
    folder.remove([name])

    assert (b"", 0, []) == (folder.read(name, 0, 9), folder.size(name), folder.names())
    folder.sync(name)
    folder.remove([name])
    with pytest.raises(FileNotFoundError):
        folder.write(name, 0, b"x")


def test_no_file_is_taken_twice(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is in use is refused, however unlikely it is to come again: its bytes may count."""
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    folder.create()
    with pytest.raises(StoreError, match="File exists"):
        folder.create()


def test_names_are_brought_to_the_disk(folder: Folder, synced: list[tuple[Path, int]]) -> None:
    """The name of the folder when it is made; a file, and then its name, when that is asked for."""
    name = folder.create()
    assert [(folder.path.parent, 0)] == synced
    folder.create()
    folder.write(name, 0, b"12345")
    folder.sync(name)
    assert [(folder.path.parent, 0), (folder.path / name, 5), (folder.path, 0)] == synced


@pytest.mark.parametrize("way", ["append", "add", "sink"])
def test_large_payloads_are_brought_to_the_disk(place: Path, synced: list[tuple[Path, int]], way: str) -> None:
    """Once a large payload counts as held its file is on the disk, however it came."""
    builder = LogBuilder(AUTHOR)
    entry = builder.append(LARGE)
    with SQLiteStore(place) as store:
        if way == "append":
            store.append(AUTHOR, 0, [LARGE])
        elif way == "add":
            store.add(builder.items())
        else:
            store.add([(entry, None)])
            sink = store.payload_sink(entry.place)
            sink.write(LARGE)
            sink.finish()
        found = store.get(entry.place)
        (name,) = Folder(place).names()

    assert found is not None
    assert PayloadState.COMPLETE is found.payload_state
    assert [(Folder(place).path / name, len(LARGE)), (Folder(place).path, 0)] == synced[-2:]


def test_a_file_that_is_gone_while_it_grows(place: Path) -> None:
    """A transfer whose file somebody deletes is told that the store is damaged."""
    builder = LogBuilder(AUTHOR)
    entry = builder.append(LARGE)
    with SQLiteStore(place) as store:
        store.add([(entry, None)])
        sink = store.payload_sink(entry.place)
        sink.write(LARGE[:1000])
        sink.keep()
        Folder(place).remove(Folder(place).names())
        sink.write(LARGE[1000:2000])
        with pytest.raises(StoreDamaged, match="the payload's file is gone"):
            sink.keep()


def test_nothing_to_sweep(store: SQLiteStore) -> None:
    """Without files there is nothing to sweep up; an empty payload takes no row."""
    store.append(AUTHOR, 0, [])
    database = database_of(store)
    assert 0 == pieces.sweep(database)
    assert [(0,)] == database.connection.execute("SELECT count(*) FROM payloads").fetchall()
