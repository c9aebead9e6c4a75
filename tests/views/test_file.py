"""Views: the rows are those of all entries, in whatever order these come, and whatever is undone."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import cbor2
import pytest

from culm.bamboo import Entry
from culm.errors import ConfigError, StoreError
from culm.store import SQLiteStore
from culm.testing import LogBuilder
from culm.views import Rejected, View, ViewFile, decode_text, decode_with, undo
from tests.quick import rounds
from tests.views.thread import THREAD, log_of, payload

if TYPE_CHECKING:
    from collections.abc import Iterable

LINES = View(
    "CREATE TABLE lines (text TEXT)",
    lambda rows, _, text: rows.execute("INSERT INTO lines VALUES (?)", (text,)),
    decode=decode_text,
)


@pytest.fixture
def store(tmp_path: Path) -> SQLiteStore:
    """An empty store."""
    return SQLiteStore(tmp_path / "store.db")


def fresh(path: Path, view: View, store: SQLiteStore) -> dict[str, list[tuple[object, ...]]]:
    """The rows of a view that is made at once."""
    path.unlink(missing_ok=True)
    with ViewFile(path, view, store) as made:
        made.update()
        return made.dump()


def drawn(rng: Random) -> list[LogBuilder]:
    """Logs of three authors, whose entries are about earlier ones of any author."""
    logs = [log_of(number) for number in range(1, 4)]
    written: list[Entry] = []
    for number in range(rng.randrange(1, 40)):
        about = rng.sample(written, min(len(written), rng.randrange(3)))
        text = payload(f"line {number}", about) if rng.random() < 0.95 else b"\xff no JSON"
        written.append(rng.choice(logs).append(text))
    return logs


@pytest.mark.parametrize("seed", rounds(40))
def test_any_order_of_arrival(tmp_path: Path, store: SQLiteStore, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each update the rows equal those of a view made anew, whatever happened in the store before.

    Entries come late, gaps are filled, payloads are deleted and come again, forks come to light. What undoes changes is
    kept for enough steps, or not.
    """
    rng = Random(seed)
    monkeypatch.setattr(undo, "DEPTH", rng.choice((3, 10, 1000)))
    logs = drawn(rng)
    items = [item for log in logs for item in log.items()]
    forked = rng.choice(logs)
    if len(forked.entries) > 2 and rng.random() < 0.5:
        at = rng.randrange(2, len(forked.entries) + 1)
        text = payload("another branch")
        items.append((forked.make(at, text), text))
    rng.shuffle(items)
    with ViewFile(tmp_path / "view.db", THREAD, store) as view:
        while items:
            count = rng.randrange(1, 9)
            store.add(items[:count])
            del items[:count]
            if rng.random() < 0.3:
                held = [kept for log in store.logs() for kept in store.entries(log.log) if kept.payload_complete]
                for kept in rng.sample(held, min(len(held), 2)):
                    store.forget(kept.entry.place)
                    if rng.random() < 0.5:
                        store.want_again(kept.entry.place)
                        items.append((kept.entry, _payload(logs, kept.entry)))
            view.update()
            assert not view.update()
            assert view.dump() == fresh(tmp_path / "fresh.db", THREAD, store)
        before = view.dump()
        assert view.rebuild().rebuilt
        assert view.dump() == before


def _payload(logs: list[LogBuilder], entry: Entry) -> bytes:
    return next(log.payloads[entry.hash] for log in logs if entry.hash in log.payloads)


def test_two_nodes(tmp_path: Path) -> None:
    """Two stores that get the same entries in opposite orders have equal rows."""
    items = [item for log in drawn(Random(99)) for item in log.items()]
    dumps = []
    for name, order in (("one", items), ("other", items[::-1])):
        with (
            SQLiteStore(tmp_path / f"{name}.db") as opened,
            ViewFile(tmp_path / f"{name}.view", THREAD, opened) as view,
        ):
            for item in order:
                opened.add([item])
                view.update()
            dumps.append(view.dump())
    assert dumps[0] == dumps[1]
    assert dumps[0]["journal"]


