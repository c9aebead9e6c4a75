"""Noticing that the store has changed, whichever process changed it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from culm.node.surroundings import clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from culm.node.storage.worker import StoreWorker
    from culm.node.surroundings import Surroundings

_POLL_SECONDS = 0.25  # how often the store is asked for changes, whatever it looks like


async def changes(worker: StoreWorker, surroundings: Surroundings) -> AsyncIterator[int]:
    """The number of the store's last change, whenever there is a new one, by whichever process.

    It is noticed soon by the file that is written, and for sure by asking the store.
    """
    path = worker.store.path
    wal = path.with_name(path.name + "-wal")  # every change is written there first
    change, asked = -1, 0.0
    written: object = None
    while True:
        now = clock()
        if (seen := surroundings.written(wal)) != written or now - asked > _POLL_SECONDS:
            written, asked = seen, now
            if (last := await worker.run(worker.store.change)) != change:
                change = last
                yield change
        await asyncio.sleep(surroundings.look_seconds)
