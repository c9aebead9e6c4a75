"""Replication with proposals over loopback, beside interval requests in the same run.

Entries, large payloads raw and compressed, news, a link that is cut, and a line of three nodes, greedy and safe.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench import compression
from bench.harness import Figure, median_rate, say
from bench.intervals import (
    ENTRIES,
    LARGE,
    LARGE_BYTES,
    LIVE_GOAL,
    MEMORY_GOAL,
    PAYLOAD,
    Embedded,
    Run,
    append_large,
    fill,
    latencies,
    live,
    log_name,
    make_home,
    measure_beside,
    measure_cut,
    milliseconds,
    replicate,
    serving,
    wait_for,
)
from bench.replication import culm
from culm.bamboo import Identity
from culm.store import SQLiteStore
from culm.testing import build_log

ROUNDS = 9  # Two protocols on two full cores: with five a ratio was 0.89 in one run and 0.95 in the next.
GOAL = 1.0  # of the rate of intervals
LINE_BYTES = 64 * 1024 * 1024
WINDOW = "64KiB"
LINK_RATE = 20_000_000  # bytes a second
LINK = ("--limit", f"max_rate={LINK_RATE}")
COMPRESSED = 8  # payloads of 4 MiB


def run() -> list[Figure]:
    """Measure."""
    figures: list[Figure] = []
    for measure in (_measure_entries, _measure_payloads, _measure_compressed, _measure_live, _measure_line):
        with tempfile.TemporaryDirectory() as folder:
            figures += measure(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        figures += measure_beside(Path(folder), "proposals", goal=None)
    with tempfile.TemporaryDirectory() as folder:
        figures += measure_cut(Path(folder), "proposals")
    return figures


def _beside_intervals(folder: Path, alice: Path, log: tuple[bytes, int], count: int) -> tuple[list[Run], list[float]]:
    """Both protocols in turns: the runs with proposals, and how their rates compare."""
    runs, ratios = [], []
    for _ in range(ROUNDS):
        both = []
        for scheme in ("intervals", "proposals"):
            bob = make_home(folder / "bob")
            both.append(replicate(alice, bob, log, count, scheme=scheme))
            shutil.rmtree(bob)
        runs.append(both[1])
        ratios.append(both[0].transfer / both[1].transfer)
    return runs, ratios


def _figures(name: str, unit: str, amount: float, runs: list[Run], ratios: list[float], count: int) -> list[Figure]:
    taken, ratio = [one.transfer for one in runs], statistics.median(ratios)
    figures = [
        median_rate(f"{name}: rate", amount, unit, taken, limit="intervals", ratio=ratio, goal=GOAL),
        Figure(f"{name}: bytes received an entry", runs[0].bytes_received / count, "bytes"),
    ]
    for side, who in enumerate(("sender", "receiver")):
        peak = max(one.memory[side] for one in runs)
        figures.append(Figure(f"{name}: peak memory of the {who}", peak, "MB", goal=MEMORY_GOAL, at_least=False))
    return figures


def _measure_entries(folder: Path) -> list[Figure]:
    say(f"{ENTRIES:,} entries of {PAYLOAD} bytes: building the log")
    alice = make_home(folder / "alice")
    log = fill(alice, build_log(ENTRIES, payload_size=PAYLOAD))
    runs, ratios = _beside_intervals(folder, alice, log, ENTRIES)
    return _figures(f"proposals, {ENTRIES:,} entries", "entries/s", ENTRIES, runs, ratios, ENTRIES)


def _measure_payloads(folder: Path) -> list[Figure]:
    say(f"{LARGE} payloads of {LARGE_BYTES:,} bytes")
    alice, me = make_home(folder / "alice"), Identity(bytes(32))
    append_large(alice, me, 1)
    runs, ratios = _beside_intervals(folder, alice, (me.public, 1), LARGE)
    megabytes = LARGE * LARGE_BYTES / 1e6
    return _figures(f"proposals, {LARGE} payloads of 4 MiB", "MB/s", megabytes, runs, ratios, LARGE)


def _measure_compressed(folder: Path) -> list[Figure]:
    say(f"{COMPRESSED} payloads of 4 MiB of JSON lines, compressed")
    alice, me = make_home(folder / "alice"), Identity(bytes(32))
    text = compression.json_lines(LARGE_BYTES)
    with SQLiteStore(alice / "store.db") as store:
        for _ in range(COMPRESSED):
            store.append(me, 1, [text])
    bob = make_home(folder / "bob")
    one = replicate(alice, bob, (me.public, 1), COMPRESSED, "--window", WINDOW, scheme="proposals")
    name = f"proposals, {COMPRESSED} payloads of 4 MiB of JSON lines, window {WINDOW}"
    total = COMPRESSED * LARGE_BYTES
    return [
        Figure(f"{name}: rate", total / 1e6 / one.transfer, "MB/s"),
        Figure(f"{name}: bytes received", one.bytes_received / 1e6, "MB", "raw", one.bytes_received / total),
    ]


def _measure_live(folder: Path) -> list[Figure]:
    say("entries appended at one side, until the other has them")
    alice, me = make_home(folder / "alice"), Identity(bytes(32))
    embedded, log = Embedded(alice, "proposals"), (me.public, 1)
    embedded.append(me, 1, b"first")
    with live(folder, str(embedded.urls[0]), log) as bob, SQLiteStore(bob / "store.db", read_only=True) as reader:
        wait_for(reader, log)
        times, _ = latencies(lambda number: embedded.append(me, 1, f"{number}".encode()), reader, log, 0.004)
    embedded.close()
    name = "proposals, live: from an append's return to visible at the peer"
    return [
        milliseconds(f"{name}, p50", times, 0.5, LIVE_GOAL),
        milliseconds(f"{name}, p99", times, 0.99, None),
    ]


def _measure_line(folder: Path) -> list[Figure]:
    """A, B and C in a line: from the moment that A has a payload until C has all of it."""
    say(f"a payload of 64 MiB along a line of three nodes whose links take {LINK_RATE / 1e6:g} MB/s, greedy and safe")
    figures = []
    for name, options in (("safe", LINK), ("greedy", (*LINK, "--greedy"))):
        place = folder / name
        place.mkdir()
        seconds = _along_a_line(place, *options)
        figures.append(Figure(f"proposals, 64 MiB from A by B to C, {name}", seconds, "s"))
    ratio = figures[1].value / figures[0].value
    return [figures[0], Figure(figures[1].name, figures[1].value, "s", "safe", ratio)]


def _along_a_line(folder: Path, *options: str) -> float:
    homes = [make_home(folder / name) for name in "abc"]
    me = Identity(bytes(32))
    log = (me.public, 1)
    with SQLiteStore(homes[0] / "store.db") as store:
        store.append(me, 1, [b"first"])
    with serving(homes[0], *options, scheme="proposals", quiet=True) as (first, _):
        call = culm(homes[1], "sync", first, log_name(log), *options)
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
        middle = subprocess.Popen(
            culm(homes[1], "serve", "--listen", "proposals://127.0.0.1:0", "--peer", first, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert middle.stdout is not None
        second = middle.stdout.readline().split()[1]
        last = subprocess.Popen(
            culm(homes[2], "sync", second, log_name(log), "--live", *options),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with SQLiteStore(homes[2] / "store.db") as reader:
                wait_for(reader, log)
                time.sleep(1)
                with SQLiteStore(homes[0] / "store.db") as store:
                    store.append(me, 1, (bytes([number % 256]) * 65536 for number in range(LINE_BYTES // 65536)))
                begin = time.perf_counter()
                while (reader.lookup(log).payload_extent() or (0, 0))[1] < 2:
                    if time.perf_counter() - begin > 120:
                        raise AssertionError("the payload did not arrive")
                    time.sleep(0.005)
                return time.perf_counter() - begin
        finally:
            for process in (last, middle):
                process.terminate()
                process.wait()
