"""One verdict, whoever says it: adversarial logs in stores, by every way in, in Spark's engines, and by the definition.

Every way has to say the same of each entry, whether it is verified and whether it is certified, and of each log where
its lowest fork is (``tests.spark.ways``). ``CULM_MODELS=20`` (``make models``) takes a thousand logs. Clusters, Spark
Connect and tables of other formats are asked in ``tests/spark/test_cluster.py`` and ``tests/lakehouse``.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from culm.bamboo import Entry, audit
from culm.bamboo.verification import is_authentic
from culm.spark.following.job import run_follow
from culm.spark.runtime import shell
from culm.spark.verification import job
from culm.store import PayloadState, SQLiteStore, State
from culm.store.exchange import Importer
from culm.store.files import BundleWriter
from tests.models import FACTOR, MARKS, count
from tests.spark.following.streams import forks_told
from tests.spark.verification.test_state import bundle
from tests.spark.ways import Drawn, Said, day_by_day, draw, in_folder, merged, said

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from culm.store import StoredEntry
    from tests.spark.random_logs import OfLog
    from tests.spark.worse_logs import WorseLogs

    Item = tuple[Entry, bytes | None]

pytestmark = MARKS

LOGS = 50 * FACTOR
STATES = {State.VERIFIED: "verified", State.WAITING: "unverified", State.INVALID: "invalid"}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    """The logs of this run of the tests."""
    count("logs", LOGS)
    return draw(tmp_path_factory.mktemp("adversarial"), LOGS)


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


@pytest.fixture(params=["plain", pytest.param("local[2]", marks=[pytest.mark.spark, pytest.mark.long])])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One engine after the other."""
    if request.param == "plain":
        monkeypatch.setattr(shell, "is_running", lambda: False)
    else:
        request.getfixturevalue("spark")
    return str(request.param)


def at_once(drawn: Drawn, folder: Path, signatures: str) -> Said:
    """What one run says."""
    job.run(drawn.inputs, folder / "output", signatures=signatures, with_forks=True)
    return in_folder(drawn, folder / "output")


def on_a_state(drawn: Drawn, folder: Path, signatures: str) -> Said:
    """What several runs say, one for each input, on top of each other."""
    outputs = day_by_day(drawn, folder, signatures)
    return said(drawn, merged(outputs), pq.read_table(outputs[-1] / "forks").to_pylist())


Way = Callable[[Drawn, "Path", str], Said]


@pytest.fixture(params=[at_once, on_a_state])
def way(request: pytest.FixtureRequest) -> Way:
    """One way after the other."""
    found: Way = request.param
    return found


@pytest.mark.usefixtures("engine")
def test_every_signature(drawn: Drawn, tmp_path: Path, way: Way) -> None:
    """Either engine of Spark, checking every signature, says what stores say."""
    assert way(drawn, tmp_path, "all") == drawn.strict


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_as_they_arrive(drawn: Drawn, tmp_path: Path) -> None:
    """So does a stream of files, when its change feed and its forks are played back; the state says the same of forks.

    Row by row, its forks are those of one run.
    """
    items: list[Item] = [*drawn.logs.items, *((entry, None) for entry in drawn.logs.forged)]
    drop, state = tmp_path / "drop", tmp_path / "state"
    drop.mkdir()
    parts = [bundle(drop / f"{part}.bundle", items[part::2]) for part in range(2)]
    run_follow(str(drop), state, output=tmp_path / "followed", once=True, options=[("batch", "1")])
    changes = sorted(pq.read_table(tmp_path / "followed" / "changes").to_pylist(), key=lambda row: row["batch"])
    assert len({row["batch"] for row in changes}) == 2
    verdicts = {row["entry_hash"]: row for row in changes}
    followed = sorted(pq.read_table(tmp_path / "followed" / "forks").to_pylist(), key=lambda row: row["batch"])
    forks = forks_told(followed)
    assert said(drawn, verdicts.values(), forks.values()) == drawn.strict
    job.run(parts[1:], tmp_path / "output", state=state, with_forks=True)  # nothing new
    job.run(parts, tmp_path / "whole", with_forks=True)
    for output in ("output", "whole"):
        assert forks == forks_told(pq.read_table(tmp_path / output / "forks").to_pylist())


@pytest.mark.usefixtures("engine")
def test_heads(drawn: Drawn, tmp_path: Path, way: Way) -> None:
    """With the signatures of heads only they say the same, but of what an author linked to without signing it properly.

    Such entries count as signed then. So nothing differs but these, and what their links and pools decide, which is in
    their logs. Of every other log all is the same.
    """
    found = way(drawn, tmp_path, "heads")
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
