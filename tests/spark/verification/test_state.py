"""Runs on top of each other: what they know in the end, and what each of them says has changed."""

from __future__ import annotations

import json
import random
from functools import partial
from itertools import permutations
from shutil import rmtree
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow.parquet as pq
import pytest

from culm.bamboo import Entry, Identity
from culm.errors import ConfigError, CulmError
from culm.spark import run
from culm.spark.batches import pack
from culm.spark.runtime import shell
from culm.spark.runtime.engine import Engine
from culm.spark.verification import gather
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.state import State, held
from culm.spark.verification.verdicts import Verdict, pronounced
from culm.spark.verification.verify import Increment
from culm.store.files import BundleWriter
from culm.testing import LogBuilder, build_log, tampered
from tests.spark import local
from tests.spark.worse_logs import WorseLogs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from culm.types import Buffer

Table = dict[bytes, dict[str, Any]]


def bundle(path: Path, items: Iterable[tuple[Entry, Buffer | None]]) -> str:
    """A bundle of some entries and payloads."""
    with path.open("wb") as stream:
        writer = BundleWriter(stream)
        for entry, payload in items:
            writer.entry(entry)
            if payload is not None:
                writer.payload(entry.place, len(payload), [bytes(payload)])
        writer.close()
    return str(path)


