"""What one run leaves for the next, so that a daily run costs what is new.

::

    STATE/manifest.json              what the state is, and which generations there are
    STATE/NUMBER/segments/           Parquet: the segments that run made, with their entries
    STATE/NUMBER/index/              Parquet: for each log that run touched, all of its segments

Each run adds a *generation*. Of a log, the index of the latest generation that has it is what counts, so that nothing
is ever changed in place: the manifest, replaced in one step, is what makes a generation part of the state.

New packs are put together with those segments of their block that they overlap. All others stay as they are; only
their summaries are looked at again, log by log. So entries that come late, or prove a fork far below, cost the segment
they fall into, and the verdicts that they change.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError
from culm.spark import statefiles
from culm.spark.columns import Columns
from culm.spark.output import read_table
from culm.spark.pack import BLOCK_BITS
from culm.spark.steps import JUDGED, SEGMENTS, VERDICTS, pronounced

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.segment import Signatures

FORMAT = 1
INDEX = Columns(
    author="BINARY",
    log="BIGINT",
    block="BIGINT",
    low="BIGINT",
    high="BIGINT",
    made="BIGINT",
    summary="BINARY",
    outcome="BINARY",
    forked_at="BIGINT",
    entries="BIGINT",
    verified="BIGINT",
    unverified="BIGINT",
    invalid="BIGINT",
    payload_mismatches="BIGINT",
)
"""A segment of a log: where it is (``made``: in the segments of which generation), and what was found."""

_MANIFEST = "manifest.json"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep all other runs from a folder of state, which is made if it is not there.

    ``ConfigError`` if another run holds it, or it cannot be made. On a file system that has no locks nobody is kept.
    """
    _check_parent(folder)
    try:
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be used as a folder: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{folder}: another run is at work on this state") from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
        try:
            yield
        finally:
            if not any(folder.iterdir()):  # nothing came of it
                folder.rmdir()
    finally:
        os.close(descriptor)


def _check_parent(folder: Path) -> None:
    if not folder.parent.is_dir():
        raise ConfigError(f"{folder}: there is no folder {folder.parent}")


@dataclass(slots=True)
class State:
    """A folder of state; one that is new has no generations."""

    folder: Path
    signatures: str
    generations: list[int] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path, signatures: Signatures | None = None) -> State:
        """The state in a folder. If it is not there it is made, unless ``signatures`` is None: then it is only read.

        ``ConfigError`` for a folder that holds something else, state of another format, or verdicts that were found
        with the other kind of signatures.
        """
        manifest = folder / _MANIFEST
        if not manifest.exists():
            if signatures is None:
                raise ConfigError(f"{folder}: there is no state")
            if folder.is_dir() and any(not path.name.isdigit() for path in folder.iterdir()):
                raise ConfigError(f"{folder}: holds something else than a state")
            _check_parent(folder)
            return cls(folder, signatures.value)
        try:
            facts = json.loads(manifest.read_text())
            of_format = (facts["format"], facts["block_bits"])
            state = cls(folder, facts["signatures"], list(facts["generations"]), dict(facts["totals"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"{manifest}: cannot be read as a state's manifest") from error
        if of_format != (FORMAT, BLOCK_BITS):
            raise ConfigError(f"{folder}: a state of another format")
        if signatures is not None and state.signatures != signatures.value:
            raise ConfigError(
                f"{folder}: was made with --signatures {state.signatures}; verdicts of both kinds do not go together"
            )
        return state

    @property
    def next_number(self) -> int:
        """The number of the generation to come."""
        return max(self.generations, default=0) + 1

    def place(self, number: int) -> Path:
        """The folder of a generation."""
        return self.folder / str(number)

    def begin(self) -> Path:
        """A folder for the next generation; what runs that did not end left behind is removed."""
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.iterdir():
            if path.name.isdigit() and int(path.name) not in self.generations:
                rmtree(path)
        place = self.place(self.next_number)
        place.mkdir()
        return place

    def commit(self, totals: dict[str, int]) -> None:
        """Make the next generation part of the state; ``totals`` are the counts of all that it then knows."""
        self.generations.append(self.next_number)
        self.totals = totals
        facts: dict[str, Any] = {"format": FORMAT, "block_bits": BLOCK_BITS}
        facts |= {name: value for name, value in asdict(self).items() if name != "folder"}
        whole = self.folder / f".{_MANIFEST}"
        whole.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        whole.replace(self.folder / _MANIFEST)

    # -- tables, without Spark

    def index_of(
        self, logs: Collection[tuple[bytes, int]] | None = None, *, forked: bool = False
    ) -> list[tuple[Any, ...]]:
        """The rows of ``INDEX`` of some logs (None: all), or of those of them that are forked."""
        folders = [self.place(number) / "index" for number in self.generations]
        return statefiles.index_rows(folders, INDEX.names, logs, forked=forked)

    def segments_of(
        self, keys: Collection[tuple[bytes, int, int, int]], names: Sequence[str]
    ) -> Iterator[tuple[tuple[bytes, int, int, int], tuple[Any, ...]]]:
        """Some columns of ``SEGMENTS`` of the segments with these keys (author, log, low, made), each with its key."""
        for number in self.generations:
            some = {key[:3] for key in keys if key[3] == number}
            if some:
                for key, row in statefiles.segment_rows(self.place(number) / "segments", names, some):
                    yield (*key, number), row

    # -- tables, with Spark

    def index(self, spark: SparkSession) -> DataFrame:
        """The segments of all logs, as ``INDEX``."""
        from pyspark.sql import functions

        every = self._union(spark, "index", INDEX)
        latest = every.groupBy("author", "log").agg(functions.max("generation").alias("generation"))
        return every.join(latest, ["author", "log", "generation"]).select(*INDEX.names)

    def segments(self, spark: SparkSession) -> DataFrame:
        """All segments that were ever made, as ``SEGMENTS`` with ``made``: those in the index are what counts."""
        return self._union(spark, "segments", SEGMENTS).withColumnRenamed("generation", "made")

    def verdicts(self, spark: SparkSession) -> DataFrame:
        """The verdicts on all entries, as ``culm.spark.verify`` gives them."""
        from pyspark.sql import functions

        nothing = functions.lit(b"").alias("previous")
        live = self.segments(spark).join(
            self.index(spark).drop("block", "high", "summary"), ["author", "log", "low", "made"]
        )
        return live.select(*JUDGED.names[:-1], nothing).mapInArrow(pronounced, VERDICTS.ddl)

    def _union(self, spark: SparkSession, name: str, columns: Columns) -> DataFrame:
        from pyspark.sql import functions

        tables = [
            read_table(spark, self.place(number) / name, columns.ddl).withColumn(
                "generation", functions.lit(number).cast("BIGINT")
            )
            for number in self.generations
        ]
        if not tables:
            return spark.createDataFrame([], f"{columns.ddl}, generation BIGINT")
        whole = tables[0]
        for table in tables[1:]:
            whole = whole.unionByName(table)
        return whole
