"""The change feed of a followed stream, and where it goes: a folder of Parquet, or tables of a catalog.

The feed has a row for each verdict that is new or has changed, with what was said before. A table of a catalog also has
the verdicts themselves, into which the changes are merged.

Each run of a state has a mark (``State.mark``), and an output has the mark of the last run whose changes it has. If
that is the mark of the run before, the changes of the last run are delivered. Otherwise the output is new, or runs went
by without it, and everything that the state knows is delivered as one batch. The number of a batch is that of the run.

A batch appears in the feed in one step. A delivery may be cut short behind this step, so the next one looks for the
batch before it adds it. Merging a batch twice changes nothing. The mark comes last.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from shutil import copytree, rmtree
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession, functions

from culm.errors import ConfigError
from culm.spark.batches.arrays import names
from culm.spark.batches.fields import Bytes, Flags
from culm.spark.batches.payload import STATES
from culm.spark.runtime.columns import Batch, combined
from culm.spark.runtime.folders import SUMMARY
from culm.spark.runtime.onspark import OnSpark
from culm.spark.runtime.output import count_rows, place_of, read_batches
from culm.spark.verification import lakehouse
from culm.spark.verification.lakehouse import KEY
from culm.spark.verification.state import State
from culm.spark.verification.steps import pronounced
from culm.spark.verification.verdicts import CERTIFIED, PAYLOAD, VERDICT, VERDICTS, JudgedSegment, Verdict
from culm.staging import replace_text

NEW, REASON = "new", "reason"
KINDS = (REASON, "payload", "certified", "verdict", NEW)
"""What may have changed, the most important last: a row names the last of these that has."""


class Before(NamedTuple):
    """What has changed (``KINDS``), and what was said before; null for a new entry."""

    change: str
    verdict_before: str | None
    certified_before: bool | None
    payload_before: str | None


Change = combined("Change", __name__, Verdict, Before)
"""The columns of ``Verdict``, then those of ``Before``.

``reason``: the entry is not verified, as before, and the reason is perhaps another one. A state remembers verdicts, but
not their reasons (``verification.verdicts``).
"""


def changes(segment: JudgedSegment, entries: Flags, before: Bytes) -> Batch:
    """The changes of some entries of a segment, for ``steps.pronounced``."""
    said, before, verdicts = segment.said[entries], before[entries], segment.table(entries)
    new = before == 0
    now, was = (codes.astype(np.int16) - 1 for codes in (said, np.maximum(before, 1)))
    differs = now ^ was
    kind = np.select([new, *(differs & bits != 0 for bits in (VERDICT, CERTIFIED, PAYLOAD))], [4, 3, 2, 1], 0)
    known = (
        names(VERDICTS, ((was & VERDICT) >> 3).astype(np.int8)),
        pa.array((was & CERTIFIED) != 0),
        names(STATES, (was & PAYLOAD).astype(np.int8)),
    )
    told = [compute.if_else(pa.array(new), pa.scalar(None, column.type), column) for column in known]
    columns = [*verdicts.columns, names(KINDS, kind.astype(np.int8)), *told]
    return Batch(Change, pa.record_batch(columns, [*Verdict._fields, *Before._fields]))


def replayed(changes: DataFrame) -> DataFrame:
    """The table of verdicts that a change feed leads to: of each entry the verdict of its last ``batch``."""
    rest = [name for name in Verdict._fields if name not in KEY]
    last = functions.max_by(functions.struct(*rest), "batch").alias("last")
    return changes.groupBy(*KEY).agg(last).select(*KEY, "last.*")


# -- where it goes -------------------------------------------------------------------------------------------------

CHANGES, REJECTS = "changes", "rejects"


class Delivery(NamedTuple):
    """The changes of a run: its number and mark, its Parquet folders by name, and what there is to say of it."""

    number: int
    mark: str
    tables: Mapping[str, Path]
    facts: Mapping[str, object]


class Folder:
    """A folder of this machine: ``changes/batch=NUMBER``, ``rejects/batch=NUMBER``, and ``summary.json``.

    ``ConfigError`` if it cannot be made, or holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.name = str(path)
        if not self._path.parent.is_dir():
            raise ConfigError(f"{self.name}: there is no folder {self._path.parent}")
        there = self._path.is_dir()
        is_ours = there and (self.mark() or (self._path / CHANGES).is_dir() or not any(self._path.iterdir()))
        if self._path.exists() and not is_ours:
            raise ConfigError(f"{self.name}: holds something else than a change feed; name another folder")

    def mark(self, _: SparkSession | None = None) -> str:
        """The mark in the summary."""
        try:
            return str(json.loads((self._path / SUMMARY).read_text())["mark"])
        except (OSError, ValueError, LookupError, TypeError):
            return ""

    def put(self, spark: SparkSession, given: Delivery) -> None:  # noqa: ARG002 - for tables
        """Add the folders of a batch, each under a hidden name until it is whole, and then the summary."""
        for name, table in given.tables.items():
            self._add(table, self._path / name / f"batch={given.number}")
        facts = {**given.facts, "batch": given.number, "mark": given.mark}
        replace_text(self._path / SUMMARY, json.dumps(facts, indent=2) + "\n")

    def _add(self, table: Path, place: Path) -> None:
        if place.exists() or (place.parent.is_dir() and not count_rows(table)):
            return
        part = place.with_name(f".{place.name}.part")
        rmtree(part, ignore_errors=True)
        copytree(table, part)
        part.rename(place)


