"""Files and folders under way: gone when their maker is done, or was killed, and never while it is at work."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from culm.staging import staged_file, staged_folder

MAKING = """
import sys
from pathlib import Path
from culm.staging import staged_file, staged_folder
make = {"file": staged_file, "folder": staged_folder}[sys.argv[1]]
with make(Path(sys.argv[2]) / "target") as staged:
    if staged.is_dir():
        (staged / "inside").write_text("x")
    print(staged.name, flush=True)
    sys.stdin.read()
"""


def making(kind: str, folder: Path) -> tuple[subprocess.Popen[str], str]:
    """A process that is about to make something, and the name it has meanwhile."""
    command = [sys.executable, "-c", MAKING, kind, str(folder)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    return child, child.stdout.readline().strip()


def test_moved_into_place(tmp_path: Path) -> None:
    """What was made is moved to its place, and nothing else stays."""
    with staged_file(tmp_path / "target") as staged:
        staged.write_text("whole")
        assert not (tmp_path / "target").exists()
        staged.replace(tmp_path / "target")
    with staged_folder(tmp_path / "folder") as staged:
        (staged / "copy").mkdir()
        (staged / "copy").rename(tmp_path / "folder")

    assert {"target", "folder"} == {path.name for path in tmp_path.iterdir()}
    assert "whole" == (tmp_path / "target").read_text()


@pytest.mark.parametrize("kind", [staged_file, staged_folder])
def test_nothing_stays_of_what_failed(tmp_path: Path, kind: type) -> None:
    """What was not moved into place when the block is left is gone."""

    def fail() -> NoReturn:
        with kind(tmp_path / "target"):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_left_behind(tmp_path: Path, kind: str) -> None:
    """What a process left behind that was killed goes with the next making; what another is making stays."""
    child, name = making(kind, tmp_path)
    with staged_file(tmp_path / "other"):
        assert (tmp_path / name).exists()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert (tmp_path / name).exists()
    with staged_file(tmp_path / "other"):
        assert not (tmp_path / name).exists()


def test_others_are_left_alone(tmp_path: Path) -> None:
    """Files that only look alike, and links, are not followed or taken away."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    place = tmp_path / "place"
    place.mkdir()
    (place / ".culm-1.part").symlink_to(outside)
    (place / "culm-1.part").write_text("x")
    with staged_folder(place / "target"):
        pass

    assert (outside / "precious").exists()
    assert {".culm-1.part", "culm-1.part"} == {path.name for path in place.iterdir()}


def test_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system knows no locks things are made all the same, and nothing is swept up."""

    def refuse(_file: int, _how: int) -> None:
        raise OSError(95, "Operation not supported")

    (tmp_path / ".culm-1.part").write_text("x")
    monkeypatch.setattr(fcntl, "flock", refuse)
    with staged_file(tmp_path / "target") as staged:
        staged.replace(tmp_path / "target")

    assert {".culm-1.part", "target"} == {path.name for path in tmp_path.iterdir()}


def test_taken_away_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If another takes the file away before it is locked, another one is made."""
    lock = fcntl.flock
    seen: list[Path] = []

    def lock_late(file: int, how: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        seen.append(path)
        if len(seen) == 1:
            path.unlink()
        if len(seen) == 2:
            raise BlockingIOError
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with staged_file(tmp_path / "target") as staged:
        assert [staged] == seen[2:]
