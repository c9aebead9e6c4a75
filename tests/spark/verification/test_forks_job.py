"""``culm spark forks``: all forks of many inputs, against what a store finds in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from culm.bamboo import ForkProof, Identity
from culm.cli.command import make_parser
from culm.errors import ConfigError
from culm.spark.runtime import shell
from culm.spark.verification import job
from culm.spark.verification.forks import Fork
from culm.spark.verification.job import BUNDLE, run_forks
from culm.store import SQLiteStore, State
from culm.store.exchange import Importer
from culm.store.files import BundleWriter
from culm.testing import LogBuilder, build_log
from tests.spark.random_logs import RandomLogs

if TYPE_CHECKING:
    from pathlib import Path

    from culm.bamboo import Entry

    Row = dict[str, Any]


def table(output: Path, name: str) -> list[Row]:
    """A table of the results, by author and log."""
    rows: list[Row] = pq.read_table(output / name).to_pylist()
    return sorted(rows, key=lambda row: (row["author"], row["log_id"]))


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks are looked for in this process, though a session may be active."""
    monkeypatch.setattr(shell, "is_running", lambda: False)


def prefix_of(store: SQLiteStore, log: tuple[bytes, int]) -> dict[str, int | None]:
    """What a store says of a log: as the table ``logs``."""
    verified = {stored.entry.seq for stored in store.entries(log)}
    held = [stored.entry.seq for stored in store.entries(log, states=State)]
    positions = [proof.position for proof in store.fork_proofs(log)]
    valid_to = 0
    while valid_to + 1 in verified:
        valid_to += 1
    return {
        "entries": len(held),
        "newest": max(held),
        "valid_to": valid_to,
        "forked_at": min(positions) if positions else None,
    }


