"""Verifying entries with Spark: the verdicts of a node's store, for more logs than one machine can hold.

The verdict on an entry depends on its whole log: the entry needs a path of links down to entry 1, and no fork may lie
below it. The simple way is to bring each log to one worker, which walks it from entry 1. That fails as soon as one log
is large: a log with half of all entries keeps one worker busy while the others wait, and may not fit into its memory.
Joining entries with the entries they link to has no such limit, but shuffles every entry twice.

So a log is cut into *blocks* of 4,096 sequence numbers (``batches.pack``), which are verified apart from each
other. That works because links never cross (``culm.bamboo.lipmaa``): few links leave a block, however many entries it
has. Of the entries 4096 to 8191, for example, all links that lead out of the block go to the five entries 3280, 4008,
4088, 4092 and 4095. What the block expects of these, and what it offers to the blocks above, is its *summary*: a few
kilobytes at most. Only the summaries of a log meet in one task.

Four steps, each a function from rows to rows::

    packs       bytes -> packs of entries of one block of a log, and rejects    gather
    segments    each entry once; hashes, signatures, links within the block     shuffle by block; segment
    outcomes    paths and forks between the segments of a log                   shuffle of summaries; merge
    judged      verdicts, a row for each entry                                  small join; verdicts

``Verification`` puts them together for either engine (``runtime.engine``), ``Increment`` on top of what an earlier run
left (``state``). Two steps use the segments. They must not be made twice, because that would check every signature
twice, and give two answers if inputs change meanwhile; so the engine keeps them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from culm.errors import ConfigError
from culm.spark.reading.found import EntryRow
from culm.spark.reading.inputs import Split
from culm.spark.runtime.columns import Row
from culm.spark.runtime.engine import Engine, Step, Table, To
from culm.spark.runtime.onspark import OnSpark, fitted, frame_of
from culm.spark.runtime.session import silent
from culm.spark.runtime.shell import Job, size_of
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.gather import PackRow, Reject, gather
from culm.spark.verification.merge import BLOCK, LOG, SEGMENT, IndexRow, SegmentRow, grouped, merge_logs, sums
from culm.spark.verification.segment import reloaded, segmented, told_apart, vouched
from culm.spark.verification.state import State
from culm.spark.verification.verdicts import JudgedRow, Verdict, pronounced

# Bounds for the number of tasks of a step. At least so many that all cores have work, even if most of the inputs'
# bytes are payloads and there are few entries; at most so many that Spark does not mostly start tasks.
_FEWEST_TASKS, _MOST_TASKS = 8, 2000

# Bytes of the inputs whose entries one task verifies: a second or two of work. With heads there are far fewer
# signatures to check, so the same time takes more bytes. Longer tasks leave cores idle at the end of the step.
_JUDGED_BYTES = {Signatures.STRICT: 4 * 1024 * 1024, Signatures.HEADS: 16 * 1024 * 1024}

# Bytes of the inputs whose logs one task settles. Only summaries are read for that, a small part of these bytes.
_MERGED_BYTES = 64 * 1024 * 1024


def verify(entries: DataFrame, *, signatures: str = "all") -> DataFrame:
    """The verdict on every distinct entry.

    ``entries`` is what ``read_entries`` or ``spark.read.format("culm")`` gives, or any DataFrame with a binary column
    ``encoded``; the other columns may be missing. Rows that are not entries are left out: see ``rejects``.
    ``signatures`` is ``all`` or ``heads`` (``segment``). ``ConfigError`` if the column is missing or
    ``signatures`` is something else.

    ============  =============  ==================================================================================
    author        BINARY         32 bytes
    log_id        DECIMAL(20,0)
    seqnum        DECIMAL(20,0)
    entry_hash    BINARY         YAMF-hash, 66 bytes
    size          DECIMAL(20,0)  of the payload, as the entry claims
    payload_hash  BINARY         66 bytes
    is_end        BOOLEAN        whether the entry ends its log
    payload       STRING         what is known of the payload from all copies (``batches.payload.STATES``)
    verdict       STRING         ``verified``, ``unverified`` or ``invalid``
    certified     BOOLEAN        whether all of the entry's certificate pool is verified, as far as the log reaches
    reason        STRING         why not verified; null if it is
    copies        BIGINT         how many rows held this entry
    ============  =============  ==================================================================================

    Lazy, as DataFrames are. The first action keeps the segments on disk until the session ends or its cache is
    cleared, so that later actions check no signature again.
    """
    return frame_of(verified(entries, signatures=signatures).judged().map(pronounced, Verdict))


def rejects(entries: DataFrame) -> DataFrame:
    """What ``verify`` leaves out: ``source``, ``offset`` and ``reason`` of everything that could not be read."""
    return frame_of(OnSpark(entries.sparkSession).made(entries_of(entries), gather, Reject))


def verified(entries: DataFrame, *, signatures: str = "all", keep: bool = False) -> "Verification":
    """The verification of a DataFrame as ``verify`` takes it, for further steps such as ``forks.forks``.

    ``keep``: the segments have their entries, which proofs and selections need.
    """
    engine = OnSpark(entries.sparkSession)
    found = Verification(engine, Signatures(signatures), keep=keep)
    found.take(engine.made(entries_of(entries), gather, PackRow))
    return found


def entries_of(entries: DataFrame) -> DataFrame:
    """The columns of entries as they are read; those that are missing are null. ``ConfigError`` without ``encoded``."""
    if "encoded" not in entries.columns:
        raise ConfigError("a DataFrame of entries needs a binary column 'encoded'")
    return fitted(entries, EntryRow, payload=None)


class Verification:
    """One verification. Call ``read`` or ``take`` first.

    ``keep``: the segments have their entries.
    """

    segments: Table[SegmentRow]
    outcomes: Table[IndexRow]
    rejects: Table[Reject]

    _size: int | None = None
    """How many bytes the inputs have, from which the number of tasks follows; None leaves that to Spark."""

    def __init__(self, engine: Engine, signatures: Signatures, *, keep: bool = False) -> None:
        self.engine, self.signatures, self._keep = engine, signatures, keep
        self._at: Mapping[type[Row], Path] = {}  # the folder of the segments, if they stay

    def read(self, run: Job, splits: list[Split]) -> None:
        """Read some inputs and take them. What could not be read stands in ``rejects`` of the job's folder."""
        run.say_reading(splits)
        self._size = size_of(splits)
        step = partial(gather, folder=self.engine.shelf("packs"))
        packs, self.rejects = self.engine.read(splits, step, PackRow, Reject, at={Reject: run.folder / "rejects"})
        self.take(packs, run.say)

    def take(self, packs: Table[PackRow], say: Callable[[str], None] = silent) -> None:
        """Make the segments of some packs, then their outcomes: what has a path to entry 1, and where logs are invalid.

        ``say`` is called with a line between the two.
        """
        shelf = None if self._at else self.engine.shelf("findings")  # files that stay hold all bytes themselves
        step = partial(segmented, signatures=self.signatures, keep=self._keep, folder=shelf)
        together = packs.spread(BLOCK, tasks=self._tasks(_JUDGED_BYTES[self.signatures]))
        if self.signatures is Signatures.STRICT:
            (self.segments,) = together.keep(step, SegmentRow, at=self._at)
        else:
            self.segments, unsure = together.keep(step, SegmentRow, IndexRow)
            if not unsure.is_empty:  # judge those again whose entries a higher segment of the log may vouch for
                of_logs = self._every(SegmentRow).among(unsure, LOG).spread(LOG, ("-low",))
                (settled,) = of_logs.keep(partial(vouched, folder=shelf), SegmentRow)
                self.segments = self.segments.among(unsure, LOG, "anti").union(settled)
            for place in self._at.values():
                self.segments = self.segments.kept(place)
        self.engine.free("packs")
        say("looking for paths and forks, log by log")
        summaries = self._every(IndexRow).spread(LOG, ("low",), self._tasks(_MERGED_BYTES))
        (self.outcomes,) = summaries.keep(merge_logs, IndexRow)

    def _every(self, table: type[To]) -> Table[To]:
        """The segments of this verification, and what a state has of the same logs, as rows of another table."""
        return self.segments.select(table)

    def _tasks(self, of_bytes: int) -> int | None:
        """How many tasks a step needs if each does this many bytes of the inputs."""
        return None if self._size is None else min(max(_FEWEST_TASKS, self._size // of_bytes), _MOST_TASKS)

    def judged(self) -> Table[JudgedRow]:
        """The segments whose verdicts are new or may have changed."""
        return self.outcomes.join(self.segments, SEGMENT, JudgedRow)

    def pronounce(self, folder: Path, step: Step = pronounced, table: type[Row] = Verdict) -> dict[str, int]:
        """Write the verdicts into a new folder; the counts of all verdicts, and how many logs are forked.

        ``step`` makes rows of ``table`` of them, and ``IndexRow``.
        """
        _, counts = self.judged().keep(step, table, IndexRow, at={table: folder})
        return self._totals(counts)

    def _totals(self, counts: Table[IndexRow]) -> dict[str, int]:
        return {**sums(counts), "forks": forked_logs(self.outcomes), "rejects": self.rejects.count()}

    def forked(self) -> tuple[Table[Any], Table[IndexRow]]:
        """The segments, with entries, among which are those of all forked logs, and their outcomes."""
        return self.segments, self.outcomes


class Increment(Verification):
    """A verification on top of a state. The new generation becomes part of the state with ``State.commit``.

    ``place``: the folder of that generation, if ``State.begin`` has been called already. ``size``: of inputs that are
    not read here, in bytes.
    """

    def __init__(self, engine: Engine, state: State, *, size: int | None = None, place: Path | None = None) -> None:
        super().__init__(engine, Signatures(state.signatures), keep=True)
        self._state, self._number, self._size = state, state.next_number, size
        self._place = place or state.begin()
        self._at = {SegmentRow: self._place / "segments"}

    def take(self, packs: Table[PackRow], say: Callable[[str], None] = silent) -> None:
        """Merge new packs with the segments that they overlap."""
        self._live = self._state.index(self.engine, packs)
        self._stay: Table[IndexRow] = self.engine.load([], IndexRow, "generation")
        if self._state.generations:
            near = packs.select(IndexRow).union(self._live).spread(BLOCK)
            rule = partial(told_apart, heads=self.signatures is Signatures.HEADS)
            (known,) = near.keep(rule, IndexRow)
            self._stay, again = known.where("generation"), known.where("previous")
            packs = packs.union(self._state.segments(self.engine, again, SegmentRow).map(reloaded, PackRow))
        super().take(packs, say)

    def _every(self, table: type[To]) -> Table[To]:
        return self.segments.select(table, made=self._number).union(self._stay.select(table))

    def judged(self) -> Table[JudgedRow]:
        """The segments that are new, and those of the state that have another outcome than before."""
        changed = self.outcomes.map(lambda rows: (row for row in rows if row.outcome != row.previous), IndexRow)
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
        return dict(totals)

    def forked(self) -> tuple[Table[Any], Table[IndexRow]]:
        """The segments of all forked logs that the state knows with this run, and their outcomes."""
        return self._state.grown.forked(self.engine)


def _overlaid(rows: Iterable[IndexRow]) -> Iterator[IndexRow]:
    """What is known of each segment, from rows that each have a part of it: the first value of a column counts."""
    for _, of_segment in grouped(rows, SEGMENT):
        columns = zip(*of_segment, strict=True)
        yield IndexRow._make(next((cell for cell in column if cell is not None), None) for column in columns)


def forked_logs(table: Table[Any]) -> int:
    """How many forked logs a kept table with the columns ``author``, ``log`` and ``forked_at`` has."""
    forked = (batch.drop_null().select(LOG).to_pylist() for batch in table.batches(*LOG, "forked_at"))
    return len({tuple(row.values()) for rows in forked for row in rows})
