"""``culm spark follow``: how it ends, and kill -9. ``tests/spark/test_pages.py`` does what stands on its page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from culm.cli import main
from culm.spark import State
from culm.spark.following.job import Following, run_follow
from culm.testing import build_log
from tests.patience import PATIENCE
from tests.spark.following.streams import Arriving, told
from tests.spark.verification.test_state import bundle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

COMMAND = [sys.executable, "-m", "culm.cli", "spark", "follow"]


@pytest.mark.usefixtures("spark")
def test_nothing_arrives(tmp_path: Path) -> None:
    """Without entries nothing is written; an option without a value is a wrong call."""
    assert 2 == main(["spark", "follow", "--option", "batch", "--input", "a", "--state", "b", "--output", "c"])
    assert 2 == main(["spark", "follow", "--input", str(tmp_path), "--state", "b"])
    (tmp_path / "empty").mkdir()
    made = run_follow(str(tmp_path / "empty"), tmp_path / "state", output=tmp_path / "output", once=True)
    assert (0, 0, 0) == (made.entries, made.verified, made.rejects)
    assert not (tmp_path / "output").exists()


@pytest.mark.usefixtures("spark")
def test_results_name_what_was_followed(tmp_path: Path) -> None:
    """The summary and each file of the feed name the folder that was followed."""
    log, inputs = build_log(2), tmp_path / "inputs"
    inputs.mkdir()
    bundle(inputs / "log", [(entry, log.payloads[entry.hash]) for entry in log.entries])
    run_follow(str(inputs), tmp_path / "state", output=tmp_path / "output", once=True)
    mode = {"source": str(inputs), "signatures": "all", "state": str(tmp_path / "state")}
    assert mode == json.loads((tmp_path / "output" / "summary.json").read_text())["made"]["mode"]
    (file,) = (tmp_path / "output" / "changes").rglob("*.parquet")
    assert mode == json.loads(pq.read_schema(file).metadata[b"culm"])["mode"]


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_the_first_interrupt_ends_it_after_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch at work is finished, no other begins, and the next run goes on behind it."""
    entries = Arriving(tmp_path, 3, count=4)
    entries.arrive()
    whole = Following._add

    def interrupted(self: Following, state: State, batch: DataFrame, position: dict[str, object]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        whole(self, state, batch, position)

    lines: list[str] = []
    given: dict[str, Any] = {
        "output": tmp_path / "output",
        "options": [("batch", "1")],
        "progress": lines.append,
    }
    with monkeypatch.context() as patch:
        patch.setattr(Following, "_add", interrupted)
        before = signal.getsignal(signal.SIGINT)
        first = run_follow(str(entries.inputs), tmp_path / "state", interval=1, **given)
        assert before == signal.getsignal(signal.SIGINT)
    assert lines[-1] == "ended; the same command goes on from here"
    assert {1} == {row["batch"] for row in entries.changes()}
    last = run_follow(str(entries.inputs), tmp_path / "state", once=True, **given)
    assert first.entries < last.entries == len(entries.whole)
    assert entries.whole == told(entries.changes())


def lines_of(process: subprocess.Popen[str], found: list[str], seen: threading.Event) -> None:
    """Read what a process tells; ``seen`` is set with the first batch."""
    assert process.stderr is not None
    for line in process.stderr:
        found.append(line)
        if line.startswith("batch "):
            seen.set()


@pytest.mark.long
@pytest.mark.usefixtures("sparing_programs")
@pytest.mark.timeout(900)  # four starts of Spark
def test_kill_9(tmp_path: Path) -> None:
    """A command that is killed over and over loses no change and tells none twice."""
    entries = Arriving(tmp_path, 8, count=4)
    entries.arrive()
    places = ["--input", str(entries.inputs), "--state", str(tmp_path / "state"), "--output", str(tmp_path / "output")]
    command = [*COMMAND, *places, "--option", "batch=1", "--master", "local[2]"]
    for _kill in range(3):
        with subprocess.Popen([*command, "--interval", "1"], stderr=subprocess.PIPE, text=True) as process:
            found: list[str] = []
            seen = threading.Event()
            reader = threading.Thread(target=lines_of, args=(process, found, seen))
            reader.start()
            deadline = time.monotonic() + 10 * PATIENCE
            while not seen.wait(0.1) and process.poll() is None and time.monotonic() < deadline:
                pass
            process.kill()
            reader.join()
        assert seen.is_set(), "".join(found)
    done = subprocess.run([*command, "--once"], capture_output=True, text=True, check=False)
    assert (1, True) == (done.returncode, bool(done.stdout)), done.stderr  # it is complete, and something is invalid
    entries.assert_told()
    assert set(range(1, 9)) == {row["batch"] for row in entries.changes()}
