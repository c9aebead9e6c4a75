"""Keeping the store's files in order beside its own thread: folding the WAL file, sweeping up what was left behind.

SQLite does that at the end of a writing transaction, which then takes tens of milliseconds while others wait. Done from
a connection of its own it holds up nobody.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from typing import TYPE_CHECKING

from culm.errors import StoreError
from culm.store.opening import open_database
from culm.store.payloads.pieces import sweep

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from culm.node.sharing.threads import Worker
    from culm.node.storage.worker import StoreWorker

_LOOK_SECONDS = 0.1
_FOLD_BYTES = 4 * 1024 * 1024  # size of the WAL file from which on it is folded


@asynccontextmanager
async def folding(worker: StoreWorker) -> AsyncIterator[None]:
    """Fold the store's WAL file in the background for as long as the block lasts."""
    await worker.run(worker.store.fold_elsewhere)
    task = asyncio.create_task(_fold(worker.store.path, worker.beside()))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _fold(path: Path, own: Worker) -> None:
    wal = path.with_name(path.name + "-wal")
    databases = ExitStack()
    try:
        database = await own.run(lambda: databases.enter_context(closing(open_database(path))))
        with suppress(StoreError):
            await own.run(sweep, database)
        seen = None
        while True:
            with suppress(OSError, StoreError):
                status = wal.stat()
                if status.st_size >= _FOLD_BYTES and status.st_mtime_ns != seen:
                    seen = status.st_mtime_ns
                    await own.run(database.fold)
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        # Behind what is under way there: a connection that is closed while it works takes the process with it.
        await own.submit(databases.close)
        own.close()
