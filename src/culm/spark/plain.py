"""The second engine: the verification in this process, without Spark, for inputs that are not worth a cluster.

Spark takes ten seconds to start and some seconds for each table. A store of a few thousand entries, or a day's worth on
top of a large state, is verified in less time than that. Spark is needed where the inputs do not fit into one
process. So there are two engines, and the size of the inputs decides (``SMALL_BYTES``).

Two engines must not give two answers. The steps are therefore the same functions from rows to rows in both. The Spark
engine (``culm.spark.job``, ``culm.spark.incremental``) runs them in tasks, with shuffles between them; here they run
over lists, with sorts between them. The tables that come out have the same rows, and either engine can go on from a
state of the other.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from culm.spark.columns import Columns
from culm.spark.forks import FORKS, JUDGED_FORKS, proofs, witnesses
from culm.spark.gather import PACKS, gather
from culm.spark.incremental import LOADED, MOST_SEGMENTS, reloaded
from culm.spark.merge import merge_logs
from culm.spark.output import new_file, whole_table, write_file, write_rows
from culm.spark.prefixes import PREFIXES, joined, stretches
from culm.spark.reading import split_batches
from culm.spark.segment import Signatures
from culm.spark.state import INDEX
from culm.spark.steps import (
    COUNTS,
    JUDGED,
    SEGMENTS,
    VERDICTS,
    is_unsure,
    pronounced_and_counted,
    segment_rows,
    vouched_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from culm.spark.inputs import Split
    from culm.spark.state import State

    Row = tuple[Any, ...]
    Segment = tuple[bytes, int, int]  # author, log and low

SMALL_BYTES = 32 * 1024 * 1024
"""Inputs up to about this size are verified without Spark, unless a master is named.

