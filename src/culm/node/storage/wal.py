"""What a node does with the store's WAL file, to which SQLite writes every change first.

*Noticing changes.* ``culm append`` writes to the store of a node that runs beside it, and peers should hear of the
entry at once. SQLite tells no other process of a commit. Asking the store fifty times a second would find it, but each
time costs a call on the store's thread. So the node looks at the size and the time of the WAL file instead, which costs
one system call, and asks the store only when these differ. Sometimes they do not: a WAL file that is written from its
beginning keeps its size, and file systems have coarse clocks. Therefore the store is asked a few times a second in any
case.

*Folding.* From time to time the changes have to be folded into the database file, otherwise the WAL file grows without
end. By default SQLite does that at the end of whichever writing transaction made the WAL file too large. That
transaction then takes tens of milliseconds longer, with everybody waiting behind it. So the node switches this off and
folds from a connection and a thread of its own, where it holds up nobody.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from pathlib import Path

from culm.errors import StoreError
from culm.node.sessions.tasks import beside
from culm.node.sharing.threads import Worker
from culm.node.storage.worker import StoreWorker
from culm.node.surroundings import clock
from culm.store.opening import open_database

_POLL_SECONDS = 0.25  # The store is asked at least this often: so late is a change noticed that its file does not show.
_LOOK_SECONDS = 0.1  # Between two looks at the size of the WAL file.
_FOLD_BYTES = 4 * 1024 * 1024  # Size of the WAL file from which on it is folded; SQLite's own default, 1000 pages.


def _wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


async def watch_changes(worker: StoreWorker, changed: Callable[[], None]) -> None:
    """Call ``changed`` once at the beginning, and then whenever the store has changed, until cancelled."""
    wal, surroundings = _wal_of(worker.store.path), worker.surroundings
    change, asked = -1, 0.0
    written: object = None
    while True:
        now = clock()
        if (seen := surroundings.written(wal)) != written or now - asked > _POLL_SECONDS:
            written, asked = seen, now
            if (last := await worker.run(worker.store.change)) != change:
                change = last
                changed()
        await asyncio.sleep(surroundings.look_seconds)


@asynccontextmanager
async def folding(worker: StoreWorker) -> AsyncIterator[None]:
    """Fold the store's WAL file in the background for as long as the block lasts."""
    await worker.run(worker.store.fold_elsewhere)
    async with beside(_fold(worker.store.path, Worker(worker.surroundings.thread()))):
        yield


async def _fold(path: Path, own: Worker) -> None:
    wal = _wal_of(path)
    databases = ExitStack()
    try:
        database = await own.run(lambda: databases.enter_context(closing(open_database(path))))
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
