"""What ranges mean, said plainly: sets of items in logs of every length, and random ranges to try.

Specification: docs/specs/ranges.md, "Terms", "What is denoted".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from culm.bamboo import MAX_U64, lipmaa, spine
from culm.ranges import EMPTY, Range

if TYPE_CHECKING:
    import random

SIZES = range(6)
CORNERS = (1, 2, 3, 4, 5, 12, 13, 14, 39, 40, 41, 121, 18236498188585393201, MAX_U64 - 1, MAX_U64)
Items = frozenset[tuple[object, ...]]


@lru_cache(maxsize=100_000)
def shortest(end: int, start: int) -> tuple[int, ...]:
    """The shortest path from ``end`` down to ``start``, found by breadth-first search."""
    frontier: list[tuple[int, ...]] = [(end,)]
    seen = {end}
    while frontier:
        following = []
        for way in frontier:
            if way[-1] == start:
                return way
            for target in (lipmaa(way[-1]), way[-1] - 1):
                if target >= start and target not in seen:
                    seen.add(target)
                    following.append((*way, target))
        frontier = following
    raise AssertionError


def span(item: Range, newest: int) -> set[int]:
    """The numbers of a range in a log."""
    if item.is_empty or newest < item.start:
        return set()
    end = newest if item.end is None else item.end
    numbers = shortest(end, item.start) if item.sparse else range(item.start, end + 1)
    return {seq for seq in numbers if seq <= newest}


def items(item: Range, newest: int) -> Items:
    """The items, for entries whose payloads could have any of the sizes."""
    return _items(item, min(newest, item.end) if item.end else newest)  # entries behind the end change nothing


@lru_cache(maxsize=1000)  # a law asks for those of a few ranges several times
def _items(item: Range, newest: int) -> Items:
    found: set[tuple[object, ...]] = set()
    for seq in span(item, newest):
        if item.metadata:
            found.add(("m", seq))
        if item.payloads and seq not in item.forbidden:
            found |= _payloads(seq, item.least_size, item.size_limit or 2**64)
    return frozenset(found)


@lru_cache(maxsize=10_000)
def _payloads(seq: int, least: int, limit: int) -> Items:
    return frozenset(("p", seq, size) for size in SIZES if least <= size < limit)


def wanted(item: Range, newest: int) -> Items:
    """The items, and the metadata that verifies them."""
    return _wanted(item, min(newest, spine(item.end)) if item.end else newest)


@lru_cache(maxsize=1000)
def _wanted(item: Range, newest: int) -> Items:
    found = set(items(item, newest))
    if item.metadata and newest >= item.start:
        pool = {seq for seq in shortest(item.start, 1) if seq > item.head_max}
        if item.end is not None:
            tail = shortest(spine(item.end), item.end)
            pool |= {seq for seq in tail if not item.tail_min or seq < item.tail_min}
        found.update(("m", seq) for seq in pool if seq <= newest)
    return frozenset(found)


def a_range(rng: random.Random, most: int = 12, *, open_sparse: bool = True) -> Range:
    """A small range of any kind."""
    if rng.random() < 0.02:
        return EMPTY
    start = rng.randint(1, most)
    end = None if rng.random() < 0.25 else rng.randint(start, most)
    sparse = rng.random() < 0.4 and (open_sparse or end is not None)
    kind = rng.random()
    head, tail = 0, 0
    if rng.random() < 0.3:
        head = rng.choice(shortest(start, 1))
    if end is not None and rng.random() < 0.3:
        tail = rng.choice(shortest(spine(end), end))
    least, limit = (rng.choice((0, 0, 1, 2, 3)), rng.choice((0, 0, 2, 3, 4))) if rng.random() < 0.4 else (0, 0)
    forbidden = [rng.randint(1, most) for _ in range(rng.choice((0, 0, 0, 1, 2, 4)))]
    return Range(
        start,
        end,
        sparse=sparse,
        metadata=kind > 0.2,
        payloads=kind < 0.8,
        least_size=least,
        size_limit=limit,
        forbidden=tuple(forbidden),
        head_max=head,
        tail_min=tail,
    )


def a_large_range(rng: random.Random) -> Range:
    """A range with corners and numbers of any size."""

    def number() -> int:
        if rng.random() < 0.4:
            return rng.choice(CORNERS)
        return rng.randint(1, 2 ** rng.randint(1, 64) - 1)

    start, end = sorted((number(), number()))
    small = a_range(rng)
    return Range(
        start,
        None if rng.random() < 0.3 else end,
        sparse=rng.random() < 0.4,
        metadata=small.metadata or small.is_empty,
        payloads=small.payloads,
        least_size=number() if rng.random() < 0.2 else small.least_size,
        size_limit=number() if rng.random() < 0.2 else small.size_limit,
        forbidden=tuple(rng.randint(start, min(end, start + 300)) for _ in range(rng.choice((0, 0, 1, 5)))),
        head_max=start if rng.random() < 0.1 else 0,
        tail_min=end if rng.random() < 0.1 else 0,
    )
