"""Folding generations: the state knows the same, later runs go on from it, and few bytes and folders are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.spark import run
from culm.spark.runtime import shell
from culm.spark.verification import state as states
from culm.spark.verification.state import State, fold, foldable
from culm.testing import build_log
from tests.spark.verification.test_state import Parts, bundle, known, written

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1], [1]),
        ([2, 1], [1, 2]),
        ([3, 1], [2]),
        ([1, 1, 1], [1, 2, 3]),
        ([100, 9, 4, 1, 1], [2, 3, 4, 5]),
        ([100, 40, 9, 4, 1, 1], [3, 4, 5, 6]),
        ([30, 100, 0, 0], [3, 4]),
    ],
)
def test_which_are_folded(sizes: list[int], expected: list[int]) -> None:
    """The newest ones, as far back as each is at most twice as large as all that came after it."""
    assert expected == foldable(dict(enumerate(sizes, 1)))


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are made in this process, and whatever there is is folded."""
    monkeypatch.setattr(shell, "is_running", lambda: False)
    monkeypatch.setattr(states, "FEWEST", 2)
    monkeypatch.setattr(states, "foldable", list)


@pytest.mark.slow
@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("signatures", [pytest.param("all", marks=pytest.mark.long), "heads"])
def test_nothing_is_forgotten(tmp_path: Path, signatures: str) -> None:
    """Runs with folding between them come to what one run over everything comes to."""
    parts = Parts(tmp_path, signatures)
    for number in range(3):
        parts.run(number)
        before = known(tmp_path / "state", signatures)
        fold(State.open(tmp_path / "state"), None)
        assert 1 == len(State.open(tmp_path / "state").generations)
        assert before == known(tmp_path / "state", signatures)
    parts.check()


@pytest.mark.slow
@pytest.mark.usefixtures("here")
def test_folding_on_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large generations are folded by Spark; what is known stays the same."""
    monkeypatch.setattr(states, "_HERE_BYTES", 0)
    log, state = build_log(60), tmp_path / "state"
    for at in range(3):
        run([bundle(tmp_path / f"in {at}", log.items(log.entries[at::2]))], tmp_path / f"out {at}", state=state)
    before = known(state, "all")
    fold(State.open(state), spark)
    assert [4] == State.open(state).generations
    assert before == known(state, "all")


@pytest.mark.slow
def test_many_small_runs_leave_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that comes entry by entry stays in few generations, whose files are not much more than its entries.

    Each is in use at the next run; only then the folders of what was folded are removed.
    """
    monkeypatch.setattr(shell, "is_running", lambda: False)
    log, state = build_log(40), tmp_path / "state"
    sizes = []
    for at, entry in enumerate(log.entries):
        run([bundle(tmp_path / f"in {at}", [(entry, None)])], tmp_path / f"out {at}", state=state)
        fold(State.open(state), None)
        sizes.append(len(State.open(state).generations))
    assert max(sizes) < 3 * states.FEWEST
    assert sizes[-1] < 20
    run([bundle(tmp_path / "last", [(log.entries[0], None)])], tmp_path / "out last", state=state)
    folders = {int(path.name) for path in state.iterdir() if path.is_dir()}
    assert set(State.open(state).generations) == folders
    assert {entry.hash for entry in log.entries} == known(state, "all").keys()
    assert {"verified"} == {row["verdict"] for row in known(state, "all").values()}
    assert 1 == len(written(tmp_path / "out 39"))
