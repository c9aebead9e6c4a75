"""Following entries that arrive in any order: the verdicts of one run over all, whatever is killed on the way."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import StreamingQueryException

from culm.errors import ConfigError
from culm.spark import State, follow, run
from culm.spark.following import delivery, job
from culm.spark.following.delivery import NEW, REASON, Folder, replayed
from culm.spark.following.job import Following
from culm.spark.runtime.shell import SMALL_BYTES
from culm.spark.verification.verify import Increment
from culm.testing import build_log
from tests.spark.following.streams import Arriving, by_key, forks_told, told
from tests.spark.verification.test_state import bundle

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("signatures", "small"),
    [
        ("all", SMALL_BYTES),
        *(pytest.param(*one, marks=pytest.mark.long) for one in (("heads", SMALL_BYTES), ("all", -1))),
    ],
    ids=["all", "heads", "by workers"],
)
def test_any_order_gives_the_verdicts_of_one_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signatures: str, small: int
) -> None:
    """The feed replayed, by Spark and row by row, the forks, and the state, are what one run over all entries says.

    Every row of the feed tells what was said before. A query goes on where an earlier one ended.
    """
    entries = Arriving(tmp_path, 5, signatures=signatures)
    monkeypatch.setattr(job, "SMALL_BYTES", small)
    lines: list[str] = []
    entries.arrive(3)
    entries.follow(spark, progress=lines.append)
    entries.arrive()
    entries.follow(spark, progress=lines.append)
    changes = entries.changes()
    assert entries.whole == told(changes)
    feed = spark.read.parquet(f"file://{tmp_path / 'output' / 'changes'}")
    assert entries.whole == by_key(replayed(feed).toArrow().to_pylist())
    assert entries.forks == forks_told(entries.changes(table="forks"))
    forks = spark.read.parquet(f"file://{tmp_path / 'output' / 'forks'}")
    assert entries.forks == forks_told(replayed(forks).toArrow().to_pylist())
    state = State.open(tmp_path / "state")
    assert entries.whole == by_key(state.verdicts(spark).toArrow().to_pylist())
    assert {NEW, REASON, "verdict", "certified", "payload"} == {row["change"] for row in changes}
    assert [1, 2, 3, 4, 5] == [int(line.split(":")[0].removeprefix("batch ")) for line in lines]
    assert f"{len(entries.whole):,} entries" in lines[-1]


class Killed(Exception):
    """What stands for the end of the process."""


def kill_once(patch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool = False, call: int = 1) -> None:
    """Make one call of a function fail, before or after it has done its work."""
    whole, calls = getattr(owner, name), []

    def killed(*given: Any, **more: Any) -> Any:
        calls.append(name)
        if len(calls) != call:
            return whole(*given, **more)
        if after:
            whole(*given, **more)
        raise Killed(name)

    patch.setattr(owner, name, killed)


STEPS: list[tuple[Any, str, bool]] = [
    (Increment, "take", False),
    (job, "forks", False),
    (State, "commit", False),
    (State, "commit", True),
    (Folder, "_add", True),
    (delivery, "replace_text", False),
    (job, "forget", False),
    (Following, "__call__", True),
]
"""Where a batch may end: before its verification, before the proofs of forks, before and after the commit of the state,
in the midst of the delivery, when there is a feed and no mark, behind the mark, and behind all that is to be done."""


@pytest.mark.long
def test_a_batch_that_is_cut_short_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step a batch gets to, the next query loses no change and tells none twice."""
    entries = Arriving(tmp_path, len(STEPS) + 1, count=4)
    entries.arrive(1)
    entries.follow(spark)
    for owner, name, after in STEPS:
        entries.arrive(1)
        with monkeypatch.context() as patch:
            # What was delivered is also forgotten before a query begins.
            kill_once(patch, owner, name, after=after, call=2 if name == "forget" else 1)
            with pytest.raises(StreamingQueryException, match=f"Killed: {name}"):
                entries.follow(spark)
        entries.follow(spark)
        told(entries.changes())
        forks_told(entries.changes(table="forks"))
    entries.assert_told()
    assert len(STEPS) + 1 == len({row["batch"] for row in entries.changes()})  # folding takes a number, too


@pytest.mark.long
def test_a_new_output_begins_with_all_that_is_known(spark: SparkSession, tmp_path: Path) -> None:
    """Runs of other commands on the state, and outputs that are new, leave no hole in a feed."""
    entries = Arriving(tmp_path, 3, count=4)
    entries.arrive(1)
    entries.follow(spark)
    run([entries.bundles[1]], tmp_path / "by hand", state=tmp_path / "state")
    entries.arrive(1)
    entries.follow(spark)
    assert {1, 2, 3} == {row["batch"] for row in entries.changes()}
    known = State.open(tmp_path / "state").verdicts(spark).toArrow().to_pylist()
    assert by_key(known) == by_key(replayed_here(entries.changes()))
    entries.arrive()
    entries.follow(spark, output=tmp_path / "second")
    assert entries.whole == by_key(replayed_here(entries.changes("second")))
    assert entries.forks == forks_told(entries.changes("second", "forks"))
    entries.follow(spark)
    assert entries.whole == by_key(replayed_here(entries.changes()))
    last = {(row["author"], row["log_id"]): row for row in entries.changes(table="forks")}
    assert entries.forks == forks_told([*last.values()])


