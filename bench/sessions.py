"""``culm://`` sessions: a discovery beside Bushbaby's announcements, starting, idling, fifty peers at once."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench.harness import Figure, say
from bench.intervals import make_home, serving
from bench.replication import Watch, culm
from culm.bamboo import Identity
from culm.node.config import NodeConfig
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.store import SQLiteStore
from culm.testing.builders import LogBuilder, build_log

LOGS = int(os.environ.get("CULM_BENCH_LOGS", "100000"))
CHANGED = 10
PEERS, THEIR_LOGS, THEIR_ENTRIES = 50, 1000, 5
IDLE_SECONDS = 12.0
START_GOAL = 2.0  # seconds
IDLE_GOAL = 100.0  # bytes a second, both ways
CROWD_MEMORY_GOAL = 300.0  # MB
SMALL_GOAL = 64.0  # kB
_GROUP = 2000


def run() -> list[Figure]:
    """Measure."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        figures += _measure_discovery(Path(folder))
    for measure in (_measure_idle, _measure_crowd):
        with tempfile.TemporaryDirectory() as folder:
            figures += measure(Path(folder))
    return figures


# -- many logs -------------------------------------------------------------------------------------------------------


def _fill(home: Path, logs: int) -> None:
    """Many logs of one entry each, of one author."""
    author = Identity(bytes([7]) * 32)
    with SQLiteStore(home / "store.db") as store:
        for low in range(0, logs, _GROUP):
            items = []
            for log_id in range(low, min(logs, low + _GROUP)):
                builder = LogBuilder(author, log_id)
                builder.append(b"%d" % log_id)
                items += builder.items()
            store.add(items, authenticated=True, durable=False)


def _change(home: Path, logs: int, entries: int) -> None:
    """Some of the logs go on to a number of entries."""
    author = Identity(bytes([7]) * 32)
    with SQLiteStore(home / "store.db") as store:
        for number in range(CHANGED):
            builder = LogBuilder(author, number * (logs // CHANGED))
            builder.append(b"%d" % builder.log_id)
            for seq in range(2, entries + 1):
                builder.append(b"entry %d" % seq)
            store.add(builder.items())


def _measure_discovery(folder: Path) -> list[Figure]:
    alice, bob = make_home(folder / "alice"), make_home(folder / "bob")
    say(f"making {LOGS:,} logs")
    _fill(alice, LOGS)
    for file in (bob / "store.db", *bob.glob("store.db-*")):
        file.unlink(missing_ok=True)
    shutil.copyfile(alice / "store.db", bob / "store.db")
    costs: dict[str, float] = {}
    start = 0.0
    for number, scheme in enumerate(("culm", "bushbaby"), 2):
        say(f"{CHANGED} changed logs by {scheme}://")
        _change(alice, LOGS, number)
        began = time.perf_counter()
        with serving(alice, "--clump", "bench", scheme=scheme) as (url, _):
            if scheme == "culm":
                start = time.perf_counter() - began
            call = culm(bob, "sync", url, "--clump", "bench", "--json")
            output = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout
        summary = json.loads(output.splitlines()[-1])
        if summary["entries_received"] != CHANGED:
            raise AssertionError(f"{summary['entries_received']} of {CHANGED} entries arrived")
        costs[scheme] = (summary["bytes_received"] + summary["bytes_sent"]) / 1e3
    return [
        Figure(f"{CHANGED} of {LOGS:,} logs, culm://", costs["culm"], "kB", goal=SMALL_GOAL, at_least=False),
        Figure(
            f"{CHANGED} of {LOGS:,} logs, bushbaby://",
            costs["bushbaby"],
            "kB",
            limit="culm://",
            ratio=costs["bushbaby"] / costs["culm"],
        ),
        Figure(f"start with {LOGS:,} logs", start, "s", goal=START_GOAL, at_least=False),
    ]


# -- doing nothing ---------------------------------------------------------------------------------------------------


def _measure_idle(folder: Path) -> list[Figure]:
    say(f"an idle session, for {IDLE_SECONDS:g} s")
    return [
        Figure("idle session", asyncio.run(_idle(folder)), "bytes/s", goal=IDLE_GOAL, at_least=False),
    ]


async def _idle(folder: Path) -> float:
    """Bytes a second of a session with a thousand logs in which nothing happens."""
    stop = asyncio.Event()
    places: asyncio.Queue[PeerUrl] = asyncio.Queue()
    stores = [SQLiteStore(folder / f"{name}.db") for name in ("alice", "bob")]
    for log_id in range(THEIR_LOGS):
        stores[0].add(build_log(1, log_id=log_id).items(), durable=False)
    nodes = [NodeService(Identity.create(), NodeConfig(b"bench"), store) for store in stores]
    listen = PeerUrl.parse("culm://127.0.0.1:0", may_be_zero=True)
    tasks = [asyncio.create_task(nodes[0].run([listen], [], stop=stop, listening=places.put_nowait))]
    url = await places.get()
    tasks.append(asyncio.create_task(nodes[1].run([], [url], stop=stop)))
    try:
        while not nodes[1].sessions:  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(0.1)
        (session,) = nodes[1].sessions
        while session.stats.entries_received < THEIR_LOGS:  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(0.1)
        await asyncio.sleep(IDLE_SECONDS / 4)  # what is still to be said of what came
        before = session.stats.bytes_received + session.stats.bytes_sent
        await asyncio.sleep(IDLE_SECONDS)
        return (session.stats.bytes_received + session.stats.bytes_sent - before) / IDLE_SECONDS
    finally:
        stop.set()
        await asyncio.gather(*tasks)
        for store in stores:
            store.close()


# -- many peers ------------------------------------------------------------------------------------------------------


def _measure_crowd(folder: Path) -> list[Figure]:
    home = make_home(folder / "hub")
    with SQLiteStore(home / "store.db") as store:
        for log_id in range(THEIR_LOGS):
            store.add(build_log(THEIR_ENTRIES, log_id=log_id).items(), durable=False)
    say(f"{PEERS} peers at a node with {THEIR_LOGS:,} logs")
    peers = [make_home(folder / f"{number}") for number in range(PEERS)]
    with serving(home, scheme="culm", quiet=True) as (url, server):
        watch = Watch(server.pid)
        calls = [
            subprocess.Popen(culm(peer, "sync", url, "--json"), stdout=subprocess.PIPE, text=True) for peer in peers
        ]
        summaries = [json.loads(call.communicate()[0].splitlines()[-1]) for call in calls]
        os.kill(server.pid, signal.SIGTERM)
        watch.join()
    if any(summary["entries_received"] != THEIR_LOGS * THEIR_ENTRIES for summary in summaries):
        raise AssertionError("some entries did not arrive")
    times = [summary["seconds"] for summary in summaries]
    ratio = max(times) / statistics.median(times)
    return [
        Figure(f"memory with {PEERS} peers", watch.memory, "MB", goal=CROWD_MEMORY_GOAL, at_least=False),
        Figure(f"CPU with {PEERS} peers", watch.cpu, "s"),
        Figure("the slowest of them", max(times), "s", limit="the median one", ratio=ratio),
    ]
