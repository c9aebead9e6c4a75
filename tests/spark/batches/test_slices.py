"""Bytes that lie in files beside the rows of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from culm.spark.batches.pack import Pack, distinct
from culm.spark.batches.slices import Shelf, fetched
from culm.testing import build_log

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_put_is_fetched(tmp_path: Path) -> None:
    """Long bytes go into a file and a slip into the cell, short ones stay; both are fetched, also while one writes."""
    short, long, longer = b"short", bytes(range(256)) * 40, bytes(100_000)
    with Shelf(tmp_path / "new") as shelf:
        cells = [shelf.put([short]), shelf.put([long[:7], memoryview(long)[7:]]), shelf.put([longer])]
        assert [short, long, longer] == [fetched(cell) for cell in cells]
        assert cells[0] == short
        assert max(map(len, cells)) < 500
    assert [short, long, longer] == [fetched(cell) for cell in cells]
    assert 1 == len(list((tmp_path / "new").iterdir()))


def test_without_a_folder_bytes_stay() -> None:
    """Where there is no folder that all see, the cell holds everything."""
    with Shelf(None) as shelf:
        assert bytes(100_000) == shelf.put([bytes(50_000), bytes(50_000)])


def test_tasks_do_not_meet(tmp_path: Path) -> None:
    """What runs twice writes twice: no task touches the file of another; one that has nothing long writes none."""
    with Shelf(tmp_path) as one, Shelf(tmp_path) as other, Shelf(tmp_path) as idle:
        cells = [shelf.put([bytes([number]) * 9999]) for number, shelf in enumerate((one, other))]
        idle.put([b""])
    assert [bytes(9999), b"\x01" * 9999] == [fetched(cell) for cell in cells]
    assert 2 == len(list(tmp_path.iterdir()))


def test_what_is_gone_is_an_error(tmp_path: Path) -> None:
    """A file that was cut or removed fails the task, and never gives other bytes."""
    with Shelf(tmp_path) as shelf:
        cell = shelf.put([bytes(9999)])
    (file,) = tmp_path.iterdir()
    file.write_bytes(bytes(9998))
    with pytest.raises(OSError, match="the file is shorter"):
        fetched(cell)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        fetched(cell)


def test_packs_keep_their_records() -> None:
    """Encoded, joined and chosen from, a pack has the same records, and what is known of them."""
    entries = [entry.encoded for entry in build_log(60).entries]
    whole = Pack.joined([Pack.of_record(data, row % 4) for row, data in enumerate(entries)])
    assert whole.encode() == Pack.decode(whole.encode()).encode()
    rows = [5, 3, 59, 0]
    both = Pack.joined([whole.take(np.arange(30, 60)), Pack.decode(whole.take(np.array(rows)).encode())])
    expected = [*range(30, 60), *rows]
    assert [(entries[row], row % 4) for row in expected] == [
        (both.record(row), int(both.payload[row])) for row in range(len(both))
    ]
    assert distinct([both, whole]).copies.tolist() == [1 + expected.count(row) for row in range(60)]
