"""Large payloads: files beside the database, and what happens to them when anything breaks off."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.errors import PayloadMismatch, StoreDamaged, StoreError, StoreFull
from culm.store import PayloadState, SQLiteStore, opening
from culm.store.payloads import pieces
from culm.store.payloads.folder import Folder
from culm.testing import LogBuilder
from tests.store.below import age, database_of

if TYPE_CHECKING:
    from pathlib import Path

    from culm.store.database import Database

LARGE = random.Random(1).randbytes(pieces.LARGE_BYTES + 100_000)
LIMIT = bytes(pieces.LARGE_BYTES)
AUTHOR = Identity(bytes(32))


@pytest.fixture
def log() -> LogBuilder:
    """A log of a small payload, the largest one that is kept in the database, and a large one."""
    builder = LogBuilder(AUTHOR)
    for payload in (b"small", LIMIT, LARGE):
        builder.append(payload)
    return builder


def folder(store: SQLiteStore) -> Folder:
    """Where a store keeps large payloads."""
    return Folder(store.path)


def test_another_process_makes_the_folder_just_before(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes may make the folder of their first payloads at the same moment."""
    made = folder(store)
    made.path.mkdir()
    answers = iter([False])  # when we look, before the other process has made it
    is_dir = type(made.path).is_dir
    monkeypatch.setattr(type(made.path), "is_dir", lambda path: next(answers, None) is None and is_dir(path))
    assert (made.path / made.create()).is_file()


def held(store: SQLiteStore, log: LogBuilder, seq: int) -> tuple[PayloadState, bytes]:
    """The state of a payload and its bytes."""
    stored = store.get(log.entries[seq - 1].place)
    assert stored is not None
    return stored.payload_state, b"".join(store.payload(stored))


@pytest.mark.parametrize("way", ["add", "append", "sink"])
def test_what_becomes_a_file(place: Path, log: LogBuilder, way: str) -> None:
    """Payloads above the limit are files, those up to it are not, however they come; all read the same."""
    with SQLiteStore(place) as store:
        if way == "append":
            for payload in (b"small", LIMIT, LARGE):
                store.append(AUTHOR, 0, [payload[at : at + 10_000] for at in range(0, len(payload), 10_000)])
        elif way == "add":
            store.add(log.items())
        else:
            store.add([(entry, None) for entry in log.entries])
            for entry in log.entries:
                sink = store.payload_sink(entry.place)
                sink.write(log.payloads[entry.hash])
                sink.finish()

        assert len(folder(store).names()) == 1
        assert (place.parent / f"{place.name}-payloads" / folder(store).names()[0]).read_bytes() == LARGE
        assert [held(store, log, seq) for seq in (1, 2, 3)] == [
            (PayloadState.COMPLETE, payload) for payload in (b"small", LIMIT, LARGE)
        ]
        assert store.verify().problems == []
        stored = store.get(log.entries[2].place)
        assert stored is not None
        assert store.payload_slice(stored.id, 5, 3_000_000) == LARGE[5:]
        assert b"".join(store.payload(stored, len(LARGE) - 70_000)) == LARGE[-70_000:]
        assert store.payload_slice(stored.id, len(LARGE), 10) == b""


def test_a_file_goes_with_its_payload(place: Path, log: LogBuilder) -> None:
    """Forgetting a payload, or refusing it in the end, deletes its file."""
    entry = log.entries[2]
    with SQLiteStore(place) as store:
        store.add(log.items())
        assert store.forget(entry.place) == len(LARGE)
        assert folder(store).names() == []
        assert store.want_again(entry.place)
        sink = store.payload_sink(entry.place)
        sink.write(LARGE[:-1] + b"?")
        sink.close()
        assert len(folder(store).names()) == 1
        with pytest.raises(PayloadMismatch):
            store.payload_sink(entry.place).finish()
        assert folder(store).names() == []
        assert store.verify().problems == []


def test_a_payload_that_comes_whole_replaces_its_beginning(place: Path, log: LogBuilder) -> None:
    """What a broken transfer left is deleted when the payload comes in one piece."""
    with SQLiteStore(place) as store:
        store.add([(entry, None) for entry in log.entries])
        sink = store.payload_sink(log.entries[2].place)
        sink.write(LARGE[:500])
        sink.close()
        store.add([(log.entries[2], LARGE)])
        assert held(store, log, 3) == (PayloadState.COMPLETE, LARGE)
        assert len(folder(store).names()) == 1