All their entries are in this process's memory at once, on one core. With a much larger value Spark's start would be
the smaller cost; with a much smaller one a user would wait for Spark's start for nothing.
"""

REJECTS = Columns(source="STRING", offset="BIGINT", reason="STRING")
_PLACE = slice(3, 7)  # author, log, block and low of ``SEGMENTS``


def is_small(splits: Iterable[Split]) -> bool:
    """Whether these inputs are small enough for this engine."""
    return sum(piece.size for split in splits for piece in split) <= SMALL_BYTES


class PlainRun:
    """One run, with a state or without; ``folder`` gets the results.

    Call ``take`` first, then ``merge``, then ``write_verdicts`` and ``totals``, or ``write_prefixes``; ``write_forks``
    any time after ``merge``.
    """

    def __init__(self, signatures: Signatures, state: State | None, folder: Path) -> None:
        self._signatures = signatures
        self._state = state
        self._folder = folder
        self._live: list[Row] = []  # the state's index of the logs that the inputs touch
        self._stay: dict[Segment, Row] = {}  # the rows of it whose segments get no new entries
        self._made: list[Row] = []  # the segments of this run, as ``SEGMENTS``
        self._outcomes: dict[Segment, tuple[bytes, int | None]] = {}
        self._counts: dict[Segment, Row] = {}
        self._place: Path | None = None

    def take(self, splits: list[Split]) -> int:
        """Read the inputs, make their segments, and write the rejects; returns how many rejects there are."""
        packs = list(PACKS.rows(gather(chain.from_iterable(map(split_batches, splits)))))
        rejects = sorted(row[:3] for row in packs if row[3] is None)
        write_rows(rejects, REJECTS, self._folder / "rejects")
        packs = [row for row in packs if row[3] is not None]
        if self._state is not None:
            self._place = self._state.begin()
            packs += self._overlapped(packs)
        packs.sort(key=lambda row: row[3:6])
        self._made = self._settled(segment_rows(packs, self._signatures, keep=True))
        return len(rejects)

    def _settled(self, segments: Iterable[Row]) -> list[Row]:
        """New segments, judged again if a higher segment vouches for entries of theirs. For ``HEADS`` only."""
        if self._signatures is Signatures.STRICT:
            return list(segments)
        stay = ((None, None, None, *row[:5], row[6], None, None) for row in self._stay.values())
        rows = sorted(chain(segments, stay), key=lambda row: (*row[3:5], -row[6]))
        return sorted(vouched_rows(rows), key=itemgetter(3, 4, 6))

    def _overlapped(self, packs: list[Row]) -> Iterator[Row]:
        """The segments of the state that the packs overlap, as packs; notes those that stay.

        ``culm.spark.incremental`` has the same rules as joins, and the reasons for them.
        """
        assert self._state is not None  # noqa: S101 - called with a state only
        hulls: dict[Row, tuple[int, int]] = {}  # lowest and highest new number of each block
        for row in packs:
            low, high = hulls.get(row[3:6], row[6:8])
            hulls[row[3:6]] = min(low, row[6]), max(high, row[7])
        live = self._live = self._state.index_of({block[:2] for block in hulls})
        crowds: dict[Row, int] = {}  # segments of each block
        for row in live:
            crowds[row[:3]] = crowds.get(row[:3], 0) + 1
        overlapped: dict[tuple[bytes, int, int, int], bytes] = {}
        for row in live:
            author, log, block, low, high, made, _, outcome = row[:8]
            hull = hulls.get((author, log, block))
            near = hull is not None and low <= hull[1] and high >= hull[0]
            heads = self._signatures is Signatures.HEADS
            whole = heads or crowds[author, log, block] >= MOST_SEGMENTS
            if near or (hull is not None and whole) or (heads and is_unsure(row[6])):
                overlapped[author, log, low, made] = outcome
            else:
                self._stay[author, log, low] = row
        loaded = self._state.segments_of(overlapped.keys(), LOADED.names[:-1])
        return reloaded((*row, overlapped[key]) for key, row in loaded)

    def merge(self) -> None:
        """Find the outcomes of the touched logs."""
        summaries = [(row[3], row[4], row[6], row[8]) for row in self._made]
        summaries += [(author, log, low, row[6]) for (author, log, low), row in self._stay.items()]
        for author, log, low, outcome, forked_at in merge_logs(sorted(summaries)):
            self._outcomes[author, log, low] = outcome, forked_at

    def write_verdicts(self) -> None:
        """Write the verdicts: all of them without a state, else those that are new or have changed."""
        folder = self._folder / "verdicts"
        folder.mkdir()
        judged = ((row[3], row[4], row[6], row[8], row[9], self._outcome(row), None) for row in self._made)
        batches = JUDGED.batches(chain(judged, self._judged_again()))
        counts = write_file(pronounced_and_counted(batches), VERDICTS, new_file(folder))
        whole_table(VERDICTS, folder)
        self._counts = {row[:3]: row[3:] for row in counts}

    def _outcome(self, row: Row) -> bytes:
        return self._outcomes[row[3], row[4], row[6]][0]

    def _judged_again(self) -> Iterator[Row]:
        """The segments that got no new entries, but have another outcome than before."""
        changed = {(*key, row[5]): row[7] for key, row in self._stay.items() if row[7] != self._outcomes[key][0]}
        if self._state is None or not changed:
            return
        for key, row in self._state.segments_of(changed.keys(), JUDGED.names[:5]):
            yield (*row, self._outcomes[key[:3]][0], changed[key])

    def totals(self) -> dict[str, int]:
        """The counts of all verdicts, those of the state included. With a state this also writes the new generation.

        Call ``write_verdicts`` first, which counts them.
        """
        names = COUNTS.names[3:]
        if self._state is None or self._place is None:
            sums = [sum(column) for column in zip(*self._counts.values(), strict=True)] or [0] * len(names)
            return {**dict(zip(names, sums, strict=True)), "forks": self._forks()}
        number = self._state.next_number
        index = [
            (*row[3:8], number, row[8], *self._outcomes[row[3], row[4], row[6]], *self._counts[row[3], row[4], row[6]])
            for row in self._made
        ]
        for key, row in self._stay.items():
            index.append((*row[:7], *self._outcomes[key], *self._counts.get(key, row[9:])))
        write_rows(self._made, SEGMENTS, self._place / "segments")
        write_rows(index, INDEX, self._place / "index")
        totals = {name: self._state.totals.get(name, 0) for name in (*names, "forks")}
        for rows, sign in ((self._live, -1), (index, 1)):
            for row in rows:
                for name, value in zip(names, row[9:], strict=True):
                    totals[name] += sign * value
        totals["forks"] += self._forks() - len({row[:2] for row in self._live if row[8] is not None})
        return totals

    def _forks(self) -> int:
        return len({key[:2] for key, (_, forked_at) in self._outcomes.items() if forked_at is not None})

    def write_forks(self) -> None:
        """Write the proofs of forks; with a state those of all forked logs that it knows."""
        rows = [
            (row[3], row[4], row[8], row[9], row[10], outcome)
            for row in self._made
            for outcome, forked_at in (self._outcomes[row[3], row[4], row[6]],)
            if forked_at is not None
        ]
        if self._state is not None:
            rows += self._forked_before()
        found = sorted(witnesses(rows), key=lambda row: (*row[:2], row[3], row[4] or b""))
        write_rows(proofs(found), FORKS, self._folder / "forks")

    def write_prefixes(self) -> None:
        """Write how far each log of the inputs can be trusted."""
        rows = [(row[3], row[4], row[8], row[9], self._outcome(row)) for row in self._made]
        found = sorted(stretches(rows), key=lambda row: (*row[:2], row[2] is not None, row[2]))
        write_rows(joined(found), PREFIXES, self._folder / "logs")

    def _forked_before(self) -> Iterator[Row]:
        assert self._state is not None  # noqa: S101 - called with a state only
        touched = {key[:2] for key in self._outcomes}
        forked = {
            (*key, row[5]): self._outcomes[key][0]
            for key, row in self._stay.items()
            if self._outcomes[key][1] is not None
        }
        for row in self._state.index_of(forked=True):
            if row[:2] not in touched:
                forked[row[0], row[1], row[3], row[5]] = row[7]
        for key, row in self._state.segments_of(forked.keys(), JUDGED_FORKS.names[:-1]):
            yield (*row, forked[key])
