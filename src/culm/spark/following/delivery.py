"""The change feed of a followed stream, and where it goes: a folder of Parquet, or tables of a catalog.

The feed has a row for each verdict that is new or has changed, with what was said before. A table of a catalog also has
the verdicts themselves, into which the changes are merged.

Beside the feed stand the forks: a row for each forked log whose row in ``forks.forks`` is new or has changed. They are
delivered as the feed is, and the last row of each log is that of a run over all entries.

Each run of a state has a mark (``State.mark``), and an output has the mark of the last run whose changes it has. If
that is the mark of the run before, the changes of the last run are delivered. Otherwise the output is new, or runs went
by without it, and everything that the state knows is delivered as one batch. The number of a batch is that of the run.

A batch appears in the feed in one step. A delivery may be cut short behind this step, so the next one looks for the
batch before it adds it. Merging a batch twice changes nothing. The mark comes last.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from shutil import copytree
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions

from culm.errors import ConfigError
from culm.results import SUMMARY, whole_folder
from culm.spark.batches.arrays import names
from culm.spark.batches.fields import Bytes, Flags
from culm.spark.batches.payload import STATES
from culm.spark.runtime.columns import Batch, combined
from culm.spark.runtime.output import count_rows, place_of, read_batches
from culm.spark.verification import lakehouse
from culm.spark.verification.forks import Fork
from culm.spark.verification.lakehouse import KEY
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
    """The changes of some entries of a segment, for ``verdicts.pronounced``."""
    new = before[entries] == 0
    now, was = segment.said[entries] - 1, np.maximum(before[entries], 1) - 1
    kind = np.select([new, *((now ^ was) & bits != 0 for bits in (VERDICT, CERTIFIED, PAYLOAD))], [4, 3, 2, 1], 0)
    verdict, payload = names(VERDICTS, (was & VERDICT) >> 3, new), names(STATES, was & PAYLOAD, new)
    told = names(KINDS, kind), verdict, pa.array(was & CERTIFIED != 0, mask=new), payload
    columns = [*segment.table(entries).columns, *told]
    return Batch(Change, pa.record_batch(columns, [*Verdict._fields, *Before._fields]))


def counted(tables: Mapping[str, Path]) -> str:
    """The number of changes of each kind in the tables of a batch, and of forks, in words."""
    found = read_batches(tables[CHANGES], ["change"])
    kinds = Counter(kind for batch in found for kind in batch.column("change").to_pylist())
    others = {f"of another {kind}": kinds[kind] for kind in reversed(KINDS[1:-1])}
    counts = {NEW: kinds[NEW], **others, "proofs of forks": count_rows(tables[FORKS])}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count or what == NEW)


def replayed(changes: DataFrame) -> DataFrame:
    """The table of verdicts that a change feed leads to: of each entry the verdict of its last ``batch``.

    Of a feed of forks: the table of forks, with the last row of each log.
    """
    columns, key = (Verdict._fields, KEY) if KEY[-1] in changes.columns else (Fork._fields, KEY[:2])
    rest = [name for name in columns if name not in key]
    last = functions.max_by(functions.struct(*rest), "batch").alias("last")
    return changes.groupBy(*key).agg(last).select(*key, "last.*")


# -- where it goes -------------------------------------------------------------------------------------------------

CHANGES, FORKS, REJECTS = "changes", "forks", "rejects"


class Folder:
    """A folder of this machine: ``changes/batch=NUMBER``, the same of ``forks`` and ``rejects``, and ``summary.json``.

    ``ConfigError`` if it cannot be made, or holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.name = path.absolute(), str(path)
        if not self._path.parent.is_dir():
            raise ConfigError(f"{self.name}: there is no folder {self._path.parent}")
        is_feed = self.mark() or (self._path / CHANGES).is_dir()
        if self._path.exists() and not is_feed and (not self._path.is_dir() or any(self._path.iterdir())):
            raise ConfigError(f"{self.name}: holds something else than a change feed; name another folder")

    def mark(self, _: SparkSession | None = None) -> str:
        """The mark in the summary."""
        try:
            return str(json.loads((self._path / SUMMARY).read_text())["mark"])
        except (OSError, ValueError, LookupError, TypeError):
            return ""

    def has(self, _: SparkSession, name: str) -> bool:
        """Whether any batch of this table is there."""
        return any((self._path / name).glob("batch=*"))

    def put(self, spark: SparkSession, tables: Mapping[str, Path], facts: Mapping[str, Any]) -> None:  # noqa: ARG002 - for tables
        """Add the folders of a batch, each under a hidden name until it is whole, and then the summary.

        ``facts`` has the number of the ``batch``, the ``mark``, and what else there is to say of the run.
        """
        for name, table in tables.items():
            self._add(table, self._path / name / f"batch={facts['batch']}")
        replace_text(self._path / SUMMARY, json.dumps(facts, indent=2) + "\n")

    def _add(self, table: Path, place: Path) -> None:
        if not place.exists() and (count_rows(table) or not any(place.parent.glob("batch=*"))):
            place.parent.mkdir(parents=True, exist_ok=True)
            with whole_folder(place) as folder:
                copytree(table, folder, dirs_exist_ok=True)


class Tables(lakehouse.Target):
    """Tables of a catalog: ``NAME`` has a verdict for each entry; ``NAME_changes`` and its like only grow."""

    def has(self, spark: SparkSession, name: str) -> bool:
        """Whether there is this table beside the one with the verdicts."""
        return lakehouse.exists(spark, self._beside(name))

    def _beside(self, name: str) -> str:
        return f"{lakehouse.quoted(self.name)[:-1]}_{name}`"

    def put(self, spark: SparkSession, tables: Mapping[str, Path], facts: Mapping[str, Any]) -> None:
        """Append to the feed, the forks and the rejects, then merge into the table: each commit can be repeated."""
        number = facts["batch"]
        for name, folder in tables.items():
            table = self._beside(name)
            rows = spark.read.parquet(place_of(folder)).withColumn("batch", functions.lit(number).cast("BIGINT"))
            is_there = lakehouse.exists(spark, table)
            if not is_there or (count_rows(folder) and spark.table(table).where(f"batch = {number}").isEmpty()):
                # Delta cannot append to a table by its path that is not there.
                mode = "append" if is_there else "error"
                rows.write.format(self.table_format).mode(mode).saveAsTable(table)
        changes = spark.read.parquet(place_of(tables[CHANGES]))
        self.merge(changes.select(*Verdict._fields), facts["mark"])


def output_of(folder: Path | None, table: str | None, table_format: str) -> Folder | Tables:
    """The output that is named; ``ConfigError`` if both are named or none, or if it cannot be one."""
    if (folder is None) == (table is None):
        raise ConfigError("name either an output folder (--output) or a table (--table)")
    return Folder(folder) if folder is not None else Tables(str(table), table_format)