def test_what_an_update_tells(tmp_path: Path, store: SQLiteStore) -> None:
    """Entries applied, repeated, removed, rejected and waiting are counted in the update in which that happens."""
    alice, bob = log_of(1), log_of(2)
    one = alice.append(payload("one"))
    answer = bob.append(payload("an answer", [one]))
    bob.append(payload("number 7"))
    with ViewFile(tmp_path / "view.db", THREAD, store) as view:
        store.add(bob.items())
        changes = view.update()
        assert (changes.applied, changes.waiting, bool(changes)) == (0, 2, False)
        store.add(alice.items())
        changes = view.update()
        assert (changes.applied, changes.repeated, changes.waiting) == (3, 0, 0)
        assert [(entry.seq, reason) for entry, reason in changes.rejected] == [(2, "unlucky")]
        assert view.read("SELECT text, answers FROM messages ORDER BY text") == [("an answer", 0), ("one", 1)]
        store.add([(log_of(3).append(payload("late")), payload("late"))])
        changes = view.update()
        assert changes.applied == 1
        assert changes.repeated + (changes.rejected != []) in (2, 3)
        store.forget(answer.place)
        changes = view.update()
        assert (changes.removed, changes.applied) == (1, 0)


@pytest.mark.slow
def test_the_end_of_a_log_costs_one_entry(tmp_path: Path, store: SQLiteStore) -> None:
    """An entry at the end of the order repeats none."""
    log = log_of(1)
    for number in range(1000):
        log.append(payload(f"{number}"))
    store.add(log.items())
    with ViewFile(tmp_path / "view.db", THREAD, store) as view:
        assert view.update().applied == 1000
        log.append(payload("the end"))
        store.add(log.items()[-1:])
        changes = view.update()
        assert (changes.applied, changes.repeated, changes.rebuilt) == (1, 0, False)


@pytest.mark.slow
def test_a_new_entry_is_no_look_at_everything(
    tmp_path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an entry costs that takes little back does not grow with the number of entries that are known."""
    connect, made = sqlite3.connect, list[sqlite3.Connection]()

    def noting(*call: Any, **named: Any) -> sqlite3.Connection:
        made.append(connect(*call, **named))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", noting)
    logs, steps = [log_of(number) for number in (1, 2)], [0]
    costs = []
    with ViewFile(tmp_path / "view.db", THREAD, store) as view:
        rows = made[-1]
        for _ in range(4):
            for number in range(300):
                for log in logs:
                    log.append(payload(f"line {number}"))
            for log in logs:
                store.add(log.items()[-300:])
            view.update()
            logs[0].append(payload("late", [logs[1].entries[-2]]))
            store.add(logs[0].items()[-1:])
            steps[0] = 0
            rows.set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 1), 1)  # Steps of SQLite's own machine.
            assert view.update().repeated <= 2
            rows.set_progress_handler(None, 1)
            costs.append(steps[0])
    assert max(costs) < 1.1 * min(costs)


def test_undoing_farther_than_is_kept(tmp_path: Path, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that belongs farther back than changes are kept makes all rows anew, and they are right."""
    monkeypatch.setattr(undo, "DEPTH", 5)
    log = log_of(1)
    for number in range(20):
        log.append(payload(f"{number}"))
    store.add(log.items())
    with ViewFile(tmp_path / "view.db", THREAD, store) as view:
        view.update()
        assert view.read("SELECT min(step), max(step) FROM culm_undo") == [(16, 20)]
        other = log_of(2)
        other.append(payload("late"))
        store.add(other.items())
        changes = view.update()
        assert (changes.rebuilt, changes.applied) == (True, 1)
        assert view.dump() == fresh(tmp_path / "fresh.db", THREAD, store)


def test_an_error_of_the_application(tmp_path: Path, store: SQLiteStore) -> None:
    """What ``apply`` raises comes out, nothing has changed then, and a mended view goes on."""

    def failing(rows: sqlite3.Connection, entry: Entry, value: object) -> None:
        THREAD.apply(rows, entry, value)
        if entry.seq == 2:
            raise KeyError("a mistake")

    log = log_of(1)
    log.append(payload("one"))
    store.add(log.items())
    path = tmp_path / "view.db"
    with ViewFile(path, replace(THREAD, apply=failing), store) as view:
        view.update()
        before = view.dump()
        log.append(payload("two"))
        store.add(log.items())
        with pytest.raises(KeyError, match="a mistake"):
            view.update()
        assert view.dump() == before
    with ViewFile(path, THREAD, store) as view:
        assert view.update().applied == 1
        assert view.dump() == fresh(tmp_path / "fresh.db", THREAD, store)


def test_another_version(tmp_path: Path, store: SQLiteStore) -> None:
    """The file of another version of the view, or of another schema, is made anew."""
    log = log_of(1)
    log.append(b"one")
    store.add(log.items())
    for view, expected in (
        (LINES, ["one"]),
        (replace(LINES, decode=lambda *_: "another", version=2), ["another"]),
        (replace(LINES, schema="CREATE TABLE lines (text TEXT, number INTEGER DEFAULT 3)", apply=_insert), ["one"]),
    ):
        with ViewFile(tmp_path / "view.db", view, store) as file:
            assert file.update().applied == 1
            assert [text for (text,) in file.read("SELECT text FROM lines")] == expected
            assert not file.update()


def _insert(rows: sqlite3.Connection, _: Entry, text: object) -> None:
    rows.execute("INSERT INTO lines (text) VALUES (?)", (text,))


def test_only_some_logs(tmp_path: Path, store: SQLiteStore) -> None:
    """A view is made of the logs that it wants."""
    for number in (1, 2):
        log = log_of(number)
        log.append(b"%d" % number)
        store.add(log.items())
    wanted = log_of(2).identity.public
    with ViewFile(tmp_path / "view.db", replace(LINES, wants=lambda log: log[0] == wanted), store) as view:
        view.update()
        assert view.read("SELECT text FROM lines") == [("2",)]


def decoded(folder: Path, store: SQLiteStore, view: View, payloads: Iterable[bytes]) -> list[tuple[object, ...]]:
    """The rows of a log with some payloads."""
    log = log_of(1)
    for each in payloads:
        log.append(each)
    store.add(log.items())
    with ViewFile(folder / "view.db", view, store) as file:
        file.update()
        return file.read("SELECT text FROM lines")


def test_payloads_in_cbor(tmp_path: Path, store: SQLiteStore) -> None:
    """Payloads as another library reads them; what that refuses, with an error of its own, is left out."""
    view = replace(
        LINES,
        decode=decode_with(cbor2.loads, cbor2.CBORDecodeError),
        apply=lambda rows, entry, value: _insert(rows, entry, value["text"]),
    )
    broken = [b"", b"\xff", b"\x81" * 10_000, b"\x5b" + b"\x7f" + b"\xff" * 7, b"\xc1\x61a"]
    assert [("one",), ("two",)] == decoded(
        tmp_path, store, view, [cbor2.dumps({"text": "one"}), *broken, cbor2.dumps({"text": "two"})]
    )


def test_payloads_of_a_type(tmp_path: Path, store: SQLiteStore) -> None:
    """A type of msgspec is what ``apply`` gets; payloads of another shape are left out."""
    msgspec = pytest.importorskip("msgspec")
    line = msgspec.defstruct("line", [("text", str)])
    view = replace(
        LINES,
        decode=decode_with(msgspec.json.Decoder(line).decode),
        apply=lambda rows, entry, value: _insert(rows, entry, value.text),
    )
    payloads = [b'{"text": "one"}', b'{"text": 1}', b"[]", b"[" * 100_000, b"\xff", b"", b'{"text": "two"}']
    assert [("one",), ("two",)] == decoded(tmp_path, store, view, payloads)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT)", "AUTOINCREMENT"),
        ("CREATE TABLE a (id TEXT PRIMARY KEY) WITHOUT ROWID", "WITHOUT ROWID"),
        ("CREATE TABLE a (id TEXT", "the schema of the view is wrong"),
        ("CREATE TABLE a (id TEXT); CREATE TRIGGER b AFTER INSERT ON a BEGIN DELETE FROM a", "middle of a statement"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, store: SQLiteStore, schema: str, reason: str) -> None:
    """Tables whose changes could not be taken back are refused when the view is opened, and so is half a schema."""
    with pytest.raises(ConfigError, match=reason):
        ViewFile(tmp_path / "view.db", View(schema, lambda *_: None), store)


