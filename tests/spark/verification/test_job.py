"""The whole job: its folder of results, its summary, and what is left of it when it fails."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkValueError

import culm.spark
from culm.bamboo import Entry, Identity
from culm.errors import ConfigError, CulmError
from culm.spark import Summary, read_entries, run, verify
from culm.spark.runtime import session
from culm.spark.runtime.session import first_cause, one_line_failures
from culm.testing import LogBuilder, build_log, tampered

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.defects import DataSet

COUNTS = ("entries", "verified", "unverified", "invalid")


def tables(output: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The verdicts and the rejects in a folder of results, read without Spark."""
    verdicts, rejects = (pq.read_table(output / name).to_pylist() for name in ("verdicts", "rejects"))
    return verdicts, rejects


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A small input without defects."""
    log = build_log(5)
    path = tmp_path / "plain"
    path.write_bytes(b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries))
    return path


def test_below_a_fork_nothing_is_said_to_be_missing(tmp_path: Path) -> None:
    """Entries below a fork are not certified although all are held, so the explanation names that case, too."""
    log = build_log(7)
    forked = [*log.entries, log.make(7, b"other")]
    (tmp_path / "plain").write_bytes(b"".join(entry.encoded + log.payloads[entry.hash] for entry in forked))
    summary = run([str(tmp_path / "plain")], tmp_path / "output")
    assert (summary.verified, summary.invalid) == (6, 2)
    assert summary.uncertified
    assert "missing or invalid" in summary.table()


@pytest.mark.spark
@pytest.mark.slow
def test_heads_do_not_depend_on_blocks(spark: SparkSession, tmp_path: Path) -> None:
    """An author links to an entry that they never signed, at and beside the end of a block: it is verified."""
    plain = tmp_path / "entries"
    with plain.open("wb") as stream:
        for at in (4094, 4095, 4096, 4097):
            log = LogBuilder(Identity(at.to_bytes(32, "big")))
            for seq in range(1, 4100):
                log.append(b"")
                if seq == at:
                    log.entries[-1] = Entry.decode(tampered(log.entries[-1]))
            stream.writelines(entry.encoded for entry in log.entries)
    summary = run([str(plain)], tmp_path / "output", signatures="heads")
    assert (4 * 4099, 0) == (summary.verified, summary.invalid)
    verdicts = verify(read_entries(spark, [str(plain)]), signatures="heads")
    assert verdicts.where("verdict = 'verified'").count() == 4 * 4099


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
class TestWithSpark:
    """Tests that run the job."""

    def test_results(self, data: DataSet, tmp_path: Path) -> None:
        """The folder holds the verdicts on all entries, the rejects and the summary, and nothing else of the work.

        The summary counts what is in the tables. A log is forked if it has a fork, wherever its limit is.
        """
        output, lines = tmp_path / "results [1]", list[str]()
        summary = run(data.inputs, output, progress=lines.append)
        verdicts, rejects = tables(output)
        expected = data.expected.values()
        assert {(one.entry.hash, one.verdict, one.payload) for one in expected} == {
            (row["entry_hash"], row["verdict"], row["payload"]) for row in verdicts
        }
        assert data.rejects.keys() == {row["source"].rpartition("/")[2] for row in rejects}
        assert {"verdicts", "rejects", "summary.json"} == {path.name for path in output.iterdir()}
        assert [output] == list(tmp_path.iterdir())
        assert len(lines) == len(set(lines)) >= 3

        written = json.loads((output / "summary.json").read_text())
        assert written == {**summary.as_dict(), "made": written["made"]}
        found = [one.verdict for one in expected]
        assert (len(found), *map(found.count, COUNTS[1:])) == tuple(summary.as_dict()[name] for name in COUNTS)
        wrong = [one for one in expected if one.payload in ("mismatch", "size_mismatch")]
        assert (len(wrong), len(data.rejects)) == (summary.payload_mismatches, summary.rejects)
        forked = {one.entry.log for one in expected if one.reason is not None and one.reason.startswith("fork")}
        assert len(forked) + 1 == summary.forks  # and the log with a fork above a lie about a size

    def test_results_are_replaced_if_that_is_asked_for(self, plain: Path, tmp_path: Path) -> None:
        """With ``overwrite`` new results take the place of earlier ones, as a whole."""
        output = tmp_path / "results"
        (output / "verdicts").mkdir(parents=True)
        for name in ("verdicts/old", "summary.json"):
            (output / name).touch()
        run([str(plain)], output, overwrite=True)
        assert not (output / "verdicts" / "old").exists()
        assert len(tables(output)[0]) == 5
        assert {plain, output} == set(tmp_path.iterdir())

    def test_a_failing_job_leaves_nothing(self, plain: Path, tmp_path: Path) -> None:
        """An input that goes away after the start: one line that names it, and no output; earlier results stay."""
        output = tmp_path / "results"
        output.mkdir()
        (output / "summary.json").touch()

        def take_away(_line: str) -> None:
            plain.unlink(missing_ok=True)

        with pytest.raises(CulmError, match=rf"^Spark: {plain}: there is no such file or folder$"):
            run([str(plain)], output, overwrite=True, progress=take_away)
        assert [output] == list(tmp_path.iterdir())
        assert [output / "summary.json"] == list(output.iterdir())

    def test_an_interrupted_job_leaves_nothing(self, plain: Path, tmp_path: Path) -> None:
        """Whoever interrupts the job before its end finds no output, complete or not."""

        def interrupt(line: str) -> None:
            if line.startswith("writing the verdicts"):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run([str(plain)], tmp_path / "results", progress=interrupt)
        assert [plain] == list(tmp_path.iterdir())


def test_what_cannot_work_is_refused_before_spark_starts(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs that are not there and outputs that are cost no start of Spark."""
    monkeypatch.setattr("culm.spark.runtime.shell.running", None)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "summary.json").write_bytes(plain.read_bytes())
    with pytest.raises(ConfigError, match="missing: there is no such file"):
        run([str(tmp_path / "missing")], tmp_path / "new")
    with pytest.raises(ConfigError, match="results: is there already"):
        run([str(plain)], tmp_path / "results")
    with pytest.raises(ConfigError, match="is inside the output"):
        run([str(tmp_path / "results" / "summary.json")], tmp_path / "results", overwrite=True)


