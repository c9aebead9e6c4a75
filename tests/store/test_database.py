"""The store's file: opening it, what else may be in its place, full disks, crashes, migrations."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.errors import ConfigError, StoreDamaged, StoreError, StoreMissing
from culm.store import SQLiteStore, schema
from culm.store.database import Database
from culm.store.opening import open_database
from culm.store.rows import in_order
from culm.store.schema import to_sql
from culm.testing import build_log
from tests.store.below import database_of
from tests.store.model import look

if TYPE_CHECKING:
    from collections.abc import Callable


LOG = build_log(40, payload_size=3000)
NAME = LOG.entries[0].log
AUTHOR = Identity(bytes(32))


# -- opening ---------------------------------------------------------------------------------------------------


def test_a_new_store(place: Path) -> None:
    """Where there is nothing a store is made, and it is still there when it is opened again."""
    with SQLiteStore(place) as store:
        store.add(LOG.items())
    with SQLiteStore(str(place)) as store:
        assert 40 == next(store.logs()).newest


def test_new_stores_are_alike(tmp_path: Path) -> None:
    """New stores have the same bytes, so a copy of one is a new store, too (``tests/blank.py``)."""
    paths = [tmp_path / name for name in ("one", "another")]
    for path in paths:
        SQLiteStore(path).close()

    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_opening_changes_nothing(store: SQLiteStore) -> None:
    """Opening a store and reading from it is no change."""
    store.add(LOG.items())
    before = store.change(), look(store, NAME)
    with SQLiteStore(store.path) as again:
        assert before == (again.change(), look(again, NAME))
    assert before == (store.change(), look(store, NAME))


@pytest.mark.parametrize("name", ["a b?c#d%20e", "ünïcode", "-", "file:x?mode=memory"])
def test_any_name(tmp_path: Path, name: str) -> None:
    """A store may have any name a file may have."""
    with SQLiteStore(tmp_path / name) as store:
        store.append(AUTHOR, 0, [b"x"])

    assert (tmp_path / name).is_file()
    with SQLiteStore(tmp_path / name, read_only=True) as store:
        assert 1 == len(list(store.logs()))


@pytest.mark.parametrize("read_only", [False, True])
def test_no_store_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, read_only: bool) -> None:
    """SQLite's name of a database in memory names no store: it is refused, and no file of that name is made."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"a store is a file: there is none in memory; .* culm\.testing\."):
        SQLiteStore(":memory:", read_only=read_only)

    assert [] == list(tmp_path.iterdir())


def test_an_empty_file(place: Path) -> None:
    """An empty file becomes a store; for reading only it is none."""
    place.touch()
    with pytest.raises(StoreDamaged, match="an empty file"):
        SQLiteStore(place, read_only=True)

    assert 0 == place.stat().st_size
    with SQLiteStore(place) as store:
        assert [] == list(store.logs())


def test_a_missing_store(place: Path) -> None:
    """For reading only, a store that is not there is missing, and is not made."""
    with pytest.raises(StoreMissing, match=f"{place}: there is no store"):
        SQLiteStore(place, read_only=True)

    assert not place.exists()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_missing_folder(place: Path, *, read_only: bool) -> None:
    """Where there is no folder there can be no store."""
    with pytest.raises(StoreError, match=r"store: "):
        SQLiteStore(place / "folder" / "store", read_only=read_only)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_folder(tmp_path: Path, *, read_only: bool) -> None:
    """A folder is no store."""
    with pytest.raises(StoreDamaged, match="a directory, not a store"):
        SQLiteStore(tmp_path, read_only=read_only)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("content", [b"hello\n" * 5, bytes(4096), b"SQLite format 3\x00" + bytes(200), b"z" * 9000])
def test_other_files(place: Path, content: bytes, *, read_only: bool) -> None:
    """A file of anything else is refused and left as it is."""
    place.write_bytes(content)
    with pytest.raises(StoreDamaged, match=f"{place}: "):
        SQLiteStore(place, read_only=read_only)

    assert content == place.read_bytes()
    assert [place] == list(place.parent.iterdir())


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("statement", ["CREATE TABLE notes (text)", "PRAGMA user_version = 1"])
def test_other_databases(place: Path, statement: str, *, read_only: bool) -> None:
    """An SQLite database of some other program is refused and left as it is."""
    other = sqlite3.connect(place)
    other.execute(statement)
    other.close()
    content = place.read_bytes()
    with pytest.raises(StoreDamaged, match="an SQLite database, but not a Culm store"):
        SQLiteStore(place, read_only=read_only)

    assert content == place.read_bytes()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_later_version(place: Path, *, read_only: bool) -> None:
    """A store of a later version is refused, with both version numbers."""
    SQLiteStore(place).close()
    other = sqlite3.connect(place)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(StoreDamaged, match=f"the store has version 99; this program reads up to {schema.VERSION}:"):
        SQLiteStore(place, read_only=read_only)


