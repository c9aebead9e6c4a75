"""Forks, from paths to a folder of results: what ``culm spark forks`` runs.

::

    OUTPUT/forks/          Parquet: each forked log with its proof (columns: ``culm.spark.forks.forks``)
    OUTPUT/forks.bundle    the proofs as a file that ``culm import`` takes
    OUTPUT/logs/           Parquet: how far each log can be trusted (columns: ``culm.spark.prefixes.prefixes``)
    OUTPUT/rejects/        Parquet: source, offset, reason of what could not be read
    OUTPUT/summary.json    the counts, and the first forks

The steps are those of a verification (``culm.spark.job``), except that no verdicts are written. The proofs are written
twice: as a table for queries, and as a bundle that nodes take.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from heapq import nsmallest
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from culm.bamboo import ForkProof
from culm.errors import BadSignature
from culm.spark.failures import check_installed
from culm.spark.forks import FORKS, forks
from culm.spark.inputs import plan
from culm.spark.job import SETTINGS
from culm.spark.output import SUMMARY, check_not_inside, count_rows, kept, read_batches, whole_folder, write_table
from culm.spark.plain import PlainRun, is_small
from culm.spark.prefixes import prefixes
from culm.spark.running import is_running, running, silent
from culm.spark.segment import Signatures
from culm.spark.steps import OUTCOMES, SEGMENTS
from culm.spark.verify import chosen, outcomes, packed_splits, rejected, segments, settled
from culm.store.files import BundleWriter
from culm.wire.places import author_text, log_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from culm.spark.inputs import Split

BUNDLE = "forks.bundle"
MOST_SHOWN = 100
"""Forks in ``summary.json`` and in what ``--json`` prints; the table has all. Inputs may have very many of them."""


@dataclass(frozen=True, slots=True)
class FoundFork:
    """A row of ``culm.spark.forks.forks``, without the proof's bytes."""

    author: bytes
    log_id: int
    position: int
    case: str
    first_seq: int
    second_seq: int
    valid_to: int

    @property
    def log(self) -> str:
        """The log as the command line writes it."""
        return log_text((self.author, self.log_id))

    def explain(self) -> str:
        """One clause that says what contradicts what."""
        return f"{self.case} (entries {self.first_seq} and {self.second_seq})"

    def as_dict(self) -> dict[str, int | str]:
        """The fields by name, the author in base62."""
        return {**asdict(self), "author": author_text(self.author)}


@dataclass(frozen=True, slots=True)
class Forks:
    """The summary: distinct entries, logs, and how many of the logs are forked.

    ``unproved`` forks are not in the bundle, because an entry of their proof has no good signature of its own (with
    ``signatures="heads"`` only). ``rejects`` counts what could not be read. ``seconds`` includes Spark's start.
    ``first``: the first forks by author and log, at most ``MOST_SHOWN``.
    """

    entries: int
    logs: int
    forks: int
    unproved: int
    rejects: int
    seconds: float
    first: tuple[FoundFork, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The counts by name, and ``first`` as dictionaries."""
        counts = {name: getattr(self, name) for name in ("entries", "logs", "forks", "unproved", "rejects", "seconds")}
        return {**counts, "first": [fork.as_dict() for fork in self.first]}


def run_forks(
    inputs: Sequence[str],
    output: Path,
    *,
    master: str | None = None,
    overwrite: bool = False,
    signatures: str = "all",
    progress: Callable[[str], None] | None = None,
) -> Forks:
    """Find the forks in stores, export files and tables of entries, and write the folder ``output``: all, or none.

    Arguments and errors are those of ``culm.spark.job.run``. Small inputs go without Spark here, too.
    """
    started = time.monotonic()
    check_installed()
    say = progress or silent
    output = output.absolute()
    splits, ways = plan(inputs), chosen(signatures)
    for path in inputs:
        check_not_inside(Path(path), output, overwrite=overwrite)
    with whole_folder(output) as folder:
        if master is None and is_small(splits) and not is_running():
            say("small inputs: without Spark")
            _find_here(splits, ways, folder, say)
        else:
            with running(master or "local[*]", say, SETTINGS) as spark:
                _find(spark, splits, ways, folder, say)
            rmtree(folder / "work")
        say("writing the proofs of forks as a file")
        unproved = write_bundle(folder / "forks", folder / BUNDLE, checked=ways is Signatures.STRICT)
        found = Forks(
            entries=sum(sum(batch.column(0).to_pylist()) for batch in read_batches(folder / "logs", ["entries"])),
            logs=count_rows(folder / "logs"),
            forks=count_rows(folder / "forks"),
            unproved=unproved,
            rejects=count_rows(folder / "rejects"),
            seconds=round(time.monotonic() - started, 3),
            first=tuple(_first(folder / "forks")),
        )
        (folder / SUMMARY).write_text(json.dumps(found.as_dict(), indent=2) + "\n", encoding="utf-8")
    return found


def _find(
    spark: SparkSession, splits: list[Split], signatures: Signatures, folder: Path, say: Callable[[str], None]
) -> None:
    """Write the tables, on Spark."""
    work = folder / "work"
    say(_reading(splits))
    found = kept(segments(packed_splits(spark, splits), signatures, keep=True), work / "segments", SEGMENTS.ddl)
    found = settled(found, signatures, work / "settled")
    write_table(rejected(found), folder / "rejects")
    say("looking for paths and forks, log by log")
    reached = kept(outcomes(found), work / "outcomes", OUTCOMES.ddl)
    say("finding how far each log can be trusted")
    write_table(prefixes(found, reached), folder / "logs")
    say("writing the proofs of forks")
    write_table(forks(found, reached).orderBy("author", "log_id"), folder / "forks")


def _find_here(splits: list[Split], signatures: Signatures, folder: Path, say: Callable[[str], None]) -> None:
    """Write the tables, without Spark."""
    here = PlainRun(signatures, None, folder)
    say(_reading(splits))
    here.take(splits)
    say("looking for paths and forks, log by log")
    here.merge()
    say("finding how far each log can be trusted")
    here.write_prefixes()
    say("writing the proofs of forks")
    here.write_forks()


def _reading(splits: list[Split]) -> str:
    count = len(splits)
    return f"reading the inputs ({count} {'task' if count == 1 else 'tasks'}), checking signatures"


def write_bundle(table: Path, file: Path, *, checked: bool) -> int:
    """Write the proofs in a table of forks as a bundle; returns how many were left out because of a bad signature.

    ``checked``: all signatures were checked before, so none is checked here. Otherwise each proof is checked as a node
    would check it, because the bundle is made for nodes.
    """
    left_out = 0
    with file.open("wb") as stream:
        bundle = BundleWriter(stream)
        for batch in read_batches(table, ["proof"]):
            for data in batch.column(0).to_pylist():
                proof = ForkProof.decode(data)
                try:
                    if not checked:
                        proof.check()
                except BadSignature:
                    left_out += 1
                    continue
                bundle.proof(proof)
        bundle.close()
    return left_out


def _first(table: Path) -> list[FoundFork]:
    return nsmallest(MOST_SHOWN, _rows(table), key=lambda fork: (fork.author, fork.log_id))


def _rows(table: Path) -> Iterator[FoundFork]:
    names = [name for name in FORKS.names if name != "proof"]
    for batch in read_batches(table, names):
        for author, log_id, position, case, first_seq, second_seq, valid_to in zip(
            *(column.to_pylist() for column in batch.columns), strict=True
        ):
            numbers = map(int, (first_seq, second_seq, valid_to))
            yield FoundFork(author, int(log_id), int(position), case, *numbers)
