"""Noticing that the store has changed, whichever process changed it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from culm.node.worker import StoreWorker

_LOOK_SECONDS = 0.02  # how often is looked whether another process wrote to the store
_POLL_SECONDS = 0.25  # how often the store is asked for changes, whatever it looks like


async def changes(worker: StoreWorker) -> AsyncIterator[int]:
    """The number of the store's last change, whenever there is a new one, by whichever process.

    It is noticed soon by the file that is written, and for sure by asking the store.
    """
    change, asked, written = -1, 0.0, None
    while True:
        now = time.monotonic()
        if (seen := _written(worker.store.path)) != written or now - asked > _POLL_SECONDS:
            written, asked = seen, now
            if (last := await worker.run(worker.store.change)) != change:
                change = last
                yield change
        await asyncio.sleep(_LOOK_SECONDS)


def _written(store: Path) -> tuple[int, int] | None:
    """When, and how large, the file was written that every change goes to first."""
    try:
        status = store.with_name(store.name + "-wal").stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
