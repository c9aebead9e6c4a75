"""A simulated machine: it has an address, a disk, and threads that take their time, and it can sleep."""

import asyncio
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from random import Random
from typing import Any, TypeVar

from culm.testing.simulation.disk import Disk
from culm.testing.simulation.loop import HOST, SimulatedLoop
from culm.testing.simulation.threads import SimulatedThread

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
