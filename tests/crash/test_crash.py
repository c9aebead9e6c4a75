"""Programs killed at random moments, a few of each kind; ``make crash`` kills a thousand."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from crash import material, powercut
from crash.invariants import not_an_earlier_state, problems, read
from crash.peers import Peers
from crash.playing import Stage, Tally
from crash.promises import Promises
from crash.scenes import SCENES
from crash.viewer import miscounted
from culm.bamboo import Identity
from culm.errors import Place
from culm.store import SQLiteStore
from culm.store.payloads.folder import Folder
from culm.testing import build_log
from culm.testing.simulation import disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crash.material import Material

AUTHOR = Identity(bytes(32))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Logs to work with, fewer than ``make crash`` has."""
    return material.make(tmp_path_factory.mktemp("material"), 1, readings_count=300)


@pytest.fixture(scope="module")
def stage(made: Material, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Where scenes are played."""
    folder = tmp_path_factory.mktemp("stage")
    with Peers(folder, made, number=1) as peers:
        yield Stage(folder, folder / "kept", made, peers, 1)


@pytest.mark.xdist_group("crash")
@pytest.mark.parametrize("name", ["append", "program", "import", "sync culm", "migrate", "backup", "view"])
def test_killed(stage: Stage, name: str) -> None:
    """A program that is killed leaves a home that is whole, with everything it had said it did."""
    tally = Tally()
    while not tally.kills and not tally.findings:  # some are too quick
        tally.merge(stage.play(name, random.getrandbits(31), kills=1))

    assert [] == tally.findings


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("crash")
def test_views_count_each_entry_once(stage: Stage) -> None:
    """A program with a view is killed thirty times: afterwards each entry counts once."""
    tally = Tally()
    while tally.kills < 30 and not tally.findings:
        tally.merge(stage.play("view", random.getrandbits(31)))

    assert [] == tally.findings
    assert tally.at_work > 15


def test_a_view_that_counts_wrongly_is_seen() -> None:
    """The look at a view sees an entry that counts twice, and half an entry."""
    assert [] == miscounted(["a/1/1", "a/1/2"], {"a/1": 2})
    assert miscounted(["a/1/1", "a/1/1"], {"a/1": 2}) == ["a/1/1 counts 2 times"]
    assert len(miscounted(["a/1/1"], {"a/1": 2})) == 1


def test_every_kind_has_a_name() -> None:
    """Scenes go by their names."""
    assert {name: scene.name for name, scene in SCENES.items()} == {name: name for name in SCENES}


# -- the checks see what they are to see -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with verified and waiting entries, small payloads and large ones, complete, begun and forgotten."""
    path = tmp_path_factory.mktemp("whole") / "store.db"
    log, films = build_log(30, payload_size=100), build_log(3, seed=2, payload_size=1_200_000)
    with SQLiteStore(path) as opened:
        opened.add(log.items()[:20])
        opened.add(log.items()[25:])
        opened.add([*films.items()[:1], (films.entries[1], None)])
        sink = opened.payload_sink(films.entries[1].place)
        sink.write(bytes(500_000))
        sink.close()
        opened.append(AUTHOR, 1, [b"x" * 100_000])
        opened.forget(log.entries[4].place)
        assert [] == opened.verify().problems
    assert [] == problems(path)
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to damage."""
    shutil.copytree(whole.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store.db"


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM news WHERE seq = (SELECT max(seq) FROM news)",
        "UPDATE news SET kind = 0 WHERE entry = 1",
        "UPDATE news SET seq = seq + 1 WHERE entry = 1",
        "INSERT INTO news SELECT change + 1, log, seq, kind, entry, 1 FROM news WHERE entry = 1",
        "UPDATE news SET change = 99 WHERE entry = 1",
        "UPDATE news SET count = count - 1 WHERE entry = 1",
        "UPDATE news SET count = count + 1 WHERE entry = 1",
        "DELETE FROM payloads_lost",
        "INSERT INTO record_changes VALUES (1, 1, 1, x'', 1, 1)",
        "INSERT INTO dropped_files VALUES ('x')",
        "UPDATE logs SET newest = newest - 1 WHERE id = 1",
        "UPDATE logs SET greatest = greatest + 1 WHERE id = 1",
        "UPDATE logs SET contiguous = contiguous - 1 WHERE id = 1",
        "UPDATE logs SET change = 99 WHERE id = 1",
        "UPDATE entries SET payload_held = 7 WHERE id = 2",
        "UPDATE entries SET payload_held = 7 WHERE payload_state = 3",
        "DELETE FROM payloads WHERE at > 0",
        "DELETE FROM payload_files WHERE name = (SELECT max(name) FROM payload_files)",
        "INSERT INTO payloads SELECT entry, 0, x'00' FROM payload_files",
        "UPDATE payload_files SET name = (SELECT min(name) FROM payload_files)",
        "INSERT INTO payloads VALUES (999, 0, x'00')",
        "UPDATE entries SET log = 99 WHERE id = 1",
    ],
)
def test_damage_is_seen(store: Path, damage: str) -> None:
    """Each way in which tables can disagree is noticed."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER entry_changed")
        connection.execute("DROP TRIGGER news_of_payload")
        assert connection.execute(damage).rowcount

    assert [] != problems(store)


