"""Memory of a program that runs for weeks: it takes what it holds, and what is free goes back to the system.

Messages and payloads of all sizes leave holes in the heap of the C library, which gives back only what is free at its
end: a node that holds no more than before would seem to grow for hours. And once a large block was freed, glibc puts
all that are not larger on the heap, too, where those that grow side by side take up to three times their size.
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
_M_MMAP_THRESHOLD = -3  # glibc's malloc.h
_LARGE = 2 * 1024 * 1024  # bytes


def trimming() -> Callable[[], object] | None:
    """What gives all free pages of the heap back; None where the C library (as glibc does) has no such function."""
    trim = _glibc("malloc_trim")
    return None if trim is None else lambda: trim(0)


def keep_large_blocks_apart() -> None:
    """Have the C library take large blocks from the system, and give each back when it is freed, from now on."""
    set_option = _glibc("mallopt")
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE)


def _glibc(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None


@asynccontextmanager
async def free_memory_given_back(seconds: float = _PAUSE_SECONDS) -> AsyncIterator[None]:
    """Give free memory back every so many seconds, for as long as the block lasts; that takes a few milliseconds."""
    keep_large_blocks_apart()

    async def work(trim: Callable[[], object]) -> None:
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
