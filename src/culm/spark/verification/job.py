"""The whole verification, from paths to a folder of results: what ``culm spark verify`` and ``culm spark forks`` run.

::

    OUTPUT/verdicts/       Parquet: a row for each distinct entry (columns: ``verify``)
    OUTPUT/rejects/        Parquet: source, offset, reason of what could not be read
    OUTPUT/forks/          Parquet: each forked log with its proof (``forks.Fork``), if that is asked for
    OUTPUT/summary.json    the counts

``culm spark forks`` takes the same steps, but writes no verdicts, and the proofs twice: as a table for queries, and as
a bundle that nodes take::

    OUTPUT/forks/          as above
    OUTPUT/forks.bundle    the proofs as a file that ``culm import`` takes
    OUTPUT/logs/           Parquet: how far each log can be trusted (``forks.Prefix``)
    OUTPUT/rejects/        as above
    OUTPUT/summary.json    the counts, and the first forks

Between the stages stand tables on disk, in a folder ``work`` that is removed at the end. Spark could keep them in
memory or make them again when they are needed, but not here. Rejects and verdicts both come from the segments. If
Spark made those twice, inputs that change meanwhile would give two answers; and if an executor died, Spark would check
its signatures again. The bytes of packs and findings lie beside these tables (``batches.slices``).

With a state (``state``) a run reads only the parts of it that the inputs touch. ``verdicts`` then holds the
entries that are new or whose verdict changed, and the counts are of everything that the state knows.

On a cluster, inputs, output and state must be under the same paths on every machine.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from culm.bamboo import ForkProof
from culm.errors import BadSignature, ConfigError
from culm.spark.reading.inputs import plan
from culm.spark.runtime.columns import Row, rows
from culm.spark.runtime.engine import Table
from culm.spark.runtime.onspark import OnSpark, frame_of
from culm.spark.runtime.shell import Result, is_small, job
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.forks import Fork, Prefix, forks, settled, told
from culm.spark.verification.lakehouse import Target
from culm.spark.verification.merge import sums
from culm.spark.verification.state import held
from culm.spark.verification.verdicts import Verdict
from culm.spark.verification.verify import Increment, Verification
from culm.store.files import BundleWriter

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
    something is missing or invalid.
    """

    entries: int
    verified: int
    unverified: int
    invalid: int
    forks: int
    payload_mismatches: int
    rejects: int
    signatures: str
    uncertified: int

    @classmethod
    def of(cls, counts: Mapping[str, int], signatures: str) -> Self:
        """The summary of the counts of a verification (``verify.Verification.pronounce``)."""
        rest = dict(counts)
        uncertified = rest["verified"] - rest.pop("certified")
        return cls(**rest, signatures=signatures, uncertified=uncertified)

    def table(self) -> str:
        """The counts as aligned lines, and what to think of entries that are not certified.

        The time is left out, so that the same inputs give the same text.
        """
        counts = {
            "entries": self.entries,
            "  verified": self.verified,
            "    not certified": self.uncertified,
            "  unverified": self.unverified,
            "  invalid": self.invalid,
            "forked logs": self.forks,
            "wrong payloads": self.payload_mismatches,
            "rejects": self.rejects,
        }
        left, right = max(map(len, counts)), max(len(f"{count:,}") for count in counts.values())
        lines = [f"{label:{left}}  {count:>{right},}" for label, count in counts.items()]
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
    left running. Without either, inputs up to 32 MiB are verified without Spark (``runtime.engine``), larger ones on
    ``local[*]``. ``overwrite`` allows to replace earlier results at ``output``. ``signatures`` is ``all`` or ``heads``
    (``authentic``). ``state`` is the folder of a state, made if it is not there; None verifies the inputs
    alone. ``with_forks`` writes the proofs of forks, too. ``table`` also gets the verdicts, in ``table_format``
    (``lakehouse``); this takes Spark. ``progress`` is called with one line for each stage.

    ``ConfigError`` or ``StoreError``, before Spark is started, if an input cannot be read, the state does not fit or
    the output cannot be written. ``ConfigError`` if Spark, Java or the master is missing. ``CulmError`` if Spark fails.
    After any error the state is as it was.
    """
    if table is None and table_format != "parquet":
        raise ConfigError(f"{table_format} is the format of a table; name the table, too")
    target_mode = "merge" if state is not None else "overwrite" if overwrite else "error"
    target = None if table is None else Target(table, table_format, target_mode)
    splits, ways = plan(inputs), Signatures(signatures)
    mode = {"signatures": signatures, "forks": with_forks, "state": None if state is None else str(state)}
    reads: list[str | Path] = [*inputs, *([state] if state else [])]
    with nullcontext() if state is None else held(state.absolute(), ways) as known:
        with job("verify", output, reads, mode=mode, overwrite=overwrite, progress=progress) as run:
            with run.engine(master, small=target is None and is_small(splits)) as engine:
                if target is not None and isinstance(engine, OnSpark):
                    target.check(engine.spark)
                verification = Increment(engine, known) if known else Verification(engine, ways, keep=with_forks)
                verification.read(run, splits)
                run.say("writing the verdicts")
                counts = verification.pronounce(run.folder / "verdicts")
                if with_forks:
                    run.say("writing the proofs of forks")
                    forks(*verification.forked()).kept(run.folder / "forks")
                if target is not None:
                    run.say(f"writing the table {target.name}")
                    target.write(frame_of(engine.stored(run.folder / "verdicts", Verdict)), known)
            summary = run.done(Summary.of(counts, signatures))
        if known is not None:
            known.commit(counts)
    return summary


# -- forks ----------------------------------------------------------------------------------------------------------

BUNDLE = "forks.bundle"
MOST_SHOWN = 100
"""Forks in ``summary.json`` and in what ``--json`` prints; the table has all. Inputs may have very many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forks(Result):
    """The summary: distinct entries, logs, and how many of the logs are forked.

    ``unproved`` forks are not in the bundle, because an entry of their proof has no good signature of its own (with
    ``signatures="heads"`` only). ``rejects`` counts what could not be read. ``first``: the first forks by author and
    log, at most ``MOST_SHOWN``.
    """

    entries: int
    logs: int
    forks: int
    unproved: int
    rejects: int
    first: tuple[Fork, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The counts by name, and ``first`` as dictionaries."""
        return {**Result.as_dict(self), "first": [fork.as_dict() for fork in self.first]}


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

    Arguments and errors are those of ``run``. Small inputs go without Spark here, too.
    """
    splits, ways = plan(inputs), Signatures(signatures)
    with job("forks", output, inputs, mode={"signatures": signatures}, overwrite=overwrite, progress=progress) as run:
        with run.engine(master, small=is_small(splits)) as engine:
            verification = Verification(engine, ways, keep=True)
            verification.read(run, splits)
            run.say("finding how far each log can be trusted, and writing the proofs of forks")
            at: dict[type[Row], Path] = {Prefix: run.folder / "logs", Fork: run.folder / "forks"}
            logs, found = told(*verification.forked()).keep(settled, Prefix, Fork, at=at)
            counts = {"logs": logs.count(), "forks": found.count(), "rejects": verification.rejects.count()}
            counts |= sums(logs, ("entries",))
            first = tuple(found.first(Fork, MOST_SHOWN, "author", "log_id"))
            run.say("writing the proofs of forks as a file")
            unproved = write_bundle(found, run.folder / BUNDLE)
        return run.done(Forks(**counts, unproved=unproved, first=first))


def write_bundle(found: Table[Fork], file: Path) -> int:
    """Write proofs as a bundle; returns how many were left out because of a bad signature.

    Each is checked as a node would check it, because the bundle is made for nodes.
    """
    written = 0
    with file.open("wb") as stream, closing(BundleWriter(stream)) as bundle:
        for row in rows(Fork, found.batches(*Fork._fields)):
            with suppress(BadSignature):
                proof = ForkProof.decode(row.proof)
                proof.check()
                bundle.proof(proof)
                written += 1
    return found.count() - written