class Tables(lakehouse.Target):
    """Tables of a catalog: ``NAME`` has a verdict for each entry; ``NAME_changes`` and ``NAME_rejects`` only grow."""

    def put(self, spark: SparkSession, given: Delivery) -> None:
        """Append to the feed and the rejects, then merge into the table: three commits, which can all be repeated."""
        for name, folder in given.tables.items():
            table = f"{lakehouse.quoted(self.name)[:-1]}_{name}`"
            rows = spark.read.parquet(place_of(folder)).withColumn("batch", functions.lit(given.number).cast("BIGINT"))
            is_there = lakehouse.exists(spark, table)
            if not is_there or (count_rows(folder) and spark.table(table).where(f"batch = {given.number}").isEmpty()):
                # Delta cannot append to a table by its path that is not there.
                mode = "append" if is_there else "error"
                rows.write.format(self.table_format).mode(mode).saveAsTable(table)
        changes = spark.read.parquet(place_of(given.tables[CHANGES]))
        self.merge(changes.select(*Verdict._fields), given.mark)


def output_of(folder: Path | None, table: str | None, table_format: str) -> Folder | Tables:
    """The output that is named; ``ConfigError`` if both are named or none, or if it cannot be one."""
    if (folder is None) == (table is None):
        raise ConfigError("name either an output folder (--output) or a table (--table)")
    return Folder(folder) if folder is not None else Tables(str(table), table_format)


def deliver(state: State, output: Folder | Tables, spark: SparkSession, facts: Mapping[str, object]) -> str | None:
    """Bring an output up to date with a state. A line about the changes that it got; None if it had all.

    ``ConfigError`` if the output has changes of another state, or of a later run of this one.
    """
    mark = output.mark(spark)
    if mark == state.mark or not state.mark:
        return None
    number = _checked(mark, state.mark, output.name)
    made = state.place(state.generations[-1])
    place = made / CHANGES
    if mark != state.before or not place.is_dir():
        place, work = made / "everything", made / "work"
        rmtree(place, ignore_errors=True)
        step = partial(pronounced, everything=True, told=changes)
        state.judged(OnSpark(spark, work)).keep(step, Change, at={Change: place})
        rmtree(work, ignore_errors=True)
    tables = {CHANGES: place, REJECTS: made / REJECTS}
    output.put(spark, Delivery(number, state.mark, {n: path for n, path in tables.items() if path.is_dir()}, facts))
    return _said(state, place)


def _said(state: State, changes: Path) -> str:
    """What has changed, and how many entries there are now."""
    kinds = Counter(kind for batch in read_batches(changes, ["change"]) for kind in batch.column("change").to_pylist())
    told = [kind for kind in reversed(KINDS) if kind not in (NEW, REASON) and kinds[kind]]
    parts = [f"{kinds[NEW]:,} new", *(f"{kinds[kind]:,} of another {kind}" for kind in told)]
    every = ", ".join(f"{state.totals[name]:,} {name}" for name in VERDICTS)
    return f"batch {state.mark.split('-')[1]}: {', '.join(parts)}; {state.totals['entries']:,} entries: {every}"


def forget(state: State) -> None:
    """Delete the changes of the last run, which have been delivered."""
    place = state.place(state.generations[-1])
    for name in (CHANGES, REJECTS, "everything"):
        rmtree(place / name, ignore_errors=True)


def _checked(there: str, given: str, name: str) -> int:
    """The number of the run that is to be delivered; ``there`` is the mark of the output."""
    identity, number, _ = given.split("-")
    if there.count("-") == 2:
        other, last, _ = there.split("-")
        if other != identity:
            raise ConfigError(f"{name}: has the verdicts of another state; name another output")
        if int(last) >= int(number):
            raise ConfigError(
                f"{name}: has the verdicts of run {last} of this state, which is only at run {number}, as a copy that"
                " was restored would be; name another output"
            )
    return int(number)