def test_a_session_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no session is active the job starts one with the master given, and stops it whatever happens."""
    started = mock.Mock()
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    monkeypatch.setattr(session, "session", started)
    lines: list[str] = []
    with pytest.raises(ZeroDivisionError), session.running("spark://host:7077", lines.append) as spark:
        assert started.return_value is spark
        raise ZeroDivisionError
    started.assert_called_once_with("spark://host:7077", config=None)
    started.return_value.stop.assert_called_once_with()
    assert ["starting Spark (spark://host:7077)"] == lines


@pytest.mark.parametrize("module", ["pyspark", "pyarrow", "pandas"])
def test_spark_is_an_extra(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark or what it needs, importing the pipeline raises one line that says how to install it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == module else object())
    with pytest.raises(ConfigError, match=r'Spark is not installed: pip install "culm\[spark\]"'):
        importlib.reload(culm.spark)


def test_the_summary_as_a_table() -> None:
    """The table is aligned, has no time in it, and reads the same for the same data."""
    summary = Summary(
        entries=12_345,
        verified=12_000,
        unverified=300,
        invalid=45,
        uncertified=0,
        forks=2,
        payload_mismatches=1,
        rejects=0,
        seconds=1,
        signatures="all",
    )
    assert [
        "entries            12,345",
        "  verified         12,000",
        "    not certified       0",
        "  unverified          300",
        "  invalid              45",
        "forked logs             2",
        "wrong payloads          1",
        "rejects                 0",
    ] == summary.table().splitlines()
    some = replace(summary, uncertified=7).table().splitlines()
    assert "    not certified       7" in some
    assert some[-1].startswith("not certified: each of these entries has a path to entry 1")


@pytest.mark.parametrize("error", [Py4JError("gone"), PySparkValueError("gone"), ConnectionRefusedError("gone")])
def test_what_spark_raises_is_one_of_our_errors(error: Exception) -> None:
    """Whatever Spark raises becomes a ``CulmError`` with the cause chained to it."""
    with pytest.raises(CulmError, match=r"^Spark: ") as found, one_line_failures():
        raise error
    assert error is found.value.__cause__


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "Job aborted.\nTraceback ...\nculm.errors.StoreMissing: /a: there is no store\n\tat org...",
            "/a: there is no store",
        ),
        ("Job aborted.\n  File x\nValueError: this is wrong\n", "this is wrong"),
        ("Caused by: java.io.IOException: No space left on device\n\tat x", "No space left on device"),
        ("\n[SOME_CLASS] what happened\nmore", "[SOME_CLASS] what happened"),
        ("", "no reason given"),
    ],
)
def test_the_line_that_tells_most(text: str, cause: str) -> None:
    """Of the pages that Spark gives one line is told: Culm's own error, the last one raised, or the first line."""
    assert cause == first_cause(text)
