"""Stores and folders for tests that should not wait for a disk.

*Why there is no* ``Store(":memory:")``. A store is a file with others beside it: the WAL file, and a folder of large
payloads. A node opens it several times, to read while it writes, and other processes may do so, too. A database in
SQLite's own memory has none of these properties: a reader keeps the writer out, and no second process finds it. A test
would then pass, or hang, for reasons that no user's store has.

*The way chosen.* The files are real, and the file system is in memory: Linux has one at ``/dev/shm``. The store behaves
as on a disk, down to its locks and payload files, and a commit waits for nothing.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from culm.store import SQLiteStore

_MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it are made by tempfile
# Bytes. Containers often have only 64 MiB there, and a test of large payloads would fail for want of room.
_ENOUGH = 256 << 20


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A new folder in memory, deleted at the end.

    It is in ``TMPDIR`` if that is set; else in ``/dev/shm`` if that has 256 MiB free; else where the system keeps
    temporary files, which may be a disk.
    """
    place = _MEMORY if "TMPDIR" not in os.environ and _has_room(_MEMORY) else None
    with TemporaryDirectory(prefix="culm-", dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def memory_store() -> Iterator[SQLiteStore]:
    """A new store in a folder in memory, deleted at the end; use it with ``with``.

    The folder is as that of ``memory_folder``. The store is like any other: ``Store(store.path)`` opens it a
    second time, also in another process.
    """
    with memory_folder() as folder, SQLiteStore(folder / "store.db") as store:
        yield store


def _has_room(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= _ENOUGH
