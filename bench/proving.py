"""Proofs of entry 500,000 of a log of 1,000,000: their size, and what ``culm check`` costs beside an interpreter."""

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

if TYPE_CHECKING:
    from collections.abc import Collection

ENTRIES, PROVED = 1_000_000, 500_000
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
        command = [sys.executable, "-m", "culm.cli", "check", str(file)]
        runs = [(_cpu(command), _cpu([sys.executable, "-c", ""])) for _ in range(_ROUNDS)]
    beyond = median(mine[0] - bare[0] for mine, bare in runs) * 1000
    return [
        Figure("proof up to the pool's highest entry", len(short) / 1000, "kB", goal=12, at_least=False),
        Figure("proof up to the newest entry", len(whole) / 1000, "kB", goal=16, at_least=False),
        Figure("checking it in a program: CPU", median(checks), "ms", goal=50, at_least=False),
        Figure("an interpreter's start: CPU", median(bare[0] for _, bare in runs) * 1000, "ms"),
        Figure("culm check: CPU beyond an interpreter's start", beyond, "ms", goal=50, at_least=False),
        Figure("culm check: wall", median(mine[1] for mine, _ in runs) * 1000, "ms", goal=200, at_least=False),
    ]
