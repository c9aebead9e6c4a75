"""Selecting: what each of many ranges denotes, against the store; and the bundles made of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from culm.spark import gather, select_pieces
from culm.store import SQLiteStore
from tests.spark import local, selecting
from tests.spark.random_logs import RandomLogs
from tests.spark.selecting import Request, Selected, expected, given, random_range
from tests.spark.test_steps import rows_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[1, 2, 12])
def block_bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Blocks of 2, 4 and 4096 numbers, pages of 2 blocks: ranges are cut wherever they can be."""
    bits: int = request.param
    for module in (gather, *selecting.MODULES):
        monkeypatch.setattr(module, "BLOCK_BITS", bits)
    monkeypatch.setattr(select_pieces, "PAGE_BITS", 1)
    monkeypatch.setattr(select_pieces, "NARROW_PAGES", 2)
    return bits


@pytest.mark.usefixtures("block_bits")
@pytest.mark.parametrize("seed", range(3))
def test_random_logs(tmp_path: Path, seed: int) -> None:
    """Of logs with anything wrong in them, every range gets what it denotes in the store, and lacks what that lacks."""
    draw = random.Random(seed)
    logs = RandomLogs(seed=seed, count=30)
    (tmp_path / "inputs").mkdir()
    found = rows_of(logs.write(tmp_path / "inputs"))
    requests: list[Request] = []
    for of_log in logs.by_log():
        author, log_id = next(iter(of_log)).log
        for _ in range(draw.randint(1, 20)):
            requests.append((draw.choice("abc"), author, log_id, random_range(draw, max(e.seq for e in of_log))))
    draw.shuffle(requests)
    with SQLiteStore(tmp_path / "store") as store:
        store.add(logs.items)
        wanted, missing, beyond = expected(store, requests)
    selected = Selected(found, given(requests), shares=draw.choice([1, 2]))
    assert wanted == selected.wanted()
    assert missing == selected.missing(select_pieces.NOT_HELD)
    assert beyond == selected.missing(select_pieces.BEYOND)
    assert not selected.rejects
