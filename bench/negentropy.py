"""Reconciling large sets in one process: sealing, CPU of both sides, rounds, bytes; with and without a frame limit.

Where cargo is, beside negentropy in Rust; with ``NEGENTROPY_CPP=DIR``, the folder of its headers, also in C++.
Then the same with the store's own index, which is kept up to date with every transaction.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.harness import Figure, in_turns, median_ratio, say, seconds
from bench.limits import cpp_negentropy, rust_program
from culm import native
from culm.negentropy import ArrayStorage, Negentropy, array, even, newest_listed, sparing
from culm.store import SQLiteStore, View
from culm.store.database import Inserted
from culm.store.rows import next_change
from culm.store.schema import to_sql

if TYPE_CHECKING:
    import numpy.typing as npt

    from culm.negentropy import Split, Storage
    from culm.store.database import Database

SIZES = (100_000, 1_000_000)
DIFFERENCES = (0, 100, 1_000, 10_000)
FRAME_LIMIT = 60_000
ROUNDS = 5
YEAR = (1_700_000_000, 1_731_536_000)  # unix timestamps


SEAL_GOAL, SESSION_GOAL = 238, 200  # ms: twice, and once, what the C++ reference takes on a quiet core of this kind
MEMORY_GOAL, WARM_GOAL = 120, 20  # MB, ms
CPU_GOALS = {  # times Rust's, by the number of differences
    "native core": {100: 0.4, 1_000: 0.6, 10_000: 0.6},
    "Python alone": {100: 0.8, 1_000: 1.3, 10_000: 2.5},
}
FRAMES_GOAL = 1.2  # the same under ``FRAME_LIMIT``, at 1,000 differences
BYTES_GOAL = 750_000  # both ways
LOGS = 1_000  # of the store that the records are put into


def session(
    ours: Storage, theirs: Storage, limit: int = 0, split: Split = even, their_split: Split | None = None
) -> tuple[float, int, int, int]:
    """A session to its end: CPU seconds of both sides, rounds, bytes sent by the initiator and by the other."""
    start = time.process_time()
    client, server = Negentropy(ours, limit, split=split), Negentropy(theirs, limit, split=their_split or split)
    message: bytes | None = client.initiate()
    rounds = up = down = 0
    while message is not None:
        answer = server.reconcile(message)
        assert answer is not None
        rounds, up, down = rounds + 1, up + len(message), down + len(answer)
        message = client.reconcile(answer)
    return time.process_time() - start, rounds, up, down


def run() -> list[Figure]:
    """Measure."""
    return [
        *(figure for size in SIZES for figure in measure(size)),
        *measure_splits(100_000),
        *measure_steps(SIZES[-1]),
        *measure_bytes(SIZES[-1]),
        *measure_beside_peers(SIZES[-1]),
        measure_memory(),
        *measure_store(SIZES[-1]),
    ]


def records(size: int, seed: int = 1) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """Unix timestamps over a year, and random ids."""
    rng = np.random.default_rng(seed)
    return rng.integers(*YEAR, size, dtype=np.uint64), rng.integers(0, 256, (size, 32), dtype=np.uint8)


def measure(size: int) -> list[Figure]:
    """All figures for sealed sets of one size."""
    say(f"negentropy: {size:,} records")
    timestamps, ids = records(size)
    rng = np.random.default_rng(2)
    shuffled = rng.permutation(size)
    words = rng.integers(0, 2**63, size, dtype=np.uint64)
    sorting = statistics.median(seconds(lambda: np.sort(words)) for _ in range(ROUNDS))
    sealing = statistics.median(seconds(lambda: ArrayStorage(timestamps, ids)) for _ in range(ROUNDS))
    name = f"negentropy {size:,}"
    largest = size == SIZES[-1]
    figures = [
        Figure(f"{name}: np.sort of as many numbers", sorting * 1000, "ms"),
        Figure(f"{name}: seal", sealing * 1000, "ms", goal=SEAL_GOAL if largest else None, at_least=False),
    ]
    for differences in DIFFERENCES:
        ours = np.delete(shuffled, np.s_[: differences // 2])
        theirs = np.delete(shuffled, np.s_[differences // 2 : differences])
        sets = ArrayStorage(timestamps[ours], ids[ours]), ArrayStorage(timestamps[theirs], ids[theirs])
        for limit in (0, FRAME_LIMIT):
            taken = [session(*sets, limit) for _ in range(ROUNDS)]
            cpu, (_, rounds, up, down) = statistics.median(times[0] for times in taken), taken[0]
            text = f"{rounds} rounds, {up:,} bytes up, {down:,} down"
            kind = f"limit {limit:,}" if limit else "no limit"
            goal = SESSION_GOAL if largest and differences == 1_000 and not limit else None
            what = f"{name}: {differences:,} differences, {kind}: CPU"
            figures.append(Figure(what, cpu * 1000, "ms", text, goal=goal, at_least=False))
    return figures


def measure_steps(size: int) -> list[Figure]:
    """What sealing a set consists of. Most of the rest is putting the ids into their order."""
    timestamps, ids = records(size)
    sealing, sorting, sums = in_turns(
        ROUNDS,
        lambda: ArrayStorage(timestamps, ids),
        lambda: array._sorted(timestamps, ids),  # noqa: SLF001 - a step of the one before
        lambda: array._prefix_sums(ids),  # noqa: SLF001 - as well
    )
    rest = [whole - first - second for whole, first, second in zip(sealing, sorting, sums, strict=True)]
    steps = {"sorting": sorting, "prefix sums": sums, "the rest": rest}
    return [
        Figure(f"negentropy {size:,}: seal, {name}", statistics.median(taken) * 1000, "ms")
        for name, taken in steps.items()
    ]


def measure_bytes(size: int) -> list[Figure]:
    """Bytes at 1,000 differences, if one side divides ranges as our sessions do, and the other as everybody."""
    timestamps, ids = records(size)
    parts = _with_differences(size, 1_000)
    sets = [ArrayStorage(timestamps[part], ids[part]) for part in parts]
    figures = []
    for who, splits, goal in (("initiator", (sparing, even), BYTES_GOAL), ("responder", (even, sparing), None)):
        _, rounds, up, down = session(sets[0], sets[1], 0, *splits)
        name = f"negentropy {size:,}: 1,000 differences, the {who} sparing, its peer even: bytes"
        text = f"{rounds} rounds, {up:,} bytes up, {down:,} down"
        figures.append(Figure(name, up + down, "bytes", text, goal=goal, at_least=False))
    return figures


def _with_differences(size: int, differences: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which of the records each of two sides has, in no order."""
    shuffled = np.random.default_rng(2).permutation(size)
    return np.delete(shuffled, np.s_[: differences // 2]), np.delete(shuffled, np.s_[differences // 2 : differences])


def measure_beside_peers(size: int) -> list[Figure]:
    """Medians of sessions in turns with other implementations of negentropy, over the same sets."""
    found = {"Rust": rust_program("negentropy_rust", "negentropy-peer"), "C++": cpp_negentropy()}
    programs = {name: program for name, program in found.items() if program is not None}
    if not programs:
        return []
    timestamps, ids = records(size)
    figures = []
    for differences in DIFFERENCES[1:]:
        parts = _with_differences(size, differences)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("ours", "theirs")]
            for path, part in zip(paths, parts, strict=True):
                path.write_bytes(np.column_stack((timestamps[part].view(np.uint8).reshape(-1, 8), ids[part])).tobytes())
            sets = ArrayStorage(timestamps[parts[0]], ids[parts[0]]), ArrayStorage(timestamps[parts[1]], ids[parts[1]])
            for limit in (0, FRAME_LIMIT):
                taken = _in_turns(programs, paths, sets, limit)
                figures += _beside_rust(taken, limit, differences, f"negentropy {size:,}: {differences:,} differences")
    return figures


Sessions = dict[str, list[tuple[float, int, int, int]]]
"""By kind, one session a round."""


def _in_turns(programs: dict[str, Path], paths: list[Path], sets: tuple[Storage, Storage], limit: int) -> Sessions:
    taken: Sessions = defaultdict(list)
    core = native.core
    with ExitStack() as stack:
        peers = {
            name: stack.enter_context(subprocess.Popen([program, *paths], stdin=-1, stdout=-1, text=True, bufsize=1))
            for name, program in programs.items()
        }
        for _ in range(ROUNDS):
            for name, peer in peers.items():
                assert peer.stdin is not None
                assert peer.stdout is not None
                peer.stdin.write(f"{limit}\n")
                cpu, rounds, up, down, *_ = map(int, peer.stdout.readline().split(","))
                taken[name].append((cpu / 1e9, rounds, up, down))
            for split in (even, sparing):
                for kind, used in {"native core": core, "Python alone": None}.items():
                    if kind == "Python alone" or core is not None:
                        native.core = used
                        taken[f"{split.__name__}, {kind}"].append(session(*sets, limit, split))
            native.core = core
    return taken


def _beside_rust(taken: Sessions, limit: int, differences: int, name: str) -> list[Figure]:
    seconds_of = {kind: [run[0] for run in runs] for kind, runs in taken.items()}
    rust = seconds_of.get("Rust")
    figures = []
    for kind, (first, *_) in taken.items():
        _, rounds, up, down = first
        ratio = None if rust is None or kind == "Rust" else median_ratio(seconds_of[kind], rust)
        beside = f"{rounds} rounds, {up:,} bytes up, {down:,} down"
        figures.append(
            Figure(
                f"{name}, {f'limit {limit:,}' if limit else 'no limit'}, {kind}: CPU",
                statistics.median(seconds_of[kind]) * 1000,
                "ms",
                beside if ratio is None else f"Rust; {beside}",
                ratio,
                None if ratio is None else goal_beside_rust(kind, limit, differences),
                at_least=False,
            )
        )
    return figures


def goal_beside_rust(kind: str, limit: int, differences: int) -> float | None:
    """The goal of our own kinds of sessions, such as "even, native core"; None of another's."""
    goals = CPU_GOALS.get(kind.rpartition(", ")[2])
    if goals is None:
        return None
    if limit:
        return FRAMES_GOAL if differences == 1_000 else None
    return goals[differences]


def measure_splits(size: int) -> list[Figure]:
    """Two ways of dividing ranges, where the last few records are new and where differences lie anywhere."""
    timestamps, ids = records(size)
    order = np.argsort(timestamps)
    cases = {"the newest 10 records lacking": order[:-10], "10 records lacking": np.delete(order, np.s_[:: size // 10])}
    figures = []
    for case, rest in cases.items():
        sets = ArrayStorage(timestamps, ids), ArrayStorage(timestamps[rest], ids[rest])
        for name, split in {"even": even, "newest": newest_listed}.items():
            cpu, rounds, up, down = session(*sets, split=split)
            text = f"{rounds} rounds, {up:,} bytes up, {down:,} down"
            figures.append(Figure(f"negentropy {size:,}: {case}, split={name}: CPU", cpu * 1000, "ms", text))
    return figures


_MEMORY = """
import numpy as np
from bench.negentropy import records
from culm.negentropy import ArrayStorage
from pathlib import Path
def kept():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
before = kept()
storage = ArrayStorage(*records({size}))
print(kept() - before)
"""


def measure_memory() -> Figure:
    """What a sealed set keeps, as the operating system counts it."""
    size = SIZES[-1]
    result = subprocess.run(
        [sys.executable, "-c", _MEMORY.format(size=size)], capture_output=True, text=True, check=True
    )
    kept = int(result.stdout) / 1e6
    return Figure(f"negentropy {size:,}: memory of a sealed set", kept, "MB", goal=MEMORY_GOAL, at_least=False)


# -- the store's index ----------------------------------------------------------------------------------------------


def database_of(store: SQLiteStore) -> Database:
    """The store's connection."""
    return store._database  # noqa: SLF001 - there is no other way to entries that nobody signed


def put(store: SQLiteStore, timestamps: npt.NDArray[np.uint64], ids: npt.NDArray[np.uint8], first: int) -> None:
    """Have the store hold verified entries of these timestamps and ids, as its index sees them."""
    database = database_of(store)
    entries = [
        (number, number % LOGS + 1, to_sql(timestamp + 1), number, bytes(identity) * 2)
        for number, (timestamp, identity) in enumerate(zip(timestamps.tolist(), ids, strict=True), first)
    ]
    with database.transaction() as connection:
        next_change(connection)
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, 2, 2, 0, ?, x'')", entries)
        database.inserted += [Inserted(log, seq, number, True, [digest]) for number, log, seq, _, digest in entries]


def measure_store(size: int) -> list[Figure]:
    """A set kept in a store: what inserts cost, opening it after some, and a session."""
    say(f"negentropy: a store of {size:,} records")
    timestamps, ids = records(size)
    name = f"negentropy {size:,} in a store"
    with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "store.db") as store:
        with database_of(store).transaction() as connection:
            connection.executemany(
                "INSERT INTO logs (id, author, log_id, contiguous, change) VALUES (?, ?, 0, ?, 0)",
                ((log + 1, log.to_bytes(32, "big"), to_sql(0)) for log in range(LOGS)),
            )
        start = time.perf_counter()
        for at in range(0, size, 10_000):
            put(store, timestamps[at : at + 10_000], ids[at : at + 10_000], at)
        inserting = time.perf_counter() - start
        more = records(1_000 * ROUNDS, seed=3)
        adding, opening = [], []
        for at in range(0, 1_000 * ROUNDS, 1_000):
            part = slice(at, at + 1_000)
            start = time.perf_counter()
            put(store, more[0][part], more[1][part], size + at)
            adding.append(time.perf_counter() - start)
            opening.append(seconds(lambda: first_message(store)))
        every = np.concatenate((timestamps, more[0])), np.concatenate((ids, more[1]))
        lacking = np.random.default_rng(4).permutation(len(every[0]))[1_000:]
        other = ArrayStorage(every[0][lacking], every[1][lacking])
        with store.record_set(View.ENTRIES) as kept:
            cpu, rounds, up, down = session(kept, other)
        array = session(ArrayStorage(*every), other)[0]
    warm = statistics.median(opening) * 1000
    return [
        Figure(f"{name}: insert, in transactions of 10,000", inserting / size * 1e6, "us a record"),
        Figure(f"{name}: insert 1,000", statistics.median(adding) * 1000, "ms"),
        Figure(f"{name}: open after 1,000 inserts, first message", warm, "ms", goal=WARM_GOAL, at_least=False),
        Figure(
            f"{name}: 1,000 differences with a sealed set: CPU",
            cpu * 1000,
            "ms",
            f"{rounds} rounds, {up:,} bytes up, {down:,} down; both sealed: {array * 1000:.0f} ms",
        ),
    ]


def first_message(store: SQLiteStore) -> bytes:
    """Open a session."""
    with store.record_set(View.ENTRIES) as kept:
        return Negentropy(kept).initiate()
