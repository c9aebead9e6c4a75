"""Stores of other machines. SQLite opens files of this machine's disk only, so such a store is copied here first.

A copy is made once a machine, however many tasks read it: its name is made of the URI, the size and the time of the
last change, and a task that finds another one copying waits for it. Copies that nobody used for a day are deleted, and
the least recently used ones when all together take more than ``_MOST_BYTES``. What a task has open is never deleted,
because it holds the copy's lock; the lock ends with its process.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from pyarrow import fs
from pyarrow.fs import FileSystem

from culm.errors import ConfigError, StoreError
from culm.spark.storage.filesystems import said
from culm.spark.storage.location import Location
from culm.staging import staged_folder
from culm.store.database import Database
from culm.store.opening import open_database

_MOST_BYTES = 100 * 1024**3  # on this machine's disk; a store that is larger is copied all the same, alone
_DAY = 24 * 60 * 60  # seconds
_BESIDE = ("-wal", "-payloads")  # what belongs to a store: its newest transactions, and its large payloads


@contextmanager
def local_copy(location: Location) -> Iterator[Path]:
    """The path of a store on this machine during this block: its own, or that of a copy.

    ``ConfigError``, naming the URI, if it cannot be copied.
    """
    if location.is_local:
        yield Path(location.uri)
        return
    system, path = location.filesystem()
    with said(location.uri):
        info = system.get_file_info(path)
        if info.size is None:
            raise FileNotFoundError(location.uri)
    folder = _folder()
    changed = system.handler.fs.ukey(path) if isinstance(system, fs.PyFileSystem) else info.mtime_ns
    key = sha256(f"{location.uri}\n{info.size}\n{changed}".encode()).hexdigest()[:40]
    with _locked(folder / f"{key}.lock", fcntl.LOCK_EX) as lock:
        copy = folder / key / location.name
        if not copy.exists():
            _sweep(folder, info.size)
            with said(location.uri, "be copied to this machine"):
                _copy(system, path, folder / key, location.name)
        os.utime(lock)
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield copy


@contextmanager
def opened_store(location: Location) -> Iterator[Database]:
    """A store, to read it; ``StoreError`` that names the location, even if a copy of it is read."""
    with local_copy(location) as path:
        try:
            database = open_database(path, read_only=True)
        except StoreError as error:
            text = str(error).replace(str(path), location.uri)
            raise type(error)(text if location.uri in text else f"{location}: {text}") from error
        with closing(database):
            yield database


def _copy(system: FileSystem, path: str, folder: Path, name: str) -> None:
    """Copy a store and what is beside it into a new folder, which appears when all of it is there."""
    rmtree(folder, ignore_errors=True)
    here = fs.LocalFileSystem()
    with staged_folder(folder) as staged:
        for suffix in (*_BESIDE, ""):
            kind, copy = system.get_file_info(path + suffix).type, staged / f"{name}{suffix}"
            if kind == fs.FileType.Directory:
                copy.mkdir()
            if kind != fs.FileType.NotFound or not suffix:
                fs.copy_files(path + suffix, str(copy), system, here)
        staged.rename(folder)


def _folder() -> Path:
    """The folder of all copies: on Spark's local disk where that is set, else where temporary files are."""
    base = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    folder = Path(base) / f"culm-stores-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():  # anybody may write to a temporary folder
        raise ConfigError(f"{folder}: belongs to another user; set TMPDIR to a folder of your own")
    return folder


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    """The descriptor of a lock file, locked. Its file may be deleted while this waits; it is made again then."""
    while True:
        with path.open("a") as file:
            fcntl.flock(file, kind)
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                yield file.fileno()
                return


def _sweep(folder: Path, needed: int) -> None:
    """Delete copies that nobody uses: old ones, and more until ``needed`` bytes fit below the limit."""
    locks = sorted(folder.glob("*.lock"), key=lambda path: path.stat().st_mtime)
    sizes = {lock: sum(file.stat().st_size for file in lock.with_suffix("").rglob("*")) for lock in locks}
    total = sum(sizes.values()) + needed
    for path, size in sizes.items():
        if path.stat().st_mtime <= time.time() - _DAY or total > _MOST_BYTES:
            with suppress(BlockingIOError), _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink()
                total -= size
