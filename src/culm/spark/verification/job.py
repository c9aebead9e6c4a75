"""The whole verification, from paths to a folder of results: what ``culm spark verify`` runs.

::

    OUTPUT/verdicts/       Parquet: a row for each distinct entry (columns: ``verify``)
    OUTPUT/rejects/        Parquet: source, offset, reason of what could not be read
    OUTPUT/forks/          Parquet: the proof of each fork (columns: ``forks``), if that is asked for
    OUTPUT/summary.json    the counts

Between the stages stand tables on disk, in a folder ``work`` that is removed at the end. Spark could keep them in
memory or make them again when they are needed, but not here. Rejects and verdicts both come from the segments. If
Spark made those twice, inputs that change meanwhile would give two answers; and if an executor died, Spark would check
its signatures again. The bytes of packs and findings lie beside these tables (``batches.slices``).

With a state (``state``) a run reads only the parts of it that the inputs touch. ``verdicts`` then holds the
entries that are new or whose verdict changed, and the counts are of everything that the state knows.

On a cluster, inputs, output and state must be under the same paths on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from culm.spark.reading.inputs import plan
from culm.spark.runtime.output import place_of
from culm.spark.runtime.shell import SETTINGS, is_small, job, size_of
from culm.spark.verification.forks import Fork, forks
from culm.spark.verification.incremental import Increment
from culm.spark.verification.lakehouse import Target
from culm.spark.verification.state import State, held
from culm.spark.verification.summary import Summary
from culm.spark.verification.verify import Verification, chosen


def run(
    inputs: Sequence[str],
    output: Path,
    *,
    master: str | None = None,
    overwrite: bool = False,
    signatures: str = "all",
    state: Path | None = None,
    with_forks: bool = False,
    table: str | None = None,
    table_format: str = "parquet",
    progress: Callable[[str], None] | None = None,
) -> Summary:
    """Verify stores, export files and tables of entries, and write the folder ``output``: all of it, or none.

    ``master`` is Spark's (``local[4]``, ``spark://host:7077``). A session that is active already is used instead, and
    left running. Without either, inputs up to 32 MiB are verified without Spark (``runtime.here``), larger ones on
    ``local[*]``. ``overwrite`` allows to replace earlier results at ``output``. ``signatures`` is ``all`` or ``heads``
    (``authentic``). ``state`` is the folder of a state, made if it is not there; None verifies the inputs
    alone. ``with_forks`` writes the proofs of forks, too. ``table`` also gets the verdicts, in ``table_format``
    (``lakehouse``); this takes Spark. ``progress`` is called with one line for each stage.

    ``ConfigError`` or ``StoreError``, before Spark is started, if an input cannot be read, the state does not fit or
    the output cannot be written. ``ConfigError`` if Spark, Java or the master is missing. ``CulmError`` if Spark fails.
    After any error the state is as it was.
    """
    target = Target.of(table, table_format, overwrite=overwrite, merges=state is not None)
    splits, ways = plan(inputs), chosen(signatures)
    with ExitStack() as stack:
        mode = {"signatures": signatures, "forks": with_forks, "state": None if state is None else str(state)}
        reads: list[str | Path] = [*inputs, *([state] if state else [])]
        run = stack.enter_context(job("verify", output, reads, mode=mode, overwrite=overwrite, progress=progress))
        known = None
        if state is not None:
            stack.enter_context(held(state.absolute()))
            known = State.open(state.absolute(), ways)
        spark = None
        if target is not None:
            spark = stack.enter_context(run.spark(master or "local[*]", SETTINGS))
            target.check(spark, known)
        with run.engine(master, small=is_small(splits)) as engine:
            size = size_of(splits)
            verification = (
                Verification(engine, ways, keep=with_forks, size=size)
                if known is None
                else Increment(engine, known, size=size)
            )
            rejects = verification.read(run, splits)
            run.say("writing the verdicts")
            counts = verification.pronounce(run.folder / "verdicts")
            counts["rejects"] = rejects.count() + (known.totals.get("rejects", 0) if known else 0)
            if with_forks:
                run.say("writing the proofs of forks")
                forks(*verification.forked(), at={Fork: run.folder / "forks"})
        if target is not None and spark is not None:
            run.say(f"writing the table {target.table}")
            verdicts = spark.read.parquet(place_of(run.folder / "verdicts"))
            target.put(verdicts, known)
        summary = run.done(Summary.of(counts, signatures))
    if known is not None:
        known.commit(counts)
    return summary
