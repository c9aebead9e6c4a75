"""The same adversarial logs for every way to verify them, and what each way has to say of them.

``WorseLogs`` draws the logs: second histories, lies in links and sizes, ends, missing pools, copies, forged entries and
entries that their author never signed properly. What is true of them follows from the definitions (``defined``), which
know no store, no segment and no batch. A way is anything that ends in a table of verdicts and one of forks: a node's
store, one run or several on a state, a stream, a table of another format, a cluster. ``said`` reads its tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq

from culm.bamboo.verification import is_authentic
from culm.spark.batches import payload as states
from culm.spark.verification import job
from tests.bamboo import oracle
from tests.spark.worse_logs import TOPS, WorseLogs, vouched_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from culm.bamboo import Entry
    from culm.types import Log

_DAYS = 4  # A run on Spark takes seconds.


class Said(NamedTuple):
    """What is said of all entries, by hash: verdict and whether it is certified; and the lowest fork of forked logs."""

    entries: dict[bytes, tuple[str, bool]]
    forks: dict[Log, int]


class Drawn(NamedTuple):
    """Logs, the inputs of Spark that hold them, and what the definition says with every signature and with heads."""

    logs: WorseLogs
    inputs: list[str]
    strict: Said
    heads: Said


def draw(folder: Path, count: int, seed: int = 11) -> Drawn:
    """So many logs, with their inputs written into a folder."""
    logs = WorseLogs(seed=seed, count=count - len(TOPS), share_unsigned=0.01)
    signed = [{entry for entry in of_log if is_authentic(entry)} for of_log in logs.by_log()]
    vouched = [vouched_for(of_log, own) for of_log, own in zip(logs.by_log(), signed, strict=True)]
    return Drawn(logs, logs.write(folder), defined(logs, signed), defined(logs, vouched))


def defined(logs: WorseLogs, authentic: list[set[Entry]]) -> Said:
    """What the definitions say if these entries of each log are the authentic ones."""
    said = Said({entry.hash: ("invalid", False) for entry in logs.forged}, {})
    for of_log, held in zip(logs.by_log(), authentic, strict=True):
        lies = [entry.seq for entry in held if (data := of_log[entry]) is not None and len(data) != entry.size]
        verdicts = oracle.verdicts(held, lies)
        verified = {entry.seq for entry, verdict in verdicts.items() if verdict == oracle.VERIFIED}
        certified = oracle.certified(verified, max((entry.seq for entry in held), default=0))
        for entry in of_log:
            verdict = verdicts.get(entry, oracle.INVALID)
            is_certified = verdict == oracle.VERIFIED and entry.seq in certified
            said.entries[entry.hash] = ("unverified" if verdict == oracle.WAITING else verdict, is_certified)
        fork = oracle.fork_position(held)
        if fork is not None:
            said.forks[next(iter(of_log)).log] = fork
    return said


def said(drawn: Drawn, verdicts: Iterable[dict[str, Any]], forks: Iterable[dict[str, Any]]) -> Said:
    """What two tables say, once of each entry, with what is known of the payloads."""
    rows = list(verdicts)
    found = {row["entry_hash"]: (row["verdict"], row["certified"]) for row in rows}
    assert len(rows) == len(found)
    payloads = {row["entry_hash"]: row["payload"] for row in rows}
    for of_log in drawn.logs.by_log():
        for entry, data in of_log.items():
            if data is not None:
                known = states.HELD if len(data) == entry.size else states.SIZE_MISMATCH
                assert payloads[entry.hash] == known
    return Said(found, {(row["author"], int(row["log_id"])): int(row["position"]) for row in forks})


def in_folder(drawn: Drawn, output: Path) -> Said:
    """What a folder of results says."""
    return said(drawn, *(pq.read_table(output / name).to_pylist() for name in ("verdicts", "forks")))


def day_by_day(drawn: Drawn, folder: Path, signatures: str) -> list[Path]:
    """The results of runs on a state, which all together get the inputs."""
    outputs = [folder / f"day {number}" for number in range(_DAYS)]
    for number, output in enumerate(outputs):
        job.run(drawn.inputs[number::_DAYS], output, signatures=signatures, state=folder / "state", with_forks=True)
    return outputs


def merged(outputs: Iterable[Path]) -> list[dict[str, Any]]:
    """The verdicts of several runs on a state: a later one replaces an earlier one on the same entry."""
    rows = {row["entry_hash"]: row for output in outputs for row in pq.read_table(output / "verdicts").to_pylist()}
    return list(rows.values())
