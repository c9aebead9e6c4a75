"""Record indexes: written by Spark, opened, reconciled and compared, each against the same in one process's memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from bench.cost import measured
from bench.harness import Figure, in_turns, median_ratio, say, seconds
from bench.negentropy import records, session
from culm.bamboo.yamf import YAMF_PREFIX
from culm.negentropy import ArrayStorage
from culm.store import View
from culm.store.recordindex import IndexStorage
from culm.store.recordindex.compare import compare
from culm.store.recordindex.manifest import BLOCK_RECORDS, write_manifest
from culm.store.recordindex.writer import FileWriter

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import SparkSession

    Timestamps = npt.NDArray[np.uint64]
    Bytes = npt.NDArray[np.uint8]

RECORDS = 1_000_000
DIFFERENCES = 1_000
ROUNDS = 3
MEMORY_GOAL = 80  # MB, whatever the size of the set: the interpreter with numpy takes 40


def run(size: int = RECORDS) -> list[Figure]:
    """Measure with sets of so many records."""
    timestamps, ids = records(size)
    order = np.random.default_rng(2).permutation(size)
    half = DIFFERENCES // 2
    ours, theirs = np.delete(order, np.s_[:half]), np.delete(order, np.s_[half:DIFFERENCES])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = [
            *measure_writing(folder, timestamps[ours], ids[ours]),
            *measure_reading(folder, (timestamps[theirs], ids[theirs]), (timestamps[ours], ids[ours])),
        ]
    return [replace(figure, name=f"fingerprint {size:,}: {figure.name}") for figure in figures]


def keys_of(timestamps: Timestamps, ids: Bytes) -> Bytes:
    """The keys of records, ascending."""
    keys = np.concatenate((timestamps.astype(">u8").view(np.uint8).reshape(-1, 8), ids), axis=1)
    return keys[np.argsort(keys.view("S40").reshape(-1))]


def put(folder: Path, timestamps: Timestamps, ids: Bytes) -> None:
    """Sort the records and write their index, in this process."""
    folder.mkdir()
    writer = FileWriter(folder)
    writer.add(keys_of(timestamps, ids))
    write_manifest(folder, filter(None, [writer.finish()]), View.ENTRIES, BLOCK_RECORDS)


# -- writing --------------------------------------------------------------------------------------------------------


def measure_writing(folder: Path, timestamps: Timestamps, ids: Bytes) -> list[Figure]:
    """An index by Spark, from a table of Parquet files, and by this process, from memory."""
    from culm.spark.reconciliation.fingerprint import fingerprint  # noqa: PLC0415 - Spark is an extra
    from culm.spark.runtime.session import session as spark_session  # noqa: PLC0415

    size = len(ids)
    say(f"fingerprint: {size:,} records by Spark")
    write_table(folder / "table", timestamps, ids)
    spark: SparkSession = spark_session("local[2]")
    table = spark.read.parquet(str(folder / "table"))
    fingerprint(spark, table.limit(1000), folder / "warm")
    made = iter(range(100))
    cpu: list[float] = []

    def by_spark() -> None:
        with measured() as cost:
            fingerprint(spark, table, folder / f"spark-{next(made)}")
        cpu.append(cost.cpu)

    times, alone = in_turns(ROUNDS, by_spark, lambda: put(folder / f"alone-{next(made)}", timestamps, ids))
    spark.stop()
    ratio = median_ratio(alone, times)
    of_numpy = "one process, numpy, from memory"
    return [
        Figure("written by Spark, 2 cores, from Parquet", size / median(times), "rows/s", of_numpy, ratio),
        Figure("the same: CPU of all its processes", median(cpu) / size * 1e6, "us a row"),
    ]


def write_table(folder: Path, timestamps: Timestamps, ids: Bytes) -> None:
    """A table of entries with these records."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(ids)), 8)):
        hashes = np.zeros((len(part), 66), np.uint8)
        hashes[:, :2] = list(YAMF_PREFIX)
        hashes[:, 2:34] = ids[part]
        numbers = [Decimal(int(timestamp) + 1) for timestamp in timestamps[part]]
        table = pa.table(
            {
                "seqnum": pa.array(numbers, pa.decimal128(20, 0)),
                "entry_hash": pa.array([row.tobytes() for row in hashes], pa.binary()),
            }
        )
        pq.write_table(table, folder / f"part-{number}.parquet")


# -- reading --------------------------------------------------------------------------------------------------------


def measure_reading(folder: Path, theirs: tuple[Timestamps, Bytes], ours: tuple[Timestamps, Bytes]) -> list[Figure]:
    """Opening Spark's index, a session with it, comparing it with another; the memory of a process that serves it."""
    place = next(folder.glob("spark-*"))
    put(folder / "other", *theirs)
    say(f"fingerprint: {DIFFERENCES:,} differences")
    array, other = ArrayStorage(*ours), ArrayStorage(*theirs)
    opening = median(seconds(lambda: IndexStorage(place).close()) for _ in range(ROUNDS))
    in_memory, with_index = [], []
    rounds = up = down = 0
    for _ in range(ROUNDS):
        in_memory.append(session(array, other)[0])
        with IndexStorage(place) as index:
            cpu, rounds, up, down = session(index, other)
            with_index.append(cpu)
    with IndexStorage(place) as a, IndexStorage(folder / "other") as b:
        start = time.process_time()
        found = sum(1 for _ in compare(a, b))
        comparing = time.process_time() - start
        assert found == DIFFERENCES
        size = sum(file.size for index in (a, b) for file in index.manifest.files)
        read = a.bytes_read + b.bytes_read
    before, after = serving(place, other)
    what = f"session of {DIFFERENCES:,} differences with a set in memory: CPU of both"
    text = f"both in memory; {rounds} rounds, {up:,} bytes up, {down:,} down"
    return [
        Figure("open the index", opening * 1000, "ms"),
        Figure(what, median(with_index) * 1000, "ms", text, median_ratio(with_index, in_memory)),
        Figure(f"compare two indexes, {DIFFERENCES:,} differences: CPU", comparing * 1000, "ms"),
        Figure("the same: bytes read", read / 1e6, "MB", "of both indexes", read / size),
        Figure("serve the index: peak memory", after, "MB", f"{before:.0f} MB before", None, MEMORY_GOAL, False),
    ]


def serving(place: Path, other: ArrayStorage) -> tuple[float, float]:
    """The peak memory of a process that serves an index, in MB: before, and after a session."""
    import asyncio  # noqa: PLC0415

    from culm.node.negentropy.comparison import compare_records  # noqa: PLC0415
    from culm.node.network.transport import connect  # noqa: PLC0415
    from culm.node.network.urls import PeerUrl  # noqa: PLC0415

    command = [sys.executable, "-m", "culm.cli", "serve", "--index", str(place), "--listen", "negentropy://127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def peak() -> float:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000

    async def ask(url: PeerUrl) -> None:
        streams = await connect(url)
        found = await compare_records(other, View.ENTRIES, streams)
        assert found is not None
        assert len(found.have) + len(found.need) == DIFFERENCES
        streams[1].close()

    try:
        assert process.stdout is not None
        url = PeerUrl.parse(process.stdout.readline().split()[1], schemes=("negentropy",))
        before = peak()
        asyncio.run(ask(url))
        return before, peak()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    from bench.harness import report

    report(run(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS), as_json=False)
