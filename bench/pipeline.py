"""The verification on Spark: rows a second and core, against plain processes that do the same.

Every figure is CPU of the whole tree of processes, Java's included, beyond Spark's start: wall-clock time on a shared
machine says little. Entries are made in Spark, by many keys, and kept in ``CULM_BENCH_DATA`` (default: a folder of the
system's for temporary files), which is not timed. ``CULM_BENCH_SIZES`` says how many; the default is 100000,1000000.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.cost import Cost, measured
from bench.harness import Figure, say
from culm.spark import run as verify
from culm.spark import session
from culm.spark.runtime.columns import batches, struct
from culm.spark.runtime.shell import SETTINGS
from culm.spark.verification.job import run_forks
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

FOLDER = Path(os.environ.get("CULM_BENCH_DATA", Path(tempfile.gettempdir()) / "culm-bench"))
SIZES = [int(size) for size in os.environ.get("CULM_BENCH_SIZES", "100000,1000000").split(",")]
LOG = 1000  # entries of a log
FORKED = 100  # one log in so many
CORES = 2


class Encoded(NamedTuple):
    """An entry."""

    encoded: bytes


# -- what is verified ---------------------------------------------------------------------------------------------


def _made(found: Iterator[pa.RecordBatch], length: int, first: int) -> Iterator[pa.RecordBatch]:
    def rows() -> Iterator[Encoded]:
        for batch in found:
            for number in batch.column(0).to_pylist():
                for entry in build_log(first if number == 0 else length, seed=number + 1).entries:
                    yield Encoded(entry.encoded)

    return batches(Encoded, rows())


def entries(spark: SparkSession, name: str, logs: int, length: int = LOG, first: int = 0) -> Path:
    """A table of entries, made if it is not there: the first of its logs has ``first`` entries, if that is given."""
    place = FOLDER / name
    if not (place / "_SUCCESS").exists():
        say(f"making {name}")
        shutil.rmtree(place, ignore_errors=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        numbers = spark.range(0, logs, 1, min(logs, 64))
        made = numbers.mapInArrow(lambda found: _made(found, length, first or length), struct(Encoded))
        made.write.parquet(f"file://{place}")
    return place


def siblings(spark: SparkSession, name: str, logs: int) -> Path:
    """Another entry in the middle of one log in a hundred."""
    place = FOLDER / name
    if not (place / "_SUCCESS").exists():
        made = spark.range(0, logs, FORKED, 8).mapInArrow(_siblings, struct(Encoded))
        made.write.mode("overwrite").parquet(f"file://{place}")
    return place


def _siblings(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    def rows() -> Iterator[Encoded]:
        for batch in found:
            for number in batch.column(0).to_pylist():
                yield Encoded(build_log(LOG // 2, seed=number + 1).make(LOG // 2, b"another").encoded)

    return batches(Encoded, rows())


# -- the work -----------------------------------------------------------------------------------------------------


def on_spark(inputs: list[Path], signatures: str, state: Path | None = None, count: int | None = None) -> Cost:
    """Verify on the session that is active; ``count`` entries must be verified."""
    output = FOLDER / "output"
    shutil.rmtree(output, ignore_errors=True)
    with measured() as cost:
        summary = verify([str(path) for path in inputs], output, signatures=signatures, state=state)
    if count is not None and summary.verified != count:
        raise AssertionError(summary)
    return cost


def finding_forks(inputs: list[Path], count: int) -> Cost:
    """Find the forks, of which there must be ``count``."""
    output = FOLDER / "forks"
    shutil.rmtree(output, ignore_errors=True)
    with measured() as cost:
        found = run_forks([str(path) for path in inputs], output, signatures="heads")
    if found.forks != count:
        raise AssertionError(found)
    return cost


_PLAIN = """
import sys
import pyarrow.parquet as pq
from culm.bamboo import Entry, LogAuditor, is_authentic
from pathlib import Path

auditors = {}
for path in sys.argv[1:]:
    for batch in pq.ParquetFile(path).iter_batches(5000):
        for data in batch.column(0).to_pylist():
            entry = Entry.decode(data)
            if not is_authentic(entry):
                raise SystemExit("bad signature")
            if not auditors.setdefault(entry.log, LogAuditor()).add(entry):
                raise SystemExit("no path")
