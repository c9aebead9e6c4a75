"""Running seeds: one in a folder of its own, or many over all cores; what happened, and how to replay what failed."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TextIO

from culm.testing.simulation.host import Host, unheard
from culm.testing.simulation.loop import HOST
from storm.plan import draw
from storm.world import Failed, Outcome, World

_MEMORY = Path("/dev/shm")  # noqa: S108 - only ever used for a folder of a random name
_CHUNK = 10  # seeds that a process takes at a time
_MOST_CPU = 120.0  # seconds that a seed may take
_TOLD_EVERY = 10.0  # seconds between lines about how far it is


# -- one seed ----------------------------------------------------------------------------------------------------------


def run_seed(seed: int, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run the world of a seed. ``tell`` gets the trace, line by line."""
    folder = Path(tempfile.mkdtemp(prefix="culm-storm-", dir=_MEMORY if _MEMORY.is_dir() else None))
    gc.disable()  # whether it runs depends on what ran before
    try:
        world = World(draw(seed), folder, tell)
        with _logging(world):
            return world.run()
    finally:
        with unheard():
            gc.collect()
        gc.enable()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _logging(world: World) -> Iterator[None]:
    """The nodes' log as a part of the trace; nothing else of it."""
    logger = logging.getLogger("culm.node")
    handler = _IntoTrace(world)
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO if world.tell is not None else logging.CRITICAL)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
        logger.setLevel(before[0])


class _IntoTrace(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """A line of the trace."""
        host = HOST.get()
        name = host.name if isinstance(host, Host) else "?"
        if isinstance(host, Host) and host.is_gone:
            return
        reason = getattr(record, "reason", None)
        peer = getattr(record, "peer", None)
        about = (f" ({peer})" if peer else "") + (f": {reason}" if reason else "")
        self._world.note(f"  {name}: {record.getMessage()}{about}")


# -- many of them ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Sum:
    """What came of some seeds. ``cpu``: seconds of it; ``seconds``: of simulated time. ``failed``: by seed."""

    seeds: int = 0
    cpu: float = 0.0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[int, Failed] = field(default_factory=dict)

    def add(self, other: Sum) -> None:
        """And of some more."""
        self.seeds += other.seeds
        self.cpu += other.cpu
        self.seconds += other.seconds
        self.counts += other.counts
        self.failed |= other.failed


class _TooLong(BaseException):
    """A seed does not come to an end."""


def _endpoints(seed: int) -> Outcome:
    """Run two endpoints of proposals alone: far more of them fit into an hour than whole nodes."""
    from tests.proposals.test_storm import Storm  # noqa: PLC0415 - the tests are not needed for whole nodes

    outcome = Outcome(Counter(), [], 0.0)
    try:
        Storm(seed).run()
    except Exception:  # noqa: BLE001 - whatever it is, it is told with the seed
        outcome.failures.append(Failed("two endpoints of proposals", 0.0, traceback.format_exc()))
    return outcome


KINDS: dict[str, Callable[[int], Outcome]] = {"nodes": run_seed, "proposals": _endpoints}


def run_seeds(first: int, count: int, kind: str = "nodes") -> Sum:
    """Run some seeds in this process."""
    found = Sum()
    gc.collect()
    gc.freeze()  # every seed begins with a collection, which need not look at all modules again
    try:
        for seed in range(first, first + count):
            started = time.process_time()
            try:
                with _cpu_limit(_MOST_CPU):
                    outcome = KINDS[kind](seed)
            except _TooLong:
                found.failed[seed] = Failed(f"no end after {_MOST_CPU:g} s of CPU", 0.0)
            else:
                found.counts += outcome.counts
                found.seconds += outcome.seconds
                if outcome.failures:
                    found.failed[seed] = outcome.failures[0]
            found.seeds += 1
            found.cpu += time.process_time() - started
    finally:
        gc.unfreeze()
    return found


@contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    def too_long(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def storm(first: int, count: int, jobs: int, out: TextIO, kind: str = "nodes") -> Sum:
    """Run seeds in ``jobs`` processes, and tell of them: failures as they come, everything in sum at the end."""
    total = Sum()
    started = told = time.monotonic()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        starts = range(first, first + count, _CHUNK)
        parts = {pool.submit(run_seeds, at, min(_CHUNK, first + count - at), kind): at for at in starts}
        for part in as_completed(parts):
            try:
                found = part.result()
            except BrokenProcessPool:
                found = Sum(failed={parts[part]: Failed("the process died that ran it or one of the next", 0.0)})
            total.add(found)
            out.writelines(failure_text(seed, failed, kind) for seed, failed in found.failed.items())
            if time.monotonic() > told + _TOLD_EVERY:
                told = time.monotonic()
                out.write(f"{total.seeds} of {count} seeds, {total.cpu:.0f} s of CPU, {len(total.failed)} failed\n")
            out.flush()
    out.write(sum_text(total, time.monotonic() - started))
    return total


def failure_text(seed: int, failed: Failed, kind: str = "nodes") -> str:
    """What failed, and how to see it again."""
    again = "--trace" if kind == "nodes" else f"--kind {kind}"
    trace = f"{failed.trace.rstrip()}\n" if failed.trace else ""
    return (
        f"seed {seed} failed after {failed.at:.2f} s: {failed.text}\n{trace}"
        f"  replay: {os.path.basename(sys.executable)} -m storm --seed {seed} {again}\n"  # noqa: PTH119
    )


def sum_text(total: Sum, seconds: float) -> str:
    """Everything in sum."""
    lines = [
        (
            f"{total.seeds} seeds in {seconds:.0f} s: {total.cpu:.0f} s of CPU"
            f" ({total.cpu / max(1, total.seeds):.2f} s each), {total.seconds:.0f} s of simulated time"
        ),
        *(f"{count:>9,}  {name}" for name, count in sorted(total.counts.items())),
        f"{len(total.failed)} failed" + "".join(f"\n  --seed {seed}" for seed in sorted(total.failed)),
    ]
    return "\n".join(lines) + "\n"
