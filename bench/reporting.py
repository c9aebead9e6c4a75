"""Reporting on a verification, in this process and on Spark: rows a second and core, memory, the size of the page.

The results of a verification are written directly, as a table of verdicts of many authors, so that ten million rows are
there in seconds. One log in a hundred is forked in its middle, one lacks every tenth number, and one lies about its
payloads. ``CULM_BENCH_DATA`` and ``CULM_BENCH_SIZES`` are those of ``bench.pipeline``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING

import numpy as np

from bench.cost import measured
from bench.harness import Figure
from bench.pipeline import CORES, FOLDER, LOG, SIZES, rate
from culm.spark import session
from culm.spark.report.job import run as report

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

FILE_LOGS = 1000  # logs of one file, so that Spark has several tasks
SPECIAL = 100  # one log in so many is forked, has gaps, or lies


def run() -> list[Figure]:
    """Report on each size, first in this process, then on Spark."""
    figures = [figure for size in SIZES for figure in _figures(size, "in this process")]
    spark = session(f"local[{CORES}]")
    try:
        report(str(results(20 * LOG)), FOLDER / "report", overwrite=True)
        figures += [figure for size in SIZES for figure in _figures(size, "on Spark")]
    finally:
        spark.stop()
    return figures


def _figures(size: int, where: str) -> list[Figure]:
    place = results(size)
    with measured() as cost:
        made = report(str(place), FOLDER / "report", overwrite=True)
    if made.entries != size:
        raise AssertionError(made)
    return [
        rate(f"report {where}, {size:,}", size, cost),
        Figure(f"memory of all processes, {size:,} {where}", cost.peak / 1e6, "MB"),
    ]


def results(size: int) -> Path:
    """The folder of a verification of so many entries, made if it is not there."""
    import pyarrow as pa  # noqa: PLC0415 - Spark is an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    place = FOLDER / f"verified-{size}"
    if not (place / "summary.json").exists():
        shutil.rmtree(place, ignore_errors=True)
        for name in ("verdicts", "rejects"):
            (place / name).mkdir(parents=True)
        logs = range(size // LOG)
        for first in logs[::FILE_LOGS]:
            table = pa.concat_tables(map(_verdicts, logs[first : first + FILE_LOGS]))
            pq.write_table(table, place / "verdicts" / f"part-{first}.parquet", row_group_size=64 * LOG)
        rejects = {"source": pa.array([], pa.string()), "offset": pa.array([], pa.int64())}
        pq.write_table(pa.table({**rejects, "reason": rejects["source"]}), place / "rejects" / "part.parquet")
        (place / "summary.json").write_text(json.dumps({"entries": size}))
    return place


def _verdicts(log: int) -> pa.Table:
    """The verdicts on one log of ``LOG`` entries."""
    import pyarrow as pa  # noqa: PLC0415 - Spark is an extra

    forked, holed, lying = (log % SPECIAL == kind for kind in range(3))
    number = np.arange(1, LOG + 1, dtype=np.uint64)
    number += number // np.uint64(10) if holed else np.uint64(0)
    middle = LOG // 2
    invalid = (number >= middle) & forked

    def unsigned(numbers: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> pa.Array:
        return pa.array(numbers).cast(pa.decimal128(20, 0))

    return pa.table(
        {
            "author": pa.array([hashlib.sha256(b"%d" % log).digest()] * LOG, pa.binary()),
            "log_id": unsigned(np.zeros(LOG, np.uint64)),
            "seqnum": unsigned(number),
            "size": unsigned(number * np.uint64(7)),
            "payload": pa.array(["mismatch" if lying else "held"] * LOG),
            "verdict": pa.array(np.where(invalid, "invalid", "verified").tolist()),
            "reason": pa.array([f"fork at {middle}" if bad else None for bad in invalid.tolist()], pa.string()),
            "copies": pa.array(np.ones(LOG, np.int64)),
        }
    )