@pytest.mark.slow
@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("signatures", ["all", "heads"])
def test_a_store_finds_the_same(tmp_path: Path, signatures: str) -> None:
    """Across all inputs: every forked log at the store's position, what is valid of every log, and proofs that hold.

    A store that knows nothing takes the file of proofs and finds the same logs forked.
    """
    logs, output = RandomLogs(seed=4, count=60), tmp_path / "found"
    (tmp_path / "inputs").mkdir()
    found = run_forks(logs.write(tmp_path / "inputs"), output, signatures=signatures)
    with SQLiteStore(tmp_path / "store") as store:
        store.add(logs.items)
        expected = {entries[0].log: prefix_of(store, entries[0].log) for entries in map(list, logs.by_log())}
    assert expected == {
        (row["author"], row["log_id"]): {name: row[name] for name in ("entries", "newest", "valid_to", "forked_at")}
        for row in table(output, "logs")
    }
    forked = {log: said["forked_at"] for log, said in expected.items() if said["forked_at"]}
    rows = table(output, "forks")
    assert len(forked) > 5
    assert forked == {(row["author"], row["log_id"]): row["position"] for row in rows}
    for row in rows:
        ForkProof.decode(row["proof"]).check()
        assert row["valid_to"] == expected[row["author"], row["log_id"]]["valid_to"]
    with SQLiteStore(tmp_path / "empty") as empty, (output / BUNDLE).open("rb") as stream:
        report = Importer(empty).run(stream)
        assert not report.refused
        assert {row["proof"] for row in rows} == {proof.encode() for proof in report.forks}
        assert forked == {log: min(proof.position for proof in empty.fork_proofs(log)) for log in forked}
    counts = found.as_dict()
    assert (len(expected), len(forked), 0, 0) == tuple(
        counts[name] for name in ("logs", "forks", "unproved", "rejects")
    )
    assert sum(said["entries"] or 0 for said in expected.values()) == counts["entries"]
    written = json.loads((output / "summary.json").read_text())
    assert counts == {name: value for name, value in written.items() if name != "made"}
    assert [(fork.author, fork.log_id, fork.position) for fork in found.first] == [
        (row["author"], row["log_id"], row["position"]) for row in rows
    ]
    assert {"forks", "logs", "rejects", BUNDLE, "summary.json"} == {path.name for path in output.iterdir()}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark the tables and the file of proofs are those that are made without it."""
    (tmp_path / "inputs").mkdir()
    inputs = RandomLogs(seed=6, count=30).write(tmp_path / "inputs")
    found = run_forks(inputs, tmp_path / "spark")
    with monkeypatch.context() as patch:
        patch.setattr(shell, "is_running", lambda: False)
        expected = run_forks(inputs, tmp_path / "plain")
    assert {**expected.as_dict(), "seconds": 0} == {**found.as_dict(), "seconds": 0}
    assert found.forks > 3
    for name in ("forks", "logs", "rejects"):
        rows = pq.read_table(tmp_path / "spark" / name).to_pylist()
        assert sorted(pq.read_table(tmp_path / "plain" / name).to_pylist(), key=repr) == sorted(rows, key=repr)
    assert {path.name for path in (tmp_path / "plain").iterdir()} == {
        path.name for path in (tmp_path / "spark").iterdir()
    }


def bundle(path: Path, entries: list[Entry]) -> str:
    """A bundle of entries without payloads."""
    with path.open("wb") as stream:
        writer = BundleWriter(stream)
        for entry in entries:
            writer.entry(entry)
        writer.close()
    return str(path)


@pytest.mark.usefixtures("without_spark")
def test_a_proof_that_its_author_never_signed(tmp_path: Path) -> None:
    """With the signatures of heads only, an author can link to what they did not sign: that is no proof to hand on."""
    log = LogBuilder(Identity(b"\x03" * 32), 1)
    first, other = log.append(b"one"), log.make(1, b"another")
    unsigned = first.encoded[:-64] + bytes(64)
    broken = type(first).decode(unsigned)
    second = log.make(2, b"two", backlink=broken.hash)
    entries = [broken, second, other]
    found = run_forks([bundle(tmp_path / "in", entries)], tmp_path / "heads", signatures="heads")
    assert (1, 1) == (found.forks, found.unproved)
    with SQLiteStore(tmp_path / "store") as store, (tmp_path / "heads" / BUNDLE).open("rb") as stream:
        report = Importer(store).run(stream)
        assert ([], []) == (report.refused, report.forks)
    strict = run_forks([bundle(tmp_path / "in", entries)], tmp_path / "all")
    assert (1, 0) == (strict.forks, strict.unproved)  # entry 2 expects another entry 1 than the one that is signed


def command(*arguments: object) -> int:
    """The command, as it stands in the group ``spark``."""
    parsed = make_parser().parse_args(["spark", "forks", *map(str, arguments)])
    code: int = parsed.run(parsed)
    return code


@pytest.mark.usefixtures("without_spark")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts and forks on stdout, stages on stderr; as JSON both; exit code 1 for a fork or a reject, 0 without."""
    log = build_log(8)
    fork = log.make(5, b"another", backlink=log.entries[3].hash, lipmaalink=None)
    one = bundle(tmp_path / "one", log.entries)
    other = bundle(tmp_path / "other", [fork])
    assert 0 == command(one, "--output", tmp_path / "sound")
    captured = capsys.readouterr()
    assert ["entries", "8"] == captured.out.splitlines()[1].split()
    assert "forked at" not in captured.out
    assert "small inputs: without Spark" in captured.err.splitlines()

    assert 1 == command(one, other, "--output", tmp_path / "forked")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["forked", "logs", "1"] in lines
    assert ["5", "4"] == lines[-1][1:3]
    assert lines[-1][-4:] == ["(entries", "5", "and", "5)"]

    assert 1 == command(one, other, "--output", tmp_path / "forked", "--overwrite", "--json")
    found = json.loads(capsys.readouterr().out)
    assert (9, 1, 1, 0) == tuple(found[name] for name in ("entries", "logs", "forks", "rejects"))
    assert (5, 4, 5, 5) == tuple(
        found["first"][0][name] for name in ("position", "valid_to", "first_seq", "second_seq")
    )

    (tmp_path / "rubbish").write_bytes(b"\x07no entry")
    assert 1 == command(one, tmp_path / "rubbish", "--output", tmp_path / "rejects")


def test_more_forks_than_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many forks the command shows some, and says where all of them are."""
    fork = Fork(b"\x01" * 32, 7, 2**64 - 1, "two entries of one number", 1, 2, b"", 2**64 - 2)
    made = job.Forks(entries=10**6, logs=5000, forks=4000, unproved=3, rejects=0, seconds=1.0, first=(fork,) * 100)
    monkeypatch.setattr(job, "run_forks", lambda *_, **__: made)
    assert 1 == command("in", "--output", tmp_path / "out")
    captured = capsys.readouterr()
    assert 20 == captured.out.count(fork.log)
    assert ["unproved", "forks", "3"] in [line.split() for line in captured.out.splitlines()]
    assert f"... and 3,980 more; all are in {tmp_path / 'out' / 'forks'}" in captured.err


def test_what_cannot_work_is_refused_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs that are not there, an output that is, and an input inside it cost no start of Spark."""
    monkeypatch.setattr("culm.spark.runtime.shell.running", None)
    output = tmp_path / "results"
    output.mkdir()
    inside = bundle(output / "in", build_log(1).entries)
    (output / "summary.json").touch()
    for call, message in (
        (([str(tmp_path / "missing")], tmp_path / "new"), "there is no such file"),
        (([inside], output), "is there already"),
    ):
        with pytest.raises(ConfigError, match=message):
            run_forks(*call)
    with pytest.raises(ConfigError, match="inside the output"):
        run_forks([inside], output, overwrite=True)
    with pytest.raises(ConfigError, match="signatures must be all or heads"):
        run_forks([inside], tmp_path / "new", signatures="some")
