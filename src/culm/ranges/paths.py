"""Shortest paths between sequence numbers, as ranges use them (docs/specs/ranges.md, "Terms").

Links never cross. So a piece of a path between two of its members is itself the path between them, and a path that
jumps over a number lands on that number's path to 1. Therefore walking one path answers every question here, and no
path has to be stored. A path has at most about 200 steps, up to 2^64 - 1 and the spine number above it.
"""

from collections.abc import Callable
from itertools import takewhile

from culm.bamboo import MAX_U64, lipmaa, path, spine

__all__ = ["lipmaa", "meet_head", "meet_tail", "next_on_path", "on_path", "path", "spine", "step", "unavoidable"]


def step(seq: int, goal: int) -> int:
    """The next number on the shortest path from ``seq`` down to ``goal``; ``goal`` must be below ``seq``."""
    jump = lipmaa(seq)
    return jump if jump >= goal else seq - 1


def on_path(seq: int, end: int, start: int) -> bool:
    """Whether a number is on the path from ``end`` down to ``start``."""
    if not start <= seq <= end:
        return False
    at = end
    while at > seq:
        at = step(at, start)
    return at == seq


def next_on_path(seq: int, end: int, start: int) -> int:
    """The least number on the path from ``end`` down to ``start`` that is not below ``seq`` (at most ``end``)."""
    at = end
    while at > start and (below := step(at, start)) >= seq:
        at = below
    return at


def unavoidable(seq: int, goal: int) -> bool:
    """Whether ``seq`` is on the path to ``goal`` from every number above, and so on every open sparse range's path."""
    return goal <= seq and on_path(seq, spine(seq), goal)


def meet_head(head: int, start: int) -> int:
    """The largest number on the paths to 1 of both ``head`` and ``start``; 0 if ``head`` is 0 (no limit)."""
    while head and head != start:
        if head > start:
            head = lipmaa(head)
        else:
            start = lipmaa(start)
    return head


def meet_tail(tail: int, end: int) -> int:
    """The least number on the paths from their spine numbers down to ``tail`` and to ``end``.

    0 if there is none below 2^64, or ``tail`` is 0 (no limit).
    """
    if not tail or spine(tail) != spine(end):
        return 0
    shared = set(path(spine(tail), tail))
    meeting = min(seq for seq in path(spine(end), end) if seq in shared)
    return meeting if meeting <= MAX_U64 else 0


def last_before_gap(numbers: list[int], held: Callable[[int], bool]) -> int:
    """The last of the numbers before the first that is not held; 0 if the first is not."""
    return [0, *takewhile(held, numbers)][-1]
