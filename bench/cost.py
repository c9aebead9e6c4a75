"""What work costs: the CPU and the memory of this process and of all that it started, Java's included."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_SECONDS = 0.2


def _stat(pid: str) -> list[str] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _tree() -> list[tuple[str, list[str]]]:
    """This process and all its descendants."""
    stats = {path.name: _stat(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
    children: dict[str, list[str]] = {}
    for pid, stat in stats.items():
        if stat is not None:
            children.setdefault(stat[1], []).append(pid)
    found, todo = [], [str(os.getpid())]
    while todo:
        pid = todo.pop()
        stat = stats.get(pid)
        if stat is not None:
            found.append((pid, stat))
        todo += children.get(pid, [])
    return found


def cpu() -> dict[tuple[str, str], int]:
    """The CPU time of each process, in ticks; a process is its number and the time of its start."""
    return {(pid, stat[19]): int(stat[11]) + int(stat[12]) for pid, stat in _tree()}


def _own(pid: str) -> int:
    """Bytes of memory of a process now, with its share of what it has in common with others; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def memory() -> int:
    """Bytes of memory of all processes now; what they share is counted once."""
    return sum(_own(pid) for pid, _ in _tree())


def memory_by_kind() -> dict[str, int]:
    """Bytes of memory now: of this process, of Java, and of the largest of the other processes, Spark's workers."""
    found = {"this process": 0, "Java": 0, "largest worker": 0}
    for pid, _ in _tree():
        kind = "this process" if pid == str(os.getpid()) else "Java" if _is_java(pid) else "largest worker"
        found[kind] = max(found[kind], _own(pid))
    return found


def _is_java(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    except OSError:
        return False


@dataclass
class Cost:
    """What some work cost."""

    cpu: float = 0.0
    wall: float = 0.0
    peak: int = 0
    watching: float = 0.0


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure a block. Processes that end meanwhile, as Spark's workers do, are looked at until then."""
    cost, over = Cost(), threading.Event()
    before, started = cpu(), time.monotonic()
    latest = dict(before)

    def watch() -> None:
        looks = 0
        while not over.wait(_LOOK_SECONDS):
            latest.update(cpu())
            looks += 1
            if looks % 5 == 1:
                cost.peak = max(cost.peak, memory())
            cost.watching = time.thread_time()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield cost
    finally:
        cost.wall = time.monotonic() - started
        cost.peak = max(cost.peak, memory())  # What took less than a look would seem to take none.
        over.set()
        watcher.join()
        latest.update(cpu())
        cost.cpu = sum(ticks - before.get(process, 0) for process, ticks in latest.items()) / _TICKS
        cost.cpu -= cost.watching
