"""``format("culm")`` where only a part is asked for: what that costs of the whole, in CPU time of a worker."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.harness import Figure, median_ratio, say
from culm.bamboo import Identity
from culm.store import SQLiteStore
from culm.testing import LogBuilder
from culm.wire.places import log_text

if TYPE_CHECKING:
    from collections.abc import Callable

LOGS = 100_000
ENTRIES = 2_000  # of the log that is read alone
PAYLOAD = 500  # bytes
ROUNDS = 9
ALONE_GOAL = 1.2
COLUMNS_GOAL = 0.5


def run(logs: int = LOGS) -> list[Figure]:
    """Measure with a store of so many logs."""
    with tempfile.TemporaryDirectory() as name:
        alone, among = Path(name, "alone.culm"), Path(name, "among.culm")
        say(f"reading: a store with {logs:,} logs")
        log = _log(Identity(bytes(32)), ENTRIES)
        with SQLiteStore(alone) as store, SQLiteStore(among) as crowd:
            store.add(log.items())
            crowd.add(log.items())
            for start in range(0, logs, 1000):
                others = [_log(Identity(number.to_bytes(32)), 1) for number in range(start + 1, start + 1001)]
                crowd.add([item for one in others for item in one.items()])
        option = {"log": log_text(log.entries[0].log)}
        one, many = _in_turns(lambda: _read(alone, **option), lambda: _read(among, **option))
        every, few = _in_turns(lambda: _read(alone), lambda: _read(alone, columns="author,log_id,seqnum"))
    return [
        _figure(f"one log of {logs:,}", many, one, "the log alone", ALONE_GOAL),
        _figure("three columns", few, every, "all columns", COLUMNS_GOAL),
    ]


def _figure(name: str, over: list[float], under: list[float], limit: str, goal: float) -> Figure:
    ratio = median_ratio(over, under)
    return Figure(f"reading: {name}", 1e6 * median(over) / ENTRIES, "CPU us/entry", limit, ratio, goal, at_least=False)


def _log(identity: Identity, entries: int) -> LogBuilder:
    log = LogBuilder(identity, 0)
    for number in range(entries):
        log.append(number.to_bytes(4) * (PAYLOAD // 4))
    return log


def _read(path: Path, **options: str) -> None:
    """What the driver and then a worker do."""
    from culm.spark.reading.entries import split_batches  # noqa: PLC0415 - Spark is an extra
    from culm.spark.reading.inputs import plan  # noqa: PLC0415
    from culm.spark.source.rows import Options, entry_batches  # noqa: PLC0415

    asked = Options.parse(options)
    splits = plan([path], None, asked.wanted)
    found = (batch for split in splits for batch in split_batches(split, asked.wanted))
    assert sum(batch.num_rows for batch in entry_batches(found, asked)) == ENTRIES


def _in_turns(*works: Callable[[], object]) -> list[list[float]]:
    """CPU seconds of each work, round by round, after a round that is not counted."""
    times: list[list[float]] = [[] for _ in works]
    for number in range(ROUNDS + 1):
        for work, taken in zip(works, times, strict=True):
            start = time.process_time()
            work()
            if number:
                taken.append(time.process_time() - start)
    return times
