"""Folding generations of a state into one, so that a state to which is added every few seconds stays small and quick.

Each run adds a generation (``state``), and leaves segments in earlier ones that are no longer in use. After a hundred
runs a day of small batches would be mostly such leftovers, and each run would open hundreds of files. Writing the whole
state anew each time would cost more than verifying it. So generations are folded as in a log-structured tree: the
newest ones, as far back as each is no larger than twice all that came after it. A generation is therefore folded with
others only when these have grown to half its size, and each entry is copied a few times, however many runs there are.

Only the newest generations can be folded, because the latest generation that has a log is right about it. Folders that
are no longer part of the state are removed by the next run, so that a program that reads them now can go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from shutil import rmtree

from pyspark.sql import SparkSession

from culm.spark.runtime.engine import Engine
from culm.spark.runtime.here import Here
from culm.spark.runtime.onspark import OnSpark
from culm.spark.verification.merge import IndexRow
from culm.spark.verification.state import State
from culm.spark.verification.steps import SegmentRow

# Generations are folded when there are so many to fold. Fewer would be copied more often; with more of them, each run
# opens more files.
FEWEST = 8

# Up to so many bytes of files are folded in this process: a second of work, in which Spark would hardly have begun. All
# that is still in use of them is in memory at once; most of it is not, where batches are small.
_HERE_BYTES = 256 * 1024 * 1024


def fold(state: State, spark: SparkSession | None) -> None:
    """Fold generations of a state, if it is time to. The state knows the same before and after it.

    Much is folded on ``spark``; with None everything is folded in this process.
    """
    sizes = {number: _bytes(state, number) for number in state.generations}
    chosen = foldable(sizes)
    if len(chosen) < FEWEST:
        return
    place = state.begin()
    is_small = sum(sizes[number] for number in chosen) <= _HERE_BYTES
    engine: Engine = Here() if is_small or spark is None else OnSpark(spark, place / "work")
    number = state.next_number
    part = replace(state, generations=chosen)
    index = part.index(engine)
    renumbering = partial(_renumbered, chosen=frozenset(chosen), number=number)
    index.keep(renumbering, IndexRow, at={IndexRow: place / "index"})
    segments = part.segments(engine, index, SegmentRow).select(SegmentRow, outcome=None, made=None)
    segments.kept(place / "segments")
    rmtree(place / "work", ignore_errors=True)
    state.replace(chosen, number)


def foldable(sizes: dict[int, int]) -> list[int]:
    """The newest generations that are to be folded, in order. ``sizes``: those of all generations, in order."""
    chosen: list[int] = []
    total = 0
    for number, size in reversed(sizes.items()):
        if chosen and size > 2 * total:
            break
        chosen.append(number)
        total += size
    return chosen[::-1]


def _bytes(state: State, number: int) -> int:
    return sum(path.stat().st_size for path in state.place(number).rglob("*.parquet"))


def _renumbered(rows: Iterable[IndexRow], *, chosen: frozenset[int], number: int) -> Iterator[IndexRow]:
    return (row._replace(made=number) if row.made in chosen else row for row in rows)
