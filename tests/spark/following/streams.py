"""Entries that arrive file by file, and what is to become of them."""

from __future__ import annotations

import random
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from culm.spark import follow, run
from culm.spark.following.delivery import KINDS, NEW, REASON
from culm.spark.reading.entries import split_batches
from culm.spark.reading.found import EntryRow
from culm.spark.reading.inputs import plan
from culm.spark.runtime.columns import schema, struct
from culm.spark.verification.forks import Fork
from culm.spark.verification.lakehouse import KEY
from culm.spark.verification.verdicts import Verdict
from tests.spark.verification.test_state import bundle
from tests.spark.worse_logs import WorseLogs

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from culm.bamboo import Entry

Rows = dict[tuple[Any, ...], dict[str, Any]]

COMPARED = [name for name in Verdict._fields if name != "copies"]
"""The columns that do not depend on when an entry came. A copy alone changes no verdict, so it makes no row."""


class Arriving:
    """Logs with anything wrong in them, in some files of a folder.

    ``whole`` and ``forks`` are what one run over all of them says of entries and of forked logs.
    Entries come in random order, some of them more than once, with their payloads, without them, or with wrong ones.
    """

    def __init__(self, folder: Path, files: int, count: int = 8, signatures: str = "all") -> None:
        self.folder, self.signatures = folder, signatures
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        logs = WorseLogs(seed=11, count=count)
        items: list[tuple[Entry, bytes | None]] = [*logs.items, *((entry, None) for entry in logs.forged)]
        draw = random.Random(2)
        for entry, payload in list(items):
            if draw.random() < 0.2:
                items.append((entry, payload if draw.random() < 0.5 else None))
        draw.shuffle(items)
        self.bundles = [bundle(folder / f"bundle {at}", items[at::files]) for at in range(files)]
        self.waiting = list(range(files))
        whole = folder / "whole"
        run(self.bundles, whole, signatures=signatures, with_forks=True)
        self.whole = by_key(parquet.read_table(whole / "verdicts").to_pylist())
        self.forks = forks_told(parquet.read_table(whole / "forks").to_pylist())
        assert self.forks
        assert {"verified", "unverified", "invalid"} == {row["verdict"] for row in self.whole.values()}
        assert {True, False} == {row["certified"] for row in self.whole.values() if row["verdict"] == "verified"}
        assert len({row["payload"] for row in self.whole.values()}) > 2

    def arrive(self, count: int | None = None) -> None:
        """The next files arrive; None: all that there are."""
        now, self.waiting = self.waiting[:count], self.waiting[count:] if count is not None else []
        for number in now:
            batches = chain.from_iterable(map(split_batches, plan([self.bundles[number]])))
            part = self.folder / "part"
            parquet.write_table(pa.Table.from_batches(batches, schema(EntryRow)), part)
            part.rename(self.inputs / f"{number}.parquet")

    def stream(self, spark: SparkSession) -> DataFrame:
        """The files as a stream, one in each batch."""
        return (
            spark.readStream.schema(struct(EntryRow)).option("maxFilesPerTrigger", 1).parquet(f"file://{self.inputs}")
        )

    def follow(self, spark: SparkSession, **given: Any) -> None:
        """Follow what has arrived, to its end."""
        place = {} if "table" in given else {"output": self.folder / "output"}
        options = {**place, "signatures": self.signatures, "once": True, **given}
        query = follow(self.stream(spark), self.folder / "state", **options)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def changes(self, output: str = "output", table: str = "changes") -> list[dict[str, Any]]:
        """The rows of the change feed, or of another table, batch by batch."""
        found = parquet.read_table(self.folder / output / table).to_pylist()
        return sorted(found, key=lambda row: row["batch"])

    def assert_told(self, output: str = "output") -> None:
        """The verdicts and the forks that were told so far are those of one run."""
        assert self.whole == told(self.changes(output))
        assert self.forks == forks_told(self.changes(output, "forks"))


def by_key(rows: list[dict[str, Any]]) -> Rows:
    """The compared columns of rows, by entry; no two rows are of one entry."""
    found = {tuple(row[name] for name in KEY): {name: row[name] for name in COMPARED} for row in rows}
    assert len(rows) == len(found)
    return found


def told(changes: list[dict[str, Any]]) -> Rows:
    """What a change feed leads to. Each row must tell truly what was said before, and what has changed."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in changes:
        key = tuple(row[name] for name in KEY)
        before = found.get(key)
        if before is None:
            assert (NEW, None, None, None) == tuple(
                row[name] for name in ("change", "verdict_before", "certified_before", "payload_before")
            )
        else:
            parts = ("verdict", "certified", "payload")
            assert before["batch"] < row["batch"]
            assert [before[name] for name in parts] == [row[f"{name}_before"] for name in parts]
            differing = [name for name in parts if before[name] != row[name]]
            assert row["change"] == (differing[0] if differing else REASON)
        assert row["change"] in KINDS
        found[key] = row
    return by_key(list(found.values()))


def forks_told(rows: list[dict[str, Any]]) -> Rows:
    """The last row of each forked log. A log is told again only if something of its row has changed."""
    found: Rows = {}
    for row in rows:
        key, fork = (row["author"], row["log_id"]), {name: row[name] for name in Fork._fields}
        assert fork != found.get(key)
        found[key] = fork
    return found
