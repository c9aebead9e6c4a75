"""Simulated threads: a call that a program gives to a thread runs on the loop, some simulated time later.

Real threads make every run different. Here a call is made as a whole, at one moment after it was asked for, and its
result arrives at a later moment. Whatever the program does in between can happen in between on a real machine, too, so
this finds races between the loop and its threads. It does not find races of two threads that run at the same time.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

from culm.testing.simulation.loop import SimulatedLoop

T = TypeVar("T")
_Job = tuple["Future[Any]", "Callable[[], Any]"]


class Machine(Protocol):
    """What threads need of the host they belong to."""

    def work_seconds(self) -> float:
        """Simulated seconds until the next call begins, or until its result arrives."""

    def perform(self, function: Callable[[], T]) -> T:
        """Make a call, with the limits of the host's disk."""


class SimulatedThread(Executor):
    """One thread of a host. It makes one call after the other, in the order in which they were submitted."""

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
        """Queue a call."""
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
        """As ``Executor.shutdown``: calls that have not begun are cancelled, or with ``wait`` made at once."""
        while cancel_futures and self._jobs:
            self._jobs.popleft()[0].cancel()
        while wait and self._jobs:
            future, call = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                _carry_out(self._machine, future, call, None)


def in_thread(
    loop: SimulatedLoop, machine: Machine, function: Callable[..., T], args: tuple[Any, ...]
) -> asyncio.Future[T]:
    """Make a call on a thread of its own, as ``asyncio.to_thread`` does: it waits for no other call."""
    future: Future[T] = Future()

    def work() -> None:
        if future.set_running_or_notify_cancel():
            _carry_out(machine, future, lambda: function(*args), loop)

    loop.call_later(machine.work_seconds(), work)
    return asyncio.wrap_future(future, loop=loop)


def _carry_out(machine: Machine, future: Future[T], call: Callable[[], T], loop: SimulatedLoop | None) -> None:
    """Make a call. Its result arrives some simulated time later; without a loop, at once."""
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
