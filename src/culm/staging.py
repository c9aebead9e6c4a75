"""Files and folders that appear complete or not at all, even if the program is killed while it writes them.

Each is written beside its place, as ``.culm-XXXXXXXX.part``, and then renamed: within a folder a rename is atomic. A
program that is killed leaves its staging file behind. Deleting old names would be wrong: a slow program could still
be writing one. So the writer holds a lock (``flock``) on its staging file. The system releases the lock when the
process exits, even after SIGKILL. A staging file that nobody holds locked was therefore left behind by a crash, and the
next writer in the same folder deletes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # ``culm check`` starts in less than the time that this takes to load
    from pathlib import Path

_NAMES = ".culm-*.part"
_PIPES_OF_THE_SHELL = ("/proc/", "/dev/fd/")  # On Linux the second is a link into the first.
_ATTEMPTS = 100  # Names have 32 random bits, so a second attempt is rare; the bound ends a loop that never succeeds.


@contextmanager
def staged_folder(target: Path) -> Iterator[Path]:
    """A new folder (mode 0700) beside ``target``, deleted at the end unless renamed. ``OSError`` if that fails."""
    with _staged(target, lambda path: path.mkdir(mode=0o700)) as path:
        yield path


@contextmanager
def staged_file(target: Path, mode: int = 0o666) -> Iterator[Path]:
    """A new empty file beside ``target``, deleted at the end unless renamed. ``OSError`` if it cannot be made."""

    def make(path: Path) -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))

    with _staged(target, make) as path:
        yield path


def replace_text(target: Path, text: str, mode: int = 0o666) -> None:
    """Write a file anew; after a crash it has its old text or the new one. ``OSError`` if that fails."""
    with staged_file(target, mode) as staged:
        staged.write_text(text)
        sync(staged)
        staged.replace(target)
        sync(target.absolute().parent)


def is_named_pipe(path: str | os.PathLike[str]) -> bool:
    """Whether opening ``path`` could wait for a writer for ever. The shell's pipes, ``<(command)``, have theirs."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - see the imports
    except OSError:
        return False
    return stat.S_ISFIFO(mode) and not os.path.realpath(path).startswith(_PIPES_OF_THE_SHELL)


def sync(path: Path) -> None:
    """Wait until a file's content is on the disk; of a folder, its list of names.

    After a rename the folder has to be synced too; otherwise a power cut can undo the rename.
    """
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
    """Make a staging file or folder; return its path and the descriptor that holds its lock."""
    for _ in range(_ATTEMPTS):
        path = folder / _NAMES.replace("*", os.urandom(4).hex())
        with suppress(FileExistsError):
            make(path)
            if (lock := _lock(path)) is not None:
                return path, lock
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder / _NAMES))


def _lock(path: Path) -> int | None:
    """Lock a new staging file; None if another program swept it up in the moment between making and locking it."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # a sweeping program has the lock, and is about to delete the file
        os.close(lock)
        return None
    except OSError:
        return lock  # This file system has no locks (some network ones), so no program can sweep anything here either.
    if path.exists():  # otherwise it was swept up after it was opened, and the lock is on a deleted file
        return lock
    os.close(lock)
    return None


def _sweep(folder: Path) -> None:
    """Delete what killed programs left behind: staging files that are not locked."""
    for path in folder.glob(_NAMES):
        with suppress(OSError):  # locked, so still in use; or gone already
            if path.lstat().st_uid == os.geteuid():
                lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(path)
                finally:
                    os.close(lock)


def _remove(path: Path) -> None:
    if path.is_dir():
        import shutil  # noqa: PLC0415 - most programs delete no folder, and it brings all formats of archives

        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
