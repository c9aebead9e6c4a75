"""Copies of stores of other machines: made once, never while they are used deleted, and never left behind for long."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import fsspec
import pytest
from pyarrow import fs

from culm.errors import ConfigError
from culm.spark.storage import Location, location
from culm.spark.storage.location import local_copy

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """The folder of copies, and files ``memory://stores/a`` and so on of ten bytes each."""
    fsspec.filesystem("memory").pipe({f"/stores/{name}": name.encode() * 10 for name in "abc"})
    with mock.patch.dict(os.environ, SPARK_LOCAL_DIRS=f"{tmp_path},/other"):
        yield tmp_path / f"culm-stores-{os.getuid()}"


def copied(name: str) -> Path:
    """Copy one of the files and let go of it."""
    with local_copy(Location(f"memory://stores/{name}")) as path:
        assert name.encode() * 10 == path.read_bytes()
        return path


def test_a_local_file_is_no_copy(tmp_path: Path) -> None:
    """A path of this machine is used as it is."""
    with local_copy(Location(str(tmp_path))) as path:
        assert tmp_path == path


def test_tasks_share_a_copy(cache: Path) -> None:
    """Tasks that come while one is copying wait for it, and read what it copied."""
    with mock.patch.object(fs, "copy_files", wraps=fs.copy_files) as made:
        threads = [threading.Thread(target=copied, args=("a",)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 1 == made.call_count
    assert 1 == len(list(cache.glob("*/a")))


def test_a_changed_file_is_copied_again(cache: Path) -> None:
    """Another size or time of change makes another copy."""
    one = copied("a")
    fsspec.filesystem("memory").pipe("/stores/a", b"a" * 10)
    assert one != copied("a")
    assert 2 == len(list(cache.glob("*/a")))


@pytest.mark.usefixtures("cache")
def test_a_copy_that_was_cut_short_is_made_again() -> None:
    """What a killed task had copied is not taken for a copy."""
    path = copied("a")
    path.rename(path.with_name(".a"))
    assert path == copied("a")


def test_old_and_surplus_copies_are_deleted(cache: Path) -> None:
    """Copies unused for a day go, and the least recently used of too many; one that is open stays."""
    with ExitStack() as stack, mock.patch.object(location, "_MOST_BYTES", 25):
        held = stack.enter_context(local_copy(Location("memory://stores/a")))
        other = copied("b")
        copied("c")
        assert held.exists()
        assert not other.exists()
    two_days_ago = time.time() - 2 * 24 * 60 * 60
    os.utime(held.parent.with_suffix(".lock"), (two_days_ago, two_days_ago))
    copied("b")
    assert not held.exists()
    assert {path.name for path in cache.glob("*/*")} == {"b", "c"}
    assert 2 == len(list(cache.glob("*.lock")))


def test_what_cannot_be_copied_is_named(cache: Path) -> None:
    """A file that is gone, and a folder that belongs to somebody else, are errors that say so."""
    with pytest.raises(ConfigError, match="memory://stores/no: there is no such file"):
        copied("no")
    cache.rmdir() if cache.is_dir() else None
    cache.symlink_to("/")
    with pytest.raises(ConfigError, match="belongs to another user; set TMPDIR"):
        copied("a")
