"""Streams into Delta that are killed at random moments: each row is in the table once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.node.home import Home
from culm.testing import build_log
from tests.cli.culm import start
from tests.spark.verification.test_state import bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.testing import LogBuilder

pytestmark = [
    pytest.mark.lakehouse,
    pytest.mark.skipif(Path(os.environ.get("CULM_LAKEHOUSE", "")).name != "delta", reason="Delta alone has the sink"),
    pytest.mark.timeout(3600),
]
KILLS = int(os.environ.get("CULM_KILLS", "3"))
SEED = int(os.environ.get("CULM_SEED", "1"))
_A_ROUND = 20  # entries of each source that come between two kills
_MOMENTS = {"starting": 3.0, "writing": 0.3, "committed": 1.0}
"""When a kill comes, and how many seconds later at most: after the streams began, after a table got a file that no
commit may name yet, after a batch was done. Each is about as long as what comes next takes."""
_LOOK_SECONDS = 0.02  # between two looks for new files


class Follower:
    """The program that is killed, in a process group of its own with its Java."""

    def __init__(self, peer: str, folder: Path, work: Path, conf: Path) -> None:
        command = [sys.executable, "-m", "tests.lakehouse.follower", peer, str(folder), str(work)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SPARK_CONF_DIR": str(conf)},
            start_new_session=True,
        )

    def go(self) -> None:
        """Let it begin, once Spark has started."""
        assert self._line() == "ready"
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def rows(self) -> int:
        """How many rows it has read, when it says so next."""
        return int(self._line())

    def wait_for_files(self, work: Path) -> None:
        """Wait until there is a file of data in a table that was not there before."""
        before = files(work)
        while files(work) <= before:
            assert not self._has_ended(_LOOK_SECONDS)

    def kill(self, seconds: float = 0.0) -> None:
        """Kill it and its Java, with SIGKILL, after some time."""
        self._has_ended(seconds)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _has_ended(self, seconds: float) -> bool:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.poll() is not None

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, "the streams ended by themselves; what they failed of stands above"
        return line


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[tuple[str, Home]]:
    """The address of a node in a process of its own, and its home."""
    home = Home(tmp_path / "peer")
    home.create()
    home.add_identity("default", Identity(b"\x07" * 32), None)
    process = start(home.path, "serve", "--listen", "culm://127.0.0.1:0")
    assert process.stdout is not None
    yield process.stdout.readline().split()[1], home
    process.kill()
    process.communicate()


def table(path: Path) -> list[bytes]:
    """The entries in a table, read without Spark, sorted."""
    deltalake = pytest.importorskip("deltalake")
    try:
        return sorted(deltalake.DeltaTable(path).to_pyarrow_table(columns=["encoded"])["encoded"].to_pylist())
    except deltalake.exceptions.TableNotFoundError:  # the first batch is not in it yet
        return []


def test_each_row_once(peer: tuple[str, Home], conf: Path, tmp_path: Path) -> None:
    """After many kills the tables have each entry of the peer, and each of the bundles, once."""
    url, home = peer
    chance = random.Random(SEED)
    live, dropped = (build_log((KILLS + 1) * _A_ROUND, seed=seed) for seed in (1, 2))
    folder = tmp_path / "drop"
    folder.mkdir()
    work = tmp_path / "work"
    (work / "live").mkdir(parents=True)
    under_way = 0
    follower = Follower(url, folder, work, conf)
    for number in range(KILLS):
        following = Follower(url, folder, work, conf)  # it starts its Spark while the other one is at work
        follower.go()
        bring(home, folder, live, dropped, number)
        moment = chance.choice(sorted(_MOMENTS))
        if moment == "writing":
            follower.wait_for_files(work)
        while moment == "committed" and not follower.rows():
            pass
        follower.kill(chance.uniform(0, _MOMENTS[moment]))
        under_way += sum(map(is_under_way, (work / "live", work / "drop")))
        follower = following
    follower.go()
    bring(home, folder, live, dropped, KILLS)
    expected = [sorted(entry.encoded for entry in log.entries) for log in (live, dropped)]
    try:
        while True:
            found = [table(work / name / "lake" / "entries") for name in ("live", "drop")]
            if all(len(one) >= len(other) for one, other in zip(found, expected, strict=True)):
                break
            follower.rows()
    finally:
        follower.kill()
    assert expected == found
    sys.stdout.write(f"{KILLS} kills, seed {SEED}: {under_way} batches were under way\n")


def files(work: Path) -> set[Path]:
    """The files of data in both tables, committed or not."""
    return set(work.glob("*/lake/entries/*.parquet"))


def is_under_way(work: Path) -> bool:
    """Whether a stream was killed in a batch: Spark has noted its offset, and not that it is done."""
    logs = (work / "checkpoint" / name for name in ("offsets", "commits"))
    begun, done = ({int(path.name) for path in log.glob("[0-9]*")} for log in logs)
    return bool(begun - done)


def bring(home: Home, folder: Path, live: LogBuilder, dropped: LogBuilder, number: int) -> None:
    """Add a round's entries to the peer, and drop a bundle with a round's entries."""
    some = slice(number * _A_ROUND, (number + 1) * _A_ROUND)
    with home.store() as store:
        store.add(live.items(live.entries[some]))
    bundle(folder / f".{number}", dropped.items(dropped.entries[some]))
    (folder / f".{number}").rename(folder / f"{number}.bundle")
