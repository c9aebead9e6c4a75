"""Give free memory back to the system, so that a node that runs for weeks takes only what it uses.

Messages and payloads of all sizes leave holes in the heap of the C library. The library returns memory to the system
only from the heap's end, and one small block there keeps all the free space before it. So a node seems to grow for
hours although it holds no more than before. Two things help, and a third keeps the second from costing much:

- ``malloc_trim`` returns the free pages in the middle of the heap as well. It is called now and then.
- Large blocks are kept off the heap, in pages of their own that go back when they are freed. At first glibc does so by
  itself. But when it frees such a block, it raises the limit to that size, and puts later blocks up to it on the heap.
  There, blocks that grow side by side take up to three times their size. Setting the limit once keeps it fixed.
- Some free megabytes at the heap's end stay until the next ``malloc_trim``. While the limit is fixed, glibc would give
  them back with each block that is freed, and a node that sends large payloads would get their pages again and again.
"""

import asyncio
import ctypes
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_PAUSE_SECONDS = 30.0  # Between two trims: rare enough to cost nothing, soon enough that a peak does not stay.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # The numbers of these options in glibc's malloc.h.
_LARGE = 2 * 1024 * 1024  # Bytes of a block that gets its own pages. Smaller ones would cost a system call each time.
_LEFT = 16 * 1024 * 1024  # Free bytes at the heap's end that stay.


def trimming() -> Callable[[], object] | None:
    """A function that returns all free pages of the heap to the system; None if the C library is not glibc."""
    trim = _glibc("malloc_trim")
    return None if trim is None else lambda: trim(0)


def keep_large_blocks_apart() -> None:
    """From now on, large blocks get pages of their own and go back to the system when freed, smaller ones later."""
    set_option = _glibc("mallopt")
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE)
        set_option(_M_TRIM_THRESHOLD, _LEFT)


def _glibc(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None


@asynccontextmanager
async def free_memory_given_back(seconds: float = _PAUSE_SECONDS) -> AsyncIterator[None]:
    """Return free memory every ``seconds`` while the block runs. It takes a few milliseconds, in a thread."""
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