def test_a_transaction_that_is_undone(place: Path, log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it wrote behind the bytes that count is written over later; a file it began is deleted with it."""
    entry = log.entries[2]
    with SQLiteStore(place) as store:
        store.add([(entry, None) for entry in log.entries])
        with monkeypatch.context() as patch:
            patch.setattr("culm.store.payloads.folder.Folder.sync", _fail)
            with pytest.raises(StoreError, match="no sync"):
                store.add([(entry, LARGE)])
        assert held(store, log, 3) == (PayloadState.ABSENT, b"")
        assert folder(store).names() == []

        sink = store.payload_sink(entry.place)
        sink.write(LARGE[:700])
        sink.close()
        (name,) = folder(store).names()
        folder(store).write(name, 700, b"?" * 2000)  # as by a transaction that was undone
        assert held(store, log, 3) == (PayloadState.PARTIAL, LARGE[:700])
        assert pieces.sweep(database_of(store)) == 0
        sink = store.payload_sink(entry.place)
        assert sink.offset == 700
        sink.write(LARGE[700:])
        sink.finish()
        assert held(store, log, 3) == (PayloadState.COMPLETE, LARGE)


def _fail(*_: object) -> None:
    msg = "no sync"
    raise StoreError(msg)


def test_bytes_that_a_power_cut_took(place: Path, log: LogBuilder) -> None:
    """If the file of an unfinished payload is shorter than the database says, the payload is fetched anew."""
    entry = log.entries[2]
    with SQLiteStore(place) as store:
        store.add([(entry, None) for entry in log.entries])
        sink = store.payload_sink(entry.place)
        sink.write(LARGE[:900_000])
        sink.close()
        (name,) = folder(store).names()
        (folder(store).path / name).write_bytes(LARGE[:4096])
    with SQLiteStore(place) as store:
        sink = store.payload_sink(entry.place)
        assert sink.offset == 0
        assert folder(store).names() == []
        sink.write(LARGE)
        sink.finish()
        assert held(store, log, 3) == (PayloadState.COMPLETE, LARGE)


def test_a_file_that_is_gone(place: Path, log: LogBuilder) -> None:
    """A payload whose file somebody deleted is refused to readers, and a check of the store says so."""
    with SQLiteStore(place) as store:
        store.add(log.items())
        folder(store).remove(folder(store).names())
        with pytest.raises(StoreDamaged, match=r"entry 3 was damaged on the disk: it ends after 0 of [0-9]+ bytes"):
            held(store, log, 3)
        ((at, problem),) = store.verify().problems
        assert at == log.entries[2].place
        assert "payload" in problem


def test_a_full_disk(place: Path, log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be written for want of room is ``StoreFull``, and nothing changed."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with SQLiteStore(place) as store:
        store.add([(entry, None) for entry in log.entries])
        with monkeypatch.context() as patch:
            patch.setattr("os.pwritev", full)
            with pytest.raises(StoreFull, match="No space left"):
                store.add([(log.entries[2], LARGE)])
        assert held(store, log, 3) == (PayloadState.ABSENT, b"")
        assert store.add([(log.entries[2], LARGE)]).payloads == 1


def test_an_older_store(place: Path, log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large payloads that an earlier Culm kept in the database become files, unfinished ones too."""
    builder = LogBuilder(AUTHOR, 1)
    unfinished = builder.append(LARGE)
    with monkeypatch.context() as patch:
        patch.setattr("culm.store.payloads.pieces.LARGE_BYTES", 2**40)
        patch.setattr("culm.store.opening.LARGE_BYTES", 2**40)
        with SQLiteStore(place) as store:
            store.add([*log.items(), (unfinished, None)])
            sink = store.payload_sink(unfinished.place)
            sink.write(LARGE[:300_000])
            sink.close()
            assert folder(store).names() == []
            age(database_of(store).connection, 2)
    with SQLiteStore(place, read_only=True) as store:
        assert len(folder(store).names()) == 2
        assert [held(store, log, seq)[1] for seq in (1, 2, 3)] == [b"small", LIMIT, LARGE]
        assert store.verify().problems == []
    with SQLiteStore(place) as store:
        sink = store.payload_sink(unfinished.place)
        assert sink.offset == 300_000
        sink.write(LARGE[300_000:])
        sink.finish()
        assert held(store, builder, 1) == (PayloadState.COMPLETE, LARGE)


def test_a_migration_that_fails(place: Path, log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a migration that is undone do no harm, and are swept up."""

    def fail(database: Database) -> None:
        pieces.write_file(database, 3, 0, b"half")
        _fail()

    with SQLiteStore(place) as store:
        store.add(log.items())
    with monkeypatch.context() as patch:
        patch.setattr(opening, "MIGRATIONS", [*opening.MIGRATIONS, fail])
        with pytest.raises(StoreError, match="no sync"):
            SQLiteStore(place)
    with SQLiteStore(place) as store:
        folder(store).create()
        assert pieces.sweep(database_of(store)) == 1
        assert len(folder(store).names()) == 1


WRITING = """
import sys
from culm.bamboo import Identity
from culm.store import SQLiteStore
store = SQLiteStore(sys.argv[1])
while True:
    for kind in range(3):
        entry = store.append(Identity(bytes(32)), 7, [bytes([kind]) * 100_000] * 15)
        print(entry.seq, flush=True)
"""


def test_killed(place: Path) -> None:
    """A process that is killed while it writes large payloads leaves all it had reported, and no lasting litter."""
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WRITING, str(place)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            told = [int(child.stdout.readline()) for _ in range(3)]
            child.send_signal(signal.SIGKILL)
            told += [int(line) for line in child.stdout.readlines() if line.endswith("\n")]
        with SQLiteStore(place) as store:
            entries = list(store.entries((AUTHOR.public, 7)))
            assert told[-1] <= len(entries) <= told[-1] + 1
            assert store.verify().problems == []
            pieces.sweep(database_of(store))
            assert len(folder(store).names()) == len(entries)
