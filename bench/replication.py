"""Replicating small entries between two of our own nodes over loopback, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from bench.harness import Figure, say, seconds
from bench.verification import bare_loop
from culm.bamboo import Identity
from culm.store import SQLiteStore
from culm.testing import build_log

PAYLOAD = 200
SIZES = (10_000, 100_000)
ROUNDS = 5
LARGE_BYTES = 24 * 1024 * 1024
MEMORY_GOAL = 150.0  # MB
RATE_GOAL = 1.5  # Times the bare verify rate of one core, where the start of a session hardly counts.


@dataclass(frozen=True, slots=True)
class Run:
    """One replication: wall seconds as the user sees them, of the transfer alone, CPU seconds and peak MB of both."""

    wall: float
    transfer: float
    cpu: tuple[float, float]
    memory: tuple[float, float]
    bytes_received: int


def culm(home: Path, *arguments: str) -> list[str]:
    """A call of Culm with a home."""
    return [sys.executable, "-m", "culm.cli", "--home", str(home), *arguments]


class Watch(Thread):
    """Waits for a child and accounts for it.

    ``memory`` is its peak in MB (10^6 bytes), looked up every few milliseconds: what the system reports at the end
    counts the memory of the process that started it, too.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.cpu = self.memory = 0.0
        self._pid = pid
        self.start()

    def run(self) -> None:
        """Watch until the child has ended."""
        while True:
            try:
                status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
            except OSError:
                status = ""
            if "VmHWM:" in status:
                self.memory = max(self.memory, int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6)
            pid, _, usage = os.wait4(self._pid, os.WNOHANG)
            if pid:
                self.cpu = usage.ru_utime + usage.ru_stime
                return
            time.sleep(0.005)


def replicate(alice: Path, bob: Path, entries: int) -> Run:
    """Serve ``alice``, sync ``bob`` with it, and account for both processes."""
    server = subprocess.Popen(
        culm(alice, "serve", "--clump", "bench", "--listen", "bushbaby://127.0.0.1:0"),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = server.stdout.readline().split()[1]
    start = time.perf_counter()
    client = subprocess.Popen(culm(bob, "sync", url, "--clump", "bench", "--json"), stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    alice_watch, bob_watch = Watch(server.pid), Watch(client.pid)
    output = client.stdout.read()
    bob_watch.join()
    wall = time.perf_counter() - start
    os.kill(server.pid, signal.SIGTERM)
    alice_watch.join()
    summary = json.loads(output.splitlines()[-1])
    if summary["entries_received"] != entries:
        msg = f"{summary['entries_received']} of {entries} entries arrived"
        raise AssertionError(msg)
    return Run(
        wall,
        summary["seconds"],
        (alice_watch.cpu, bob_watch.cpu),
        (alice_watch.memory, bob_watch.memory),
        summary["bytes_received"],
    )


def run() -> list[Figure]:
    """Measure."""
    figures: list[Figure] = []
    for size in SIZES:
        say(f"replication of {size:,} entries of {PAYLOAD} bytes: building the log")
        with tempfile.TemporaryDirectory() as folder:
            figures += _measure(Path(folder), size)
    say("replication of one large payload")
    with tempfile.TemporaryDirectory() as folder:
        figures += _measure_payload(Path(folder))
    return figures


def _measure_payload(folder: Path) -> list[Figure]:
    """One large payload: what it costs in memory beyond what a node needs anyway."""
    peaks: list[tuple[float, float]] = []
    for size in (0, LARGE_BYTES):
        alice, bob = folder / f"alice{size}", folder / f"bob{size}"
        for home in (alice, bob):
            subprocess.run(culm(home, "init"), check=True, stdout=subprocess.DEVNULL)
        with SQLiteStore(alice / "store.db") as store:
            store.append(Identity(bytes(32)), 1, (bytes(65536) for _ in range(size // 65536)))
        peaks.append(replicate(alice, bob, 1).memory)
    (sender, receiver), (large_sender, large_receiver) = peaks
    million = LARGE_BYTES / 1e6
    return [
        Figure(
            f"memory of the {who} for a payload of {million:.0f} MB, beyond that of an empty one",
            large - base,
            "MB",
            "the payload's size",
            (large - base) / million,
            goal=1.5,
            at_least=False,
        )
        for who, base, large in (("sender", sender, large_sender), ("receiver", receiver, large_receiver))
    ]


def _measure(folder: Path, size: int) -> list[Figure]:
    log = build_log(size, payload_size=PAYLOAD)
    sample = [entry.encoded for entry in log.entries[:4000]]
    alice = folder / "alice"
    subprocess.run(culm(alice, "init"), check=True, stdout=subprocess.DEVNULL)
    with SQLiteStore(alice / "store.db") as store:
        store.add(log.items(), authenticated=True)
    author = log.identity.public
    del log
    runs: list[Run] = []
    rates: list[float] = []
    for number in range(ROUNDS):
        bob = folder / f"bob{number}"
        subprocess.run(culm(bob, "init"), check=True, stdout=subprocess.DEVNULL)
        bare = seconds(lambda: bare_loop(sample, author)) / len(sample)
        runs.append(replicate(alice, bob, size))
        rates.append((size / runs[-1].transfer) * bare)
    middle = sorted(range(ROUNDS), key=lambda number: rates[number])[ROUNDS // 2]
    middle_run = runs[middle]
    name = f"replicate {size:,}"
    return [
        Figure(
            name,
            size / middle_run.transfer,
            "entries/s",
            "bare PyNaCl verify loop, one core",
            rates[middle],
            RATE_GOAL if size == SIZES[-1] else None,
            spread=(size / max(run.transfer for run in runs), size / min(run.transfer for run in runs)),
        ),
        Figure(f"{name}: wall, start of the program included", middle_run.wall, "s"),
        Figure(f"{name}: CPU of the sender", middle_run.cpu[0], "s"),
        Figure(f"{name}: CPU of the receiver", middle_run.cpu[1], "s"),
        Figure(
            f"{name}: peak memory of the sender",
            max(run.memory[0] for run in runs),
            "MB",
            goal=MEMORY_GOAL,
            at_least=False,
        ),
        Figure(
            f"{name}: peak memory of the receiver",
            max(run.memory[1] for run in runs),
            "MB",
            goal=MEMORY_GOAL,
            at_least=False,
        ),
        Figure(f"{name}: bytes received an entry", middle_run.bytes_received / size, "bytes"),
    ]
