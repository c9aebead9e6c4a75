"""What a report is about: the folder that a verification wrote, or all that a state knows."""

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
"""The columns of verdicts that a report is made of."""


class Source(Protocol):
    """Verdicts, the proofs of forks and rejects: as Spark's tables, or read in this process."""

    folder: Path
    said: Mapping[str, object]
    of_state: bool

    @property
    def has_proofs(self) -> bool:
        """Whether forks come with their proofs."""

    def entries(self) -> int:
        """How many verdicts there are."""

    def rejected(self) -> int:
        """How many rejects there were."""

    def verdicts(self, spark: SparkSession, work: Path) -> DataFrame:
        """The verdicts (``culm.spark.steps.VERDICTS``); ``work`` is a folder for what is best kept."""

    def proofs(self, spark: SparkSession, work: Path) -> DataFrame | None:
        """The proofs of forks (``culm.spark.forks.FORKS``), if there are any."""

    def rejects(self, spark: SparkSession) -> DataFrame:
        """What could not be read, as far as that is known."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The verdicts, at least the columns ``READ``."""

    def proof_rows(self) -> list[Row] | None:
        """The rows of the proofs of forks."""

    def reject_rows(self) -> Iterator[Row]:
        """Source, offset and reason of what could not be read."""


def source_of(folder: Path) -> Source:
    """What lies in a folder. ``ConfigError`` if it is neither the results of a verification nor a state."""
    if (folder / "manifest.json").is_file() and not (folder / SUMMARY).exists():
        return _Known(State.open(folder))
    return _Results(folder)


class _Results:
    """The folder of a verification, and what its summary says."""

    of_state = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for needed in ("verdicts", "rejects", SUMMARY):
            if not (folder / needed).exists():
                raise ConfigError(f"{folder}: not the results of culm spark verify: there is no {needed}")
        try:
            said = json.loads((folder / SUMMARY).read_bytes())
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise ConfigError(f"{folder / SUMMARY}: not a summary")
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
    """A state: everything that runs with it have come to know."""

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
                    raise CulmError(f"{path}: a table without the column {min(lacking)!r}")
                for batch in file.iter_batches(columns=list(names)):
                    yield batch.select(list(names))
        except (pa.ArrowException, OSError) as error:
            raise CulmError(f"{path}: not a Parquet file that can be read") from error


def rows_in(folder: Path) -> int:
    """How many rows there are in a folder of Parquet files, as the ends of the files say."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = 0
    for file in folder.glob("*.parquet"):
        try:
            rows += parquet.read_metadata(file).num_rows
        except (pa.ArrowException, OSError):
            raise CulmError(f"{file}: not a Parquet file that can be read") from None
    return rows
