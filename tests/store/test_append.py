"""Publishing: an author never signs two entries of one number.

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import MAX_U64, Entry, Identity, lipmaa, path, yamf_hash
from culm.errors import AfterEndOfLog, ForkDetected, PayloadSizeMismatch, StoreError, StoreLocked
from culm.store import PayloadState, SQLiteStore, State
from culm.store.payloads.pieces import PIECE_BYTES
from culm.testing import LogBuilder
from tests.store.model import look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AUTHOR = Identity(bytes(32))
NAME = (AUTHOR.public, 7)


def other_copy(length: int) -> LogBuilder:
    """The log as ``append`` would make it in another store, with the payloads b"1", b"2", ..."""
    builder = LogBuilder(AUTHOR, 7)
    for seq in range(1, length + 1):
        builder.append(b"%d" % seq)
    return builder


def payload_files(store: SQLiteStore) -> list[str]:
    """The names of the files beside the store, sorted."""
    folder = store.path.with_name(store.path.name + "-payloads")
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_log_from_nothing(store: SQLiteStore) -> None:
    """Appended entries are numbered from 1, link as they should, and are held with their payloads."""
    entries = [store.append(AUTHOR, 7, [b"%d" % seq]) for seq in range(1, 21)]

    assert other_copy(20).entries == entries
    assert entries == [stored.entry for stored in store.entries(NAME)]
    assert [b"%d" % seq for seq in range(1, 21)] == list(look(store, NAME).payloads.values())
    assert [(20, None)] == [(offer.newest, offer.held_back) for offer in store.offers()]
    assert (20, 20, []) == (store.verify().verified, store.verify().payloads, store.verify().problems)


def test_logs_do_not_mix(store: SQLiteStore) -> None:
    """Every log of every author has its own numbers, up to the last log id."""
    other = Identity(bytes([1] * 32))
    wanted = [(AUTHOR, 0), (AUTHOR, MAX_U64), (other, 0), (AUTHOR, 0), (other, 0), (other, 0)]

    assert [1, 1, 1, 2, 2, 3] == [store.append(author, log_id, []).seq for author, log_id in wanted]


@pytest.mark.parametrize("log_id", [-1, 2**64])
def test_log_ids(store: SQLiteStore, log_id: int) -> None:
    """What is no log id is refused."""
    with pytest.raises(ValueError, match="not a log id"):
        store.append(AUTHOR, log_id, [])


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1])
def test_payloads_come_in_pieces(store: SQLiteStore, size: int, count: int) -> None:
    """A payload is taken piece by piece, in pieces of any size and kind."""
    pieces = [bytes([at]) * size for at in range(count)]
    entry = store.append(AUTHOR, 7, (memoryview(piece) for piece in pieces))

    assert (size * count, yamf_hash(b"".join(pieces))) == (entry.size, entry.payload_hash)
    assert b"".join(pieces) == look(store, NAME).payloads[entry]
    assert [] == store.verify().problems


def test_a_payload_that_breaks_off(store: SQLiteStore) -> None:
    """If the payload cannot be read to its end nothing was published and nothing is left."""
    store.append(AUTHOR, 7, [b"1"])
    before = look(store, NAME), store.change()

    def broken() -> object:
        yield bytes(100_000)
        raise OSError(5, "read error")

    with pytest.raises(OSError, match="read error"):
        store.append(AUTHOR, 7, broken())  # type: ignore[arg-type]

    assert before == (look(store, NAME), store.change())
    assert other_copy(2).entries[1] == store.append(AUTHOR, 7, [b"2"])


def test_a_large_payload_that_breaks_off(store: SQLiteStore) -> None:
    """The file that a failed append began is deleted at once; those of other payloads stay."""
    store.append(AUTHOR, 7, [bytes(2_000_000)])
    kept = payload_files(store)

    def broken() -> Iterator[bytes]:
        yield bytes(2_000_000)
        assert 2 == len(payload_files(store))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.append(AUTHOR, 7, broken())

    assert 1 == len(kept)
    assert kept == payload_files(store)
    assert (1, []) == (store.verify().payloads, store.verify().problems)


def test_a_killed_append(place: Path) -> None:
    """The file that a killed process began is deleted when the store is opened next, but not when it is only read."""
    program = (
        "import os, signal, sys\n"
        "from culm import Identity, Store\n"
        "def pieces():\n"
        "    yield bytes(2_000_000)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Store(sys.argv[1]).append(Identity(bytes(32)), 7, pieces())\n"
    )
    assert -signal.SIGKILL == subprocess.run([sys.executable, "-c", program, str(place)], check=False).returncode
    with SQLiteStore(place, read_only=True) as store:
        assert 1 == len(payload_files(store))
    with SQLiteStore(place) as store:
        assert [] == payload_files(store)
        assert [] == list(store.logs())


def test_opening_beside_an_append(place: Path) -> None:
    """While somebody appends a large payload, opening the store does not delete the file that is being written."""
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        yield bytes(2_000_000)
        begun.set()
        assert go_on.wait(30)
        yield b"end"

    def append() -> None:
        with SQLiteStore(place) as store:
            store.append(AUTHOR, 7, slow())

    writer = threading.Thread(target=append)
    SQLiteStore(place).close()
    writer.start()
    assert begun.wait(30)
    with pytest.raises(StoreLocked):
        SQLiteStore(place, lock_timeout=0.1)
    opening = threading.Thread(target=lambda: SQLiteStore(place).close())
    opening.start()  # waits for the append
    go_on.set()
    writer.join()
    opening.join()
    with SQLiteStore(place) as store:
        assert 1 == len(payload_files(store))
        assert (1, []) == (store.verify().payloads, store.verify().problems)


def test_the_end_of_a_log(store: SQLiteStore) -> None:
    """A log that was ended takes no further entry, not in another store that knows of its end, either."""
    store.append(AUTHOR, 7, [b"1"])
    end = store.append(AUTHOR, 7, [b"the end"], is_end=True)
    with pytest.raises(AfterEndOfLog, match="ended with entry 2") as caught:
        store.append(AUTHOR, 7, [b"3"])

    assert end.is_end
    assert next(store.logs()).ended
    assert 3 == getattr(caught.value.place, "seq", None)
    assert 2 == len(look(store, NAME).states)


def test_a_forked_log(store: SQLiteStore) -> None:
    """A forked log takes no further entry; the error has the proof of the lowest position and says how to go on."""
    copy = other_copy(9)
    store.add(copy.items())
    store.add([(copy.make(8, b"x"), None), (copy.make(5, b"x"), None)])
    with pytest.raises(ForkDetected, match="this log takes no more entries: go on in another log") as caught:
        store.append(AUTHOR, 7, [b"10"])

    caught.value.proof.check()
    assert 5 == caught.value.proof.position


def test_waiting_entries(store: SQLiteStore) -> None:
    """While entries are held whose path is missing the newest number is not known: nothing is signed."""
    copy = other_copy(9)
    store.add([copy.items()[at] for at in (0, 1, 6)])
    with pytest.raises(StoreError, match="entry 7 of this log is held, but not all entries on its path"):
        store.append(AUTHOR, 7, [b"3"])

    store.add(copy.items()[:8])
    assert copy.entries[8] == store.append(AUTHOR, 7, [b"9"])


def test_a_log_with_a_lie(store: SQLiteStore) -> None:
    """A log that its author's lie about a size made invalid takes no further entry."""
    copy = other_copy(2)
    store.add([*copy.items(), (copy.make(3, b"3", size=2), b"3")])
    with pytest.raises(StoreError):
        store.append(AUTHOR, 7, [b"4"])

    assert 3 == len(look(store, NAME).states)


