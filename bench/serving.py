"""Serving a large payload with its bytes compared on the way, against serving it as the disk gives it, in turns.

What counts is how much a node serves in a second of CPU time, because the peer, a process of its own, does more work.

``python -m bench.serving STORE checked|unchecked`` is the node that serves, a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.harness import Figure, median_ratio, say
from culm.bamboo import Identity
from culm.node.config import NodeConfig
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.session import Purpose
from culm.node.sync import sync
from culm.store import SQLiteStore
from culm.store.payloads import checked, pieces

SIZE = 256 * 1024 * 1024
ROUNDS = 7
GOAL = 0.9
WAYS = "checked", "unchecked"


def run() -> list[Figure]:
    """Measure."""
    say(f"serving: a payload of {SIZE:,} bytes, {ROUNDS} rounds")
    identity, rng = Identity(bytes(32)), random.Random(1)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        store = Path(name) / "served.db"
        with SQLiteStore(store) as served:
            served.append(identity, 0, (rng.randbytes(65536) for _ in range(SIZE // 65536)))
        for number in range(ROUNDS):
            for way in WAYS if number % 2 else reversed(WAYS):
                seconds[way].append(_fetch(store, Path(name), way, (identity.public, 0)))
    rates = {way: SIZE / 1e6 / min(taken) for way, taken in seconds.items()}
    return [
        Figure(
            "serving a payload over intervals://, compared on the way",
            rates["checked"],
            "MB/CPU s",
            "not compared",
            median_ratio(seconds["unchecked"], seconds["checked"]),
            GOAL,
        )
    ]


def _fetch(store: Path, folder: Path, way: str, log: tuple[bytes, int]) -> float:
    """The seconds that a node computes while a peer gets the log from it."""
    server = subprocess.Popen([sys.executable, "-m", "bench.serving", store, way], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = PeerUrl.parse(server.stdout.readline().strip())
        before = _computed(server.pid)
        with tempfile.TemporaryDirectory(dir=folder) as name, SQLiteStore(Path(name) / "store.db") as target:
            purpose = Purpose(is_live=False, mirrors=False, logs=(log,))
            asyncio.run(sync(None, NodeConfig(b""), target, url, purpose))
            assert sum(held.payloads for held in target.logs()) == 1
        return _computed(server.pid) - before
    finally:
        server.kill()
        server.wait()


def _computed(process: int) -> float:
    """The CPU seconds of a process so far."""
    times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


async def _serve(store: Path) -> None:
    with SQLiteStore(store) as opened:
        node = NodeService(Identity(bytes([1]) * 32), NodeConfig(b""), opened)
        address = PeerUrl.parse("intervals://127.0.0.1:0", may_be_zero=True)
        await node.run([address], [], stop=asyncio.Event(), listening=lambda url: print(url, flush=True))


if __name__ == "__main__":
    if sys.argv[2] == "unchecked":
        checked.read_part = pieces.read_slice
    asyncio.run(_serve(Path(sys.argv[1])))
