"""Threads that are none: what a node has a thread do is run on the loop, a while later.

A call is made as a whole, at some moment after it was asked for, and its result arrives some moments later still:
whatever happens in between, happens in between on a real machine, too. What two threads do at the very same time is not
simulated.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Executor, Future
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.testing.simulation.loop import SimulatedLoop

T = TypeVar("T")
_Job = tuple["Future[Any]", "Callable[[], Any]"]


class Machine(Protocol):
    """What a host is to its threads."""

    def work_seconds(self) -> float:
        """How long the next call takes to begin, or its result to arrive."""

    def perform(self, function: Callable[[], T]) -> T:
        """Make a call, on this host's disk."""


class SimulatedThread(Executor):
    """One thread of a host: one call after the other, in the order in which they were asked for."""

    def __init__(self, loop: SimulatedLoop, machine: Machine) -> None:
        self._loop = loop
        self._machine = machine
        self._jobs: deque[_Job] = deque()
        self._is_busy = False

    @property
    def waiting(self) -> int:
        """Calls that have not begun."""
        return len(self._jobs)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have a call made."""
        future: Future[T] = Future()
        self._jobs.append((future, lambda: fn(*args, **kwargs)))
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_later(self._machine.work_seconds(), self._work, context=copy_context())
        return future

    def _work(self) -> None:
        while self._jobs:
            future, call = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                _carry_out(self._machine, future, call, self._loop)
                break
        if self._jobs:
            self._loop.call_later(self._machine.work_seconds(), self._work)
        else:
            self._is_busy = False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take back what has not begun, if told so; with ``wait``, do the rest at once."""
        while cancel_futures and self._jobs:
            self._jobs.popleft()[0].cancel()
        while wait and self._jobs:
            future, call = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                _carry_out(self._machine, future, call, None)


def in_thread(
    loop: SimulatedLoop, machine: Machine, function: Callable[..., T], args: tuple[Any, ...]
) -> asyncio.Future[T]:
    """Have a call made by a thread of which there are enough: ``asyncio.to_thread``."""
    future: Future[T] = Future()

    def work() -> None:
        if future.set_running_or_notify_cancel():
            _carry_out(machine, future, lambda: function(*args), loop)

    loop.call_later(machine.work_seconds(), work)
    return asyncio.wrap_future(future, loop=loop)


def _carry_out(machine: Machine, future: Future[T], call: Callable[[], T], loop: SimulatedLoop | None) -> None:
    """Make a call. Its result arrives some time later, or without a loop at once."""
    failure: BaseException | None = None
    result: Any = None
    try:
        result = machine.perform(call)
    except BaseException as error:  # noqa: BLE001 - whoever waits for the result gets it
        failure = error

    def arrive() -> None:
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(result)

    if loop is None:
        arrive()
    else:
        loop.call_later(machine.work_seconds(), arrive)