@pytest.mark.long
def test_an_output_without_forks(spark: SparkSession, tmp_path: Path) -> None:
    """An output that an earlier version made gets all forks with its next batch, and no change twice."""
    entries = Arriving(tmp_path, 2, count=4)
    entries.arrive(1)
    entries.follow(spark)
    shutil.rmtree(tmp_path / "output" / "forks")
    entries.arrive()
    entries.follow(spark)
    entries.assert_told()


def replayed_here(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last row of each entry."""
    return list({row["entry_hash"]: row for row in changes}.values())


def test_rows_that_are_no_entries(spark: SparkSession, tmp_path: Path) -> None:
    """They are counted, and stand among the rejects of their batch. A batch of nothing is no run."""
    entries = Arriving(tmp_path, 1, count=4)
    entries.arrive()
    parquet.write_table(pa.table({"encoded": [b"no", None]}), entries.inputs / "bad.parquet")
    parquet.write_table(pa.table({"encoded": pa.array([], pa.binary())}), entries.inputs / "empty.parquet")
    entries.follow(spark)
    rejects = parquet.read_table(tmp_path / "output" / "rejects").to_pylist()
    assert 2 == len(rejects)
    summary = json.loads((tmp_path / "output" / "summary.json").read_text())
    assert (2, 2, len(entries.whole)) == (summary["batch"], summary["rejects"], summary["entries"])
    assert [1, 2] == State.open(tmp_path / "state").generations


@pytest.mark.long
def test_outputs_of_others(spark: SparkSession, tmp_path: Path) -> None:
    """An output of another state, or of a later run of a state that was restored, is refused and stays as it is."""
    log = build_log(3)
    for number, name in enumerate(("a", "b")):
        inputs = [bundle(tmp_path / name, log.items(log.entries[number : number + 1]))]
        run(inputs, tmp_path / f"of {name}", state=tmp_path / f"state {name}")
    stream = spark.readStream.format("rate").load().selectExpr("CAST('' AS BINARY) encoded")
    follow(stream, tmp_path / "state a", output=tmp_path / "output", once=True).stop()
    before = (tmp_path / "output" / "summary.json").read_text()
    with pytest.raises(ConfigError, match="output: has the verdicts of another state"):
        follow(stream, tmp_path / "state b", output=tmp_path / "output")
    shutil.rmtree(tmp_path / "state a" / "checkpoint")
    shutil.copytree(tmp_path / "state a", tmp_path / "copy")
    for name in ("state a", "copy"):
        run([str(tmp_path / "b")], tmp_path / f"later {name}", state=tmp_path / name)
    follow(stream, tmp_path / "state a", output=tmp_path / "output", once=True).stop()
    with pytest.raises(ConfigError, match="has the verdicts of run 2 of this state, which is only at run 2"):
        follow(stream, tmp_path / "copy", output=tmp_path / "output")
    assert before != (tmp_path / "output" / "summary.json").read_text()


def test_what_cannot_be_followed(spark: SparkSession, tmp_path: Path) -> None:
    """Wrong arguments are refused before anything is written."""
    stream = spark.readStream.format("rate").load()
    entries = stream.selectExpr("CAST('' AS BINARY) encoded")
    state, output = tmp_path / "state", tmp_path / "output"
    with pytest.raises(ConfigError, match="not a stream"):
        follow(spark.sql("SELECT X'00' encoded"), state, output=output)
    with pytest.raises(ConfigError, match="binary column 'encoded'"):
        follow(stream, state, output=output)
    with pytest.raises(ConfigError, match="either an output folder"):
        follow(entries, state)
    with pytest.raises(ConfigError, match="Parquet has no MERGE"):
        follow(entries, state, table="a.b", table_format="parquet")
    with pytest.raises(ConfigError, match="is not the name of a table"):
        follow(entries, state, table="a..b")
    with pytest.raises(ConfigError, match="all or heads"):
        follow(entries, state, output=output, signatures="none")
    with pytest.raises(ConfigError, match="there is no folder"):
        follow(entries, state, output=tmp_path / "a" / "b")
    output.mkdir()
    (output / "notes").write_text("mine")
    with pytest.raises(ConfigError, match="holds something else than a change feed"):
        follow(entries, state, output=output)
    assert not state.exists()
