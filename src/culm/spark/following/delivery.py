"""Where the changes of a followed stream go: a folder of Parquet, or tables of a catalog that can be merged into.

Each run of a state has a mark (``State.mark``), and an output has the mark of the last run whose changes it has. If
that is the mark of the run before, the changes of the last run are delivered. Otherwise the output is new, or runs went
by without it, and everything that the state knows is delivered as one batch. The number of a batch is that of the run.

A batch appears in the feed in one step. A delivery may be cut short behind this step, so the next one looks for the
batch before it adds it. Merging a batch twice changes nothing. The mark comes last.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from shutil import copytree, rmtree
from typing import NamedTuple

from pyspark.sql import SparkSession, functions

from culm.errors import ConfigError
from culm.spark.following.changes import Change, changed
from culm.spark.runtime.folders import SUMMARY
from culm.spark.runtime.onspark import OnSpark
from culm.spark.runtime.output import count_rows, place_of
from culm.spark.verification import lakehouse
from culm.spark.verification.state import State
from culm.spark.verification.verdicts import Verdict

CHANGES, REJECTS = "changes", "rejects"


class Delivery(NamedTuple):
    """The changes of a run: its number and mark, its Parquet folders by name, and what there is to say of it."""

    number: int
    mark: str
    tables: Mapping[str, Path]
    facts: Mapping[str, object]


class Output(ABC):
    """Where changes go."""

    name: str

    @abstractmethod
    def check(self) -> None:
        """Raise ``ConfigError`` if changes cannot be written there; called before Spark is started."""

    @abstractmethod
    def mark(self, spark: SparkSession) -> str:
        """The mark of the last run whose changes are there; "" if there is none."""

    @abstractmethod
    def put(self, spark: SparkSession, given: Delivery) -> None:
        """Add the changes of a run. Nothing is added twice, however often and wherever this was cut short before."""


class Folder(Output):
    """A folder of this machine: ``changes/batch=NUMBER``, ``rejects/batch=NUMBER``, and ``summary.json``."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self.name = str(path)

    def check(self) -> None:
        """Raise ``ConfigError`` if the folder cannot be made, or holds something else."""
        if not self._path.parent.is_dir():
            raise ConfigError(f"{self.name}: there is no folder {self._path.parent}")
        if self._path.exists() and not (self._path.is_dir() and (self._is_ours() or not any(self._path.iterdir()))):
            raise ConfigError(f"{self.name}: holds something else than a change feed; name another folder")

    def _is_ours(self) -> bool:
        return bool(self._said().get("mark")) or (self._path / CHANGES).is_dir()

    def _said(self) -> dict[str, object]:
        try:
            found = json.loads((self._path / SUMMARY).read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def mark(self, spark: SparkSession) -> str:  # noqa: ARG002 - for tables
        """The mark in the summary."""
        return str(self._said().get("mark", ""))

    def put(self, spark: SparkSession, given: Delivery) -> None:  # noqa: ARG002 - for tables
        """Add the folders of a batch, each under a hidden name until it is whole, and then the summary."""
        for name, table in given.tables.items():
            self._add(table, self._path / name / f"batch={given.number}")
        self._note({**given.facts, "batch": given.number, "mark": given.mark})

    def _add(self, table: Path, place: Path) -> None:
        if place.exists() or (place.parent.is_dir() and not count_rows(table)):
            return
        part = place.with_name(f".{place.name}.part")
        rmtree(part, ignore_errors=True)
        copytree(table, part)
        part.rename(place)

    def _note(self, facts: Mapping[str, object]) -> None:
        whole = self._path / f".{SUMMARY}"
        whole.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        whole.replace(self._path / SUMMARY)


class Tables(Output):
    """Tables of a catalog: ``NAME`` has a verdict for each entry; ``NAME_changes`` and ``NAME_rejects`` only grow."""

    def __init__(self, name: str, table_format: str) -> None:
        if table_format == "parquet":
            raise ConfigError(
                f"{name}: verdicts are merged into the table, and Parquet has no MERGE; use delta or iceberg"
            )
        lakehouse.Target.of(name, table_format, overwrite=False, merges=True)
        self.name = name
        self._format = table_format

    def check(self) -> None:
        """Do nothing: without Spark only the name can be looked at."""

    def mark(self, spark: SparkSession) -> str:
        """The mark among the properties of the table."""
        return lakehouse.mark_of(spark, self.name)

    def put(self, spark: SparkSession, given: Delivery) -> None:
        """Append to the feed and the rejects, then merge into the table: three commits, which can all be repeated."""
        for name, folder in given.tables.items():
            table = f"{lakehouse.quoted(self.name)[:-1]}_{name}`"
            rows = spark.read.parquet(place_of(folder)).withColumn("batch", functions.lit(given.number).cast("BIGINT"))
            is_there = lakehouse.exists(spark, table)
            if not is_there or (count_rows(folder) and spark.table(table).where(f"batch = {given.number}").isEmpty()):
                # Delta cannot append to a table by its path that is not there.
                mode = "append" if is_there else "error"
                rows.write.format(self._format).mode(mode).saveAsTable(table)
        changes = spark.read.parquet(place_of(given.tables[CHANGES]))
        lakehouse.merge(changes.select(*Verdict._fields), self.name, self._format)
        lakehouse.set_mark(spark, self.name, given.mark)


def deliver(state: State, output: Output, spark: SparkSession, facts: Mapping[str, object]) -> Path | None:
    """Bring an output up to date with a state. The Parquet folder of the changes that it got; None if it had all.

    ``ConfigError`` if the output has changes of another state, or of a later run of this one.
    """
    mark = output.mark(spark)
    if mark == state.mark or not state.mark:
        return None
    number = _checked(mark, state.mark, output.name)
    place = state.place(state.generations[-1])
    changes = place / CHANGES
    if mark != state.before or not changes.is_dir():
        changes = place / "everything"
        rmtree(changes, ignore_errors=True)
        work = place / "work"
        step = partial(changed, everything=True)
        state.judged(OnSpark(spark, work)).keep(step, Change, at={Change: changes})
        rmtree(work, ignore_errors=True)
    tables = {CHANGES: changes, REJECTS: place / REJECTS}
    output.put(spark, Delivery(number, state.mark, {n: path for n, path in tables.items() if path.is_dir()}, facts))
    return changes


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