def by_hash(rows: list[dict[str, Any]]) -> Table:
    """Rows by entry hash, of which no two are equal."""
    found = {row["entry_hash"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def written(output: Path) -> Table:
    """The verdicts in a folder of results."""
    return by_hash(pq.read_table(output / "verdicts").to_pylist())


def known(folder: Path, signatures: str) -> Table:
    """Everything that a state knows."""
    judged = State.open(folder, Signatures(signatures)).judged(Engine())
    rows = local.rows_of(judged.map(partial(pronounced, everything=True), Verdict))
    return by_hash([row._asdict() for row in rows])


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are made in this process, though a session is active."""
    monkeypatch.setattr(shell, "is_running", lambda: False)


class Parts:
    """Many logs with anything wrong in them, in parts of which some overlap, and what one run says of all of them."""

    def __init__(self, folder: Path, signatures: str) -> None:
        logs = WorseLogs(seed=5, count=40)
        items = sorted([*logs.items, *((entry, None) for entry in logs.forged)], key=lambda item: item[0].encoded)
        draw = random.Random(1)
        draw.shuffle(items)
        self.folder, self.signatures = folder, signatures
        self.whole = run([bundle(folder / "all", items)], folder / "once", signatures=signatures, with_forks=True)
        parts: list[list[tuple[Entry, bytes | None]]] = [[], [], []]
        for entry, payload in items:
            one, other = draw.sample(parts, 2)
            one.append((entry, payload))
            if draw.random() < 0.2:  # once more, mostly without its payload
                other.append((entry, payload if draw.random() < 0.2 else None))
        self.paths = [bundle(folder / str(number), part) for number, part in enumerate(parts)]
        self.together: Table = {}
        self.last = self.whole

    def run(self, number: int) -> None:
        """Verify one part on top of those before."""
        output = self.folder / f"output {number}"
        self.last = run(
            [self.paths[number]],
            output,
            signatures=self.signatures,
            state=self.folder / "state",
            with_forks=True,
        )
        self.together |= written(output)

    def check(self) -> None:
        """What all the runs wrote, and what the state knows, is what one run over all writes."""
        expected, found = written(self.folder / "once"), known(self.folder / "state", self.signatures)
        for table in (self.together, found):
            assert expected.keys() == table.keys()
            for key, row in expected.items():
                for name in ("seqnum", "size", "payload_hash", "is_end", "payload", "verdict", "certified"):
                    assert row[name] == table[key][name], row
        assert {key: row["reason"] for key, row in expected.items()} == {
            key: row["reason"] for key, row in found.items()
        }
        assert {**self.whole.as_dict(), "seconds": 0} == {**self.last.as_dict(), "seconds": 0}
        once, last = (
            sorted(pq.read_table(self.folder / name / "forks").to_pylist(), key=repr) for name in ("once", "output 2")
        )
        assert len(once) == self.whole.forks
        assert once == last


@pytest.mark.slow
@pytest.mark.usefixtures("without_spark")
class TestInThisProcess:
    """Runs without Spark."""

    @pytest.mark.parametrize("signatures", ["all", "heads"])
    def test_many_runs_are_one(self, tmp_path: Path, signatures: str) -> None:
        """Runs over the parts of anything, in any order, some of it twice, come to what one run over all comes to.

        What each run writes, put over what was written before, gives the same table; its summary counts everything.
        """
        parts = Parts(tmp_path, signatures)
        for number in range(3):
            parts.run(number)
        parts.check()

    @pytest.mark.parametrize("order", list(permutations(range(3))))
    def test_heads_do_not_depend_on_the_order_of_runs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
    ) -> None:
        """Entries that nobody signed, at the ends of blocks: whichever part comes first, linked ones are verified."""
        for module in (pack, gather):
            monkeypatch.setattr(module, "BLOCK_BITS", 2)
        log = LogBuilder(Identity(bytes(32)))
        for seq in range(1, 12):
            log.append(b"payload")
            if seq in (3, 7, 11):
                log.entries[-1] = Entry.decode(tampered(log.entries[-1]))
        parts = [log.entries[:3], log.entries[3:7], log.entries[7:]]
        state = tmp_path / "state"
        for number in order:
            given = bundle(tmp_path / f"part {number}", ((entry, None) for entry in parts[number]))
            run([given], tmp_path / f"output {number}", state=state, signatures="heads")
        totals = State.open(state).totals
        assert (11, 10, 1) == (totals["entries"], totals["verified"], totals["invalid"])

    def test_entries_that_are_not_certified(self, tmp_path: Path) -> None:
        """How many they are is said of everything that the state knows."""
        log, state = build_log(9), tmp_path / "state"
        parts = ([1, 4], [5, 6, 8, 9])
        paths = [bundle(tmp_path / str(part), log.items([log.entries[at - 1] for at in part])) for part in parts]
        assert run(paths[:1], tmp_path / "first", state=state).uncertified == 0
        both = run(paths[1:], tmp_path / "second", state=state)
        rows = written(tmp_path / "first") | written(tmp_path / "second")
        uncertified = [row for row in rows.values() if row["verdict"] == "verified" and not row["certified"]]
        assert 2 == both.uncertified == len(uncertified)

    def test_only_what_is_new_is_looked_at(self, tmp_path: Path) -> None:
        """Entries behind those that are known make a segment of their own; only they are in the results."""
        log = build_log(40)
        state = tmp_path / "state"
        run([bundle(tmp_path / "old", log.items(log.entries[:30]))], tmp_path / "first", state=state)
        run([bundle(tmp_path / "new", log.items(log.entries[30:]))], tmp_path / "second", state=state)
        assert {entry.hash for entry in log.entries[30:]} == written(tmp_path / "second").keys()
        (made,) = pq.read_table(state / "2" / "segments", columns=["low", "high"]).to_pylist()
        assert (31, 40) == tuple(made[name] + 2**63 for name in ("low", "high"))

    def test_a_run_that_fails_leaves_the_state_as_it_was(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a failure the next run starts from the same state, and removes what was begun."""
        log = build_log(20)
        state = tmp_path / "state"
        paths = [bundle(tmp_path / str(at), log.items([entry])) for at, entry in enumerate(log.entries)]
        run(paths[:10], tmp_path / "first", state=state)
        before = (state / "manifest.json").read_text()
        with monkeypatch.context() as patch:
            patch.setattr(Increment, "pronounce", mock.Mock(side_effect=CulmError("no")))
            with pytest.raises(CulmError, match="no"):
                run(paths[10:], tmp_path / "second", state=state)
        assert before == (state / "manifest.json").read_text()
        assert not (tmp_path / "second").exists()
        summary = run(paths[10:], tmp_path / "second", state=state)
        assert (20, 20) == (summary.entries, summary.verified)
        assert {"1", "2", "manifest.json"} == {path.name for path in state.iterdir()}


@pytest.mark.long
@pytest.mark.spark
def test_runs_with_spark_and_without(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without Spark goes on from the state of one with it, and the reverse."""
    with monkeypatch.context() as patch:
        patch.setattr(shell, "is_running", lambda: False)
        parts = Parts(tmp_path, "all")
    parts.run(0)
    with monkeypatch.context() as patch:
        patch.setattr(shell, "is_running", lambda: False)
        parts.run(1)
    parts.run(2)
    parts.check()
    spark_says = State.open(tmp_path / "state", Signatures.STRICT).verdicts(spark).collect()
    assert known(tmp_path / "state", "all") == by_hash([row.asDict() for row in spark_says])


@pytest.mark.spark
def test_a_state_made_anew_at_its_place(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that has read a state reads what is there now, not what it kept of the state that was there before."""
    monkeypatch.setattr(shell, "is_running", lambda: False)
    for seed in (1, 2):
        log = build_log(3, seed=seed)
        made = bundle(tmp_path / "logs", log.items())
        run([made], tmp_path / "out", state=tmp_path / "state", overwrite=True)
        found = State.open(tmp_path / "state").verdicts(spark).collect()
        assert {entry.hash for entry in log.entries} == {row.entry_hash for row in found}
        rmtree(tmp_path / "state")


class TestFolders:
    """What may be a state."""

    def test_the_other_signatures(self, tmp_path: Path) -> None:
        """Verdicts of one kind are not added to those of the other."""
        state = State.open(tmp_path / "state", Signatures.HEADS)
        state.begin()
        state.commit({})
        with pytest.raises(ConfigError, match="--signatures heads"):
            State.open(tmp_path / "state", Signatures.STRICT)

    @pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 100_000, json.dumps({"format": 2, "block_bits": 12})])
    def test_no_manifest(self, tmp_path: Path, text: str) -> None:
        """A manifest that is none is refused by name."""
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(ConfigError, match=r"manifest.json: cannot be read"):
            State.open(tmp_path, Signatures.STRICT)

    @pytest.mark.parametrize("other", [1, 3])
    def test_another_format(self, tmp_path: Path, other: int) -> None:
        """State of a later format is refused, and of the earlier one, which does not know what is certified."""
        state = State.open(tmp_path / "state", Signatures.STRICT)
        state.begin()
        state.commit({})
        manifest = state.folder / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"format": 2', f'"format": {other}'))
        with pytest.raises(ConfigError, match="another format"):
            State.open(state.folder, Signatures.STRICT)

    def test_one_run_at_a_time(self, tmp_path: Path) -> None:
        """While a run is at work on a state, another is refused and changes nothing; after it, it is not."""
        log = build_log(3)
        path = tmp_path / "log"
        path.write_bytes(b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries))
        with held(tmp_path / "state", Signatures.STRICT):
            with pytest.raises(ConfigError, match="another run is at work on this state"):
                run([str(path)], tmp_path / "out", state=tmp_path / "state")
            assert not (tmp_path / "out").exists()
        assert not (tmp_path / "state").exists(), "nothing came of it"
        assert run([str(path)], tmp_path / "out", state=tmp_path / "state").entries == 3

    def test_the_lock_lasts_until_the_commit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another run is refused until the manifest has the new generation, or it would remove that as left over."""
        log, commit, refused = build_log(3), State.commit, []

        def committed(state: State, totals: dict[str, int]) -> None:
            with pytest.raises(ConfigError, match="another run is at work"), held(state.folder, Signatures.STRICT):
                pass
            refused.append(state.next_number)
            commit(state, totals)

        monkeypatch.setattr(State, "commit", committed)
        run([bundle(tmp_path / "log", log.items())], tmp_path / "out", state=tmp_path / "state")
        assert [1] == refused

    def test_something_else(self, tmp_path: Path) -> None:
        """A folder that holds other things, or has no place, is refused before anything is written."""
        (tmp_path / "notes").write_text("mine")
        with pytest.raises(ConfigError, match="something else"):
            State.open(tmp_path, Signatures.STRICT)
        with pytest.raises(ConfigError, match="there is no folder"):
            State.open(tmp_path / "a" / "b", Signatures.STRICT)
