"""Following a stream: batches on top of a state, as ``culm.spark.follow`` has them, against Spark's own state.

The other ways are sketches of what ``transformWithState`` could do: of each entry of a log the state has the digest and
whether it has a path to entry 1; a new entry is decoded, its signature is checked, and what it connects is told. They
know no forks, no payloads, no certificate pools and no reasons, so that whole ones would only be slower. One has an
entry of Spark's state for each entry of a log, the other one value for a log, which is read and written as a whole.

Entries arrive in ten batches, in an order that is random within some 200 entries of each log. ``CULM_BENCH_SIZES`` says
how many there are; the default here is 100000, because a row of Spark's state for each entry takes a long time.
"""

from __future__ import annotations

import os
import pickle
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench.cost import measured
from bench.pipeline import FOLDER, LOG, entries, rate, warm_session
from culm.bamboo import Entry, is_authentic, lipmaa
from culm.spark import State, follow
from culm.store.schema import to_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from bench.harness import Figure

SIZES = [int(size) for size in os.environ.get("CULM_BENCH_SIZES", "100000").split(",")]
BATCHES = 10
STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def run() -> list[Figure]:
    """Measure both ways at each size."""
    config = {"spark.sql.streaming.stateStore.providerClass": STORE, "spark.sql.shuffle.partitions": "4"}
    with warm_session(config=config) as spark:
        return [figure for size in SIZES for figure in _both(spark, size)]


def _both(spark: SparkSession, size: int) -> Iterator[Figure]:
    place = _arriving(spark, size)
    ways: dict[str, Callable[[DataFrame], int]] = {
        "state folder": _followed,
        "transformWithState, a value a log": partial(_transformed, processor=_Logs()),
        "transformWithState, a row an entry": partial(_transformed, processor=_Entries()),
    }
    for name, way in ways.items():
        shutil.rmtree(FOLDER / "following", ignore_errors=True)
        (FOLDER / "following").mkdir()
        stream = spark.readStream.schema("author BINARY, log BIGINT, encoded BINARY").option("maxFilesPerTrigger", 1)
        with measured() as cost:
            verified = way(stream.parquet(f"file://{place}"))
        if verified != size:
            raise AssertionError(f"{name}: {verified} of {size} are verified")
        yield rate(f"{name}, {size:,}", size, cost)


def _followed(stream: DataFrame) -> int:
    work = FOLDER / "following"
    follow(stream, work / "state", output=work / "output", once=True).awaitTermination()
    return State.open(work / "state").totals["verified"]


def _transformed(stream: DataFrame, processor: StatefulProcessor) -> int:
    work = FOLDER / "following"
    made = stream.groupBy("author", "log").transformWithState(
        processor, "author BINARY, log BIGINT, seq BIGINT, connected BOOLEAN", "append", "none"
    )
    query = made.writeStream.format("parquet").option("checkpointLocation", f"file://{work / 'checkpoint'}")
    query.trigger(availableNow=True).start(f"file://{work / 'output'}").awaitTermination()
    told = stream.sparkSession.read.parquet(f"file://{work / 'output'}")
    return told.where("connected").select("author", "log", "seq").distinct().count()


class _Entries(StatefulProcessor):
    """Which entries of a log have a path to entry 1."""

    _known: Any
    _waiting: Any

    def init(self, handle: StatefulProcessorHandle) -> None:
        known = "digest BINARY, connected BOOLEAN, targets ARRAY<BIGINT>"
        self._known = handle.getMapState("known", "seq BIGINT", known)
        self._waiting = handle.getMapState("waiting", "seq BIGINT", "above ARRAY<BIGINT>")

    def handleInputRows(self, key: tuple[bytes, int], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802, N803, ARG002 - Spark's names
        from pyspark.sql import Row  # noqa: PLC0415

        for row in rows:
            entry = Entry.decode(row.encoded)
            if not is_authentic(entry):
                continue
            for seq, connected in self._added(entry):
                yield Row(author=key[0], log=key[1], seq=seq, connected=connected)

    def _added(self, entry: Entry) -> Iterator[tuple[int, bool]]:
        seq = entry.seq
        targets = sorted({seq - 1, lipmaa(seq)}) if seq > 1 else []
        connected = seq == 1
        for target in targets:
            found = self._known.getValue((target,))
            connected = connected or (found is not None and found[1])
        self._known.updateValue((seq,), (entry.hash, connected, targets))
        yield seq, connected
        if not connected:
            for target in targets:
                above = self._waiting.getValue((target,))
                self._waiting.updateValue((target,), ([*(above[0] if above else []), seq],))
            return
        todo = [seq]
        while todo:
            at = todo.pop()
            above = self._waiting.getValue((at,))
            if above is None:
                continue
            self._waiting.removeKey((at,))
            for number in above[0]:
                found = self._known.getValue((number,))
                if found is not None and not found[1]:
                    self._known.updateValue((number,), (found[0], True, found[2]))
                    todo.append(number)
                    yield number, True

    def close(self) -> None:
        """Nothing is open."""


class _Map(dict[Any, Any]):
    """A map with the methods of Spark's."""

    getValue, updateValue, removeKey = dict.get, dict.__setitem__, dict.__delitem__  # noqa: N815 - Spark's names


class _Logs(_Entries):
    """The same with one value for a log."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._whole = handle.getValueState("whole", "maps BINARY")

    def handleInputRows(self, key: tuple[bytes, int], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:  # noqa: N802, N803 - Spark's names
        found = self._whole.get()
        self._known, self._waiting = pickle.loads(found[0]) if found else (_Map(), _Map())  # noqa: S301 - made here
        yield from super().handleInputRows(key, rows, timerValues)
        self._whole.update((pickle.dumps((self._known, self._waiting)),))


def _arriving(spark: SparkSession, size: int) -> Path:
    """The entries as files, one for each batch."""
    from pyarrow import parquet  # noqa: PLC0415 - Spark is an extra
    from pyspark.sql import functions  # noqa: PLC0415

    place = FOLDER / f"arriving-{size}"
    if place.exists():
        return place
    made = spark.read.parquet(f"file://{entries(spark, f'even-{size}', size // LOG)}")
    spark.udf.register("seq_of", lambda encoded: to_sql(Entry.decode(encoded).seq) + 2**63, "bigint")
    late = functions.expr("seq_of(encoded) + rand(7) * 200")
    batch = functions.least(functions.floor(late * BATCHES / (LOG + 200)), functions.lit(BATCHES - 1))
    parts = (
        made.selectExpr("substring(encoded, 2, 32) author", "0BD log", "encoded").withColumn("batch", batch).persist()
    )
    place.mkdir()
    for number in range(BATCHES):
        rows = parts.where(f"batch = {number}").selectExpr("author", "CAST(log AS BIGINT) log", "encoded")
        parquet.write_table(rows.toArrow(), place / f"{number}.parquet")
    return place
