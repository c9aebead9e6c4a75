"""How a state grows: one more run on top of it (``state`` explains what that reads again), and folding what runs add.

Each run adds a generation (``state``), and leaves segments in earlier ones that are no longer in use. After a hundred
runs a day of small batches would be mostly such leftovers, and each run would open hundreds of files. Writing the whole
state anew each time would cost more than verifying it. So generations are folded as in a log-structured tree: the
newest ones, as far back as each is no larger than twice all that came after it. A generation is therefore folded with
others only when these have grown to half its size, and each entry is copied a few times, however many runs there are.

Only the newest generations can be folded, because the latest generation that has a log is right about it. Folders that
are no longer part of the state are removed by the next run, so that a program that reads them now can go on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from shutil import rmtree
from typing import Any

from pyspark.sql import SparkSession

from culm.spark.batches.pack import Pack
from culm.spark.runtime.engine import Engine, Table, To
from culm.spark.runtime.onspark import OnSpark
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.gather import PackRow
from culm.spark.verification.merge import IndexRow
from culm.spark.verification.segment import Summary
from culm.spark.verification.state import State
from culm.spark.verification.steps import BLOCK, SEGMENT, JudgedRow, SegmentRow, judged
from culm.spark.verification.verify import Verification, forked_logs, sums

# Segments that a block may have. New entries that overlap none of them become a segment of their own, so that a log
# that grows daily costs what is new. Each segment costs a summary that is read whenever its log changes, though. From
# this many on, all segments of a block are merged into one when the block is next added to.
MOST_SEGMENTS = 8


class Increment(Verification):
    """A verification on top of a state. The new generation becomes part of the state with ``State.commit``.

    ``place``: the folder of that generation, if ``State.begin`` has been called already.
    """

    def __init__(self, engine: Engine, state: State, *, size: int | None = None, place: Path | None = None) -> None:
        super().__init__(engine, Signatures(state.signatures), keep=True, size=size)
        self._state, self._number = state, state.next_number
        self._place = place or state.begin()
        self._at = {SegmentRow: self._place / "segments"}

    def take(self, packs: Table[PackRow]) -> None:
        """Merge new packs with the segments that they overlap."""
        self._live = self._state.index(self.engine, packs)
        self._stay: Table[IndexRow] = self.engine.load([], IndexRow, "generation")
        if self._state.generations:
            near = packs.select(IndexRow).union(self._live).spread(BLOCK)
            rule = partial(_told_apart, heads=self.signatures is Signatures.HEADS)
            (known,) = near.keep(rule, IndexRow)
            self._stay, again = known.where("generation"), known.where("previous")
            packs = packs.union(self._state.segments(self.engine, again, SegmentRow).map(reloaded, PackRow))
        super().take(packs)

    def _every(self, table: type[To]) -> Table[To]:
        return self.segments.select(table, made=self._number).union(self._stay.select(table))

    def judged(self) -> Table[JudgedRow]:
        """The segments that are new, and those that stay but have another outcome than before."""
        changed = self.outcomes.map(partial(_changed, number=self._number), IndexRow)
        return super().judged().union(self._state.segments(self.engine, changed, JudgedRow))

    def _totals(self, counts: Table[IndexRow]) -> dict[str, int]:
        """Write the new index. The counts are not added up anew from all entries.

        Those of the touched logs as they were are taken away from the state's, and those as they are now are added.
        """
        parts = self.outcomes.union(counts).select(IndexRow, generation=self._number, previous=None)
        # Those without ``made`` come first: new counts take the place of those that a segment had.
        (index,) = parts.spread(SEGMENT, ("made",)).keep(_overlaid, IndexRow, at={IndexRow: self._place / "index"})
        totals = Counter(self._state.totals)
        totals.update({**sums(index), "forks": forked_logs(index), "rejects": self.rejects.count()})
        totals.subtract({**sums(self._live), "forks": forked_logs(self._live)})
        if self._state.generations and "certified" not in self._state.totals:
            del totals["certified"]  # the state is of an earlier version, which did not count it
        return dict(totals)

    def forked(self) -> tuple[Table[Any], Table[IndexRow]]:
        """The segments of all forked logs that the state knows with this run, and their outcomes."""
        return self._state.with_next().forked(self.engine)


def _told_apart(rows: Iterable[IndexRow], *, heads: bool) -> Iterator[IndexRow]:
    """Which segments the packs of their block overlap. Rows come sorted by block; those of packs have no ``made``.

    Segments that stay keep their ``generation``. Those that are merged with packs leave it, and have ``previous``.

    With ``heads`` packs overlap all segments of their block, because which signatures count depends on the whole
    block: a new entry may vouch for one that was a head before. Otherwise the order of the runs would matter. For the
    same reason they overlap all segments of the log that have a head with a bad signature.
    """
    for _, of_block in groupby(rows, key=attrgetter(*BLOCK)):
        every = list(of_block)
        new, old = [row for row in every if row.made is None], [row for row in every if row.made is not None]
        low, high = min((row.low for row in new), default=0), max((row.high or 0 for row in new), default=0)
        for row in old:
            near = row.low <= high and (row.high or 0) >= low
            touched = new and (near or heads or len(old) >= MOST_SEGMENTS)
            if touched or (heads and row.summary and Summary.decode(row.summary).unsigned):
                yield row._replace(generation=None, previous=row.outcome)
            else:
                yield row


def reloaded(rows: Iterable[SegmentRow]) -> Iterator[PackRow]:
    """Segments become packs again. Each entry remembers its verdict, to find what changes."""
    for row in rows:
        pack = Pack.decode(row.packed or b"")
        pack.before[pack.is_entry] = judged(row).said
        yield PackRow(row.author, row.log, row.block, row.low, row.high, pack.encode())


def _changed(rows: Iterable[IndexRow], *, number: int) -> Iterator[IndexRow]:
    return (row for row in rows if row.made != number and row.outcome != row.previous)


def _overlaid(rows: Iterable[IndexRow]) -> Iterator[IndexRow]:
    """What is known of each segment, from rows that each have a part of it: the first value of a column counts."""
    for _, of_segment in groupby(rows, key=attrgetter(*SEGMENT)):
        columns = zip(*of_segment, strict=True)
        yield IndexRow._make(next((cell for cell in column if cell is not None), None) for column in columns)


# -- folding --------------------------------------------------------------------------------------------------------

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
    engine = Engine() if is_small or spark is None else OnSpark(spark, place / "work")
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
