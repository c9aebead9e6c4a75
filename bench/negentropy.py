"""Reconciling large sets in one process: sealing, CPU of both sides, rounds, bytes; with and without a frame limit."""

from __future__ import annotations

import time

import numpy as np

from bench.harness import Figure, say, seconds
from culm.negentropy import ArrayStorage, Negentropy

SIZES = (100_000, 1_000_000)
DIFFERENCES = (0, 100, 1_000, 10_000)
FRAME_LIMIT = 60_000
ROUNDS = 5
YEAR = (1_700_000_000, 1_731_536_000)  # unix timestamps


def session(ours: ArrayStorage, theirs: ArrayStorage, limit: int) -> tuple[float, int, int, int]:
    """A session to its end: CPU seconds of both sides, rounds, bytes sent by the initiator and by the other."""
    start = time.process_time()
    client, server = Negentropy(ours, limit), Negentropy(theirs, limit)
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
    return [figure for size in SIZES for figure in measure(size)]


def measure(size: int) -> list[Figure]:
    """All figures for sets of one size."""
    say(f"negentropy: {size:,} records")
    rng = np.random.default_rng(1)
    timestamps = rng.integers(*YEAR, size, dtype=np.uint64)
    ids = rng.integers(0, 256, (size, 32), dtype=np.uint8)
    shuffled = rng.permutation(size)
    words = rng.integers(0, 2**63, size, dtype=np.uint64)
    sorting = min(seconds(lambda: np.sort(words)) for _ in range(ROUNDS))
    sealing = min(seconds(lambda: ArrayStorage(timestamps, ids)) for _ in range(ROUNDS))
    name = f"negentropy {size:,}"
    figures = [
        Figure(f"{name}: np.sort of as many numbers", sorting * 1000, "ms"),
        Figure(f"{name}: seal", sealing * 1000, "ms", "np.sort", sealing / sorting),
    ]
    for differences in DIFFERENCES:
        ours = np.delete(shuffled, np.s_[: differences // 2])
        theirs = np.delete(shuffled, np.s_[differences // 2 : differences])
        sets = ArrayStorage(timestamps[ours], ids[ours]), ArrayStorage(timestamps[theirs], ids[theirs])
        for limit in (0, FRAME_LIMIT):
            taken = [session(*sets, limit) for _ in range(ROUNDS)]
            cpu, (_, rounds, up, down) = min(times[0] for times in taken), taken[0]
            text = f"{rounds} rounds, {up:,} bytes up, {down:,} down"
            kind = f"limit {limit:,}" if limit else "no limit"
            figures.append(Figure(f"{name}: {differences:,} differences, {kind}: CPU", cpu * 1000, "ms", text))
    return figures
