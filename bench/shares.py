"""Where the CPU time of large payloads goes, library by library, on both sides.

``perf`` looks a thousand times a second at what each program does. Where perf is missing nothing is measured.
"""

from __future__ import annotations

import shutil
import signal
import statistics
import subprocess
import tempfile
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import Figure, say
from bench.intervals import append_large, asking, make_home, serving
from bench.replication import culm
from culm.bamboo import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 3
SCHEMES = ("intervals", "culm")
KINDS = {
    "the interpreter": ("python",),
    "the kernel: sockets, files, threads": ("[kernel",),
    "hashes and checksums": ("culm_native", "_blake2", "libz"),
    "libc: mostly copies": ("libc.so", "libc-", "ld-linux"),
    "SQLite": ("sqlite3",),
    "TLS": ("libcrypto", "libssl", "_ssl"),
}
REST = "the rest"


def run() -> list[Figure]:
    """Measure both protocols."""
    if shutil.which("perf") is None:
        say("where the CPU time goes cannot be had here: no perf")
        return []
    with tempfile.TemporaryDirectory() as name:
        folder, identity = Path(name), Identity(bytes(32))
        alice = make_home(folder / "alice")
        append_large(alice, identity, 1)
        return [figure for scheme in SCHEMES for figure in _figures(folder, alice, (identity.public, 1), scheme)]


def _figures(folder: Path, alice: Path, log: tuple[bytes, int], scheme: str) -> Iterator[Figure]:
    say(f"large payloads by {scheme}, under perf")
    rounds = [_shares(folder, alice, log, scheme) for _ in range(ROUNDS)]
    for side in ("receiver", "sender"):
        for kind in (*KINDS, REST):
            shares = [found[side].get(kind, 0.0) for found in rounds]
            if median := statistics.median(shares):
                yield Figure(f"{scheme}, {side}: {kind}", median, "%", spread=(min(shares), max(shares)))


def _shares(folder: Path, alice: Path, log: tuple[bytes, int], scheme: str) -> dict[str, dict[str, float]]:
    bob = make_home(folder / "bob")
    clump, logs = asking(scheme, log)
    sender, receiver = folder / "sender.perf", folder / "receiver.perf"
    try:
        with serving(alice, *clump, scheme=scheme) as (url, server), _sampled(sender, server.pid):
            call = culm(bob, "sync", url, *logs, *clump)
            subprocess.run([*_recording(receiver), *call], check=True, stdout=subprocess.DEVNULL)
    finally:
        shutil.rmtree(bob)
    return {"receiver": _by_kind(receiver), "sender": _by_kind(sender)}


def _recording(place: Path) -> list[str]:
    return ["perf", "record", "--quiet", "--freq", "999", "--output", str(place)]


@contextmanager
def _sampled(place: Path, pid: int) -> Iterator[None]:
    """Look at a process that runs already."""
    with subprocess.Popen([*_recording(place), "--pid", str(pid)], stdout=subprocess.DEVNULL) as perf:
        try:
            yield
        finally:
            perf.send_signal(signal.SIGINT)


def _by_kind(place: Path) -> dict[str, float]:
    """The share of each kind of library in percent."""
    call = ["perf", "report", "--input", str(place), "--sort", "dso", "--stdio", "--field-separator", ";"]
    found = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    shares: dict[str, float] = defaultdict(float)
    for line in found.splitlines():
        share, _, library = line.partition(";")
        if library and not line.startswith("#"):
            names = (kind for kind, parts in KINDS.items() if any(part in library for part in parts))
            shares[next(names, REST)] += float(share.strip(" %"))
    if not shares:
        raise AssertionError(f"perf saw nothing: {found}")
    return shares
