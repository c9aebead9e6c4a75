"""Threads for work that would hold up the event loop: SQLite, signature checks, large hashes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

from culm.node.surroundings import present

SWITCH_SECONDS = 0.0003
"""For ``sys.setswitchinterval``: after how long a thread that computes gives up the interpreter to one that waits.

The loop needs the interpreter for a moment very often. With Python's default of 5 ms it waits that long each time while
another thread computes: a peer's entries are verified, or a program does work of its own beside its node. Then the node
loses most of its rate, and news wait. ``culm serve`` and ``culm sync`` set it. A library does not, because it is a
setting of the whole process.
"""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Worker:
    """Runs functions on a thread of its own, or on the threads that it is given."""

    def __init__(self, threads: Executor | None = None) -> None:
        self._executor = threads or present().thread()

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function on the thread and wait for its result. A call that has begun runs to its end in any case."""
        return await self.submit(function, *args, **kwargs)

    def submit(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> asyncio.Future[_T]:
        """Queue a function behind those that were queued before; a future of its result."""
        return asyncio.wrap_future(self.start(function, *args, **kwargs))

    def start(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """As ``submit``, and may be called on any thread."""
        return self._executor.submit(function, *args, **kwargs)

    def finish(self, last: Callable[[], object]) -> None:
        """Queue one last function and take no more. Returns at once; the thread ends when it is through."""
        self._executor.submit(last)
        self._executor.shutdown(wait=False)

    def close(self) -> None:
        """Wait for the call that is under way, and drop those that are queued behind it."""
        self._executor.shutdown(wait=True, cancel_futures=True)
