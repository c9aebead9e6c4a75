"""Threads for work that would hold up the event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from culm.node.surroundings import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Worker:
    """Runs functions on a thread of its own, or on those that it is given."""

    def __init__(self, threads: Executor | None = None) -> None:
        self._executor = threads or one_thread()

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function there and wait for its result. A call that has begun is finished even if nobody waits."""
        return await self.submit(function, *args, **kwargs)

    def submit(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> asyncio.Future[_T]:
        """Have a function run there behind what was submitted before; its result is to come."""
        return asyncio.wrap_future(self.start(function, *args, **kwargs))

    def start(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """The same for callers on any thread."""
        return self._executor.submit(function, *args, **kwargs)

    def finish(self, last: Callable[[], object]) -> None:
        """Have one more function run behind what is under way, and nothing after it; does not wait for that."""
        self._executor.submit(last)
        self._executor.shutdown(wait=False)

    def close(self) -> None:
        """Finish what is under way."""
        self._executor.shutdown(wait=True, cancel_futures=True)
