"""The subject of a report: the results of one verification, or everything that a state knows.

Both give the same tables to either engine: as DataFrames (``verdicts``, ``proofs``, ``rejects``) for Spark, as batches
and rows (``batches``, ``proof_rows``, ``reject_rows``) for this process.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from culm.errors import ConfigError, CulmError
from culm.spark.forks import FORKS, JUDGED_FORKS, forks, proofs, witnesses
from culm.spark.output import SUMMARY, kept, read_table
from culm.spark.state import State
from culm.spark.steps import JUDGED, OUTCOMES, VERDICTS, pronounced
from culm.spark.verify import REJECTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    Row = tuple[Any, ...]

READ = ("author", "log_id", "seqnum", "size", "payload", "verdict", "reason", "copies")
"""The columns of verdicts that a report needs; no others are read."""


class Source(Protocol):
    """Verdicts, the proofs of forks and rejects.

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

    def verdicts(self, spark: SparkSession, work: Path) -> DataFrame:
        """The verdicts (``culm.spark.steps.VERDICTS``). ``work`` is a folder for tables that are costly to make."""

    def proofs(self, spark: SparkSession, work: Path) -> DataFrame | None:
        """The proofs of forks (``culm.spark.forks.FORKS``); None if they were not written."""

    def rejects(self, spark: SparkSession) -> DataFrame:
        """The rejects; none for a state, which only counts them."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The verdicts, with at least the columns ``READ``. ``CulmError`` if a file cannot be read."""

    def proof_rows(self) -> list[Row] | None:
        """The rows of ``FORKS``; None if they were not written."""

    def reject_rows(self) -> Iterator[Row]:
        """Source, offset and reason of each reject; none for a state."""


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

    def verdicts(self, spark: SparkSession, work: Path) -> DataFrame:  # noqa: ARG002 - what a state needs
        return read_table(spark, self.folder / "verdicts", VERDICTS.ddl)

    def proofs(self, spark: SparkSession, work: Path) -> DataFrame | None:  # noqa: ARG002
        return read_table(spark, self.folder / "forks", FORKS.ddl) if self.has_proofs else None

    def rejects(self, spark: SparkSession) -> DataFrame:
        return read_table(spark, self.folder / "rejects", REJECTS)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return _batches(self.folder / "verdicts", READ)

    def proof_rows(self) -> list[Row] | None:
        return list(FORKS.rows(_batches(self.folder / "forks", FORKS.names))) if self.has_proofs else None

    def reject_rows(self) -> Iterator[Row]:
        for batch in _batches(self.folder / "rejects", ("source", "offset", "reason")):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class _Known:
    """A state: everything that it knows from all runs."""

    of_state = True
    has_proofs = True

    def __init__(self, state: State) -> None:
        self._state = state
        self.folder = state.folder
        self.said: Mapping[str, object] = state.totals

    def entries(self) -> int:
        return self._state.totals.get("entries", 0)

    def rejected(self) -> int:
        return self._state.totals.get("rejects", 0)

    def verdicts(self, spark: SparkSession, work: Path) -> DataFrame:
        return kept(self._state.verdicts(spark), work / "verdicts", VERDICTS.ddl)

    def proofs(self, spark: SparkSession, work: Path) -> DataFrame | None:
        index = self._state.index(spark).where("forked_at IS NOT NULL")
        segment = ["author", "log", "low", "made"]
        forked = self._state.segments(spark).join(index.select(*segment), segment, "left_semi")
        return kept(forks(forked, index.select(*OUTCOMES.names)), work / "forks", FORKS.ddl)

    def rejects(self, spark: SparkSession) -> DataFrame:
        return spark.createDataFrame([], REJECTS)

    def batches(self) -> Iterator[pa.RecordBatch]:
        live = {(*row[:2], row[3], row[5]): row[7] for row in self._state.index_of()}
        rows = ((*row, live[key], b"") for key, row in self._state.segments_of(live.keys(), JUDGED.names[:5]))
        return pronounced(JUDGED.batches(rows))

    def proof_rows(self) -> list[Row] | None:
        forked = {(*row[:2], row[3], row[5]): row[7] for row in self._state.index_of(forked=True)}
        segments = self._state.segments_of(forked.keys(), JUDGED_FORKS.names[:-1])
        found = witnesses((*row, forked[key]) for key, row in segments)
        return list(proofs(sorted(found, key=lambda row: (*row[:2], row[3], row[4] or b""))))

    def reject_rows(self) -> Iterator[Row]:
        return iter(())


def _batches(folder: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a table; ``CulmError`` if it cannot be read or lacks one of them."""
    import pyarrow as pa
    from pyarrow import parquet

    for path in sorted(folder.glob("*.parquet")):
        try:
            with parquet.ParquetFile(path) as file:
                lacking = set(names) - set(file.schema_arrow.names)
                if lacking:
                    raise CulmError(f"{path}: a table without the column {min(lacking)!r}; verify the inputs again")
                for batch in file.iter_batches(columns=list(names)):
                    yield batch.select(list(names))
        except (pa.ArrowException, OSError) as error:
            raise CulmError(f"{path}: not a Parquet file, or damaged; verify the inputs again") from error


def rows_in(folder: Path) -> int:
    """How many rows a folder of Parquet files has; only the ends of the files are read. ``CulmError`` if that fails."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = 0
    for file in folder.glob("*.parquet"):
        try:
            rows += parquet.read_metadata(file).num_rows
        except (pa.ArrowException, OSError):
            raise CulmError(f"{file}: not a Parquet file, or damaged; verify the inputs again") from None
    return rows
