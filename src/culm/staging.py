"""Files and folders that are there wholly or not at all: made beside their place under another name, then moved there.

The name is ``.culm-XXXXXXXX.part``. Whoever makes one holds a lock on it until it is gone, and a lock ends with its
process, however that ends: what carries such a name and is locked by nobody was left behind by a program that was
killed, and is taken away when the next one is made in the same folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_NAMES = ".culm-*.part"
_ATTEMPTS = 100


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """A folder of our own (mode 0700) beside a place, to make things in; gone at the end. ``OSError`` if that fails."""
    with _staged(target, lambda path: path.mkdir(mode=0o700)) as path:
        yield path


@contextmanager
def staged_file(target: Path, mode: int = 0o666) -> Iterator[Path]:
    """An empty file beside a place, to be written and moved there; what is not moved goes at the end.

    ``OSError`` if it cannot be made.
    """

    def make(path: Path) -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))

    with _staged(target, make) as path:
        yield path


def sync(path: Path) -> None:
    """Bring a file to the disk, or which files there are in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _staged(target: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    folder = target.absolute().parent
    _sweep(folder)
    path, lock = _made(folder, make)
    try:
        yield path
    finally:
        _remove(path)
        os.close(lock)


def _made(folder: Path, make: Callable[[Path], None]) -> tuple[Path, int]:
    """Something new in a folder, and the lock on it."""
    for _ in range(_ATTEMPTS):
        path = folder / _NAMES.replace("*", secrets.token_hex(4))
        with suppress(FileExistsError):
            make(path)
            if (lock := _lock(path)) is not None:
                return path, lock
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder / _NAMES))


def _lock(path: Path) -> int | None:
    """A lock on what has just been made, to be closed; None if it was taken away before it could be locked."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # whoever takes it away holds the lock
        os.close(lock)
        return None
    except OSError:
        return lock  # there are no locks in this file system, and nothing is swept up
    if path.exists():
        return lock
    os.close(lock)
    return None


def _sweep(folder: Path) -> None:
    """Take away what programs left behind that were killed."""
    for path in folder.glob(_NAMES):
        with suppress(OSError):  # it is locked, or not ours
            if path.lstat().st_uid == os.geteuid():
                lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(path)
                finally:
                    os.close(lock)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
