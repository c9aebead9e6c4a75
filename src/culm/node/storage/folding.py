"""Upkeep of the store's files, beside the store's own thread: folding the WAL file, and sweeping up after a crash.

SQLite writes changes to the WAL file first. From time to time they have to be *folded* into the database file,
otherwise the WAL grows without end. By default SQLite does that at the end of whichever writing transaction made the
WAL too large. That transaction then takes tens of milliseconds longer, with everybody waiting behind it. So the node
switches this off and folds from a connection and a thread of its own, where it holds up nobody.

The same thread sweeps once at the start: it deletes payload files that a killed process left behind.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from pathlib import Path

from culm.errors import StoreError
from culm.node.sessions.tasks import beside
from culm.node.sharing.threads import Worker
from culm.node.storage.worker import StoreWorker
from culm.store.opening import open_database
from culm.store.payloads.pieces import sweep

_LOOK_SECONDS = 0.1  # Between two looks at the size of the WAL file.
_FOLD_BYTES = 4 * 1024 * 1024  # Size of the WAL file from which on it is folded; SQLite's own default, 1000 pages.


@asynccontextmanager
async def folding(worker: StoreWorker) -> AsyncIterator[None]:
    """Sweep once, and fold the store's WAL file in the background for as long as the block lasts."""
    await worker.run(worker.store.fold_elsewhere)
    async with beside(_fold(worker.store.path, worker.beside())):
        yield


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
        # On its own thread, so behind whatever is under way there: closing a connection that works kills the process.
        await own.submit(databases.close)
        own.close()
