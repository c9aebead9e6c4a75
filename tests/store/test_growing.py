"""The next entry of a log that was just appended to: one statement, with the rows that the general way writes.

Specification: docs/specs/bamboo.md, "Holding and publishing".
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from culm.bamboo import Entry, Identity
from culm.errors import AfterEndOfLog, CulmError, ForkDetected, Place, StoreDamaged, StoreFull, UnconfirmedLog
from culm.store import Draft, SQLiteStore
from culm.store.payloads.pieces import PIECE_BYTES
from culm.testing import LogBuilder
from tests.store.below import database_of
from tests.store.model import look

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AUTHOR = Identity(bytes(32))
NAME = (AUTHOR.public, 7)


def append(store: SQLiteStore, payload: bytes, log_id: int = 7, **options: Any) -> Entry | CulmError:
    """Append one entry as a draft that is alone."""
    (made,) = store.append_each([Draft(AUTHOR, log_id, [payload], **options)])
    return made[0] if isinstance(made, list) else made


@contextmanager
def traced(store: SQLiteStore) -> Iterator[set[str]]:
    """The first words of the statements that are run in the block."""
    found: set[str] = set()
    connection = database_of(store).connection
    connection.set_trace_callback(lambda statement: found.add(statement.partition(" VALUES")[0]))
    yield found
    connection.set_trace_callback(None)


def tables(store: SQLiteStore) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    connection = database_of(store).connection
    names = [name for (name,) in connection.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'")]
    return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}


GROWTH = {"BEGIN IMMEDIATE", "PRAGMA data_version", "INSERT OR ROLLBACK INTO growth", "COMMIT"}


def test_one_statement(store: SQLiteStore) -> None:
    """An append behind one to the same log is a transaction of one statement that writes, and none that reads."""
    for number in range(40):
        append(store, b"%d" % number)
    with traced(store) as found:
        append(store, b"one more")

    assert GROWTH == found


def test_the_rows_of_the_general_way(tmp_path: Path) -> None:
    """Every table is the same to the byte, for payloads of all sizes, through blocks that are cut, to a log's end."""
    sizes = [0, 1, 300, PIECE_BYTES, PIECE_BYTES + 1]
    with SQLiteStore(tmp_path / "1.db") as short, SQLiteStore(tmp_path / "2.db") as general:
        for store in (short, general):
            database_of(store).connection.execute("PRAGMA synchronous = OFF")
        for number in range(700):
            payload = bytes([number % 256]) * (sizes[number % 5] if number < 20 else number % 3)
            log_id, is_end = number // 9 % 3, number == 699
            made = append(short, payload, log_id, is_end=is_end)
            assert made == general.append(AUTHOR, log_id, [payload], is_end=is_end)
        assert tables(general) == tables(short)
        assert [] == short.verify().problems
        assert isinstance(append(short, b"x", 699 // 9 % 3), AfterEndOfLog)


def test_the_rows_of_many_logs(tmp_path: Path) -> None:
    """The same where there are several blocks of heads, so that a log's head moves from one to another."""
    with SQLiteStore(tmp_path / "1.db") as short, SQLiteStore(tmp_path / "2.db") as general:
        for store in (short, general):
            database_of(store).connection.execute("PRAGMA synchronous = OFF")
            store.append_each([Draft(AUTHOR, log_id, [b"1"]) for log_id in range(600)])
        for number in range(40):
            assert append(short, b"%d" % number) == general.append(AUTHOR, 7, [b"%d" % number])
        assert tables(general) == tables(short)
        assert [] == short.verify().problems


def test_several_payloads(store: SQLiteStore) -> None:
    """A draft of two entries, alone in its transaction and behind another one, has both written."""
    append(store, b"1")
    store.append_each([Draft(AUTHOR, 7, [b"2", b"3"])])

    assert [b"1", b"2", b"3"] == list(look(store, NAME).payloads.values())


def test_others_write_in_between(store: SQLiteStore) -> None:
    """Two appends here, two over another connection, in turns: no number is given twice."""
    with SQLiteStore(store.path) as other:
        seqs = [
            made.seq for at in (store, store, store, other, other) * 40 if isinstance(made := append(at, b"x"), Entry)
        ]

    assert list(range(1, 201)) == seqs
    assert [] == store.verify().problems


def test_what_others_say_of_the_log(store: SQLiteStore) -> None:
    """A mark of the author and a fork that come over another connection are seen by the next append."""
    copy = LogBuilder(AUTHOR, 7)
    for _ in range(3):
        assert copy.append(b"x") == append(store, b"x")
    with SQLiteStore(store.path) as other:
        other.unconfirm(AUTHOR.public)
        assert isinstance(append(store, b"4"), UnconfirmedLog)
        assert isinstance(append(store, b"4", continue_here=True), Entry)
        assert isinstance(append(store, b"5"), Entry)
        other.add([(copy.make(3, b"another"), None)])
    assert isinstance(append(store, b"6"), ForkDetected)
    assert [] == store.verify().problems


def test_refused_beside_another(store: SQLiteStore) -> None:
    """A log that is not confirmed, and was refused beside an append to another log, is refused again."""
    marked = Identity(bytes([1] * 32))
    store.append_each([Draft(marked, 8, [b"1"])])
    store.unconfirm(marked.public)
    for drafts in ([Draft(AUTHOR, 7, [b"1"]), Draft(marked, 8, [b"2"])], [Draft(marked, 8, [b"2"])]):
        assert isinstance(store.append_each(drafts)[-1], UnconfirmedLog)


def test_a_log_that_lacks_a_payload(store: SQLiteStore) -> None:
    """A log that is not whole takes the general way, and its runs stay right."""
    for _ in range(5):
        append(store, b"x")
    store.forget(Place(*NAME, 3))
    append(store, b"x")
    with traced(store) as found:
        append(store, b"x")

    assert "INSERT OR ROLLBACK INTO growth" not in found
    assert [] == store.verify().problems


def test_a_full_disk(store: SQLiteStore) -> None:
    """What finds no room leaves nothing, and the log goes on as soon as there is room."""
    append(store, b"1")
    before = look(store, NAME), store.change()
    connection = database_of(store).connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 4}")
    with traced(store) as found, pytest.raises(StoreFull):
        append(store, bytes(PIECE_BYTES))
    connection.execute("PRAGMA max_page_count = 1000000")

    assert "INSERT OR ROLLBACK INTO growth" in found
    assert before == (look(store, NAME), store.change())
    assert [2, 3, 4] == [made.seq for _ in range(3) if isinstance(made := append(store, b"x"), Entry)]
    assert [] == store.verify().problems


@pytest.mark.parametrize("table", ["runs", "record_blocks", "records", "logs", "counters"])
def test_a_row_that_is_gone(store: SQLiteStore, table: str) -> None:
    """If a row that has to change is not there, the store is damaged, and nothing is appended."""
    append(store, b"1")
    append(store, b"2")
    database_of(store).connection.execute(f"DELETE FROM {table}")  # Noticed by nobody: it is the store's connection.
    with pytest.raises(StoreDamaged, match="belongs to entry 2"):
        append(store, b"3")

    assert [(2,)] == database_of(store).connection.execute("SELECT count(*) FROM entries").fetchall()
