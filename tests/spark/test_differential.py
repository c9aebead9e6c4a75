"""One verdict, whoever says it: adversarial logs in stores, by every way in, in Spark's engines, and by the definition.

``WorseLogs`` draws the logs: second histories, lies in links and sizes, ends, missing pools, copies, forged entries and
entries that their author never signed properly. Every way has to say the same of each entry, whether it is verified and
whether it is certified, and of each log where its lowest fork is. ``CULM_MODELS=20`` (``make models``) takes a thousand
logs.
"""

from __future__ import annotations

import io
import random
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq
import pytest

from culm.bamboo import Entry, audit
from culm.bamboo.verification import is_authentic
from culm.spark import job, shell
from culm.spark import payload as states
from culm.store import PayloadState, SQLiteStore, State
from culm.store.exchange import Importer
from culm.store.files import BundleWriter
from tests.bamboo import oracle
from tests.models import FACTOR, MARKS, count
from tests.spark.worse_logs import TOPS, WorseLogs, vouched_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from culm.store import StoredEntry
    from culm.types import Log
    from tests.spark.random_logs import OfLog

    Item = tuple[Entry, bytes | None]

pytestmark = MARKS

LOGS = 50 * FACTOR
STATES = {State.VERIFIED: "verified", State.WAITING: "unverified", State.INVALID: "invalid"}


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


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """The logs of this run of the tests."""
    folder = tmp_path_factory.mktemp("adversarial")
    logs = WorseLogs(seed=11, count=LOGS - len(TOPS), share_unsigned=0.01)
    signed = [{entry for entry in of_log if is_authentic(entry)} for of_log in logs.by_log()]
    vouched = [vouched_for(of_log, own) for of_log, own in zip(logs.by_log(), signed, strict=True)]
    count("logs", LOGS)
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


def test_the_logs_have_everything(drawn: Drawn) -> None:
    """There are all verdicts, forks, and entries that are verified only; the auditor says the same of entries."""
    found = list(drawn.strict.entries.values())
    for kind in [("verified", True), ("verified", False), ("unverified", False), ("invalid", False)]:
        assert found.count(kind) > LOGS // 5, kind
    assert LOGS / 5 < len(drawn.strict.forks) < LOGS
    for of_log in drawn.logs.by_log():
        if all(data is None or len(data) == entry.size for entry, data in of_log.items()):
            verdicts, _ = audit(entry for entry in of_log if is_authentic(entry))
            for entry, verified in verdicts:
                assert verified == (drawn.strict.entries[entry.hash][0] == "verified")


# -- stores --------------------------------------------------------------------------------------------------------


def in_store(store: SQLiteStore, logs: WorseLogs) -> Said:
    """What a store says, which refused all that has no good signature. Verified afresh, its file says the same."""
    said = Said({entry.hash: ("invalid", False) for entry in [*logs.forged, *logs.unsigned_items()]}, {})
    payloads = {}
    for of_log in logs.by_log():
        log = next(iter(of_log)).log
        certified = store.certified(log)
        for stored in store.entries(log, states=State):
            payloads[stored.entry.hash] = stored
            verified = stored.state is State.VERIFIED
            is_certified = verified and any(low <= stored.entry.seq <= high for low, high in certified)
            said.entries[stored.entry.hash] = (STATES[stored.state], is_certified)
        forked_at = next((proof.position for proof in store.fork_proofs(log)), None)
        if forked_at is not None:
            said.forks[log] = forked_at
    assert payloads_are_held(payloads, logs)
    report = store.verify()
    flags = list(said.entries.values())
    verdicts = [verdict for verdict, _ in flags]
    assert (report.verified, report.unverified) == (verdicts.count("verified"), verdicts.count("unverified"))
    assert (report.certified, report.problems) == (flags.count(("verified", True)), [])
    assert {line.log: line.forked_at for line in store.logs() if line.forked_at} == said.forks
    return said


def payloads_are_held(held: dict[bytes, StoredEntry], logs: WorseLogs) -> bool:
    """Whether each payload that was given is held, or known to have another size than its entry claims."""
    for of_log in logs.by_log():
        for entry, data in of_log.items():
            if entry.hash in held and data is not None:
                known = PayloadState.COMPLETE if len(data) == entry.size else PayloadState.SIZE_MISMATCH
                if held[entry.hash].payload_state is not known:
                    return False
    return True


ORDERS: dict[str, Callable[[random.Random, OfLog], list[Entry]]] = {
    "ascending": lambda _, of_log: sorted(of_log, key=lambda entry: entry.seq),
    "descending": lambda _, of_log: sorted(of_log, key=lambda entry: -entry.seq),
    "as made, the second history last": lambda _, of_log: list(of_log),
    "the second history first": lambda _, of_log: list(of_log)[::-1],
    "from the middle": lambda _, of_log: sorted(of_log, key=lambda entry: abs(entry.seq - 20)),
    "at random": lambda draw, of_log: draw.sample(list(of_log), len(of_log)),
}


