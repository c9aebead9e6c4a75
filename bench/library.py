"""What a program does with a node of its own: appending durably, and reading back.

Limits, in the same rounds: what the disk confirms (``fdatasync`` of a small write), what SQLite makes of that (one
insert a commit), and a loop that hashes payloads and signs entries one after the other and stores none. What an append
costs beside the wait for the disk shows in its CPU time, which is the same on a quick disk and on a slow one. The other
system is hypercore, where Node.js is; it does not wait for the disk at each append.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from bench import hypercore
from bench.harness import Figure, median_rate, median_ratio, say
from culm import Node
from culm.bamboo import Identity, lipmaa, yamf_hash

if TYPE_CHECKING:
    from collections.abc import Awaitable

ROUNDS = 5
SIZE = 200  # bytes of a payload
SINGLE = 300  # appends one by one
PAGES = 12  # That an append changes, with its indexes: tables that it inserts into or updates.
AT_ONCE = 3000
LOGS = 50
MANY = 20_000
READS = 5000
RATE_GOALS = {"at once": 8_000.0, "fifty logs": 8_000.0, "subscribe": 20_000.0}  # a second, whatever is beside them
GETS = "hypercore's get"
STREAM = "hypercore's stream"
DISK = "fdatasync"
SIGNING = "signing and hashing alone"
FOLDER = Path(__file__).parent.parent / "build" / "bench"
"""On a disk: temporary files are often in memory, which confirms everything at once."""


def run() -> list[Figure]:
    """Measure."""
    version = hypercore.available()
    say(f"appending and reading, {ROUNDS} rounds" + (f", beside hypercore {version}" if version else ""))
    taken: dict[str, list[float]] = defaultdict(list)  # seconds for one of each
    FOLDER.mkdir(parents=True, exist_ok=True)
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=FOLDER) as name:
            for what, each in _round(Path(name), with_hypercore=version is not None).items():
                taken[what].append(each)
    return [_figure(taken, *row) for row in _TABLE if row[1] in taken]


_TABLE: list[tuple[str, str, str, float | None]] = [  # name, what was timed, its limit, the goal for the ratio
    ("fdatasync of 4 KiB", DISK, "", None),
    ("SQLite, one insert a commit", "sqlite", DISK, None),
    ("SQLite, as many pages a commit as an append has", "pages", DISK, None),
    ("appends, one by one", "append", DISK, 0.8),
    ("appends, one by one, for a second of CPU", "append, CPU", "", None),
    ("appends, 3,000 at once to one log", "at once", "", None),
    ("appends, 3,000 at once to fifty logs", "fifty logs", "", None),
    ("append_many", "many", SIGNING, 0.7),
    ("signing and hashing alone", SIGNING, "", None),
    ("hypercore: appends, one by one, unsynced", "hypercore's append", "", None),
    ("hypercore: a batch of appends", "hypercore's batch", "", None),
    ("random reads of entries", "entry", GETS, 1.0),
    ("random reads of entries with payloads", "entry and payload", GETS, 1.0),
    ("subscription with payloads", "subscribe", STREAM, None),
    ("hypercore: random gets", GETS, "", None),
    ("hypercore: a stream of blocks", STREAM, "", None),
]


def _figure(taken: dict[str, list[float]], name: str, what: str, limit: str, goal: float | None) -> Figure:
    ratio = median_ratio(taken[limit], taken[what]) if limit in taken else None
    goal = RATE_GOALS.get(what, goal if ratio else None)
    return median_rate(name, 1, "a second", taken[what], limit, ratio, goal, absolute=what in RATE_GOALS)


def _round(folder: Path, *, with_hypercore: bool) -> dict[str, float]:
    """Everything once; the seconds for one of each."""
    found = {DISK: _disk(folder / "file"), "sqlite": _sqlite(folder / "plain.db", 1), SIGNING: _signing()}
    found["pages"] = _sqlite(folder / "pages.db", PAGES)
    found |= asyncio.run(_node(folder))
    if with_hypercore:
        command = ["node", "hypercore_log.js", str(folder / "hypercore"), str(MANY), str(SIZE), str(SINGLE)]
        done = subprocess.run(command, cwd=hypercore.FOLDER, stdout=subprocess.PIPE, check=True)
        each = json.loads(done.stdout)
        found |= {"hypercore's append": each["appends"], "hypercore's batch": each["batch"]}
        found |= {GETS: each["gets"], STREAM: each["stream"]}
    return found


def _disk(path: Path) -> float:
    with path.open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(SINGLE):
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
        return (time.perf_counter() - began) / SINGLE


def _sqlite(path: Path, tables: int) -> float:
    """A commit that inserts into so many tables, so it changes as many pages."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    for number in range(tables):
        connection.execute(f"CREATE TABLE entries_{number} (encoded BLOB)")
    began = time.perf_counter()
    for _ in range(SINGLE):
        connection.execute("BEGIN IMMEDIATE")
        for number in range(tables):
            size = (300 + SIZE) // tables
            connection.execute(f"INSERT INTO entries_{number} VALUES (?)", (bytes(size),))
        connection.execute("COMMIT")
    each = (time.perf_counter() - began) / SINGLE
    connection.close()
    return each


