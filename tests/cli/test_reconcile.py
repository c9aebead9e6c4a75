"""What two stores lack of each other's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm import SQLiteStore
from culm.testing import build_log

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm


def test_differences_are_named_and_moved(culm: Culm, tmp_path: Path) -> None:
    """Entries and payloads that either store lacks are counted log by log; ``--apply`` makes both hold all."""
    one, two, three = (build_log(length, seed=length, payload_size=30) for length in (300, 40, 7))
    three.append(b"large" * 300_000)
    paths = tmp_path / "a.db", tmp_path / "b.db"
    with SQLiteStore(paths[0]) as a, SQLiteStore(paths[1]) as b:
        a.add(one.items() + three.items())
        b.add(one.items(one.entries[:250]) + two.items())
        a.forget(one.entries[9].place)
    result = culm("reconcile", *paths, "--json").json
    counts = {tuple(row.values())[1:] for row in result["logs"]}
    #         a lacks entries, payloads; b lacks entries, payloads; whether the heads differ
    assert counts == {(0, 1, 50, 50, True), (40, 40, 0, 0, True), (0, 0, 8, 8, True)}
    for view in ("entries", "payloads", "heads"):
        assert result["views"][view]["rounds"] >= 1
        assert result["views"][view]["bytes"] > 0
    assert "lacks" in culm("reconcile", *paths).out
    assert culm("reconcile", *paths, "--apply").code == 0
    after = culm("reconcile", *paths, "--json").json["logs"]
    # What was forgotten on purpose stays so.
    assert [tuple(row.values())[1:] for row in after] == [(0, 1, 0, 0, True)]
    for path in paths:
        with SQLiteStore(path) as store:
            report = store.verify()
            assert (report.verified, report.problems) == (348, [])


def test_the_clumps_are_copied(culm: Culm, tmp_path: Path) -> None:
    """A log that ``--apply`` copies is shared in the same clumps as in the store that it came from."""
    log = build_log(1)
    paths = tmp_path / "a.db", tmp_path / "b.db"
    with SQLiteStore(paths[0]) as a, SQLiteStore(paths[1]):
        a.receive_in(b"family")
        a.add(log.items())
    assert culm("reconcile", *paths, "--apply").code == 0
    with SQLiteStore(paths[1]) as b:
        assert {log.entries[0].log: {b"family"}} == b.clumps()


def test_equal_stores(culm: Culm) -> None:
    """A store and itself: nothing is lacking, in one round."""
    culm("append", 1, "--text", "x")
    assert "have the same entries" in culm("reconcile", culm.home, culm.home).out
    result = culm("reconcile", culm.home, culm.home / "store.db", "--json").json
    assert result["logs"] == []
    assert result["views"]["entries"]["rounds"] == 1


def test_a_store_that_is_not_there(culm: Culm, tmp_path: Path) -> None:
    """A missing store is one line and exit code 1, and is not made."""
    result = culm("reconcile", culm.home, tmp_path / "nothing")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert not (tmp_path / "nothing").exists()
