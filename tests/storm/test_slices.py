"""The ledger of seeds that nobody had looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storm.seeds import run_seeds
from storm.slices import FRESH, Slice, append, following, read, summary

if TYPE_CHECKING:
    from pathlib import Path


def test_slices_follow_each_other(tmp_path: Path) -> None:
    """The next slice begins behind those that were run from the first fresh seed on, of its own kind."""
    file = tmp_path / "slices.jsonl"
    assert (FRESH, "no slices yet") == (following("nodes", file), summary(file))
    first, second = Slice("nodes", "abc", FRESH, 100, 60.0), Slice("nodes", "abd+", FRESH + 100, 50, 30.0, (FRESH + 7,))
    for done in (second, Slice("proposals", "abc", FRESH, 3, 0.1), first):
        append(done, file)
    assert second in read(file)
    assert (FRESH + 150, FRESH + 3) == (following("nodes", file), following("proposals", file))
    assert f"nodes: 150 seeds, 2 min of CPU, 1 failed {FRESH + 7}" in summary(file)


@pytest.mark.slow
def test_two_endpoints_are_run_by_seed() -> None:
    """Storms of two endpoints go through the same verb; they bring no failure here."""
    found = run_seeds(FRESH, 2, "proposals")
    assert (2, {}) == (found.seeds, found.failed)
