"""The work of one side of ``bench.compare``, run with that side's ``src`` and ``bench``; prints its CPU seconds.

``bench.compare`` starts this file by its path, with the paths of one of the two commits in ``PYTHONPATH``. The file
comes from the working tree for both sides, so that both do the same amount of work. What it imports comes from the
side's own tree, because a benchmark uses internals of Culm, which move from commit to commit: the working tree's
helpers would not even import on the other side. The helpers named here (``replicate``, ``fill``, ``make_home``,
``append_large``, ``verify``, ``import_file``) must therefore keep their names and meaning.

A whole benchmark is too long to be run sixteen times, and most of what it measures is latency or memory. So the four
benchmarks of verification and replication have a workload of about ten seconds here, and count what their measured part
takes: the two programs of a replication, without building the log or starting a home. Every other benchmark runs whole,
and all its processes count.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import intervals, replication, verification
from culm.bamboo import Identity
from culm.store import SQLiteStore
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Callable

ENTRIES = 15_000  # of 200 bytes; so many that the work outweighs the start of the two programs
PAYLOADS = 8  # of 4 MiB; a payload in many frames takes other paths through a node than a small entry
VERIFY_ROUNDS, VERIFIED = 6, 4000  # Rounds, and the entries of each.
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux's <sys/prctl.h>


def verify(scale: float) -> float:
    """Decode, verify on one and on two threads, and import. Without the bare loop, which is no work of Culm."""
    verification.ENTRIES = VERIFIED  # The same for both commits, whatever each has in its own benchmark.
    log = build_log(VERIFIED, payload_size=verification.PAYLOAD)
    encoded = [entry.encoded for entry in log.entries]
    file = b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries)
    began = time.process_time()
    for _ in range(_times(VERIFY_ROUNDS, scale)):
        verification.verify(encoded, 1)
        verification.verify(encoded, 2)
        verification.import_file(file)
    return time.process_time() - began


def by_bushbaby(scale: float) -> float:
    """Small entries by Bushbaby, and one large payload; both programs count."""
    count = _times(ENTRIES, scale)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alice = intervals.make_home(folder / "alice")
        intervals.fill(alice, build_log(count, payload_size=replication.PAYLOAD))
        small = replication.replicate(alice, intervals.make_home(folder / "bob"), count)
        carol = intervals.make_home(folder / "carol")
        with SQLiteStore(carol / "store.db") as store:
            blocks = _times(replication.LARGE_BYTES // 65536, scale)
            store.append(Identity(bytes(32)), 1, (bytes(65536) for _ in range(blocks)))
        large = replication.replicate(carol, intervals.make_home(folder / "dave"), 1)
    return sum(small.cpu) + sum(large.cpu)


def by_scheme(scheme: str) -> Callable[[float], float]:
    """Small entries, and large payloads, by a protocol that asks for logs; both programs count."""

    def work(scale: float) -> float:
        intervals.LARGE = _times(PAYLOADS, scale)
        count, me = _times(ENTRIES, scale), Identity(bytes(32))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            alice, bob = (intervals.make_home(folder / person) for person in ("alice", "bob"))
            log = intervals.fill(alice, build_log(count, payload_size=replication.PAYLOAD))
            small = intervals.replicate(alice, bob, log, count, scheme=scheme)
            shutil.rmtree(bob)
            carol, dave = (intervals.make_home(folder / person) for person in ("carol", "dave"))
            intervals.append_large(carol, me, 1)
            large = intervals.replicate(carol, dave, (me.public, 1), intervals.LARGE, scheme=scheme)
        return sum(small.cpu) + sum(large.cpu)

    return work


WORKLOADS: dict[str, Callable[[float], float]] = {
    "verification": verify,
    "replication": by_bushbaby,
    "intervals": by_scheme("intervals"),
    "proposals": by_scheme("proposals"),
}


def whole(name: str) -> float:
    """Run a benchmark of this side as a program; the CPU seconds of its whole process tree.

    Java outlives the Python that started it, and would be waited for by nobody. As a subreaper (Linux) this process
    inherits such orphans, so that their time is counted, too.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    subprocess.run([sys.executable, "-m", "bench", name, "--json"], check=True, stdout=subprocess.DEVNULL)
    try:
        while True:
            os.wait()
    except ChildProcessError:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


def _times(count: int, scale: float) -> int:
    return max(1, round(count * scale))


def main() -> None:
    """Do the work of one benchmark and print the CPU seconds, and where the code came from, as a line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    work = WORKLOADS.get(arguments.name)
    seconds = whole(arguments.name) if work is None else work(arguments.scale)
    print(json.dumps({"seconds": seconds, "bench": verification.__file__, "culm": sys.modules["culm"].__file__}))


if __name__ == "__main__":
    main()