def test_short_files_are_seen(store: Path) -> None:
    """A payload file that is short is noticed, unless it may be."""
    folder = Folder(store)
    (complete,) = [name for name in folder.names() if folder.size(name) > 1_000_000]
    (begun,) = [name for name in folder.names() if folder.size(name) <= 1_000_000]
    (folder.path / begun).write_bytes(b"")
    assert 1 == len(problems(store))
    assert [] == problems(store, begun_may=True)
    (folder.path / complete).unlink()
    assert 1 == len(problems(store, begun_may=True))
    assert [] == problems(store, begun_may=True, may_lack=frozenset({complete}))


def test_broken_promises_are_seen(store: Path) -> None:
    """What was said and is not so is noticed; of what was only begun either may be."""
    (log,) = (log for log, _, _ in read(store).entries if log == (AUTHOR.public, 1))
    held = read(store).of_log(log)[1]
    place = [log[0].hex(), log[1], 1]

    def broken(*said: dict[str, Any]) -> int:
        promises = Promises()
        promises.take(["writing", *(json.dumps({"place": place, **what}) for what in said)])
        return len(promises.broken(read(store)))

    appended: dict[str, Any] = {"done": "append", "hash": held.hash.hex()}
    assert 0 == broken(appended)
    assert 0 == broken(appended, {"begin": "forget"})
    assert 1 == broken(appended, {"begin": "forget"}, {"done": "forget"})
    assert 1 == broken({"done": "append", "hash": "00"})
    assert 1 == broken({**appended, "place": [*place[:2], 2]})
    with SQLiteStore(store) as opened:
        opened.forget(Place(AUTHOR.public, 1, 1))
    assert 1 == broken(appended)
    assert 0 == broken(appended, {"begin": "forget"})
    assert 0 == broken(appended, {"begin": "forget"}, {"done": "forget"})
    assert 1 == broken({**appended, "done": "hold", "held": 5})


def test_power_cuts(tmp_path: Path) -> None:
    """A store whose WAL file was cut is one that was there before; what is no earlier state is noticed."""
    path = tmp_path / "home" / "store.db"
    path.parent.mkdir()
    states = []
    with SQLiteStore(path) as opened:
        opened.append(AUTHOR, 1, [b"first"])
        SQLiteStore(path).close()
        for number in range(12):
            states.append(read(path))
            opened.append(AUTHOR, number % 3, [bytes(1_100_000 if number == 5 else 300)])
        last = read(path)
        copies = [tmp_path / str(number) / "store.db" for number in range(15)]
        for copy in copies:
            powercut.copy_store(path, copy)
    found = set()
    for copy in copies:
        assert powercut.cut(copy, random.Random(random.getrandbits(31))) is not None
        SQLiteStore(copy).close()
        contents = read(copy)
        found.add(contents.change)
        assert [] == not_an_earlier_state(contents, last) + problems(copy)

    assert len(found) > 2  # different ones
    assert all(not_an_earlier_state(last, state) for state in states)


def test_what_may_be_cut(tmp_path: Path) -> None:
    """Nothing of a WAL file of which it is not known how much was copied into the database, and so was synced."""
    path, copy = tmp_path / "store.db", tmp_path / "copy" / "store.db"
    with SQLiteStore(path) as store:
        store.append(AUTHOR, 1, [b"one"])
        powercut.copy_store(path, copy)

    assert disk.span(copy) is not None
    shared = copy.with_name("store.db-shm")
    shared.write_bytes(bytes(20_480))  # as of a program that was killed while it made it anew
    assert disk.span(copy) is None
    shared.unlink()
    assert disk.span(copy) is None
