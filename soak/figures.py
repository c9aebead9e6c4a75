"""Whether memory and file handles stayed as they were.

A node that lives from beginning to end is compared with itself: the first third of the run, less the first tenth, in
which it warms up, against the last third. Nodes that are started again and again are compared at equal ages: what they
used so many seconds after a start in the first third, against the same after a start in the last third.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from soak.nodes import SoakNode, Usage

MOST_GROWTH = 1.1  # memory of the last third against the first
MOST_HANDLES = 5  # that may be open more, or less
_WARM_SHARE = 0.1  # of the run, that does not count for a node that lives all of it
_WARM_SECONDS = 20.0  # of each life, that do not count for the others
_AGE_STEP = 20.0  # seconds of age that are compared as one


@dataclass(frozen=True)
class Verdict:
    """What a node used in the first and the last third: bytes, and open files; None if there is nothing to compare."""

    name: str
    how: str
    memory: tuple[float, float] | None
    handles: tuple[float, float] | None

    @property
    def growth(self) -> float | None:
        """The memory of the last third, as a multiple of the first."""
        return None if self.memory is None else self.memory[1] / self.memory[0]

    @property
    def good(self) -> bool:
        """Whether both stayed within limits; also if there was nothing to compare."""
        if self.memory is None or self.handles is None:
            return True
        return self.memory[1] <= MOST_GROWTH * self.memory[0] and abs(self.handles[1] - self.handles[0]) <= MOST_HANDLES

    def text(self) -> str:
        """A line for people."""
        if self.memory is None or self.handles is None:
            return f"{self.name}: too short a run to compare ({self.how})"
        (first, last), (opened, opened_last) = self.memory, self.handles
        return (
            f"{self.name}: memory {first / 2**20:.1f} -> {last / 2**20:.1f} MiB ({last / first:.2f} x, limit"
            f" {MOST_GROWTH}), handles {opened:.0f} -> {opened_last:.0f} (limit +-{MOST_HANDLES}), {self.how}:"
            f" {'within' if self.good else 'NOT within'} limits"
        )


def verdict(node: SoakNode, began: float, ended: float) -> Verdict:
    """Compare what a node used; the times are those of the run, by the monotonic clock."""
    third = (ended - began) / 3
    if node.life == 1:
        first = [usage for usage in node.usages if began + 3 * third * _WARM_SHARE <= usage.at < began + third]
        last = [usage for usage in node.usages if ended - third <= usage.at < ended]
        how = "one life, first third against last"
        if not first or not last:
            return Verdict(node.name, how, None, None)
        return Verdict(node.name, how, *(_means(first, last)))
    return _at_equal_ages(node, began + third, ended - third)


def tenths(node: SoakNode, began: float, ended: float) -> list[float]:
    """The mean memory in each tenth of the run, in MiB; those in which the node did not run are left out."""
    found: dict[int, list[int]] = defaultdict(list)
    for usage in node.usages:
        if began <= usage.at < ended:
            found[int(10 * (usage.at - began) / (ended - began))].append(usage.memory)
    return [statistics.fmean(found[tenth]) / 2**20 for tenth in sorted(found)]


def _means(first: Sequence[Usage], last: Sequence[Usage]) -> tuple[tuple[float, float], tuple[float, float]]:
    memory = (
        statistics.fmean(usage.memory for usage in first),
        statistics.fmean(usage.memory for usage in last),
    )
    handles = (
        statistics.median(usage.handles for usage in first),
        statistics.median(usage.handles for usage in last),
    )
    return memory, handles


def _at_equal_ages(node: SoakNode, early: float, late: float) -> Verdict:
    started = {usage.life: usage.at - usage.age for usage in node.usages}
    first = _by_age(usage for usage in node.usages if started[usage.life] < early)
    last = _by_age(usage for usage in node.usages if started[usage.life] >= late)
    common = sorted(first.keys() & last.keys())
    how = f"{node.life} lives, at equal ages"
    if not common:
        return Verdict(node.name, how, None, None)
    pairs = [_means(first[age], last[age]) for age in common]
    memory = tuple(statistics.fmean(of_age[0][side] for of_age in pairs) for side in (0, 1))
    handles = tuple(statistics.median(of_age[1][side] for of_age in pairs) for side in (0, 1))
    how += f" from {common[0] * _AGE_STEP:.0f} to {(common[-1] + 1) * _AGE_STEP:.0f} s"
    return Verdict(node.name, how, (memory[0], memory[1]), (handles[0], handles[1]))


def _by_age(usages: Iterable[Usage]) -> dict[int, list[Usage]]:
    found: dict[int, list[Usage]] = defaultdict(list)
    for usage in usages:
        if usage.age >= _WARM_SECONDS:
            found[int(usage.age / _AGE_STEP)].append(usage)
    return found
