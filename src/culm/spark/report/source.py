"""The subject of a report: the results of one verification, or everything that a state knows.

Both have the tables ``verdicts``, ``forks`` (their proofs) and ``rejects``, as batches of Arrow and as DataFrames.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyarrow import parquet

from culm.errors import ConfigError, CulmError
from culm.spark.columns import Columns, batches, ddl, types
from culm.spark.folders import SUMMARY
from culm.spark.forks import Fork, forks
from culm.spark.gather import Reject
from culm.spark.here import Here, rows_of
from culm.spark.onspark import OnSpark, frame_of
from culm.spark.output import read_table
from culm.spark.state import State
from culm.spark.steps import pronounced
from culm.spark.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_NEEDED = ("author", "log_id", "seqnum", "size", "payload", "verdict", "reason", "copies")
_TABLES = {
    "verdicts": Columns(**{name: types(Verdict)[name] for name in _NEEDED}),
    "forks": Columns.of(Fork),
    "rejects": Columns.of(Reject),
}
"""The columns of the subject's tables that a report needs; no others are read."""

_REPEATED = {"author", "payload", "verdict", "reason"}  # columns of few different values, read as dictionaries


class Source(Protocol):
    """What a report is about.

    ``said`` has the counts and times in the summary of the verification or the manifest of the state; nothing in it is
    to be relied on, since it is a file of JSON. ``of_state``: the subject is a state.
    """

    folder: Path
    said: Mapping[str, object]
    of_state: bool

    @property
    def has_proofs(self) -> bool:
        """Whether there are proofs of forks, not only reasons that name forks."""

    def entries(self) -> int:
        """How many verdicts there are."""

    def rejected(self) -> int:
        """How many rejects there are; in a state those of all runs."""

    def batches(self, name: str) -> Iterator[pa.RecordBatch] | None:
        """A table; None if it was not written. ``CulmError`` if a file cannot be read. A state has no rejects."""

    def table(self, name: str, spark: SparkSession, work: Path) -> DataFrame | None:
        """The same on Spark. ``work`` is a folder for tables that are costly to make."""


def source_of(folder: Path) -> Source:
    """The subject in a folder. ``ConfigError`` if it holds neither the results of a verification nor a state."""
    if (folder / "manifest.json").is_file() and not (folder / SUMMARY).exists():
        return _Known(State.open(folder))
    return _Results(folder)


class _Results:
    """The results of one verification."""

    of_state = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for needed in ("verdicts", "rejects", SUMMARY):
            if not (folder / needed).exists():
                raise ConfigError(f"{folder}: not the results of culm spark verify, nor a state: there is no {needed}")
        try:
            said = json.loads((folder / SUMMARY).read_bytes())
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise ConfigError(f"{folder / SUMMARY}: not a summary of culm spark verify, or damaged")
        self.said: Mapping[str, object] = said

    @property
    def has_proofs(self) -> bool:
        return (self.folder / "forks").is_dir()

    def entries(self) -> int:
        return rows_in(self.folder / "verdicts")

    def rejected(self) -> int:
        return rows_in(self.folder / "rejects")

    def batches(self, name: str) -> Iterator[pa.RecordBatch] | None:
        folder = self.folder / name
        return _batches(folder, _TABLES[name]) if folder.is_dir() else None

    def table(self, name: str, spark: SparkSession, work: Path) -> DataFrame | None:  # noqa: ARG002 - what a state needs
        folder = self.folder / name
        return read_table(spark, folder, _TABLES[name].ddl) if folder.is_dir() else None


class _Known:
    """A state: everything that it knows from all runs."""

    of_state = True
    has_proofs = True

    def __init__(self, state: State) -> None:
        self._state = state
        self.folder = state.folder
        self.said: Mapping[str, object] = {**state.totals, "signatures": state.signatures}

    def entries(self) -> int:
        return self._state.totals.get("entries", 0)

    def rejected(self) -> int:
        return self._state.totals.get("rejects", 0)

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        if name == "verdicts":
            return batches(Verdict, pronounced(rows_of(self._state.judged(Here())), everything=True))
        proofs = rows_of(forks(*self._state.forked(Here()))) if name == "forks" else ()
        return batches(Fork, proofs)

    def table(self, name: str, spark: SparkSession, work: Path) -> DataFrame:
        if name == "verdicts":
            return self._state.verdicts(spark)
        if name == "rejects":
            return spark.createDataFrame([], ddl(Reject))
        if (work / name).exists():
            return read_table(spark, work / name, ddl(Fork))
        return frame_of(forks(*self._state.forked(OnSpark(spark, work / "kept")), at={Fork: work / name}))


def _batches(folder: Path, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Some columns of a table; ``CulmError`` if it cannot be read or lacks one of them."""
    for path in sorted(folder.glob("*.parquet")):
        try:
            names = parquet.read_schema(path).names
            lacking = {*columns.names}.difference(names)
            if lacking:
                raise CulmError(f"{path}: a table without the column {min(lacking)!r}; verify the inputs again")
            with parquet.ParquetFile(path, read_dictionary=_REPEATED.intersection(columns.names)) as file:
                for batch in file.iter_batches(columns=[*columns.names]):
                    yield batch.select([*columns.names])
        except (pa.ArrowException, OSError) as error:
            raise CulmError(f"{path}: not a Parquet file, or damaged; verify the inputs again") from error


def rows_in(folder: Path) -> int:
    """How many rows a folder of Parquet files has; only the ends of the files are read. ``CulmError`` if that fails."""
    rows = 0
    for file in folder.glob("*.parquet"):
        try:
            rows += parquet.read_metadata(file).num_rows
        except (pa.ArrowException, OSError):
            raise CulmError(f"{file}: not a Parquet file, or damaged; verify the inputs again") from None
    return rows