@pytest.mark.parametrize("order", ORDERS)
def test_any_order_of_arrival(drawn: Drawn, tmp_path: Path, order: str) -> None:
    """A store that gets the entries of each log one at a time, some of them twice, comes to the same in any order."""
    with SQLiteStore(tmp_path / "store") as store:
        for batch in arriving(drawn.logs, order):
            store.add(batch, durable=False)
        assert in_store(store, drawn.logs) == drawn.strict


def arriving(logs: WorseLogs, order: str) -> Iterator[list[Item]]:
    """Batches with an entry of each log, in an order, then copies of some; forged entries come among them."""
    draw = random.Random(order)
    queues = []
    for of_log in logs.by_log():
        entries = ORDERS[order](draw, of_log)
        items = [(entry, of_log[entry]) for entry in entries]
        queues.append(items + [(entry, None) for entry in draw.sample(entries, len(entries) // 4)])
    queues.append([(entry, None) for entry in logs.forged])
    for batch in zip_longest(*queues):
        yield [item for item in batch if item is not None]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "bundle"])
def test_imports(drawn: Drawn, tmp_path: Path, *, plain: bool) -> None:
    """So does one that imports files of either format; what a plain file cannot carry is in a bundle beside it."""
    items = [*drawn.logs.items, *((entry, None) for entry in drawn.logs.forged)]
    random.Random(plain).shuffle(items)
    alone, rest = io.BytesIO(), io.BytesIO()
    bundle = BundleWriter(rest)
    for entry, payload in items:
        if plain and payload is not None and len(payload) == entry.size:
            alone.write(entry.encoded + payload)
        else:
            bundle.entry(entry)
            if payload is not None:
                bundle.payload(entry.place, len(payload), [payload])
    bundle.close()
    with SQLiteStore(tmp_path / "store") as store:
        for file in (alone, rest) if plain else (rest,):
            Importer(store).run(io.BytesIO(file.getvalue()))
        assert in_store(store, drawn.logs) == drawn.strict


# -- Spark ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", pytest.param("local[2]", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One engine after the other."""
    if request.param == "plain":
        monkeypatch.setattr(shell, "is_running", lambda: False)
    else:
        request.getfixturevalue("spark")
    return str(request.param)


def on_spark(drawn: Drawn, output: Path, signatures: str) -> Said:
    """What a verification says, once of each entry, with what it knows of the payloads."""
    job.run(drawn.inputs, output, signatures=signatures, with_forks=True)
    rows = pq.read_table(output / "verdicts").to_pylist()
    verdicts = {row["entry_hash"]: (row["verdict"], row["certified"]) for row in rows}
    assert len(rows) == len(verdicts)
    payloads = {row["entry_hash"]: row["payload"] for row in rows}
    for of_log in drawn.logs.by_log():
        for entry, data in of_log.items():
            if data is not None:
                known = states.HELD if len(data) == entry.size else states.SIZE_MISMATCH
                assert payloads[entry.hash] == known
    forks = pq.read_table(output / "forks").to_pylist()
    return Said(verdicts, {(row["author"], int(row["log_id"])): int(row["position"]) for row in forks})


@pytest.mark.usefixtures("engine")
def test_every_signature(drawn: Drawn, tmp_path: Path) -> None:
    """Either engine of Spark, checking every signature, says what stores say."""
    assert on_spark(drawn, tmp_path / "output", "all") == drawn.strict


@pytest.mark.usefixtures("engine")
def test_heads(drawn: Drawn, tmp_path: Path) -> None:
    """With the signatures of heads only they say the same, but of what an author linked to without signing it properly.

    Such entries count as signed then. So nothing differs but these, and what their links and pools decide, which is in
    their logs. Of every other log all is the same.
    """
    found = on_spark(drawn, tmp_path / "output", "heads")
    assert found == drawn.heads
    differ = {key for key, said in found.entries.items() if said != drawn.strict.entries[key]}
    unsigned = {entry.hash for entry in drawn.logs.unsigned_items()}
    assert {drawn.strict.entries[key] for key in differ & unsigned} == {("invalid", False)}
    assert differ & unsigned == {key for key in unsigned if found.entries[key][0] != "invalid"}
    with_unsigned = [of_log for of_log in drawn.logs.by_log() if any(entry.hash in unsigned for entry in of_log)]
    assert differ <= {entry.hash for of_log in with_unsigned for entry in of_log}
    assert found.forks.items() ^ drawn.strict.forks.items() <= {
        (next(iter(of_log)).log, fork) for of_log in with_unsigned for fork in range(50)
    }
    assert len(differ & unsigned) > LOGS // 20
    count("entries whose only fault is their signature", len(differ & unsigned))
    count("entries that follow from these", len(differ - unsigned))