@pytest.mark.parametrize("newest", [1, 3, 7, 11, 12, 13, 20, 25, 26, 38, 39])
def test_sparse_logs(store: SQLiteStore, newest: int) -> None:
    """A path to the newest entry is enough to append to it: it holds everything that the next one links to."""
    copy = other_copy(40)
    store.add([(copy.entries[seq - 1], None) for seq in path(newest, 1)])

    assert copy.entries[newest] == store.append(AUTHOR, 7, [b"%d" % (newest + 1)])


def test_the_last_number(store: SQLiteStore) -> None:
    """After entry 2^64 - 1 there is no next one: nothing is signed and nothing changes."""
    made: dict[int, Entry] = {}
    for seq in reversed(path(MAX_U64, 1)):
        made[seq] = AUTHOR.create_entry(
            log_id=7,
            seq=seq,
            backlink=None if seq == 1 else made[seq - 1].hash if seq - 1 in made else yamf_hash(b""),
            lipmaalink=made[lipmaa(seq)].hash if lipmaa(seq) in made else None if seq == 1 else yamf_hash(b""),
            size=0,
            payload_hash=yamf_hash(b""),
        )
    store.add([(entry, None) for entry in made.values()])
    change = store.change()
    with pytest.raises((StoreError, ValueError), match=str(2**64)):
        store.append(AUTHOR, 7, [])

    assert (change, len(made)) == (store.change(), len(list(store.entries(NAME))))


