"""The whole verification, from paths to a folder of results: what ``culm spark verify`` runs.

::

    OUTPUT/verdicts/       Parquet: a row for each distinct entry (columns: ``culm.spark.verify``)
    OUTPUT/rejects/        Parquet: source, offset, reason of what could not be read
    OUTPUT/forks/          Parquet: the proof of each fork (columns: ``culm.spark.forks``), if that is asked for
    OUTPUT/summary.json    the counts

Between the stages stand tables on disk, in a folder ``work`` that is removed at the end. Spark could keep them in
memory or make them again when they are needed, but not here. Rejects and verdicts both come from the segments. If
Spark made those twice, inputs that change meanwhile would give two answers; and if an executor died, Spark would check
its signatures again. The bytes of packs and findings lie beside these tables (``culm.spark.slices``).

With a state (``culm.spark.state``) a run reads only the parts of it that the inputs touch. ``verdicts`` then holds the
entries that are new or whose verdict changed, and the counts are of everything that the state knows.

On a cluster, inputs, output and state must be under the same paths on every machine.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from culm.spark.failures import check_installed
from culm.spark.forks import forks
from culm.spark.incremental import Increment
from culm.spark.inputs import plan
from culm.spark.output import (
    SUMMARY,
    check_not_inside,
    count_rows,
    kept_from_workers,
    read_batches,
    read_table,
    whole_folder,
    write_batches,
    write_from_workers,
    write_table,
)
from culm.spark.plain import REJECTS, PlainRun, is_small
from culm.spark.running import is_running, running, silent
from culm.spark.segment import Signatures
from culm.spark.state import State, held
from culm.spark.steps import COUNTS, OUTCOMES, SEGMENTS, VERDICTS, merged, pronounced_and_counted, segmented
from culm.spark.summary import Summary
from culm.spark.verify import by_block, by_log, chosen, joined, packed_splits, settled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.inputs import Split

SETTINGS = {
    # Java only moves small rows here. Its slower compiler is enough: with ten million entries the faster code of the
    # other one does not make up for the time that compiling it takes.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    # Where Spark chooses the number of tasks: half of its default of 64 MiB of rows in each, so that a task checks some
    # 100,000 signatures at most.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "32m",
}
"""Settings for a session of this job, beyond those of ``culm.spark.session``."""

# Bounds for the number of tasks of a step. At least so many that all cores have work, even if most of the inputs'
# bytes are payloads and there are few entries; at most so many that Spark does not mostly start tasks.
_FEWEST_TASKS, _MOST_TASKS = 8, 2000

# Bytes of the inputs whose entries one task verifies: a second or two of work. With heads there are far fewer
# signatures to check, so the same time takes more bytes. Longer tasks leave cores idle at the end of the step.
_JUDGED_BYTES = {Signatures.STRICT: 4 * 1024 * 1024, Signatures.HEADS: 16 * 1024 * 1024}

# Bytes of the inputs whose logs one task settles. Only summaries are read for that, a small part of these bytes.
_MERGED_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Task:
    splits: list[Split]
    signatures: Signatures
    forks: bool
    say: Callable[[str], None]

    def tasks(self, of_bytes: int) -> int:
        """How many tasks a step needs if each does this many bytes of the inputs."""
        size = sum(piece.size for split in self.splits for piece in split)
        return min(max(_FEWEST_TASKS, size // of_bytes), _MOST_TASKS)

    def say_reading(self) -> None:
        count = len(self.splits)
        self.say(f"reading the inputs ({count} {'task' if count == 1 else 'tasks'}), checking signatures")


def run(
    inputs: Sequence[str],
    output: Path,
    *,
    master: str | None = None,
    overwrite: bool = False,
    signatures: str = "all",
    state: Path | None = None,
    with_forks: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Summary:
    """Verify stores, export files and tables of entries, and write the folder ``output``: all of it, or none.

    ``master`` is Spark's (``local[4]``, ``spark://host:7077``). A session that is active already is used instead, and
    left running. Without either, inputs up to 32 MiB are verified without Spark (``culm.spark.plain``), larger ones on
    ``local[*]``. ``overwrite`` allows to replace earlier results at ``output``. ``signatures`` is ``all`` or ``heads``
    (``culm.spark.segment``). ``state`` is the folder of a state, made if it is not there; None verifies the inputs
    alone. ``with_forks`` writes the proofs of forks, too. ``progress`` is called with one line for each stage.

    ``ConfigError`` or ``StoreError``, before Spark is started, if an input cannot be read, the state does not fit or
    the output cannot be written. ``ConfigError`` if Spark, Java or the master is missing. ``CulmError`` if Spark fails.
    After any error the state is as it was.
    """
    started = time.monotonic()
    check_installed()
    say = progress or silent
    output = output.absolute()
    task = _Task(plan(inputs), chosen(signatures), with_forks, say)
    for path in [*inputs, *([] if state is None else [str(state)])]:
        check_not_inside(path, output, overwrite=overwrite)
    if state is None:
        return _run(task, None, output, master, started)
    state = state.absolute()
    with held(state):
        return _run(task, State.open(state, task.signatures), output, master, started)


def _run(task: _Task, known: State | None, output: Path, master: str | None, started: float) -> Summary:
    say = task.say
    with whole_folder(output) as folder:
        if master is None and is_small(task.splits) and not is_running():
            say("small inputs: without Spark")
            counts = _verify_here(task, known, folder)
        else:
            with running(master or "local[*]", say, SETTINGS) as spark:
                verify = _verify if known is None else partial(_verify_more, state=known)
                counts = verify(spark, task, folder)
            rmtree(folder / "work")
        taken = round(time.monotonic() - started, 3)
        summary = Summary(**counts, seconds=taken, signatures=task.signatures.value)
        text = json.dumps(summary.as_dict(), indent=2)
        (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
    if known is not None:
        known.commit(counts)
    return summary


def _verify(spark: SparkSession, task: _Task, folder: Path) -> dict[str, int]:
    """Verify the inputs on Spark, without a state; the counts for the summary."""
    work = folder / "work"
    task.say_reading()
    packs = packed_splits(spark, task.splits, work / "packs")
    judge = segmented(task.signatures, keep=task.forks, folder=work / "findings")
    found = kept_from_workers(
        by_block(packs, task.tasks(_JUDGED_BYTES[task.signatures])), judge, SEGMENTS, work / "segments"
    )
    rmtree(work / "packs", ignore_errors=True)
    found = settled(found, task.signatures, work / "settled")
    rejects = _rejects(work / "segments", folder)
    task.say("looking for paths and forks, log by log")
    reached = kept_from_workers(by_log(found, task.tasks(_MERGED_BYTES)), merged(), OUTCOMES, work / "outcomes")
    task.say("writing the verdicts")
    _write_verdicts(joined(found, reached), folder)
    if task.forks:
        task.say("writing the proofs of forks")
        write_table(forks(found, reached).orderBy("author", "log_id"), folder / "forks")
    return {**_totals([work / "counts"]), "forks": len(_forked([work / "outcomes"])), "rejects": rejects}


def _verify_here(task: _Task, state: State | None, folder: Path) -> dict[str, int]:
    """Verify the inputs without Spark, with a state or without; the counts for the summary."""
    here = PlainRun(task.signatures, state, folder)
    task.say_reading()
    rejects = here.take(task.splits)
    task.say("looking for paths and forks, log by log")
    here.merge()
    task.say("writing the verdicts")
    here.write_verdicts()
    counts = here.totals()
    if task.forks:
        task.say("writing the proofs of forks")
        here.write_forks()
    return {**counts, "rejects": rejects + (0 if state is None else state.totals.get("rejects", 0))}


def _verify_more(spark: SparkSession, task: _Task, folder: Path, state: State) -> dict[str, int]:
    """Verify the inputs on Spark on top of a state; the counts of all that the state then knows.

    The state takes that on only when it is committed. Its counts are not added up anew from everything: the touched
    logs' counts as they were are taken away, and those as they are now added.
    """
    work = folder / "work"
    task.say_reading()
    increment = Increment(spark, state, work)
    rejects = _rejects(increment.take(packed_splits(spark, task.splits)), folder)
    task.say("looking for paths and forks in the logs that changed")
    increment.merge()
    task.say("writing the verdicts that changed")
    _write_verdicts(increment.judged(), folder)
    increment.write_index(read_table(spark, work / "counts", COUNTS.ddl))
    if task.forks:
        task.say("writing the proofs of forks")
        write_table(forks(*increment.forked()).orderBy("author", "log_id"), folder / "forks")
    before, now = increment.indexes
    totals = {name: state.totals.get(name, 0) for name in (*COUNTS.names[3:], "forks", "rejects")}
    for sign, places in ((-1, before), (1, now)):
        for name, value in {**_totals(places), "forks": len(_forked(places))}.items():
            totals[name] += sign * value
    totals["rejects"] += rejects
    return totals


def _totals(places: Sequence[Path]) -> dict[str, int]:
    """The sums of the counts in some tables that have the columns of ``COUNTS``."""
    names = COUNTS.names[3:]
    sums = dict.fromkeys(names, 0)
    for place in places:
        for batch in read_batches(place, names):
            for name in names:
                sums[name] += sum(batch.column(name).to_pylist())
    return sums


def _forked(places: Sequence[Path]) -> set[tuple[bytes, int]]:
    """The forked logs in some tables that have the columns ``author``, ``log`` and ``forked_at``."""
    found: set[tuple[bytes, int]] = set()
    for place in places:
        for batch in read_batches(place, ["author", "log", "forked_at"]):
            forked = batch.filter(batch.column("forked_at").is_valid())
            found.update(zip(forked.column("author").to_pylist(), forked.column("log").to_pylist(), strict=True))
    return found


def _rejects(segments: Path, folder: Path) -> int:
    """Write the rejects of a table of segments; returns how many there are."""
    rows = (batch.filter(batch.column("reason").is_valid()) for batch in read_batches(segments, REJECTS.names))
    write_batches(rows, REJECTS, folder / "rejects")
    return count_rows(folder / "rejects")


def _write_verdicts(segments: DataFrame, folder: Path) -> None:
    counts = folder / "work" / "counts"
    write_from_workers(segments, pronounced_and_counted, VERDICTS, COUNTS, folder / "verdicts", counts)
