"""Forks, from paths to a folder of results: what ``culm spark forks`` runs.

::

    OUTPUT/forks/          Parquet: each forked log with its proof (columns: ``forks.Fork``)
    OUTPUT/forks.bundle    the proofs as a file that ``culm import`` takes
    OUTPUT/logs/           Parquet: how far each log can be trusted (columns: ``forks.Prefix``)
    OUTPUT/rejects/        Parquet: source, offset, reason of what could not be read
    OUTPUT/summary.json    the counts, and the first forks

The steps are those of a verification (``job``), except that no verdicts are written. The proofs are written
twice: as a table for queries, and as a bundle that nodes take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import attrgetter
from pathlib import Path
from typing import Any

from culm.bamboo import ForkProof
from culm.errors import BadSignature
from culm.spark.reading.inputs import plan
from culm.spark.runtime.columns import rows
from culm.spark.runtime.output import read_batches
from culm.spark.runtime.shell import Result, is_small, job, size_of
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.forks import Fork, forks, prefixes
from culm.spark.verification.verify import Verification, chosen, sums
from culm.store.files import BundleWriter

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

    Arguments and errors are those of ``job.run``. Small inputs go without Spark here, too.
    """
    splits, ways = plan(inputs), chosen(signatures)
    mode = {"signatures": signatures}
    with job("forks", output, inputs, mode=mode, overwrite=overwrite, progress=progress) as run:
        with run.engine(master, small=is_small(splits)) as engine:
            verification = Verification(engine, ways, keep=True, size=size_of(splits))
            rejects = verification.read(run, splits)
            run.say("finding how far each log can be trusted")
            logs = prefixes(*verification.forked()).kept(run.folder / "logs")
            run.say("writing the proofs of forks")
            found = forks(*verification.forked()).kept(run.folder / "forks")
            counts = {"logs": logs.count(), "forks": found.count(), "rejects": rejects.count()}
            counts |= sums(logs, ("entries",))
        run.say("writing the proofs of forks as a file")
        unproved = write_bundle(run.folder / "forks", run.folder / BUNDLE, checked=ways is Signatures.STRICT)
        every = rows(Fork, read_batches(run.folder / "forks", Fork._fields))
        first = tuple(nsmallest(MOST_SHOWN, every, key=attrgetter("author", "log_id")))
        return run.done(Forks(**counts, unproved=unproved, first=first))


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
