"""Verifying entries, and importing them, against a bare PyNaCl loop over the same messages.

Where cargo is, also beside the batches of ed25519-zebra. They check less: their verdicts are not libsodium's.
"""

from __future__ import annotations

import io
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

from nacl.signing import VerifyKey

from bench.harness import Figure, in_turns, median_rate, median_ratio, say
from bench.limits import rust_program
from culm.bamboo import Entry, LogAuditor, are_authentic, check_ahead
from culm.bamboo.many import entries_apart
from culm.store import SQLiteStore
from culm.store.exchange import Importer
from culm.testing import LogBuilder, build_log

ENTRIES = 20_000
_POOL = ThreadPoolExecutor(2)
PAYLOAD = 200
ROUNDS = 7
PAGE = 4096  # entries verified together, as ``culm verify`` does
BATCH = 1024  # signatures that zebra checks at once


def bare_loop(encoded: list[bytes], author: bytes) -> None:
    """The limit: nothing but the signature check, on messages that are cut already."""
    key = VerifyKey(author)
    pairs = [(data[:-64], data[-64:]) for data in encoded]
    for message, signature in pairs:
        key.verify(message, signature)


def bare_loop_on_two_threads(encoded: list[bytes], author: bytes) -> None:
    """How far this machine's second core goes at all: the bare loop, half of it on each of two threads."""
    half = len(encoded) // 2
    list(_POOL.map(lambda part: bare_loop(part, author), (encoded[:half], encoded[half:])))


def verify(encoded: list[bytes], threads: int) -> None:
    """What a log received costs: decoding, hashes, signatures, links, paths."""
    auditor = LogAuditor()
    pages = (entries_apart(encoded[at : at + PAGE]) for at in range(0, len(encoded), PAGE))
    checked: Iterable[tuple[list[Entry], list[bool]]] = (
        check_ahead(pages, list, threads) if threads > 1 else ((page, are_authentic(page, 1)) for page in pages)
    )
    for entries, good in checked:
        if not all(good) or not all(auditor.add(entry) for entry in entries) or auditor.fork:
            raise AssertionError


def import_file(data: bytes) -> None:
    """An import into a fresh store on disk: everything above, and the transactions."""
    with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder) / "store.db") as store:
        if Importer(store).run(io.BytesIO(data)).added != ENTRIES:
            raise AssertionError


class Zebra:
    """The program that checks the same signatures with ed25519-zebra, in batches."""

    def __init__(self, folder: Path, program: Path, encoded: list[bytes], author: bytes) -> None:
        file = folder / "signatures"
        file.write_bytes(
            b"".join(author + data[-64:] + (len(data) - 64).to_bytes(4, "little") + data[:-64] for data in encoded)
        )
        self._process = subprocess.Popen([program, file], stdin=-1, stdout=-1, text=True, bufsize=1)

    def check(self) -> None:
        """Check all of them once."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{BATCH}\n")
        if not self._process.stdout.readline():
            raise AssertionError

    def close(self) -> None:
        """End the program."""
        self._process.communicate()


def run() -> list[Figure]:
    """Measure."""
    with ExitStack() as stack:
        return _measured(stack)


def _measured(stack: ExitStack) -> list[Figure]:
    say(f"verification: {ENTRIES:,} entries, {ROUNDS} rounds")
    log: LogBuilder = build_log(ENTRIES, payload_size=PAYLOAD)
    encoded = [entry.encoded for entry in log.entries]
    file = b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries)
    author = log.identity.public
    program = rust_program("zebra", "zebra-peer")
    others = []
    if program is not None:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        zebra = stack.enter_context(closing(Zebra(Path(folder), program, encoded, author)))
        others.append(zebra.check)
    bare, bare_two, one, two, into, *zebras = in_turns(
        ROUNDS,
        lambda: bare_loop(encoded, author),
        lambda: bare_loop_on_two_threads(encoded, author),
        lambda: verify(encoded, 1),
        lambda: verify(encoded, 2),
        lambda: import_file(file),
        *others,
    )
    limit = "bare PyNaCl verify loop, one core"

    def rate(
        name: str, taken: list[float], beside: str = "", over: list[float] | None = None, goal: float | None = None
    ) -> Figure:
        ratio = None if over is None else median_ratio(over, taken)
        return median_rate(name, ENTRIES, "entries/s", taken, beside, ratio, goal)

    return [
        rate(limit, bare),
        rate("bare PyNaCl verify loop, two threads", bare_two, limit, bare),
        rate("verify, one core", one, limit, bare, 3),
        rate("verify, two cores", two, "verify, one core", one, 1.8),
        rate("import into SQLite", into, limit, bare, 2),
        *(rate(f"ed25519-zebra, batches of {BATCH:,}, one core", taken, limit, bare) for taken in zebras),
    ]
