"""That what is promised is on the disk, and that the check of it sees what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from crash import material, synced
from crash.synced import Disk, commands, unsynced
from culm.bamboo import Identity
from culm.node.home import Home

FOLDER = Path("/home/x")
AT = "AT_FDCWD</>, "


def missing(*lines: str) -> list[list[Path]]:
    """What is missing at each moment, of a trace."""
    return list(Disk(FOLDER, {FOLDER / "old"}).follow(f"77 {line}\n" for line in lines))


def test_files_are_to_be_synced() -> None:
    """A file that was written is missing until it is synced; one elsewhere, and shared memory, never."""
    assert [[FOLDER / "old"], [FOLDER / "old"]] == missing(
        'pwrite64(3</home/x/old>, ""..., 9, 0) = 9', 'write(1</dev/pts/1>, ""..., 3) = 3'
    )
    parts = 'pwritev(3</home/x/old>, [{iov_base=""..., iov_len=1}, {iov_base=""..., iov_len=2}], 2, 0) = 3'
    assert [[FOLDER / "old"]] == missing(parts)
    assert [[]] == missing('pwrite64(3</home/x/old>, ""..., 9, 0) = 9', "fdatasync(4</home/x/old>) = 0")
    assert [[]] == missing('pwrite64(3</home/y/old>, ""..., 9, 0) = 9', "ftruncate(3</home/x/old-shm>, 3) = 0")
    assert [[]] == missing('pwrite64(3</home/x/old>, ""..., 9, 0) = -1 ENOSPC (No space left on device)')


def test_names_are_to_be_synced() -> None:
    """A name that has appeared in a folder is missing until that is synced; one that was there, or is gone, is not."""
    made = f'openat({AT}"/home/x/new", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3</home/x/new>'
    folder = ('mkdir("/home/x/sub", 0700) = 0', "fsync(4</home/x>) = 0", 'link("/home/x/old", "/home/x/sub/old") = 0')
    assert [[FOLDER]] == missing(made)
    assert [[]] == missing(made, "fsync(4</home/x>) = 0")
    assert [[]] == missing(f'openat({AT}"/home/x/old", O_RDWR|O_CREAT, 0600) = 3</home/x/old>')
    assert [[FOLDER / "sub"]] == missing(*folder)
    assert [[]] == missing(*folder, 'unlink("/home/x/sub/old") = 0', 'rmdir("/home/x/sub") = 0')


def test_what_is_moved_stays_as_it_was() -> None:
    """A file that is moved is as synced under its new name as it was, and the name is to be synced, too."""
    written = 'pwrite64(3</home/x/sub/a>, ""..., 9, 0) = 9'
    moved = 'rename("/home/x/sub", "/home/x/place") = 0'
    assert [[FOLDER, FOLDER / "place" / "a"]] == missing(written, moved)
    assert [[FOLDER]] == missing(written, "fsync(3</home/x/sub/a>) = 0", moved)
    assert [[]] == missing(written, "fsync(3</home/x/sub/a>) = 0", moved, "fsync(5</home/x>) = 0")


@pytest.mark.skipif(not synced.is_there(), reason="strace is not installed, or may not be used")
@pytest.mark.parametrize("what", ["identity", "append, large", "follow"])
def test_on_the_disk(tmp_path: Path, what: str) -> None:
    """What the program has printed is on the disk."""
    (tmp_path / "material").mkdir()
    made = material.make(tmp_path / "material", 1, readings_count=10)
    folder = tmp_path / "work"
    folder.mkdir()
    material.new_home(Home.find(folder / "home"), Identity(bytes(32)))

    assert [] == unsynced(folder, *dict(commands(folder, made))[what])
