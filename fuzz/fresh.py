"""Fresh files for each input: a folder of this process in memory where there is one, and empty stores in it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.store import SQLiteStore

FOLDER = "CULM_FUZZ_FOLDER"
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there


@cache
def folder() -> Path:
    """The folder: the one that a runner made, and removes; else one that goes with the process."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    made = make_folder()
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def make_folder() -> Path:
    """A new folder."""
    return Path(tempfile.mkdtemp(prefix="culm-fuzz-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None))


def file(name: str, content: bytes) -> Path:
    """A file with this content, in place of what was there."""
    path = folder() / name
    path.write_bytes(content)
    return path


@cache
def _template() -> bytes:
    """An empty store's file."""
    from culm.store import SQLiteStore  # noqa: PLC0415 - the runner only makes folders here

    path = folder() / "template.db"
    SQLiteStore(path).close()
    return path.read_bytes()


@contextmanager
def store(name: str = "store") -> Iterator[SQLiteStore]:
    """An empty store. Making one takes ten times as long as copying one."""
    from culm.store import SQLiteStore  # noqa: PLC0415

    path = folder() / f"{name}.db"
    path.write_bytes(_template())
    try:
        with SQLiteStore(path) as made:
            yield made
    finally:
        remove(path.name)


def remove(name: str) -> None:
    """Remove a store, with all that SQLite and Culm put beside its file."""
    for rest in folder().glob(f"{name}*"):
        if rest.is_dir():
            shutil.rmtree(rest)
        else:
            rest.unlink()