def test_a_view_that_ends_the_transaction(tmp_path: Path, store: SQLiteStore) -> None:
    """A view that commits would tear rows and position apart: it is refused."""
    log = log_of(1)
    log.append(payload("one"))
    store.add(log.items())
    view = replace(THREAD, apply=lambda rows, *_: rows.execute("COMMIT"))
    with ViewFile(tmp_path / "view.db", view, store) as file, pytest.raises(ConfigError, match="must neither commit"):
        file.update()


def test_a_file_of_something_else(tmp_path: Path, store: SQLiteStore) -> None:
    """A file that is no view is left as it is."""
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE precious (x)")
    (tmp_path / "text").write_text("hello, this is no database at all, but a text of some length")
    for name in ("other.db", "text"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(StoreError):
            ViewFile(tmp_path / name, THREAD, store)
        assert (tmp_path / name).read_bytes()[100:] == before[100:]


def test_reading_changes_nothing(tmp_path: Path, store: SQLiteStore) -> None:
    """``read`` is for queries: it cannot change rows."""
    with ViewFile(tmp_path / "view.db", THREAD, store) as view, pytest.raises(sqlite3.OperationalError):
        view.read("DELETE FROM messages")


def test_rejected_is_no_error_of_culm() -> None:
    """``Rejected`` belongs to the application, and is not caught with Culm's errors."""
    assert issubclass(Rejected, Exception)
