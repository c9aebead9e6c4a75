"""A router's work: many encoded ranges folded into one interest for each log, on bytes and by decoding each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from bench.harness import Figure, in_turns, median_ratio, say
from culm.ranges import EMPTY, Range, hull, hull_bytes, merge, merge_bytes
from culm.ranges.encoding import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = 10_000
RANGES = 1_000_000
LOGS = 1_000
ROUNDS = 5
GOAL = 2.0


def some_range(rng: random.Random, *, sparse: bool) -> Range:
    """A range without forbidden numbers, of the kinds that nodes ask for."""
    start, kind = rng.randint(1, 100_000), rng.random()
    if kind < 0.1:
        return Range(start, start)
    end = None if kind < 0.4 else start + rng.randint(1, 10_000)
    if 0.8 < kind < 0.9:
        return Range(start, end, size_limit=1_000_000)
    return Range(start, end, sparse=sparse and kind > 0.9)


def by_decoding(a: bytes, b: bytes) -> tuple[bytes, bool]:
    """Merge two ranges the long way."""
    merged, exact = merge(decode(a), decode(b))
    return encode(merged), exact


def run() -> list[Figure]:
    """Measure."""
    say(f"ranges: {PAIRS:,} pairs, {RANGES:,} ranges folded")
    figures = []
    for name, sparse in (("dense", False), ("a tenth sparse", True)):
        rng = random.Random(1)
        encoded = [encode(some_range(rng, sparse=sparse)) for _ in range(2 * PAIRS)]
        pairs = list(zip(encoded[::2], encoded[1::2], strict=True))

        def merging(
            operation: Callable[[bytes, bytes], object], pairs: list[tuple[bytes, bytes]] = pairs
        ) -> Callable[[], None]:
            def work() -> None:
                for a, b in pairs:
                    operation(a, b)

            return work

        on_bytes, decoding, hulls = in_turns(ROUNDS, merging(merge_bytes), merging(by_decoding), merging(hull_bytes))
        limit = f"decode, merge, encode ({name})"
        figures += [
            Figure(limit, min(decoding) / PAIRS * 1e6, "us a pair"),
            Figure(
                f"merge_bytes ({name})",
                min(on_bytes) / PAIRS * 1e6,
                "us a pair",
                f"{limit}: the rate",
                median_ratio(decoding, on_bytes),
                GOAL,
            ),
            Figure(f"hull_bytes ({name})", min(hulls) / PAIRS * 1e6, "us a pair", limit, median_ratio(decoding, hulls)),
        ]
    rng = random.Random(2)
    data = [(rng.randrange(LOGS), encode(some_range(rng, sparse=True))) for _ in range(RANGES)]
    folding, the_long_way = in_turns(1, lambda: fold(data), lambda: fold_decoded(data))
    name = f"{RANGES:,} ranges folded into {LOGS:,}"
    return [
        *figures,
        Figure(f"{name}, decoding each", the_long_way[0] / RANGES * 1e6, "us a range"),
        Figure(
            f"{name}, on bytes",
            folding[0] / RANGES * 1e6,
            "us a range",
            "decoding each: the rate",
            the_long_way[0] / folding[0],
        ),
    ]


def fold(data: list[tuple[int, bytes]]) -> dict[int, bytes]:
    """The interest in each log: the hull of the ranges asked for."""
    interests: dict[int, bytes] = {}
    for log, item in data:
        interests[log] = hull_bytes(interests.get(log, b"\xff"), item)
    return interests


def fold_decoded(data: list[tuple[int, bytes]]) -> dict[int, bytes]:
    """The same, with every range decoded."""
    interests: dict[int, Range] = {}
    for log, item in data:
        interests[log] = hull(interests.get(log, EMPTY), decode(item))
    return {log: encode(item) for log, item in interests.items()}
