"""Proofs of entry 500,000 of a log of 1,000,000: their size, and what ``culm check`` costs beside an interpreter.

Also what two other short commands cost, in turns with it: ``culm --help`` and ``culm logs``, of a home with one log.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.harness import Figure, say
from culm.bamboo import Entry, Identity, certificate_pool, has_lipmaalink, lipmaa, yamf_hash
from culm.bamboo.entryproof import EntryProof, check_proof, numbers_of
from culm.store import SQLiteStore

if TYPE_CHECKING:
    from collections.abc import Collection

ENTRIES, PROVED = 1_000_000, 500_000
START_GOAL = 200  # ms of CPU, of the whole process
_ROUNDS = 21
_TIMES = 20  # The proof is checked so many times in a row, because one time is near the clock's resolution.


def _some_entries(wanted: Collection[int]) -> dict[int, Entry]:
    """Some entries of a log, all of which are made, because each links to others."""
    identity, hashes, found = Identity(bytes(32)), [b""], dict[int, Entry]()
    for seq in range(1, ENTRIES + 1):
        entry = identity.create_entry(
            log_id=1,
            seq=seq,
            backlink=hashes[seq - 1] if seq > 1 else None,
            lipmaalink=hashes[lipmaa(seq)] if has_lipmaalink(seq) else None,
            size=20,
            payload_hash=yamf_hash(b"%020d" % seq),
        )
        hashes.append(entry.hash)
        if seq in wanted:
            found[seq] = entry
    return found


def _cpu(call: list[str]) -> tuple[float, float]:
    """CPU seconds of a command, and how long it took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(call, check=True, capture_output=True)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def run() -> list[Figure]:
    """Measure."""
    say(f"a proof of entry {PROVED:,} of {ENTRIES:,}")
    pool, newest = certificate_pool(PROVED, ENTRIES)[0], ENTRIES
    entries = _some_entries({*numbers_of(PROVED, pool), *numbers_of(PROVED, newest)})
    short, whole = (
        EntryProof(tuple(entries[seq] for seq in numbers_of(PROVED, top)), PROVED).encode() for top in (pool, newest)
    )
    checks = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(_TIMES):
            check_proof(whole)
        checks.append((time.process_time() - began) / _TIMES * 1000)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "proof")
        file.write_bytes(whole)
        bare, check, *others = _commands(Path(folder), file)
    beyond = median(mine[0] - alone[0] for mine, alone in zip(check, bare, strict=True)) * 1000
    return [
        Figure("proof up to the pool's highest entry", len(short) / 1000, "kB", goal=12, at_least=False),
        Figure("proof up to the newest entry", len(whole) / 1000, "kB", goal=16, at_least=False),
        Figure("checking it in a program: CPU", median(checks), "ms", goal=50, at_least=False),
        Figure("an interpreter's start: CPU", median(alone[0] for alone in bare) * 1000, "ms"),
        Figure("culm check: CPU beyond an interpreter's start", beyond, "ms", goal=50, at_least=False),
        Figure("culm check: wall", median(mine[1] for mine in check) * 1000, "ms", goal=200, at_least=False),
        *(
            Figure(f"culm {name}: CPU", median(one[0] for one in runs) * 1000, "ms", goal=START_GOAL, at_least=False)
            for name, runs in zip(("--help", "logs"), others, strict=True)
        ),
    ]


def _commands(folder: Path, proof: Path) -> list[list[tuple[float, float]]]:
    """A bare interpreter, ``culm check``, ``culm --help`` and ``culm logs``, in turns: CPU and time of each run."""
    home = ["--home", str(folder / "home")]
    culm = [sys.executable, "-m", "culm.cli"]
    subprocess.run([*culm, *home, "init"], check=True, stdout=subprocess.DEVNULL)
    with SQLiteStore(folder / "home" / "store.db") as store:
        store.append(Identity(bytes(32)), 1, [b"an entry"])
    calls = [
        [sys.executable, "-c", ""],
        [*culm, "check", str(proof)],
        [*culm, "--help"],
        [*culm, *home, "logs"],
    ]
    rounds = [[_cpu(call) for call in calls] for _ in range(_ROUNDS)]
    return [list(runs) for runs in zip(*rounds, strict=True)]
