"""Memory of a program that runs for weeks: what is free in it goes back to the system now and then.

Messages and payloads of all sizes leave holes in the heap of the C library, which gives back only what is free at its
end: a node that holds no more than before would seem to grow for hours.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_PAUSE_SECONDS = 30.0


def trimming() -> Callable[[], None] | None:
    """What gives all free pages of the heap back; None where the C library (as glibc does) has no such function."""
    if not sys.platform.startswith("linux"):
        return None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return None if trim is None else lambda: trim(0)


@asynccontextmanager
async def free_memory_given_back(seconds: float = _PAUSE_SECONDS) -> AsyncIterator[None]:
    """Give free memory back every so many seconds, for as long as the block lasts; that takes a few milliseconds."""

    async def work(trim: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(trim)

    trim = trimming()
    task = None if trim is None else asyncio.create_task(work(trim))
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