def test_a_cut_file(place: Path) -> None:
    """A store whose file was cut is reported as damaged, when it is opened or when the missing part is read."""
    with SQLiteStore(place) as store:
        store.add(LOG.items())
    content = place.read_bytes()

    def use() -> None:
        with SQLiteStore(place) as store:
            store.verify()
            store.add(LOG.items())

    found = []
    for length in range(1000, len(content) - 4096, len(content) // 12):
        place.write_bytes(content[:length])
        with pytest.raises(StoreError) as caught:
            use()
        found.append(type(caught.value))

    assert {StoreDamaged} == set(found)


def test_a_damaged_schema(place: Path) -> None:
    """A schema that SQLite cannot read, whatever bytes its complaint is made of, is a damaged store."""
    SQLiteStore(place).close()
    data = place.read_bytes()
    at = data.index(b"CREATE TABLE entries")
    for harm in (b"\xff", b"\x00", b"x"):
        place.write_bytes(data[: at + 13] + harm * 6 + data[at + 19 :])
        for read_only in (True, False):
            with pytest.raises(StoreDamaged):
                SQLiteStore(place, read_only=read_only).verify()


def test_reading_only(store: SQLiteStore) -> None:
    """A store opened for reading only answers every question and takes nothing."""
    store.add(LOG.items())
    with SQLiteStore(store.path, read_only=True) as reader:
        assert look(store, NAME) == look(reader, NAME)
        assert [] == reader.verify().problems
        for write in (
            lambda: reader.add(LOG.items()),
            lambda: reader.append(AUTHOR, 0, [b"x"]),
            lambda: reader.forget(LOG.entries[0].place),
        ):
            with pytest.raises(StoreError, match="opened for reading only"):
                write()


def test_closed_stores(store: SQLiteStore) -> None:
    """A store that was closed says so with Culm's own error; closing it twice does no harm."""
    store.close()
    store.close()
    for call in (store.change, lambda: list(store.logs()), lambda: store.add(LOG.items())):
        with pytest.raises(StoreError, match="closed"):
            call()


# -- crashes ---------------------------------------------------------------------------------------------------


def test_an_exception_in_the_middle(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in the middle of a transaction, nothing of it stays and the store can be used."""
    store.add(LOG.items()[:10])
    before = look(store, NAME), store.change()

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("culm.store.ingest.write_payloads", fail)
        with pytest.raises(KeyboardInterrupt):
            store.add(LOG.items())

    assert before == (look(store, NAME), store.change())
    assert 30 == store.add(LOG.items()).added
    assert [] == store.verify().problems


def test_what_survives_a_power_cut(store: SQLiteStore) -> None:
    """Entries are synced to the disk, unless the caller can get them again; afterwards they are synced as before."""
    log = build_log(3)

    def waits_for_the_disk() -> bool:
        ((level,),) = database_of(store).read("PRAGMA synchronous")
        return bool(level >= 2)

    found = [waits_for_the_disk()]
    for item, settings in zip(log.items(), ({}, {"durable": False}, {}), strict=True):
        store.add([item], **settings)
        found.append(waits_for_the_disk())
    assert [True, True, False, True] == found


def test_nested_transactions_are_one(store: SQLiteStore) -> None:
    """A transaction inside another is undone with it."""

    def work() -> None:
        with database_of(store).transaction():
            store.add(LOG.items())
            assert 40 == next(store.logs()).newest
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()

    assert [] == list(store.logs())
    assert 40 == store.add(LOG.items()).added


def test_hooks_at_the_end_of_a_transaction(place: Path) -> None:
    """Hooks run in order before the commit, what they return after it; neither undoing nor reading runs any of them."""
    seen: list[str] = []

    def hook(name: str) -> Callable[[Database], Callable[[], object]]:
        def called(database: Database) -> Callable[[], object]:
            assert database.connection.in_transaction
            seen.append(name)
            return lambda: seen.append(f"{name} after, inside: {database.connection.in_transaction}")

        return called

    with closing(open_database(place)) as database:
        database.hooks.append(hook("first"))
        database.hooks.append(hook("second"))
        with database.transaction():
            assert [] == seen
        assert ["first", "second", "first after, inside: False", "second after, inside: False"] == seen
        seen.clear()
        with database.snapshot(), database.snapshot():
            pass
        with pytest.raises(ZeroDivisionError), database.transaction():
            raise ZeroDivisionError
        assert [] == seen
        with pytest.raises(ZeroDivisionError), database.transaction():
            with database.transaction():
                pass
            assert ["first", "second"] == seen, "so that what follows reads settled tables"
            raise ZeroDivisionError
        with database.transaction():
            pass
        assert ["first", "second"] * 2 == seen[:4], "what the undone transaction left to be done is not done"
        assert 6 == len(seen)


def test_a_hook_that_fails_undoes_the_transaction(place: Path) -> None:
    """A transaction whose tables cannot be settled is not committed."""

    def failing(_: Database) -> None:
        raise ZeroDivisionError

    with closing(open_database(place)) as database:
        database.hooks.append(failing)
        with pytest.raises(ZeroDivisionError), database.transaction() as connection:
            connection.execute("UPDATE counters SET value = 7 WHERE name = 'change'")
        assert [(0,)] == database.read("SELECT value FROM counters WHERE name = 'change'")
        assert not database.connection.in_transaction


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        (schema.IS_WAITING, "entries_waiting"),
        (schema.IS_INVALID, "entries_invalid"),
        (f"{schema.IS_VERIFIED} AND {schema.IS_INCOMPLETE}", "entries_without_payload"),
    ],
)
def test_conditions_use_the_partial_indexes(store: SQLiteStore, condition: str, index: str) -> None:
    """The named conditions are literally those of the partial indexes: SQLite would read whole logs otherwise."""
    query = f"EXPLAIN QUERY PLAN SELECT count(*) FROM entries WHERE log = 1 AND {condition}"
    assert index in database_of(store).read(query)[0][3]


def test_a_closed_store_is_told(place: Path) -> None:
    """Whoever goes on reading while a node stops gets an error of the store, which callers expect."""
    store = SQLiteStore(place)
    store.close()
    with pytest.raises(StoreError, match="the store was closed"):
        store.change()


ADDING = """
import sys
from culm.bamboo import Identity
from culm.store import SQLiteStore
from culm.testing import build_log
store = SQLiteStore(sys.argv[1])
author = Identity(bytes(32))
other = build_log(60, seed=int(sys.argv[2]), payload_size=3000)
items = other.items()
while True:
    for at in range(0, 60, 3):
        seq = store.append(author, 0, [bytes(20_000)]).seq
        report = store.add(items[at : at + 3])
        print(seq, at + 3, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 4, 9])
def test_killed(place: Path, lines: int) -> None:
    """A process that is killed while it writes leaves a store that opens, with everything it had reported done."""
    total = 0
    for seed in (2, 3):
        command = [sys.executable, "-c", ADDING, str(place), str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            told = [child.stdout.readline().split() for _ in range(lines)]
            child.send_signal(signal.SIGKILL)
            told += [line.split() for line in child.stdout.readlines() if line.endswith("\n")]

        assert -signal.SIGKILL == child.returncode
        with SQLiteStore(place) as store:
            appended = [stored.entry.seq for stored in store.entries((AUTHOR.public, 0))]
            added = [stored.entry.seq for stored in store.entries(build_log(1, seed=seed).entries[0].log)]

            assert total + len(told) <= len(appended) <= total + len(told) + 1
            assert list(range(1, len(appended) + 1)) == appended
            assert len(added) >= int(told[-1][1])
            assert (0, []) == (store.verify().forks, store.verify().problems)
            total = len(appended)


@pytest.mark.parametrize("last", [4, 3])
def test_a_page_that_does_not_go_on(store: SQLiteStore, last: int) -> None:
    """Rows of a damaged index that end where they began would be read for ever: the store is called damaged."""
    with closing(open_database(store.path, read_only=True)) as database:
        with database.snapshot():
            in_order(4, 5)
        with pytest.raises(StoreDamaged, match="out of order"), database.snapshot():
            in_order(4, last)


def test_payloads_to_send_that_do_not_go_on(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where entries are read with their payloads to be sent."""
    monkeypatch.setattr("culm.store.entries.all_rows", lambda *_: [(to_sql(3),)])
    with pytest.raises(StoreDamaged, match="out of order"):
        store.sendables((AUTHOR.public, 0), 4, 9, 9)


def test_a_schema_is_not_trusted(store: SQLiteStore) -> None:
    """Functions with effects cannot be called by what stands in a store's schema, whoever wrote that."""
    assert (0,) == database_of(store).connection.execute("PRAGMA trusted_schema").fetchone()
