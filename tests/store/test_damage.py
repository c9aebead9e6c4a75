"""Damage that SQLite does not see: whatever a row holds, the store says that it is damaged, or works; nothing else."""

from __future__ import annotations

import io
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Identity
from culm.errors import CulmError, Place, StoreDamaged
from culm.negentropy import Negentropy
from culm.spark.reading.found import Wanted
from culm.spark.reading.inputs import plan
from culm.spark.reading.scan import scan
from culm.store import SQLiteStore, View
from culm.store.exchange import export_bundle, export_plain
from culm.store.payloads.pieces import sweep
from culm.store.verify import TABLES
from culm.testing import build_log
from tests.models import FACTOR, count
from tests.store.below import database_of
from tests.store.damage import columns, indexes, put, skew

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

LOG, GAPS, LARGE = build_log(14, payload_size=9), build_log(9, seed=2), build_log(2, seed=5, payload_size=1_100_000)
NAMES = [log.entries[0].log for log in (LOG, GAPS, LARGE)]
OWN = Identity(bytes(32))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a whole log and one with gaps; a fork; a payload that is large, one forgotten, one absent."""
    path = tmp_path_factory.mktemp("good") / "culm.store"
    with SQLiteStore(path) as store:
        store.add([*LOG.items(), (LOG.make(13, b"another"), None)])
        store.add(GAPS.items()[4:])
        store.add([LARGE.items()[0], (LARGE.entries[1], None)])
        store.forget(LOG.entries[2].place)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:  # what only a transaction has
        connection.execute(f"INSERT INTO record_changes VALUES (1, 1, {-(1 << 63)}, zeroblob(32), 0, 0)")
        connection.execute("INSERT INTO dropped_files VALUES (hex(zeroblob(16)))")
        connection.execute("INSERT OR IGNORE INTO payloads_lost VALUES (3)")
    return path


def copy(good: Path, folder: Path) -> Path:
    """A store with the same in it."""
    path = folder / good.name
    for old in folder.glob(f"{good.name}*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copy(good, path)
    shutil.copytree(good.with_name(f"{good.name}-payloads"), folder / f"{good.name}-payloads")
    return path


def ask_for_all(store: SQLiteStore) -> Iterator[Callable[[], Any]]:
    """What can be asked of all that a store holds."""

    def records() -> None:
        for view in View:
            with store.record_set(view) as found:
                Negentropy(found).initiate()
                found.ids(0, len(found))
                places = [found.position(*found.bound(number), 0) for number in range(1, len(found))]
                assert places == list(range(1, len(found)))

    yield from (
        lambda: list(store.logs()),
        lambda: (list(store.offers()), store.holdings(), store.changed_logs(0), store.change()),
        lambda: (store.latest(), store.news(), store.news(with_payload=True)),
        lambda: (store.survey().totals(), [store.survey().line(name) for name in NAMES]),
        lambda: list(store.fork_proofs()),
        lambda: export_bundle(store, NAMES, io.BytesIO()),
        lambda: export_plain(store, NAMES, io.BytesIO(), lambda *_: None),
        store.verify,
        records,
    )


def ask_for_one(store: SQLiteStore, name: tuple[bytes, int]) -> Iterator[Callable[[], Any]]:
    """What can be asked of a log."""

    def page() -> None:
        look = store.lookup(name)
        for seq in (1, 13, 99):
            look.page(seq, ascending=True, limit=9)
            look.variants(seq)
            look.entries_around(seq)
            look.payloads_around(seq)
        look.payload_extent()
        look.end()

    yield from (
        lambda: [store.get(Place(*name, seq)) for seq in range(1, 15)],
        lambda: [list(store.payload(stored)) for stored in store.entries(name)],
        lambda: [list(store.payload_rest(sendable)) for sendable in store.sendables(name, 1, 99, 99)],
        lambda: (store.missing(name, 30), store.waiting(name, 30), store.forgotten(name, 30)),
        lambda: (store.held(*name), store.offer(name)),
        page,
    )


def writings(store: SQLiteStore) -> Iterator[Callable[[], Any]]:
    """What can be done to it."""

    def write() -> None:
        with closing(store.payload_sink(LARGE.entries[1].place)) as sink:
            sink.write(b"some")

    yield from (
        lambda: store.add(build_log(5, seed=3).items()),
        lambda: store.add([(build_log(16).entries[14], None)]),
        lambda: store.add(GAPS.items()),
        lambda: store.append(OWN, 3, [b"a payload"]),
        lambda: store.append(OWN, 3, [bytes(1_100_000)]),
        lambda: store.forget(LARGE.entries[0].place),
        lambda: store.want_again(LOG.entries[2].place),
        write,
        lambda: sweep(database_of(store)),
    )


def answers(path: Path, *, is_written: bool) -> list[CulmError]:
    """Use a store in all ways; what it raised, which are Culm's errors, or the test fails here."""
    errors: list[CulmError] = []
    try:
        with SQLiteStore(path, read_only=not is_written) as store:
            uses = [*writings(store)] if is_written else []
            uses += [*ask_for_all(store), *(use for name in NAMES for use in ask_for_one(store, name))]
            for use in uses:
                try:
                    use()
                except CulmError as error:
                    errors.append(error)
        for split in plan([path]):
            for piece in split:
                list(scan(piece, Wanted(payload_limit=100)))
    except CulmError as error:
        errors.append(error)
    return errors