"""


def plainly(place: Path) -> Cost:
    """The same in plain processes, one a core, each with whole logs in ascending order: the limit."""
    files = sorted(str(path) for path in place.glob("*.parquet"))
    with measured() as cost:
        parts = [subprocess.Popen([sys.executable, "-c", _PLAIN, *files[part::CORES]]) for part in range(CORES)]
        if any(part.wait() for part in parts):
            raise AssertionError("plain verification failed")
    return cost


# -- the figures --------------------------------------------------------------------------------------------------


def rate(
    name: str, rows: int, cost: Cost, limit: str = "", over: float | None = None, goal: float | None = None
) -> Figure:
    """Rows a second and core; ``over``: the rate to compare with."""
    value = rows / cost.cpu
    say(f"  {name}: {cost.cpu:.1f} s of CPU, {cost.wall:.1f} s, {cost.peak / 1e6:,.0f} MB")
    return Figure(name, value, "rows/s/core", limit, None if over is None else value / over, goal)


@contextmanager
def warm_session(master: str = f"local[{CORES}]", config: Mapping[str, str] = SETTINGS) -> Iterator[SparkSession]:
    """A session that has verified before, so that Java has compiled what it will."""
    spark = session(master, config=config)
    try:
        warm = entries(spark, "warm", 20)
        for signatures in ("all", "heads"):
            on_spark([warm], signatures, count=20 * LOG)
        yield spark
    finally:
        spark.stop()


def run() -> list[Figure]:
    """Verify at each size."""
    with warm_session() as spark:
        return _sizes(spark)


def run_skewed() -> list[Figure]:
    """Verify logs of which one holds half of all rows."""
    with warm_session() as spark:
        return skewed(spark)


def run_incremental() -> list[Figure]:
    """Verify a little more on top of a state."""
    with warm_session() as spark:
        return incremental(spark)


def _sizes(spark: SparkSession) -> list[Figure]:
    figures: list[Figure] = []
    fits: dict[str, list[tuple[int, float]]] = {"all": [], "heads": []}
    for size in SIZES:
        say(f"{size} entries in logs of {LOG}")
        place = entries(spark, f"even-{size}", size // LOG)
        plain = rate(f"plain processes, {size:,} entries", size, plainly(place))
        strict_cost = on_spark([place], "all", count=size)
        strict = rate(f"strict, {size:,}", size, strict_cost, "plain processes", plain.value, 2.5)
        heads_cost = on_spark([place], "heads", count=size)
        heads = rate(f"heads, {size:,}", size, heads_cost, "strict", strict.value)
        logs = size // LOG
        forked = finding_forks([place, siblings(spark, f"siblings-{size}", logs)], -(-logs // FORKED))
        figures += [plain, strict, heads, rate(f"forks, heads, {size:,}", size, forked)]
        fits["all"].append((size, strict_cost.cpu))
        fits["heads"].append((size, heads_cost.cpu))
        peak = max(strict_cost.peak, heads_cost.peak)
        figures.append(Figure(f"memory of all processes, {size:,}", peak / 1e6, "MB", goal=8000, at_least=False))
    return figures + _fitted(fits)


def _fitted(fits: dict[str, list[tuple[int, float]]]) -> list[Figure]:
    """CPU microseconds a row beyond what does not depend on the rows, by the two largest sizes, and the exponent."""
    figures = []
    for name, points in fits.items():
        if len(points) < 2:
            continue
        sizes, seconds = (np.log([point[at] for point in points]) for at in (0, 1))
        exponent = float(np.polyfit(sizes, seconds, 1)[0])
        (low, cheap), (high, dear) = points[-2:]
        slope = (dear - cheap) / (high - low) * 1e6
        figures.append(Figure(f"time grows as rows to the power of ({name})", exponent, "", goal=1.05, at_least=False))
        figures.append(Figure(f"each further row costs ({name})", slope, "us"))
    return figures


def skewed(spark: SparkSession) -> list[Figure]:
    """One log with half of all rows, against as many rows of even logs."""
    size = min(max(SIZES), 1_000_000)
    even = entries(spark, f"even-{size}", size // LOG)
    half = entries(spark, f"half-{size}", size // 2 // LOG + 1, LOG, size // 2)
    figures = []
    for signatures in ("all", "heads"):
        beside, cost = (on_spark([place], signatures, count=size) for place in (even, half))
        say(f"  half in one log, {signatures}: {cost.wall:.1f} s, even {beside.wall:.1f} s")
        name = f"half of {size:,} rows in one log, {signatures}"
        figures.append(Figure(name, cost.wall, "s", "even logs", cost.wall / beside.wall, 1.3, at_least=False))
    return figures


def incremental(spark: SparkSession) -> list[Figure]:
    """1 % more entries on top of a state, against verifying all."""
    size = min(max(SIZES), 1_000_000)
    place = entries(spark, f"even-{size}", size // LOG)
    more = entries(spark, f"more-{size}", size // LOG, LOG + LOG // 100)
    new = FOLDER / f"new-{size}"
    if not (new / "_SUCCESS").exists():
        read = spark.read.format("culm").option("fromSeqnum", LOG + 1).load(str(more))
        read.select("encoded").write.parquet(f"file://{new}")
    state = FOLDER / "state"
    shutil.rmtree(state, ignore_errors=True)
    whole = on_spark([place], "all", state, count=size)
    saved = FOLDER / "state-saved"
    shutil.rmtree(saved, ignore_errors=True)
    shutil.copytree(state, saved)
    count = size + size // 100
    on_top = on_spark([new], "all", state, count=count)
    spark.stop()
    shutil.rmtree(state)
    saved.rename(state)
    without = on_spark([new], "all", state, count=count)
    goal = f"the run over all {size:,}, {whole.cpu:.0f} s of CPU"
    say(f"  first run {whole.cpu:.1f} s, on top of it {on_top.cpu:.1f} s on Spark, {without.cpu:.1f} s without")
    return [
        Figure(f"1 % on top of a state, {name}", cost.cpu, "s of CPU", goal, cost.cpu / whole.cpu, 0.05, at_least=False)
        for name, cost in (("without Spark", without), ("on Spark", on_top))
    ]
