"""Small questions about one log: none of them may read the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.store import SQLiteStore
from culm.testing import build_log
from tests.store.below import database_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
def test_what_is_disputed_is_found_without_reading_what_is_not(tmp_path: Path) -> None:
    """A fork at the end of a long log is looked up in no more steps of SQLite than one in a short log."""
    steps: list[int] = []

    def step() -> None:
        steps[-1] += 1

    for length in (100, 3000):
        log, other = build_log(length, seed=1), build_log(length - 2, seed=1)
        other.append(b"another branch")
        with SQLiteStore(tmp_path / f"{length}.db") as store:
            store.add([*log.items(), *other.items(other.entries[-1:])])
            lookup = store.lookup((log.identity.public, 0))
            steps.append(0)
            connection = database_of(store).connection
            connection.set_progress_handler(step, 1)
            assert [(length - 1, length)] == lookup.disputed()
            connection.set_progress_handler(None, 1)
    assert steps[1] < 2 * steps[0]
