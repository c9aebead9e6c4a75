"""Selecting on Spark: a million ranges over a million entries, half of them of one log."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.cost import measured
from bench.harness import Figure, say
from culm.bamboo import Entry, Identity, has_lipmaalink, lipmaa, yamf_hash
from culm.bamboo.entry import SIGNATURE_BYTES
from culm.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.verification.verify import Verification

SIZE = 1_000_000
SMALL_LOG = 100
LENGTH = 10  # of a range, at most
RANGES_EACH = 10  # of a requester
WARM = 2000  # ranges selected before, so that Java has compiled what it will


class Count(NamedTuple):
    """How many items a batch has, and how many bytes of entries."""

    items: int
    bytes: int


def run(size: int = SIZE) -> list[Figure]:
    """Measure with so many entries and as many ranges."""
    from culm.spark.runtime.session import session  # noqa: PLC0415 - Spark is an extra

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        say(f"select: {size:,} entries")
        logs = write_entries(folder / "entries", size)
        say(f"select: {size:,} ranges")
        write_requests(folder / "requests", logs, size)
        spark: SparkSession = session("local[2]")
        found = verified(spark, folder)
        requests = spark.read.parquet(str(folder / "requests"))
        measure(requests.limit(WARM), found)
        measured = measure(requests, found)
        spark.stop()
    return figures(size, *measured)


def figures(size: int, taken: float, cpu: float, items: int, data: int) -> list[Figure]:
    """What was measured: seconds, CPU seconds, items, bytes."""
    name = f"select {size:,} ranges of {size:,} entries"
    text = f"{items:,} items, {data / 1e9:.1f} GB of entries"
    return [
        Figure(f"{name}, 2 cores", items / taken, "items/s", text),
        Figure(f"{name}: ranges", size / taken, "ranges/s"),
        Figure(f"{name}: CPU of all processes", cpu / items * 1e6, "us an item"),
        Figure(f"{name}: the same", cpu / size * 1e6, "us a range"),
    ]


def measure(requests: DataFrame, found: Verification) -> tuple[float, float, int, int]:
    """Select, each item with the entry's bytes, which the workers count and drop."""
    from culm.spark.plan.given import REQUESTS, Given, given  # noqa: PLC0415
    from culm.spark.runtime.onspark import OnSpark, SparkTable, frame_of  # noqa: PLC0415
    from culm.spark.select.job import Selecting  # noqa: PLC0415

    assert isinstance(found.engine, OnSpark)
    with measured() as cost:
        selected = Selecting(found, SparkTable(found.engine, Given, given(requests, REQUESTS)), {})
        counted = frame_of(selected.together().map(_counted, Count, columnar=True))
        counts = counted.selectExpr("sum(items)", "sum(bytes)").collect()[0]
    say(f"select: {counts[0]:,} items in {cost.wall:.1f} s, CPU {cost.cpu:.1f} s")
    return cost.wall, cost.cpu, counts[0], counts[1]


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[Count]:
    from culm.spark.select.items import Item, chosen  # noqa: PLC0415

    for made in chosen(batches):
        if made.table is Item:
            yield Count(len(made.data), made.data.column("encoded").nbytes)


def verified(spark: SparkSession, folder: Path) -> Verification:
    """The verification of the entries."""
    from culm.spark.reading.inputs import plan  # noqa: PLC0415
    from culm.spark.runtime.onspark import OnSpark  # noqa: PLC0415
    from culm.spark.verification.authentic import Signatures  # noqa: PLC0415
    from culm.spark.verification.gather import PackRow, gather  # noqa: PLC0415
    from culm.spark.verification.verify import Verification  # noqa: PLC0415

    engine = OnSpark(spark, folder / "verified")
    (packs,) = engine.read(plan([folder / "entries"]), gather, PackRow)
    found = Verification(engine, Signatures.HEADS, keep=True)
    found.take(packs)
    return found


# -- what is selected from ------------------------------------------------------------------------------------------


def write_entries(folder: Path, size: int) -> list[tuple[bytes, int]]:
    """A table of entries; their logs: author and length."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    folder.mkdir()
    lengths = [size // 2] + [SMALL_LOG] * (size // 2 // SMALL_LOG)
    logs, waiting = [], []
    for number, length in enumerate(lengths):
        identity = Identity(number.to_bytes(32, "big"))
        logs.append((identity.public, length))
        waiting += log_of(identity, length)
        if len(waiting) > 100_000 or number == len(lengths) - 1:
            states = pa.repeat("held", len(waiting))
            table = pa.table({"encoded": pa.array(waiting, pa.binary()), "payload_state": states})
            pq.write_table(table, folder / f"{number}.parquet", row_group_size=50_000)
            waiting = []
    return logs


def log_of(identity: Identity, length: int) -> list[bytes]:
    """A log's entries. Only those at the end of a block are signed: the others are vouched for by links."""
    payload_hash, unsigned = yamf_hash(b"a payload"), bytes(SIGNATURE_BYTES)
    hashes = [b""]
    encoded = []
    for seq in range(1, length + 1):
        backlink = hashes[-1] if seq > 1 else None
        lipmaalink = hashes[lipmaa(seq)] if has_lipmaalink(seq) else None
        if (seq + 1) % 4096 == 0 or seq == length:
            whole = identity.create_entry(
                log_id=0, seq=seq, backlink=backlink, lipmaalink=lipmaalink, size=9, payload_hash=payload_hash
            )
        else:
            log = (identity.public, 0)
            whole = Entry.assemble(log, seq, False, lipmaalink, backlink, 9, payload_hash, unsigned)
        hashes.append(whole.hash)
        encoded.append(whole.encoded)
    return encoded


def write_requests(folder: Path, logs: list[tuple[bytes, int]], count: int) -> None:
    """Half of the ranges are of the long log."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    folder.mkdir()
    draw = np.random.default_rng(3)
    for part in range(8):
        rows = count // 8
        log = np.where(draw.random(rows) < 0.5, 0, draw.integers(1, len(logs), rows)).tolist()
        starts, lengths = draw.random(rows).tolist(), draw.integers(0, LENGTH, rows).tolist()
        ranges, authors = [], []
        for which, start, length in zip(log, starts, lengths, strict=True):
            author, newest = logs[which]
            first = 1 + int(start * newest)
            ranges.append(Range(first, min(newest, first + length)).encode())
            authors.append(author)
        requesters = [f"requester {number}" for number in draw.integers(0, count // RANGES_EACH, rows).tolist()]
        table = pa.table(
            {
                "requester": pa.array(requesters, pa.string()),
                "author": pa.array(authors, pa.binary()),
                "log_id": pa.array([0] * rows, pa.int64()),
                "range": pa.array(ranges, pa.binary()),
            }
        )
        pq.write_table(table, folder / f"{part}.parquet")


if __name__ == "__main__":
    from bench.harness import report

    report(run(int(sys.argv[1]) if len(sys.argv) > 1 else SIZE), as_json=False)
