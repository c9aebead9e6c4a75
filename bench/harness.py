"""Figures, rounds that take turns, and the table at the end."""

from __future__ import annotations

import json
import mmap
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TOUCHED = 8  # Tenths of the memory that is free: the rest is for what others need meanwhile.


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    ``ratio`` compares it with ``limit``; ``goal`` is what the ratio is to reach, and ``at_least`` says from which side.
    Without a ratio, or if it is ``absolute``, the goal is for the value.
    ``spread``: the least and the greatest value of the runs that ``value`` is the median of.
    """

    name: str
    value: float
    unit: str
    limit: str = ""
    ratio: float | None = None
    goal: float | None = None
    at_least: bool = True
    spread: tuple[float, float] | None = None
    absolute: bool = False

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None if there is none."""
        if self.goal is None:
            return None
        compared = self.value if self.ratio is None or self.absolute else self.ratio
        return compared >= self.goal if self.at_least else compared <= self.goal


def to_json(figure: Figure) -> dict[str, Any]:
    """A figure as JSON has it."""
    return {**asdict(figure), "reached": figure.reached}


def from_json(values: dict[str, Any]) -> Figure:
    """The figure that was made JSON."""
    known = {name: value for name, value in values.items() if name != "reached"}
    spread = known.pop("spread", None)
    return Figure(**known, spread=(spread[0], spread[1]) if spread else None)


def median_rate(
    name: str,
    amount: float,
    unit: str,
    taken: Sequence[float],
    limit: str = "",
    ratio: float | None = None,
    goal: float | None = None,
    *,
    absolute: bool = False,
) -> Figure:
    """A rate: an amount of work by the median of the seconds that it took, and the spread of the runs."""
    spread = amount / max(taken), amount / min(taken)
    return Figure(name, amount / statistics.median(taken), unit, limit, ratio, goal, spread=spread, absolute=absolute)


def touch_memory() -> None:
    """Write to most of the memory that is free, so that a virtual machine has got it from its host. Linux only.

    A page that its host has not given it yet costs a virtual machine more than copying it does. Until all have been
    touched, whatever goes on to new memory is slower, and that includes files, which go to the system's cache first.
    """
    try:
        known = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    except OSError:
        return
    size = int(known["MemFree:"]) * 1024 * _TOUCHED // 10
    if size:
        with mmap.mmap(-1, size) as memory:
            for at in range(0, size, mmap.PAGESIZE):
                memory[at] = 1


def seconds(work: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(rounds: int, *works: Callable[[], object]) -> list[list[float]]:
    """Run the works one after the other, ``rounds`` times; each work's seconds, round by round."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, taken in zip(works, times, strict=True):
            taken.append(seconds(work))
    return times


def median_ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the ratios round by round: both sides of each had the same weather."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def report(figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print the figures."""
    if as_json:
        print(json.dumps([to_json(figure) for figure in figures], indent=2))
        return
    width = max((len(figure.name) for figure in figures), default=0)
    for figure in figures:
        line = f"{figure.name:{width}}  {figure.value:12,.1f} {figure.unit:12}"
        if figure.ratio is not None:
            line += f" {figure.ratio:6.2f} x {figure.limit}"
        elif figure.limit:
            line += f" {'':8} {figure.limit}"
        if figure.goal is not None:
            sign = ">=" if figure.at_least else "<="
            line += f"  (goal {sign} {figure.goal:g}: {'reached' if figure.reached else 'NOT reached'})"
        print(line, flush=True)


def say(text: str) -> None:
    """A line about what is being done."""
    print(text, file=sys.stderr, flush=True)
