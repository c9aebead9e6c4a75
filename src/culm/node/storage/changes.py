"""Noticing that the store has changed, whichever process changed it.

``culm append`` writes to the store of a node that runs beside it, and peers should hear of the entry at once. SQLite
tells no other process of a commit. Asking the store fifty times a second would find it, but each time costs a call on
the store's thread. So the node looks at the size and the time of the WAL file instead, which costs one system call, and
asks the store only when these differ. Sometimes they do not: a WAL file that is written from its beginning keeps
its size, and file systems have coarse clocks. Therefore the store is asked a few times a second in any case.
"""

import asyncio
from collections.abc import Callable

from culm.node.storage.worker import StoreWorker
from culm.node.surroundings import Surroundings, clock

_POLL_SECONDS = 0.25  # The store is asked at least this often: so late is a change noticed that its file does not show.


async def watch_changes(worker: StoreWorker, surroundings: Surroundings, changed: Callable[[], None]) -> None:
    """Call ``changed`` once at the beginning, and then whenever the store has changed, until cancelled."""
    path = worker.store.path
    wal = path.with_name(path.name + "-wal")  # SQLite writes every change there first.
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
