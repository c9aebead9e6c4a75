"""A simulated machine: it has an address, a disk, and threads that take their time, and it can sleep.

Real threads make every run different. Here a call that a program gives to a thread is made as a whole, on the loop, at
one moment after it was asked for, and its result arrives at a later moment. Whatever the program does in between can
happen in between on a real machine, too, so this finds races between the loop and its threads. It does not find races
of two threads that run at the same time.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any, TypeVar

from culm.testing.simulation.disk import Disk
from culm.testing.simulation.loop import HOST, SimulatedLoop

T = TypeVar("T")


class Host:
    """One machine, from its start until it goes down. After a restart it is another object.

    ``disk``: None for a machine without one. ``called`` is called after each call of a thread, so that a test can look
    at the store. ``sloth``: how many times slower than usual its threads are. ``calls`` counts the calls of its
    threads.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        name: str,
        address: str,
        disk: Disk | None,
        random: Random,
        called: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.address = address
        self.disk = disk
        self.random = random
        self.is_frozen = False
        self.is_gone = False
        self.sloth = 1.0
        self.calls = 0
        self._loop = loop
        self._called = called

    def __repr__(self) -> str:
        return self.name

    def work_seconds(self) -> float:
        """Simulated seconds until the next call begins, or until its result arrives: mostly few, sometimes many."""
        return float(self.random.random() ** 12 * 0.05 * self.sloth)

    def perform(self, call: Callable[[], T]) -> T:
        """Make a call of one of the machine's threads, on its disk."""
        self.calls += 1
        try:
            return call() if self.disk is None else self.disk.perform(call)
        finally:
            if not self.is_gone:
                self._called()

    def thread(self) -> SimulatedThread:
        """A new thread of the machine."""
        return SimulatedThread(self._loop, self)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine on the machine. All callbacks and tasks that come from it belong to the machine, too."""
        context = copy_context()
        context.run(HOST.set, self)
        return self._loop.create_task(work, context=context)

    def freeze(self) -> None:
        """Put the machine to sleep: none of its callbacks runs until ``thaw``."""
        self.is_frozen = True

    def thaw(self) -> None:
        """Wake the machine. Its program finds that the clock has jumped."""
        self.is_frozen = False
        self._loop.thaw()


class SimulatedThread(Executor):
    """One thread of a host. It makes one call after the other, in the order in which they were submitted."""

    def __init__(self, loop: SimulatedLoop, host: Host) -> None:
        self._loop = loop
        self._host = host
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._is_busy = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Queue a call."""
        future: Future[T] = Future()
        self._jobs.append((future, lambda: fn(*args, **kwargs)))
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_later(self._host.work_seconds(), self._work, context=copy_context())
        return future

    def _work(self) -> None:
        while self._jobs:
            future, call = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                arrive = self._carry_out(future, call)
                self._loop.call_later(self._host.work_seconds(), arrive)
                break
        if self._jobs:
            self._loop.call_later(self._host.work_seconds(), self._work)
        else:
            self._is_busy = False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As ``Executor.shutdown``: calls that have not begun are cancelled, or with ``wait`` made at once."""
        while cancel_futures and self._jobs:
            self._jobs.popleft()[0].cancel()
        while wait and self._jobs:
            future, call = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                self._carry_out(future, call)()

    def _carry_out(self, future: Future[Any], call: Callable[[], Any]) -> Callable[[], None]:
        """Make a call; returns the function that lets its result arrive."""
        try:
            return partial(future.set_result, self._host.perform(call))
        except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
            return partial(future.set_exception, error)


@contextmanager
def unheard() -> Iterator[None]:
    """Silence the warnings about what hosts that went down had left open; a program that is killed closes nothing."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = before
