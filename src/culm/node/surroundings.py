"""Surroundings: what a node takes from the world besides its store and its peers.

These are time, randomness, threads, and the look at a file. Each of them would make a test come out differently from
run to run. So a node gets them from here, and a simulation (``culm.testing.simulation``) exchanges them for its own:
then whole nodes, with races and crashes, run exactly the same each time a seed is run. Time is the event loop's.

A simulation can hand its own to every node that it makes. A program under test makes its nodes itself, and knows of no
simulation. So there is a variable, too: ``PRESENT`` holds for all that runs in its context (``culm.testing.world``).
"""

import asyncio
import gc
import os
import random
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from culm.bamboo.hashing import handed_over

AT_ONCE = 2
"""Turns for computing at a time (``culm.node.sharing.turns``). Two, because one can check signatures or hash
without the interpreter's lock while the other one holds it. More would only wait for the lock."""


_HASHING_SECONDS = 1.4e-9  # For a byte, by BLAKE2b on a core of 3 GHz: what is handed over is counted, not timed.


def clock() -> float:
    """Seconds on the running event loop's clock, which only goes forward."""
    return asyncio.get_running_loop().time()


def one_thread() -> Executor:
    """One thread, which makes one call after the other."""
    return ThreadPoolExecutor(1, thread_name_prefix="culm-store")


def some_threads() -> Executor:
    """Threads for computing, as many as there are turns at a time."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="culm-turn")


def written(path: Path) -> tuple[int, int, int] | None:
    """When a file was written last (nanoseconds), its size and its inode; None if it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def spent() -> float:
    """The seconds that the calling thread has computed, with those that hash for it on another thread."""
    return time.thread_time() + handed_over() * _HASHING_SECONDS


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a node gets these things from; by default, the real ones."""

    secret_bytes: Callable[[int], bytes] = os.urandom
    """As many unpredictable bytes as asked for, for nonces."""
    chance: Callable[[], float] = random.random
    """A random number from 0 to below 1, where nobody gains by guessing it."""
    thread: Callable[[], Executor] = one_thread
    """Makes a thread for the store, or for a snapshot of it."""
    threads: Callable[[], Executor] = some_threads
    """Makes the threads for computing."""
    spent: Callable[[], float] = spent
    """The seconds that the calling thread has computed."""
    look_seconds: float = 0.02
    """Between two looks at whether another process wrote to the store: too short for people to notice."""
    written: Callable[[Path], object] = written
    """Something about a file that differs when it was written."""
    collect: Callable[[], object] = gc.collect
    """Collects garbage."""


PRESENT: ContextVar[Surroundings | None] = ContextVar("PRESENT", default=None)
"""The surroundings of everything in this context; None: each node has those that it was given."""


def present(given: Surroundings | None = None) -> Surroundings:
    """The surroundings to use here: those of the context, else those ``given``, else the real ones."""
    return PRESENT.get() or given or Surroundings()
