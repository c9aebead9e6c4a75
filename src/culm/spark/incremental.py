"""One more run on top of a state, on Spark: what it reads again, and what it adds (``culm.spark.state`` explains why).

``culm.spark.plain`` does the same without Spark. Both must add the same generation, so a change to one of them is a
change to both; ``tests/spark/test_state.py`` lets each go on from the other's state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.spark.columns import Columns
from culm.spark.findings import Findings
from culm.spark.gather import PACKS
from culm.spark.merge import Outcome
from culm.spark.output import kept, kept_from_workers
from culm.spark.pack import Pack
from culm.spark.records import Records
from culm.spark.segment import Signatures, Summary
from culm.spark.state import INDEX
from culm.spark.steps import COUNTS, JUDGED, OUTCOMES, SEGMENTS, mapped, merged, segmented
from culm.spark.verdicts import JudgedSegment
from culm.spark.verify import by_block, by_log, chosen, settled, unsure_column
from culm.store.schema import from_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.state import State

    Row = tuple[Any, ...]

# Segments that a block may have. New entries that overlap none of them become a segment of their own, so that a log
# that grows daily costs what is new. Each segment costs a summary that is read whenever its log changes, though. From
# this many on, all segments of a block are merged into one when the block is next added to.
MOST_SEGMENTS = 8

LOADED = Columns(
    author="BINARY",
    log="BIGINT",
    block="BIGINT",
    low="BIGINT",
    high="BIGINT",
    summary="BINARY",
    findings="BINARY",
    packed="BINARY",
    outcome="BINARY",
)
"""A segment of the state with the outcome that it has there."""

_SEGMENT = ["author", "log", "low"]
_COUNTED = [name for name in COUNTS.names if name not in _SEGMENT]


class Increment:
    """One run. Call ``take``, ``merge``, ``judged`` and ``write_index`` in this order.

    ``work`` is a folder for tables of this run. The new generation becomes part of the state with ``State.commit``.
    """

    def __init__(self, spark: SparkSession, state: State, work: Path) -> None:
        self._spark = spark
        self._state = state
        self._work = work
        self._number = state.next_number
        self._place = state.begin()
        self._made = self._reached = self._index = spark.createDataFrame([], "author BINARY")
        self._stay = spark.createDataFrame([], INDEX.ddl)  # segments of the logs touched that are not looked at again

    def take(self, packs: DataFrame) -> Path:
        """Merge new packs with the segments that they overlap; the folder of the new segments, with the rejects."""
        if self._state.generations:
            packs = kept(packs, self._work / "packs", PACKS.ddl)
            packs = packs.unionByName(self._overlapped(packs))
        judge = segmented(chosen(self._state.signatures), keep=True)
        place, heads = self._place / "segments", self._state.signatures == Signatures.HEADS.value
        self._made = kept_from_workers(by_block(packs), judge, SEGMENTS, self._work / "made" if heads else place)
        if heads:
            self._made = self._settled(place)
        return place

    def _settled(self, place: Path) -> DataFrame:
        """The new segments, judged again if a higher segment vouches for entries of theirs; kept at ``place``."""
        every = self._made.unionByName(self._stay.select("author", "log", "block", "low", "high", "summary"), True)
        some = settled(every, Signatures.HEADS, self._work / "settled").where(
            "findings IS NOT NULL OR reason IS NOT NULL"
        )
        return kept(some, place, SEGMENTS.ddl)

    def _overlapped(self, packs: DataFrame) -> DataFrame:
        """The segments that the packs overlap, as packs; notes those that stay.

        With ``HEADS`` all segments of a touched block are taken, because which signatures count depends on the whole
        block: a new entry may vouch for one that was a head before. Otherwise the order of the runs would matter. For
        the same reason all segments of the log are taken that have a head with a bad signature.
        """
        from pyspark.sql import functions

        new = packs.where("author IS NOT NULL")
        touched = new.select("author", "log").distinct()
        live = kept(
            self._state.index(self._spark).join(touched, ["author", "log"], "left_semi"),
            self._work / "touched",
            INDEX.ddl,
        )
        block = ["author", "log", "block"]
        hulls = new.groupBy(block).agg(functions.min("low").alias("from"), functions.max("high").alias("to"))
        crowds = live.groupBy(block).agg(functions.count("*").alias("segments"))
        if self._state.signatures == Signatures.STRICT.value:
            near = live.join(hulls, block).join(crowds, block)
            near = near.where(f"(low <= to AND high >= from) OR segments >= {MOST_SEGMENTS}")
        else:
            near = live.join(hulls, block, "left").where(functions.col("to").isNotNull() | unsure_column())
        overlapped = kept(near.select(*INDEX.names), self._work / "overlapped", INDEX.ddl)
        self._stay = live.join(overlapped, _SEGMENT, "left_anti")
        chosen_ones = functions.broadcast(overlapped.select(*_SEGMENT, "made", "outcome"))
        loaded = self._state.segments(self._spark).join(chosen_ones, [*_SEGMENT, "made"]).select(*LOADED.names)
        return loaded.mapInArrow(mapped(LOADED, reloaded, PACKS), PACKS.ddl)

    def merge(self) -> None:
        """Find the outcomes of all segments of the touched logs; segments that stay take part with their summaries."""
        every = self._made.select("author", "log", "low", "summary").unionByName(
            self._stay.select("author", "log", "low", "summary")
        )
        self._reached = kept_from_workers(by_log(every), merged(), OUTCOMES, self._work / "outcomes")

    def judged(self) -> DataFrame:
        """The segments whose verdicts are new or may have changed, as ``JUDGED``."""
        from pyspark.sql import functions

        nothing = functions.lit(None).cast("BINARY").alias("previous")
        new = self._made.join(self._reached, _SEGMENT).select(*JUDGED.names[:-1], nothing)
        if not self._state.generations:
            return new
        before = self._stay.select(*_SEGMENT, "made", functions.col("outcome").alias("previous"))
        again = functions.broadcast(before.join(self._reached, _SEGMENT).where("outcome <> previous"))
        old = self._state.segments(self._spark).join(again, [*_SEGMENT, "made"])
        return new.unionByName(old.select(*JUDGED.names))

    def write_index(self, counts: DataFrame) -> None:
        """Write the generation's index. ``counts`` has the segments judged in this run; others keep their counts."""
        from pyspark.sql import functions

        made = self._made.where("summary IS NOT NULL").withColumn("made", functions.lit(self._number).cast("BIGINT"))
        made = made.select(*INDEX.names[:7])
        stay = self._stay.select(*INDEX.names[:7], *(functions.col(name).alias(f"old_{name}") for name in _COUNTED))
        every = made.unionByName(stay, allowMissingColumns=True).join(self._reached, _SEGMENT)
        every = every.join(counts, _SEGMENT, "left")
        counted = [functions.coalesce(name, f"old_{name}").alias(name) for name in _COUNTED]
        self._index = kept(every.select(*INDEX.names[:9], *counted), self._place / "index", INDEX.ddl)

    @property
    def indexes(self) -> tuple[list[Path], list[Path]]:
        """The tables with the index of the touched logs: as it was before this run, and as it is now."""
        before = self._work / "touched"
        return [before] if before.exists() else [], [self._place / "index"]

    def forked(self) -> tuple[DataFrame, DataFrame]:
        """The segments of the state's forked logs, with entries, and their outcomes; call ``write_index`` first."""
        from pyspark.sql import functions

        touched = self._index.select("author", "log").distinct()
        old = self._state.index(self._spark).join(touched, ["author", "log"], "left_anti")
        index = old.unionByName(self._index).where("forked_at IS NOT NULL")
        made = self._made.withColumn("made", functions.lit(self._number).cast("BIGINT"))
        every = self._state.segments(self._spark).unionByName(made)
        return every.join(index.select(*_SEGMENT, "made"), [*_SEGMENT, "made"], "left_semi"), index.select(
            *OUTCOMES.names
        )


def reloaded(rows: Iterable[Row]) -> Iterator[Row]:
    """``LOADED`` to ``PACKS``: segments become packs again. Each entry remembers its verdict, to find what changes."""
    for author, log, block, low, high, summary, findings, packed, outcome in rows:
        pack, found = Pack.decode(packed), Findings.decode(findings)
        judged = JudgedSegment(author, from_sql(log), found, Summary.decode(summary), Outcome.decode(outcome))
        pack.before[Records(pack).is_entry] = judged.said
        yield None, None, None, author, log, block, low, high, pack.encode()