def some(values: Sequence[str], number: int) -> Sequence[str]:
    """A third of the values that a column is given, others for the next column; with ``make models`` all."""
    values = values if FACTOR > 1 else values[number % 3 :: 3]
    count("values in columns", len(values))
    return values


@pytest.mark.parametrize("is_written", [False, True])
def test_nothing_is_wrong_with_a_good_store(good: Path, tmp_path: Path, *, is_written: bool) -> None:
    """What these tests do raises nothing where there is no damage."""
    assert answers(copy(good, tmp_path), is_written=is_written) == []


@pytest.mark.models
@pytest.mark.parametrize("table", TABLES)
def test_values_that_cannot_be_there(good: Path, tmp_path: Path, table: str) -> None:
    """A column that holds something of another kind or size raises Culm's errors at most, whoever reads it."""
    for number, column in enumerate(columns(good, table)):
        for value in some(("NULL", "'text'", "5.5", "x'01'", "-1", "9223372036854775807"), number):
            path = copy(good, tmp_path)
            if put(path, table, column, value):
                answers(path, is_written=False)


@pytest.mark.models
@pytest.mark.parametrize("table", TABLES)
def test_writing_among_values_that_cannot_be_there(good: Path, tmp_path: Path, table: str) -> None:
    """The same for whoever writes."""
    for number, column in enumerate(columns(good, table)):
        for value in some(("NULL", "'text'", "9223372036854775807"), number):
            path = copy(good, tmp_path)
            if put(path, table, column, value):
                answers(path, is_written=True)


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("is_written", [False, True])
def test_rows_that_are_gone(good: Path, tmp_path: Path, table: str, *, is_written: bool) -> None:
    """The same where a table has lost all its rows."""
    path = copy(good, tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"DELETE FROM {table}")
    errors = answers(path, is_written=is_written)
    assert table not in ("counters", "record_blocks") or any(isinstance(error, StoreDamaged) for error in errors)


@pytest.mark.slow
@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("value", ["NULL", "'text'", "9223372036854775807"])
def test_an_index_that_says_something_else(good: Path, tmp_path: Path, value: str, *, is_written: bool) -> None:
    """The same where an index holds of a column what its table does not."""
    for index, width in indexes(good).items():
        for column in range(width):
            path = copy(good, tmp_path)
            skew(path, index, column, value)
            answers(path, is_written=is_written)


def test_what_a_caller_does_wrong_is_no_damage(good: Path) -> None:
    """An error of Python's own stays what it is where the store is in order."""
    with SQLiteStore(good, read_only=True) as store, pytest.raises(AttributeError):
        store.get(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["{outside}", "../precious", "", "abc"])
def test_a_store_names_no_files_but_its_own(good: Path, tmp_path: Path, name: str) -> None:
    """Whatever a database says where payloads are, nothing else is read, written or deleted."""
    precious = tmp_path / "precious"
    precious.write_bytes(bytes(1_100_000))
    name = name.format(outside=precious)
    path = copy(good, tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE payload_files SET name = ?", (name,))
        connection.execute("INSERT INTO dropped_files VALUES (?)", (name,))
    with SQLiteStore(path) as store:
        stored = store.get(LARGE.entries[0].place)
        assert stored is not None
        with pytest.raises(StoreDamaged, match="is not the name of a file"):
            list(store.payload(stored))
        store.forget(LARGE.entries[0].place)
        sweep(database_of(store))
    assert precious.read_bytes() == bytes(1_100_000)