def _signing() -> float:
    identity, payload = Identity(bytes(32)), bytes(SIZE)
    hashes: list[bytes | None] = [None]
    began = time.perf_counter()
    for seq in range(1, AT_ONCE + 1):
        entry = identity.create_entry(
            log_id=1,
            seq=seq,
            backlink=hashes[seq - 1],
            lipmaalink=hashes[lipmaa(seq)],
            size=SIZE,
            payload_hash=yamf_hash(payload),
        )
        hashes.append(entry.hash)
    return (time.perf_counter() - began) / AT_ONCE


async def _node(folder: Path) -> dict[str, float]:
    async with Node.open(folder / "home") as node:
        timed = _Timed(node)
        await timed.append()
        await timed.read()
        return timed.found


class _Timed:
    """What is done with a node; ``found`` has the seconds for one of each."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._payloads = [number.to_bytes(SIZE) for number in range(MANY)]
        self.found: dict[str, float] = {}

    async def _time(self, what: str, count: int, work: Awaitable[object]) -> None:
        began, computed = time.perf_counter(), time.process_time()
        await work
        self.found[what] = (time.perf_counter() - began) / count
        self.found[f"{what}, CPU"] = (time.process_time() - computed) / count

    async def append(self) -> None:
        """Log 0 one by one, logs from 100 and from 5,000 on at once, log 1 by ``append_many``."""
        await self._time("append", SINGLE, self._one_by_one())
        await self._time("at once", AT_ONCE, self._at_once(1))
        await self._time("fifty logs", AT_ONCE, self._at_once(LOGS))
        await self._time("many", MANY, self._node.append_many(1, self._payloads))

    async def read(self) -> None:
        """Log 1 at random, and by a subscription."""
        await self._time("entry", READS, self._entries(with_payload=False))
        await self._time("entry and payload", READS, self._entries(with_payload=True))
        await self._time("subscribe", MANY, self._subscribe())

    async def _one_by_one(self) -> None:
        for payload in self._payloads[:SINGLE]:
            await self._node.append(0, payload)

    async def _at_once(self, logs: int) -> None:
        payloads = enumerate(self._payloads[:AT_ONCE])
        await asyncio.gather(*(self._node.append(100 * logs + at % logs, payload) for at, payload in payloads))

    async def _entries(self, *, with_payload: bool) -> None:
        rng = random.Random(1)
        for _ in range(READS):
            seq = rng.randint(1, MANY)
            if with_payload:
                found = await self._node.entry_with_payload(1, seq)
                assert found
                assert len(found[1]) == SIZE
            else:
                assert await self._node.entry(1, seq)

    async def _subscribe(self) -> None:
        seen = 0
        async for entry in self._node.subscribe((self._node.author, 1), since="0", with_payload=True):
            assert len(await self._node.payload(entry)) == SIZE
            seen += 1
            if seen == MANY:
                return