def test_changes_are_seen(store: SQLiteStore) -> None:
    """The change number grows with every entry, and another connection sees it grow."""
    with SQLiteStore(store.path, read_only=True) as reader:
        seen = [reader.change()]
        for seq in range(1, 4):
            store.append(AUTHOR, 7, [b"%d" % seq])
            seen.append(reader.change())

    assert sorted(set(seen)) == seen
    assert seen[-1] == store.change()


def test_change_of_everything_that_changes(store: SQLiteStore) -> None:
    """Entries, payloads, refusals of payloads and what is forgotten all count as changes; reading does not."""
    copy = other_copy(2)
    copy.entries.append(copy.make(3, b"3", size=2))
    seen = [store.change()]
    store.add([(entry, None) for entry in copy.entries])
    seen.append(store.change())
    sink = store.payload_sink(copy.entries[0].place)
    sink.write(b"1")
    sink.finish()
    seen.append(store.change())
    store.forget(copy.entries[1].place)
    seen.append(store.change())
    lie = store.payload_sink(copy.entries[2].place)
    lie.write(b"3")
    with pytest.raises(PayloadSizeMismatch):
        lie.finish()
    seen.append(store.change())
    look(store, NAME)
    store.verify()

    assert sorted(set(seen)) == seen
    assert seen[-1] == store.change()


def test_two_threads(place: Path) -> None:
    """Two connections that append to one log at once share the numbers between them: no fork, no gap."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with SQLiteStore(place) as store:
                for _ in range(15):
                    store.append(AUTHOR, 7, [b"x"])
        except BaseException as failure:  # noqa: BLE001 - shown by the test
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == failures
    with SQLiteStore(place) as store:
        assert list(range(1, 46)) == [stored.entry.seq for stored in store.entries(NAME)]
        assert [] == list(store.fork_proofs())


APPENDING = """
import sys
from culm.bamboo import Identity
from culm.store import SQLiteStore
with SQLiteStore(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(20):
        print(store.append(Identity(bytes(32)), 7, [b"x"]).seq)
"""


def test_two_processes(place: Path) -> None:
    """Two processes that append to one log at once share the numbers between them: no fork, no gap."""
    command = [sys.executable, "-c", APPENDING, str(place)]
    children = [subprocess.Popen(command, stdin=-1, stdout=-1, text=True) for _ in range(2)]
    ready = [child.stdout.readline() for child in children]  # type: ignore[union-attr]
    for child in children:
        child.stdin.write("\n")  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]
    numbers = [[int(line) for line in child.communicate()[0].split()] for child in children]

    assert ["ready\n"] * 2 == ready
    assert [0, 0] == [child.returncode for child in children]
    assert list(range(1, 41)) == sorted(numbers[0] + numbers[1])
    with SQLiteStore(place) as store:
        assert (40, 0, []) == (store.verify().verified, store.verify().forks, store.verify().problems)


def test_what_append_stores_is_complete(store: SQLiteStore) -> None:
    """An appended entry is verified with its payload complete at once, an empty one included."""
    for payload in (b"", b"x"):
        entry = store.append(AUTHOR, 7, [payload])

        assert (State.VERIFIED, PayloadState.COMPLETE) == look(store, NAME).states[entry]
