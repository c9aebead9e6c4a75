"""What follows a verification on Spark, step by step: rows a second and core of each, at each size.

Sizes, entries and the way of counting are those of ``bench.pipeline``, the session's settings those of the commands. A
row is an entry of the step's input; one entry in a thousand differs between the two sides that are compared, and there
is one range for every ten entries to select.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np

from bench.cost import measured
from bench.pipeline import FOLDER, LOG, SIZES, entries, rate, warm_session
from culm.ranges import Range
from culm.spark import run as verify
from culm.spark.reconciliation.fingerprint import run as fingerprint
from culm.spark.reconciliation.reconcile import run as reconcile
from culm.spark.report.job import run as report
from culm.spark.select.job import run_select

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from bench.harness import Figure

DIFFERENT = 1000  # one entry in so many
ENTRIES_A_RANGE = 10
RANGE = 20  # entries of a range, at most
REQUESTERS = 100


def run() -> list[Figure]:
    """Measure each step at each size."""
    with warm_session(config={}) as spark:
        _Steps(spark, 20 * LOG).figures()
        return [figure for size in SIZES for figure in _Steps(spark, size).figures()]


class _Steps:
    """The steps over entries of one size, each with what it needs."""

    def __init__(self, spark: SparkSession, size: int) -> None:
        self._spark = spark
        self._size = size
        self._entries = entries(spark, f"even-{size}", size // LOG)
        self._work = FOLDER / "steps"

    def figures(self) -> list[Figure]:
        """The rate of each step."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        inputs, verified = [str(self._entries)], self._work / "verified"
        verify(inputs, verified, signatures="heads")
        other = self._most_of(verified)
        requests = self._requests(verified)
        steps: dict[str, Callable[[Path], object]] = {
            "fingerprint": lambda output: fingerprint(str(verified), output),
            "reconcile": lambda output: reconcile(str(verified), str(other), output),
            "select": lambda output: run_select(inputs, str(requests), output, signatures="heads"),
            "select, as bundles": lambda output: run_select(
                inputs, str(requests), output, signatures="heads", bundles=True
            ),
            "report": lambda output: report(str(verified), output),
        }
        figures = [self._figure(name, step) for name, step in steps.items()]
        shutil.rmtree(self._work)
        return figures

    def _figure(self, name: str, step: Callable[[Path], object]) -> Figure:
        with measured() as cost:
            step(self._work / name)
        return rate(f"{name}, {self._size:,}", self._size, cost)

    def _most_of(self, verified: Path) -> Path:
        """The other side of a comparison: the same table without some of its rows."""
        place = self._work / "other"
        table = self._spark.read.parquet(f"file://{verified / 'verdicts'}")
        table.where(f"pmod(hash(entry_hash), {DIFFERENT}) <> 0").write.parquet(f"file://{place}")
        return place

    def _requests(self, verified: Path) -> Path:
        """Ranges of logs, drawn at random."""
        import pyarrow as pa  # noqa: PLC0415 - Spark is an extra
        import pyarrow.parquet as pq  # noqa: PLC0415

        table = self._spark.read.parquet(f"file://{verified / 'verdicts'}")
        authors = [row.author for row in table.select("author").distinct().collect()]
        draw, count = np.random.default_rng(3), self._size // ENTRIES_A_RANGE
        first = draw.integers(1, LOG + 1, count)
        last = np.minimum(first + draw.integers(0, RANGE, count), LOG)
        rows = {
            "requester": pa.array([f"requester {number}" for number in draw.integers(0, REQUESTERS, count)]),
            "author": pa.array([authors[number] for number in draw.integers(0, len(authors), count)], pa.binary()),
            "log_id": pa.array([0] * count, pa.int64()),
            "range": pa.array(
                [Range(low, high).encode() for low, high in zip(first.tolist(), last.tolist(), strict=True)],
                pa.binary(),
            ),
        }
        place = self._work / "requests.parquet"
        pq.write_table(pa.table(rows), place)
        return place
