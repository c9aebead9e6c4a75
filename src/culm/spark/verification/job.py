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

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from culm.spark.reading.inputs import plan
from culm.spark.runtime.onspark import OnSpark, frame_of
from culm.spark.runtime.shell import Result, is_small, job, size_of
from culm.spark.verification.forks import forks
from culm.spark.verification.incremental import Increment
from culm.spark.verification.lakehouse import Target
from culm.spark.verification.state import State, held
from culm.spark.verification.verdicts import Verdict
from culm.spark.verification.verify import Verification, chosen

_LINES = (
    ("entries", "entries"),
    ("verified", "  verified"),
    ("uncertified", "    not certified"),
    ("unverified", "  unverified"),
    ("invalid", "  invalid"),
    ("forks", "forked logs"),
    ("payload_mismatches", "wrong payloads"),
    ("rejects", "rejects"),
)

_WHY = (
    "not certified: each of these entries has a path to entry 1, but entries of its certificate pool are missing or"
    " invalid, so a fork could hide there"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary(Result):
    """How many distinct entries there are, and how many of each verdict.

    ``forks`` counts forked logs. ``payload_mismatches`` counts entries whose payload was read and has another hash or
    size than the entry names. ``rejects`` counts rows and parts of inputs that could not be read as entries.
    ``signatures`` says which ones were checked. ``uncertified`` counts verified entries of whose certificate pool
    something is missing or invalid; None if that is not known, on top of a state of an earlier version.
    """

    entries: int
    verified: int
    unverified: int
    invalid: int
    forks: int
    payload_mismatches: int
    rejects: int
    signatures: str
    uncertified: int | None = None

    @classmethod
    def of(cls, counts: Mapping[str, int], signatures: str) -> Summary:
        """The summary of the counts of a verification (``verify.Verification.pronounce``)."""
        rest = {name: value for name, value in counts.items() if name != "certified"}
        known = "certified" in counts
        return cls(
            **rest, signatures=signatures, uncertified=counts["verified"] - counts["certified"] if known else None
        )

    def table(self) -> str:
        """The counts as aligned lines, and what to think of entries that are not certified.

        The time is left out, so that the same inputs give the same text.
        """
        values = self.as_dict()
        rows = [(label, f"{values[name]:,}") for name, label in _LINES if values[name] is not None]
        left = max(len(label) for label, _ in rows)
        right = max(len(value) for _, value in rows)
        lines = [f"{label:<{left}}  {value:>{right}}" for label, value in rows]
        return "\n".join([*lines, *([_WHY] if self.uncertified else [])])


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
        size, small = size_of(splits), target is None and is_small(splits)
        with run.engine(master, small=small) as engine:
            if target is not None and isinstance(engine, OnSpark):
                target.check(engine.spark, known)
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
                forks(*verification.forked()).kept(run.folder / "forks")
            if target is not None and isinstance(engine, OnSpark):
                run.say(f"writing the table {target.table}")
                target.put(frame_of(engine.stored(run.folder / "verdicts", Verdict)), known)
        summary = run.done(Summary.of(counts, signatures))
    if known is not None:
        known.commit(counts)
    return summary
