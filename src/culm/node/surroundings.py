"""What a node takes from the world besides its store and its peers: time, chance, threads, how its file is looked at.

Time is the event loop's. All else can be exchanged, so that whole nodes run in a simulation that comes out the same
every time (``culm.testing.simulation``).
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path


AT_ONCE = 2
"""Turns for computing at a time (``culm.node.sharing.turns``): more would only share the interpreter's lock."""


def clock() -> float:
    """Seconds on the running event loop's clock, which only goes forward."""
    return asyncio.get_running_loop().time()


def one_thread() -> Executor:
    """A thread for one call after the other."""
    return ThreadPoolExecutor(1, thread_name_prefix="culm-store")


def some_threads() -> Executor:
    """Threads for computing: as many as get on at once, since some of it runs without the interpreter's lock."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="culm-turn")


def written(path: Path) -> tuple[int, int] | None:
    """When a file was written last (nanoseconds), and its size; None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@dataclass(frozen=True, slots=True)
class Surroundings:
    """``secret_bytes`` gives as many unpredictable bytes as asked for, ``chance`` numbers from 0 to below 1.

    ``thread`` makes a thread for the store, or for a snapshot of it, ``threads`` those for computing; ``spent`` are the
    seconds that the thread it is called on has computed. Whether another process wrote to the store is
    looked at every ``look_seconds``; ``written`` says of a file what differs when it was written. ``collect`` frees
    what only refers to itself.
    """

    secret_bytes: Callable[[int], bytes] = os.urandom
    chance: Callable[[], float] = random.random
    thread: Callable[[], Executor] = one_thread
    threads: Callable[[], Executor] = some_threads
    spent: Callable[[], float] = time.thread_time
    look_seconds: float = 0.02
    written: Callable[[Path], object] = written
    collect: Callable[[], object] = gc.collect
