"""Looking into a store behind its back: what is right passes, and everything that could be wrong is told."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from culm.store import SQLiteStore
from culm.store.schema import to_sql
from culm.testing.builders import LogBuilder, build_log
from storm.ledger import HASH_AT, Ledger
from storm.watch import StoreWatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOUCHED = (
    "UPDATE counters SET value = value + 1 WHERE name = 'change'",
    "UPDATE logs SET change = (SELECT value FROM counters WHERE name = 'change')",
)


class Scene:
    """A store with a log whose entry 7 waits for its path (6 and 4 are not held), and who watches it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s.db"
        self.log = build_log(9)
        self.ledger = Ledger()
        self.told: list[str] = []
        self.publish(self.log)
        self.store = SQLiteStore(self.path)
        self.store.add(self.log.items([entry for entry in self.log.entries if entry.seq in (1, 2, 3, 7)]))
        self.watch = StoreWatch(self.ledger, self.told.append)
        self.watch.everywhere.add(self.log.identity.public)
        self.watch.open(self.path)

    def publish(self, log: LogBuilder) -> None:
        """The payloads of a log are what its author published."""
        for payload in log.payloads.values():
            self.ledger.publish(payload)

    def change(self, *statements: str) -> None:
        """Write to the file as no store would, and look. ``seq = NUMBER`` means the number, not how it is stored."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for statement in (*statements, *TOUCHED):
                connection.execute(re.sub(r"seq = (\d+)", lambda found: f"seq = {to_sql(int(found[1]))}", statement))
        self.watch.look()

    def branch(self) -> LogBuilder:
        """The same author's log, another one from its third entry on."""
        other = LogBuilder(self.log.identity, self.log.log_id)
        other.entries = self.log.entries[:2]
        other.payloads = dict(self.log.payloads)
        other.append(b"something else")
        self.publish(other)
        return other


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A watched store."""
    scene = Scene(tmp_path)
    yield scene
    scene.watch.close()
    scene.store.close()


def test_a_store_in_order(scene: Scene) -> None:
    """Whatever a store does by itself is right: more entries, a path that becomes whole, payloads forgotten, forks."""
    log = (scene.log.identity.public, scene.log.log_id)
    scene.change()
    assert [1, 2, 3] == list(scene.watch.logs[log].verified)
    scene.store.add(scene.log.items(scene.log.entries[3:6]))
    scene.watch.look()
    assert [1, 2, 3, 4, 5, 6, 7] == list(scene.watch.logs[log].verified)
    scene.watch.may_forget([scene.log.entries[1].hash[-64:]])
    scene.store.forget(scene.log.entries[1].place)
    scene.watch.look()
    assert [scene.log.entries[1]] == scene.watch.forgotten()
    scene.ledger.forkers.add(scene.log.identity.public)
    scene.store.add(scene.branch().items())
    scene.watch.look()
    assert 3 == scene.watch.logs[log].limit
    assert [1, 2] == list(scene.watch.logs[log].verified)
    assert [] == scene.told


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("DELETE FROM entries WHERE seq = 2", "1 entries have gone"),
        ("UPDATE entries SET state = 2 WHERE seq = 7", "is called VERIFIED, and is WAITING"),
        ("UPDATE entries SET state = 1 WHERE seq = 3", "is called WAITING, and is VERIFIED"),
        ("UPDATE logs SET forked_at = 0, invalid_from = 0", "prove a fork at None"),
        ("UPDATE entries SET payload_state = 0, payload_held = 0 WHERE seq = 2", "the payload of .*/2 has gone"),
        ("UPDATE entries SET payload_state = 3 WHERE seq = 2", "was forgotten, and nobody said so"),
        ("UPDATE entries SET payload_held = 1 WHERE seq = 2", "1 of 20 bytes count as all"),
        ("UPDATE entries SET payload_state = 4 WHERE seq = 2", "is said to have lied"),
    ],
)
def test_what_is_wrong_is_told(scene: Scene, statement: str, complaint: str) -> None:
    """An entry that vanished, a state that the entries do not give, a fork without proof, a payload that is lost."""
    assert [] == scene.told
    scene.change(statement)
    _assert_told(scene, complaint)


def test_a_payload_that_is_another(scene: Scene) -> None:
    """A payload is compared with what was published, when it is seen for the first time."""
    scene.change(
        "UPDATE payloads SET piece = zeroblob(length(piece)) WHERE entry = (SELECT id FROM entries WHERE seq = 2)"
    )
    assert [] == scene.told
    scene.watch.open(scene.path)
    _assert_told(scene, "is not the one that was published")


def test_a_fork_that_is_hidden(scene: Scene) -> None:
    """Two entries that contradict each other are a fork, whatever the store says of it."""
    scene.ledger.forkers.add(scene.log.identity.public)
    scene.store.add(scene.branch().items())
    scene.watch.look()
    assert [] == scene.told
    scene.change("DELETE FROM forks")
    _assert_told(scene, "prove a fork at 3; known are")


def test_a_fork_of_an_honest_author(scene: Scene) -> None:
    """Who has one store cannot fork: somebody else's signature would have been taken for theirs."""
    scene.store.add(scene.branch().items())
    scene.watch.look()
    _assert_told(scene, "and its author has one store")


def test_an_entry_from_nowhere(scene: Scene) -> None:
    """What nobody published must not be there."""
    scene.store.add(build_log(1, seed=9).items())
    scene.watch.look()
    _assert_told(scene, "its payload was never published")


def test_what_a_restart_takes(scene: Scene, tmp_path: Path) -> None:
    """A store that is found without what it showed before is told of; a power cut may take what was not safe."""
    scene.watch.everything_is_safe()
    scene.store.add(scene.log.items(scene.log.entries[3:4]))
    scene.watch.look()
    earlier = _cut(scene, tmp_path)
    assert [] == scene.told
    with SQLiteStore(earlier) as store:
        store.add(scene.log.items(scene.log.entries[3:4]))
    scene.watch.look()
    empty = tmp_path / "empty.db"
    SQLiteStore(empty).close()
    scene.watch.open(empty)
    _assert_told(scene, "was verified, and is gone after a restart")


def _cut(scene: Scene, folder: Path) -> Path:
    """A power cut, after which the store has its first three entries."""
    earlier = folder / "earlier.db"
    with SQLiteStore(earlier) as store:
        store.add(scene.log.items(scene.log.entries[:3]))
    scene.watch.power_cut()
    scene.watch.open(earlier)
    return earlier


@pytest.mark.parametrize("is_safe", [False, True])
def test_what_was_forgotten_before_a_power_cut(scene: Scene, tmp_path: Path, *, is_safe: bool) -> None:
    """A payload that was just being forgotten may be there again; one that is said to be forgotten may not."""
    scene.watch.everything_is_safe()
    first = scene.log.entries[0]
    scene.watch.may_forget([first.hash[HASH_AT:]])
    scene.store.forget(first.place)
    scene.watch.look()
    if is_safe:
        scene.watch.everything_is_safe()
    _cut(scene, tmp_path)
    if is_safe:
        _assert_told(scene, "is wanted again, and nobody said so")
    else:
        assert [] == scene.told


def _assert_told(scene: Scene, complaint: str) -> None:
    assert any(re.search(complaint, text) for text in scene.told), scene.told
