"""A store as a power cut could have left it, made of one whose program was killed.

SQLite appends every transaction to the WAL file, synced before a commit is reported (or later, where the transaction
may be lost), and copies its pages into the database only from what is synced. So after a power cut the database is as
it is, and any part of the WAL file's end may be missing: cut off, or never written, so that a hole is left. What was
already being copied into the database had been synced and is left alone; SQLite notes in the shared-memory file how far
that is. Where that file belongs to another WAL file, or a program was killed before it had filled it in, nobody knows,
and nothing is cut. Of payload files only complete payloads were synced: of others any part may be missing.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from culm.store.payloads.folder import Folder
from culm.store.schema import PayloadState
from culm.testing.simulation.disk import span, wal_of

if TYPE_CHECKING:
    import random
    from pathlib import Path

_SECTOR = 512


def copy_store(store: Path, target: Path) -> None:
    """Copy a store that no program uses as it lies there, its WAL file and payload files included."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for suffix in ("", "-wal", "-shm"):
        if (path := store.with_name(store.name + suffix)).exists():
            shutil.copyfile(path, target.with_name(target.name + suffix))
    folder = Folder(store).path
    if folder.exists():
        Folder(target).path.mkdir()
        for path in folder.iterdir():
            os.link(path, Folder(target).path / path.name)


def cut(store: Path, rng: random.Random) -> str | None:
    """Take part of the end of a store's WAL file away; what was done, None if there was nothing to take."""
    limits = span(store)
    store.with_name(store.name + "-shm").unlink(missing_ok=True)
    if limits is None:
        return None
    first, end = limits
    wal = wal_of(store)
    at = rng.randrange(first, end)
    if rng.random() < 0.7:
        os.truncate(wal, at)
        return f"the WAL file cut at byte {at} of {end}"
    size = min(end - at, _SECTOR * rng.randint(1, 16))
    with wal.open("r+b") as file:
        file.seek(at)
        file.write(bytes(size))
    return f"a hole of {size} bytes in the WAL file at byte {at} of {end}"


def spoil_begun_files(store: Path, rng: random.Random) -> int:
    """Take part of the payload files away that hold no complete payload; how many."""
    folder = Folder(store)
    with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        complete = {
            name
            for (name,) in connection.execute(
                "SELECT name FROM payload_files JOIN entries ON entries.id = entry WHERE payload_state = ?",
                (PayloadState.COMPLETE,),
            )
        }
    count = 0
    for name in set(folder.names()) - complete:
        path = folder.path / name
        data = path.read_bytes()
        path.unlink()  # it is a link to a file that is left alone
        if rng.random() < 0.7:
            path.write_bytes(data[: rng.randrange(len(data) + 1)])
        count += 1
    return count
