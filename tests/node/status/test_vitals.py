"""Rates over the last hour, the last change, and the space on the disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from culm.errors import NetworkError
from culm.node.roster import Roster
from culm.node.status.overview import Flow
from culm.node.status.vitals import MINUTES, History, LastChange, disk, flow_of
from culm.testing.builders import build_log
from tests.node.status.serving import ME, PLACE, a_talk

if TYPE_CHECKING:
    from pathlib import Path

    from culm.store import SQLiteStore


def test_an_hour_is_kept_and_no_more() -> None:
    """Each minute has its own sum; after two hours the last 60 minutes are there; a pause is minutes of nothing."""
    history = History()
    assert [0] == history.plain()["bytes_in"]
    for second in range(7231):
        history.update(Flow(bytes_in=10.0 * second, entries_out=float(second > 7140)), 1000.0 + second)
    kept = history.plain()
    assert ([*(MINUTES - 1) * [600.0], 300.0], MINUTES) == (kept["bytes_in"], len(kept["bytes_out"]))
    assert [1.0, 0] == kept["entries_out"][-2:]
    assert 1.0 == sum(kept["entries_out"])
    history.update(Flow(bytes_in=72_300.0), 1000.0 + 7200 + 190)
    assert [600.0, 300.0, 0, 0, 0] == history.plain()["bytes_in"][-5:]


def test_what_went_through_never_goes_back(tmp_path: Path) -> None:
    """A session that ends stays in the sum, so that no minute is negative."""
    roster = Roster(ME, tmp_path / "store.db")
    talk = a_talk()
    roster.began(talk, "a caller", PLACE)
    talk.stats.bytes_received = 100
    assert 100 == flow_of(roster).bytes_in
    roster.ended(talk, NetworkError("gone"))
    assert 100 == flow_of(roster).bytes_in


def test_the_last_change_has_the_time_of_the_files(store: SQLiteStore) -> None:
    """A change is as old as its file was when it was noticed; a file that is touched without a change is none."""
    changed = LastChange()
    assert changed.at is None
    for file in store.path.parent.glob("store.db*"):
        os.utime(file, (5000, 5000))
    changed.noticed(7, store.path)
    os.utime(store.path, (6000, 6000))
    changed.noticed(7, store.path)
    assert 5000 == changed.at
    changed.noticed(8, store.path)
    assert 6000 == changed.at


def test_bytes_on_the_disk(store: SQLiteStore) -> None:
    """Payloads in files are counted apart from the database, and what is free is told."""
    before = disk(store)
    assert (0, True) == (before["payloads"], 0 < before["free"] <= before["total"])
    log = build_log(1, seed=70)
    large = bytes(2 * 1024 * 1024)
    store.add([(log.append(large), large)])
    assert len(large) == disk(store)["payloads"]
    assert before["database"] < disk(store)["database"] < len(large)
