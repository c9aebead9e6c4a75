"""What every job does around its work: a folder of results that is whole or not there, an engine, a summary.

::

    with job("forks", output, inputs, overwrite=overwrite, progress=progress) as run:
        with run.engine(master, small=is_small(splits)) as engine:
            ...                                     # fill run.folder
        return run.done(Forks(entries=..., ...))    # writes summary.json
"""

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from culm.results import SUMMARY
from culm.spark.reading.entries import least_tasks
from culm.spark.reading.inputs import Split, shared
from culm.spark.runtime.engine import Engine
from culm.spark.runtime.folders import check_output, whole_folder
from culm.spark.runtime.onspark import OnSpark
from culm.spark.runtime.output import now, provenance, stating
from culm.spark.runtime.session import is_running, running, silent
from culm.spark.storage import Location, located
from culm.spark.storage.filesystems import said
from culm.spark.storage.location import copy_to, naming

SETTINGS = {
    # Java only moves small rows here. Its slower compiler is enough: with ten million entries the faster code of the
    # other one does not make up for the time that compiling it takes.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    # Where Spark chooses the number of tasks: half of its default of 64 MiB of rows in each, so that a task checks some
    # 100,000 signatures at most.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32m",
}
"""Settings for a session in which steps run in Python, beyond those of ``session``."""

SMALL_BYTES = 32 * 1024 * 1024
"""Inputs up to about this size go without Spark, unless a master is named.

All their entries are in this process's memory at once, on one core. With a much larger value Spark's start would be
the smaller cost; with a much smaller one a user would wait for Spark's start for nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a job returns: its counts. ``seconds`` is the time of the whole run, Spark's start included."""

    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The numbers by name; the time comes last."""
        numbers = asdict(self)
        numbers["seconds"] = numbers.pop("seconds")
        return numbers


S = TypeVar("S", bound=Result)


@dataclass(frozen=True, slots=True)
class Job:
    """A job at work. ``folder`` is where its results go, ``say`` takes a line for each stage."""

    folder: Path
    say: Callable[[str], None]
    started: float
    made: Mapping[str, Any]

    @contextmanager
    def engine(self, master: str | None, *, small: bool) -> Iterator[Engine]:
        """The engine for this block: Spark's if a master is named or a session is active, else the one that fits."""
        if master is None and small and not is_running():
            self.say("small inputs: without Spark")
            yield Engine()
            return
        with self.spark(master or "local[*]", SETTINGS) as spark:
            yield OnSpark(spark, self.folder / "work")

    @contextmanager
    def spark(self, master: str, settings: dict[str, str] | None = None) -> Iterator[SparkSession]:
        """The active session, or one at this master for this block. ``folder / "work"`` is removed after it."""
        with running(master, self.say, settings) as spark:
            yield spark
        rmtree(self.folder / "work", ignore_errors=True)

    def say_reading(self, splits: list[Split]) -> None:
        """Say that the inputs are read now, and by how many tasks."""
        active = SparkSession.getActiveSession()
        count = len(splits if active is None else shared(splits, least_tasks(active)))
        self.say(f"reading the inputs ({count} {'task' if count == 1 else 'tasks'}), checking signatures")

    def done(self, result: S) -> S:
        """Write the summary, with the time that the job took."""
        timed = replace(result, seconds=round(time.monotonic() - self.started, 3))
        text = json.dumps({**timed.as_dict(), "made": {**self.made, "ended": now()}}, indent=2)
        (self.folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
        return timed


@contextmanager
def job(
    command: str,
    output: Path | Location,
    reads: Iterable[str | Path],
    *,
    mode: Mapping[str, object] | None = None,
    overwrite: bool,
    progress: Callable[[str], None] | None,
) -> Iterator[Job]:
    """One run of a job, whose results take the place of ``output`` at the end of the block, unless that raises.

    ``command``, ``reads`` and ``mode`` are stated with the results (``output.provenance``).
    ``ConfigError`` if the output cannot be written, or if replacing it would delete one of the paths in ``reads``.
    """
    started, places = time.monotonic(), list(reads)
    check_output(output, overwrite=overwrite, reads=places)
    made = provenance(command, places, mode or {})
    with whole_folder(output) as folder, stating(made):
        yield Job(folder, progress or silent, started, made)


@contextmanager
def local_input(place: str) -> Iterator[Path]:
    """A file or folder on this machine during this block: itself, or a copy if it is elsewhere.

    ``ConfigError`` if nothing is there. On a cluster all machines must see the folder for temporary files (``TMPDIR``),
    since workers read a copy there.
    """
    (location,) = located([place])
    with tempfile.TemporaryDirectory(prefix="culm-inputs-") as base:
        path = Path(location.uri) if location.is_local else Path(base, location.name)
        with said(location.uri):
            if not location.is_local:
                copy_to(path, *location.filesystem())
            path.stat()  # It raises if nothing is there.
        with naming(location, path):
            yield path


def size_of(splits: Iterable[Split]) -> int:
    """How many bytes some inputs have."""
    return sum(piece.size for split in splits for piece in split)


def is_small(splits: Iterable[Split]) -> bool:
    """Whether some inputs are small enough for this process."""
    return size_of(splits) <= SMALL_BYTES
