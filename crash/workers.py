"""Playing scenes in several processes, each with a folder and a peer of its own."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import sys
from queue import Empty
from typing import TYPE_CHECKING, NamedTuple

from crash import material
from crash.peers import Peers
from crash.playing import Stage, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.queues import Queue
    from pathlib import Path

    from crash.planning import Plan, Task

_LOOK_SECONDS = 5.0


class Done(NamedTuple):
    """A scene that was played (None: the worker has ended), and the CPU seconds of the worker and its children."""

    task: Task | None
    tally: Tally
    worker: int
    cpu: float


def cpu_seconds() -> float:
    """What this process and its children that have ended used."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def work(
    number: int, folder: Path, kept: Path, made: material.Material, tasks: Queue[Task | None], done: Queue[Done]
) -> None:
    """Play scenes until there is none left: what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what runs meanwhile ends, too
    folder.mkdir()
    with Peers(folder, made, number=number + 1) as peers:
        stage = Stage(folder, kept, made, peers, number)
        while (task := tasks.get()) is not None:
            before = cpu_seconds()
            tally = stage.play(task.name, task.seed, task.kills)
            tally.cpu = cpu_seconds() - before
            done.put(Done(task, tally, number, cpu_seconds()))
    done.put(Done(None, Tally(), number, cpu_seconds()))


class Workers:
    """Some processes that play scenes. ``folder`` is theirs; ``kept`` is where findings go."""

    def __init__(self, count: int, folder: Path, kept: Path, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        (folder / "material").mkdir()
        made = material.make(folder / "material", seed)
        self._tasks: Queue[Task | None] = context.Queue()
        self._done: Queue[Done] = context.Queue()
        self._processes = [
            context.Process(
                target=work,
                args=(number, folder / f"worker-{number}", kept, made, self._tasks, self._done),
                daemon=False,
            )
            for number in range(count)
        ]
        self._cpu: dict[int, float] = {}
        for process in self._processes:
            process.start()

    @property
    def cpu(self) -> float:
        """CPU seconds used so far, as far as is known."""
        own = resource.getrusage(resource.RUSAGE_SELF)  # the workers count themselves
        return own.ru_utime + own.ru_stime + sum(self._cpu.values())

    def run(self, plan: Plan) -> Iterator[tuple[Task, Tally]]:
        """Play what a plan says; what became of each scene. ``RuntimeError`` if a worker fails."""
        try:
            under_way = self._hand_out(plan, len(self._processes))
            while under_way:
                done = self._next()
                under_way -= 1
                if done.task is not None:
                    yield done.task, done.tally
                    under_way += self._hand_out(plan, 1)
            for _ in self._processes:
                self._tasks.put(None)
            for _ in self._processes:
                self._next()
        finally:
            for process in self._processes:
                process.terminate()
                process.join()

    def _hand_out(self, plan: Plan, count: int) -> int:
        handed = 0
        while handed < count and (task := plan.next()) is not None:
            self._tasks.put(task)
            handed += 1
        return handed

    def _next(self) -> Done:
        while True:
            try:
                done = self._done.get(timeout=_LOOK_SECONDS)
            except Empty:
                if any(process.exitcode not in (None, 0) for process in self._processes):
                    raise RuntimeError("a worker has failed") from None
            else:
                self._cpu[done.worker] = done.cpu
                return done
