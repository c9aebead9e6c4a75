"""What a verification on Spark needs, by its size: CPU, memory of each kind of process, and disk.

``docs/spark-operations.md`` computes from these figures what a run over far more entries needs. So each is taken apart:
what grows with the entries (CPU, disk), and what does not (the memory of a task). Entries and sizes are those of
``bench.pipeline``; every signature is checked.
"""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from bench.cost import Cost, memory_by_kind
from bench.harness import Figure, say
from bench.pipeline import FOLDER, LOG, SIZES, entries, on_spark, warm_session
from culm.spark.runtime.shell import SETTINGS
from culm.spark.verification import verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HUGE = 10**9  # entries, beyond what this machine holds: only its tasks are tried, with as many entries each
LOCAL = FOLDER / "local"  # where Spark keeps what it shuffles
_LOOK_SECONDS = 0.5


class Needs:
    """The most of each thing that was seen during a run: bytes of memory by kind of process, and bytes on the disk."""

    def __init__(self) -> None:
        self.memory: dict[str, int] = {}
        self.disk: dict[str, int] = {"work": 0, "shuffled": 0, "results": 0}

    def look(self) -> None:
        """Take what there is now."""
        for kind, size in memory_by_kind().items():
            self.memory[kind] = max(self.memory.get(kind, 0), size)
        for kind, places in (("work", FOLDER.glob(".culm-*.part")), ("shuffled", [LOCAL])):
            self.disk[kind] = max(self.disk[kind], sum(map(size_of, places)))


def size_of(folder: Path) -> int:
    """The bytes of the files below a folder, some of which may be deleted meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


@contextmanager
def watched() -> Iterator[Needs]:
    """Look at the processes and the disk every half second during a block."""
    needs, over = Needs(), threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_SECONDS):
            needs.look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield needs
    finally:
        over.set()
        watcher.join()


def run() -> list[Figure]:
    """Verify at each size, and say what the two largest differ by for each further entry."""
    with warm_session(config={**SETTINGS, "spark.local.dir": str(LOCAL)}) as spark:
        found: list[tuple[int, Cost, Needs]] = []
        for size in SIZES:
            place = entries(spark, f"even-{size}", size // LOG)
            say(f"{size} entries in logs of {LOG}")
            found.append((size, *_verified(place, size)))
        figures = [figure for measured in found for figure in _figures(*measured)]
        figures += _huge_tasks(entries(spark, f"even-{SIZES[-1]}", SIZES[-1] // LOG), SIZES[-1])
    shutil.rmtree(LOCAL, ignore_errors=True)
    return figures + _growth(found)


def _verified(place: Path, size: int) -> tuple[Cost, Needs]:
    with watched() as needs:
        cost = on_spark([place], "all", count=size)
    needs.disk["results"] = size_of(FOLDER / "output")
    return cost, needs


def _huge_tasks(place: Path, size: int) -> list[Figure]:
    """The memory of a worker whose tasks have as many entries as those of a run over ``HUGE``."""
    tasks = max(1, size * verify._MOST_TASKS // HUGE)  # noqa: SLF001 - the bound that is tried
    say(f"{size} entries in {tasks} tasks")
    with patch.multiple(verify, _FEWEST_TASKS=tasks, _MOST_TASKS=tasks):
        _, needs = _verified(place, size)
    return [Figure(f"tasks as of {HUGE:,}: memory, largest worker", needs.memory["largest worker"] / 1e6, "MB")]


def _figures(size: int, cost: Cost, needs: Needs) -> list[Figure]:
    return [
        Figure(f"{size:,}: CPU", cost.cpu, "s"),
        *(Figure(f"{size:,}: memory, {kind}", most / 1e6, "MB") for kind, most in sorted(needs.memory.items())),
        *(Figure(f"{size:,}: disk, {kind}", most / 1e6, "MB") for kind, most in needs.disk.items()),
    ]


def _growth(found: list[tuple[int, Cost, Needs]]) -> list[Figure]:
    """What each further entry costs, and what is left for none, by the two largest sizes."""
    if len(found) < 2:
        return []
    (low, cheap, little), (high, dear, much) = found[-2:]
    each = (dear.cpu - cheap.cpu) / (high - low)
    return [
        Figure("CPU of each further entry", each * 1e6, "us"),
        Figure("CPU of a run without entries", cheap.cpu - each * low, "s"),
        *(
            Figure(f"disk of each further entry, {kind}", (much.disk[kind] - little.disk[kind]) / (high - low), "bytes")
            for kind in much.disk
        ),
    ]
