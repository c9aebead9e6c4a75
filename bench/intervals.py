"""Replication with interval requests over loopback, each side a process of its own; beside hypercore where it is.

Small entries also by ``culm://``, in the same rounds. Also how fast news travels, alone and beside large payloads, what
single entries cost, and a link that is cut.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from bench import hypercore
from bench.harness import Figure, median_rate, median_ratio, say
from bench.limits import between_two_programs, hashed, through_a_socket
from bench.replication import Watch, culm
from culm.bamboo import Identity, encode_varu64
from culm.node.config import NodeConfig
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sharing.threads import SWITCH_SECONDS
from culm.store import SQLiteStore
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from culm.testing.builders import LogBuilder

ENTRIES, PAYLOAD = 100_000, 200
LARGE, LARGE_BYTES = 64, 4 * 1024 * 1024
ROUNDS = 5
APPENDS = 500
RANDOM_ENTRIES = 100
MEMORY_GOAL = 150.0  # MB
RATE_GOAL = 2.0  # times hypercore's
ENTRY_GOAL = 60.0  # us of the receiver's CPU, the start of its program included
LIVE_GOAL, BESIDE_GOAL = 0.001, 0.008  # seconds
CUT_BYTES = 64 * 1024
SLOW_RATE, SLOW_APPENDS = 1_000_000, 100  # Bytes a second; entries that are appended meanwhile.
_LINE_BYTES = 16 * 1024  # That a slow line holds itself.
CUT_GOAL = 1.05


@dataclass(frozen=True, slots=True)
class Run:
    """One replication: seconds of the transfer, CPU seconds and peak MB of both sides, bytes received."""

    transfer: float
    cpu: tuple[float, float]
    memory: tuple[float, float]
    bytes_received: int


def run() -> list[Figure]:
    """Measure."""
    peer = hypercore.available()
    if peer is None:
        say("hypercore cannot be had here: no node, or no npm registry")
    figures: list[Figure] = []
    for measure in (_measure_entries, _measure_payloads):
        with tempfile.TemporaryDirectory() as folder:
            figures += measure(Path(folder), peer)
    for other in (_measure_live, measure_beside, _measure_slow, measure_cut):
        with tempfile.TemporaryDirectory() as folder:
            figures += other(Path(folder))
    return figures


@contextmanager
def serving(
    home: Path, *options: str, scheme: str = "intervals", quiet: bool = False
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A node that serves a home; its URL, and the process. ``quiet``: it may say what it likes of its connections."""
    server = subprocess.Popen(
        culm(home, "serve", "--listen", f"{scheme}://127.0.0.1:0", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().split()[1], server
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)


def make_home(home: Path) -> Path:
    """A home with an identity and nothing else."""
    subprocess.run(culm(home, "init"), check=True, stdout=subprocess.DEVNULL)
    return home


def log_name(log: tuple[bytes, int]) -> str:
    """A log as the command line takes it."""
    return f"{log[0].hex()}/{log[1]}"


def asking(scheme: str, log: tuple[bytes, int]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options that both sides need, and how ``culm sync`` asks for a log. Bushbaby takes all that there is."""
    clump = ("--clump", "bench")
    match scheme:
        case "culm":
            return clump, ("--interest", log_name(log))
        case "bushbaby":
            return clump, ()
    return (), (log_name(log),)


def replicate(
    alice: Path, bob: Path, log: tuple[bytes, int], entries: int, *options: str, scheme: str = "intervals"
) -> Run:
    """Serve ``alice``, sync ``bob`` with it, and account for both processes."""
    clump, logs = asking(scheme, log)
    with serving(alice, *clump, *options, scheme=scheme) as (url, server):
        call = culm(bob, "sync", url, *logs, "--json", *clump, *options)
        client = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
        assert client.stdout is not None
        watches = Watch(server.pid), Watch(client.pid)
        output = client.stdout.read()
        watches[1].join()
        os.kill(server.pid, signal.SIGTERM)
        watches[0].join()
    summary = json.loads(output.splitlines()[-1])
    if summary["entries_received"] != entries:
        raise AssertionError(f"{summary['entries_received']} of {entries} entries arrived")
    return Run(
        summary["seconds"],
        (watches[0].cpu, watches[1].cpu),
        (watches[0].memory, watches[1].memory),
        summary["bytes_received"],
    )


def fill(home: Path, log: LogBuilder) -> tuple[bytes, int]:
    """Put a whole log into a home; its name."""
    with SQLiteStore(home / "store.db") as store:
        store.add(log.items(), authenticated=True)
    return log.identity.public, log.log_id


def _rounds(
    folder: Path,
    log: tuple[bytes, int],
    count: int,
    peer: hypercore.Log | None,
    beside: Callable[[], None] = lambda: None,
    schemes: tuple[str, ...] = ("intervals",),
) -> tuple[dict[str, list[Run]], list[dict[str, float]]]:
    """Both systems in turns, ours by each of its protocols, and what else is measured beside them."""
    ours: dict[str, list[Run]] = {scheme: [] for scheme in schemes}
    theirs: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        for scheme, runs in ours.items():
            bob = make_home(folder / "bob")
            runs.append(replicate(folder / "alice", bob, log, count, scheme=scheme))
            shutil.rmtree(bob)
        if peer is not None:
            theirs.append(peer.replicate())
        beside()
    return ours, theirs


def _measure_entries(folder: Path, version: str | None) -> list[Figure]:
    say(f"{ENTRIES:,} entries of {PAYLOAD} bytes: building the log")
    alice = make_home(folder / "alice")
    log = fill(alice, build_log(ENTRIES, payload_size=PAYLOAD))
    peer = hypercore.Log(folder, ENTRIES, PAYLOAD) if version is not None else None
    ours, theirs = _rounds(folder, log, ENTRIES, peer, schemes=("intervals", "culm"))
    if peer is not None:
        peer.close()
    figures = []
    unavoidable = 64 + 66 + len(encode_varu64(PAYLOAD)) + PAYLOAD
    for scheme, runs in ours.items():
        middle_run = sorted(runs, key=lambda one: one.transfer)[ROUNDS // 2]
        name = f"{scheme}, {ENTRIES:,} entries"
        cpu = statistics.median(run.cpu[1] for run in runs) / ENTRIES * 1e6
        figures += [
            _against(f"{name}: rate", ENTRIES, "entries/s", runs, theirs, version),
            *costs(name, middle_run, runs),
            Figure(f"{name}: CPU of the receiver an entry", cpu, "us", goal=ENTRY_GOAL, at_least=False),
            Figure(
                f"{name}: bytes received an entry",
                middle_run.bytes_received / ENTRIES,
                "bytes",
                "signature, hash, size and payload",
                middle_run.bytes_received / ENTRIES / unavoidable,
            ),
        ]
    return figures + _measure_sparse(folder, alice, log)


def costs(name: str, middle_run: Run, runs: list[Run]) -> list[Figure]:
    """What both sides of a replication cost."""
    figures = []
    for side, who in enumerate(("sender", "receiver")):
        peak = max(run.memory[side] for run in runs)
        figures += [
            Figure(f"{name}: CPU of the {who}", middle_run.cpu[side], "s"),
            Figure(f"{name}: peak memory of the {who}", peak, "MB", goal=MEMORY_GOAL, at_least=False),
        ]
    return figures


def _against(
    name: str,
    amount: float,
    unit: str,
    ours: list[Run],
    theirs: list[dict[str, float]],
    version: str | None,
) -> Figure:
    """A rate, beside hypercore's in the same rounds."""
    taken = [one.transfer for one in ours]
    if not theirs:
        return median_rate(name, amount, unit, taken)
    ratio = median_ratio([them["seconds"] for them in theirs], taken)
    return median_rate(name, amount, unit, taken, limit=f"hypercore {version}", ratio=ratio, goal=RATE_GOAL)


def _measure_payloads(folder: Path, version: str | None) -> list[Figure]:
    say(f"{LARGE} payloads of {LARGE_BYTES:,} bytes")
    alice = make_home(folder / "alice")
    identity = Identity(bytes(32))
    append_large(alice, identity, 1)
    peer = hypercore.Log(folder, LARGE, LARGE_BYTES) if version is not None else None
    total = LARGE * LARGE_BYTES
    bounds: list[tuple[float, float]] = []
    bare: list[float] = []

    def bound() -> None:
        bounds.append((through_a_socket(total), hashed(total)))
        bare.append(between_two_programs(folder, total))

    runs, theirs = _rounds(folder, (identity.public, 1), LARGE, peer, bound)
    if peer is not None:
        peer.close()
    ours = runs["intervals"]
    middle_run = sorted(ours, key=lambda one: one.transfer)[ROUNDS // 2]
    name = f"intervals, {LARGE} payloads of 4 MiB"
    megabytes = total / 1e6
    slower = "the slower of both"
    return [
        Figure("as many bytes through a socket", megabytes / statistics.median(one for one, _ in bounds), "MB/s"),
        Figure("as many bytes hashed by BLAKE2b", megabytes / statistics.median(one for _, one in bounds), "MB/s"),
        median_rate("as many bytes from file to file of two programs that hash them", megabytes, "MB/s", bare),
        median_rate(
            f"{name}, beside these programs",
            megabytes,
            "MB/s",
            [one.transfer for one in ours],
            "what they need",
            median_ratio(bare, [one.transfer for one in ours]),
        ),
        Figure(
            f"{name}, beside the socket and the hash",
            megabytes / statistics.median(one.transfer for one in ours),
            "MB/s",
            slower,
            median_ratio([max(pair) for pair in bounds], [one.transfer for one in ours]),
            0.6,
        ),
        _against(f"{name}: rate", megabytes, "MB/s", ours, theirs, version),
        *costs(name, middle_run, ours),
    ]


def append_large(home: Path, identity: Identity, log_id: int) -> None:
    """Publish the large payloads, of random bytes."""
    rng = random.Random(1)
    with SQLiteStore(home / "store.db") as store:
        for _ in range(LARGE):
            store.append(identity, log_id, (rng.randbytes(65536) for _ in range(LARGE_BYTES // 65536)))


def _measure_sparse(folder: Path, alice: Path, log: tuple[bytes, int]) -> list[Figure]:
    say(f"{RANDOM_ENTRIES} random entries of {ENTRIES:,}")
    numbers = sorted(random.Random(5).sample(range(1, ENTRIES + 1), RANDOM_ENTRIES))
    carol = make_home(folder / "carol")
    with serving(alice) as (url, _):
        wanted = [f"{log_name(log)}/{seq}" for seq in numbers]
        found = subprocess.run(culm(carol, "fetch", url, *wanted, "--json"), capture_output=True, text=True, check=True)
    summary = json.loads(found.stdout.splitlines()[-1])
    total = summary["bytes_received"] + summary["bytes_sent"]
    with SQLiteStore(carol / "store.db") as store:
        held = sum(1 for seq in numbers for _ in store.entries(log, seq, seq))
        certificates = next(iter(store.logs())).entries - held
    if held != RANDOM_ENTRIES:
        raise AssertionError(f"{held} of {RANDOM_ENTRIES} entries are verified")
    name = f"{RANDOM_ENTRIES} random entries of {ENTRIES:,}"
    return [
        Figure(f"{name}: bytes both ways", total, "bytes"),
        Figure(f"{name}: certificates that came along", certificates, "entries"),
    ]


# -- news -----------------------------------------------------------------------------------------------------------


class Embedded:
    """A node within this process, on a thread of its own, beside what appends and looks for news.

    The interpreter is set as ``culm serve`` sets it, and as docs/library.md advises those who compute beside a node.
    """

    def __init__(self, home: Path, scheme: str = "intervals") -> None:
        sys.setswitchinterval(SWITCH_SECONDS)
        self.store = SQLiteStore(home / "store.db")
        self._scheme = scheme
        self.node = NodeService(Identity(bytes(32)), NodeConfig(b""), self.store)
        self.loop = asyncio.new_event_loop()
        self.urls: list[PeerUrl] = []
        self._stop = asyncio.Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        while not self.urls:
            time.sleep(0.01)

    def _run(self) -> None:
        listen = [PeerUrl(self._scheme, "127.0.0.1", 0)]
        self.loop.run_until_complete(self.node.run(listen, [], stop=self._stop, listening=self.urls.append))

    def append(self, identity: Identity, log_id: int, payload: bytes) -> None:
        """Publish, from this thread."""
        asyncio.run_coroutine_threadsafe(self.node.append(identity, log_id, [payload]), self.loop).result()

    def close(self) -> None:
        """End the node."""
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self.store.close()


def latencies(
    append: Callable[[int], None], reader: SQLiteStore, log: tuple[bytes, int], pause: float, appends: int = APPENDS
) -> tuple[list[float], list[float]]:
    """For each append the time from its return until the other side's store shows it, and from its call."""
    rng = random.Random(3)
    found: tuple[list[float], list[float]] = [], []
    for number in range(appends):
        newest = (reader.lookup(log).payload_extent() or (0, 0))[1]
        begin = time.perf_counter()
        append(number)
        appended = time.perf_counter()
        while (reader.lookup(log).payload_extent() or (0, 0))[1] == newest:
            if time.perf_counter() - begin > 10:
                raise AssertionError("an entry did not arrive")
            time.sleep(0.0001)
        end = time.perf_counter()
        found[0].append(end - appended)
        found[1].append(end - begin)
        time.sleep(rng.uniform(0.5, 1.5) * pause)
    return sorted(found[0]), sorted(found[1])


def wait_for(reader: SQLiteStore, log: tuple[bytes, int]) -> None:
    """Until anything of a log is there."""
    while reader.lookup(log).payload_extent() is None:
        time.sleep(0.05)


@contextmanager
def live(folder: Path, url: str, *logs: tuple[bytes, int]) -> Iterator[Path]:
    """Another node that follows logs."""
    bob = make_home(folder / "bob")
    client = subprocess.Popen(
        culm(bob, "sync", url, *map(log_name, logs), "--live"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield bob
    finally:
        client.terminate()  # not SIGINT: what is started in the background may ignore that
        client.wait()


def _measure_live(folder: Path) -> list[Figure]:
    say(f"{APPENDS} entries appended at one side, until the other has them")
    alice, me = make_home(folder / "alice"), Identity(bytes(32))
    embedded, log = Embedded(alice), (me.public, 1)
    embedded.append(me, 1, b"first")
    with live(folder, str(embedded.urls[0]), log) as bob, SQLiteStore(bob / "store.db", read_only=True) as reader:
        wait_for(reader, log)
        times, whole = latencies(lambda number: embedded.append(me, 1, f"{number}".encode()), reader, log, 0.004)
        with SQLiteStore(alice / "store.db") as other:
            elsewhere, _ = latencies(lambda number: _append(other, me, number), reader, log, 0.004)
    embedded.close()
    name = "live: from an append's return to visible at the peer"
    return [
        milliseconds(f"{name}, p50", times, 0.5, LIVE_GOAL),
        milliseconds(f"{name}, p99", times, 0.99, None),
        milliseconds("live: the same with the append itself, p50", whole, 0.5, None),
        milliseconds(f"{name}, appended by another process than the node's, p50", elsewhere, 0.5, None),
    ]


def _append(store: SQLiteStore, identity: Identity, number: int) -> None:
    store.append(identity, 1, [f"{number}".encode()])


def milliseconds(name: str, times: list[float], part: float, goal: float | None) -> Figure:
    """A part of sorted times, such as the median."""
    value = times[min(len(times) - 1, int(len(times) * part))]
    return Figure(name, value * 1000, "ms", goal=None if goal is None else goal * 1000, at_least=False)


def _with_payloads(folder: Path, scheme: str = "intervals") -> tuple[Embedded, Identity, Identity]:
    """A node with a log for news and one of large payloads; the authors of both."""
    alice, me, large = make_home(folder / "alice"), Identity(bytes(32)), Identity(bytes([1] * 32))
    append_large(alice, large, 1)
    embedded = Embedded(alice, scheme)
    embedded.append(me, 1, b"first")
    return embedded, me, large


def measure_beside(folder: Path, scheme: str = "intervals", goal: float | None = BESIDE_GOAL) -> list[Figure]:
    """News of one log while large payloads of another are under way, over and over."""
    say(f"news while {LARGE} payloads of 4 MiB are under way")
    embedded, me, large = _with_payloads(folder, scheme)
    log = me.public, 1
    times: list[float] = []
    number = 0
    while len(times) < APPENDS:
        number += 1
        part = folder / f"part{number}"
        part.mkdir()
        with (
            live(part, str(embedded.urls[0]), log, (large.public, 1)) as bob,
            SQLiteStore(bob / "store.db", read_only=True) as reader,
        ):
            wait_for(reader, log)
            while len(times) < APPENDS:
                embedded.append(me, 1, b"news")
                began = time.perf_counter()
                expected = (embedded.store.lookup(log).payload_extent() or (0, 0))[1]
                while (reader.lookup(log).payload_extent() or (0, 0))[1] < expected:
                    time.sleep(0.0001)
                if (reader.lookup((large.public, 1)).payload_extent() or (0, 0))[1] == LARGE:
                    break  # the payloads have arrived: begin again
                times.append(time.perf_counter() - began)
                time.sleep(0.004)
        shutil.rmtree(part)
    embedded.close()
    times.sort()
    of = "" if scheme == "intervals" else f"{scheme}, "
    name = f"{of}live, from an append's return, beside {LARGE} payloads of 4 MiB"
    return [
        milliseconds(f"{name}, p50", times, 0.5, None),
        milliseconds(f"{name}, p99", times, 0.99, goal),
    ]


def _measure_slow(folder: Path) -> list[Figure]:
    """News of one log while large payloads of another are under way, over a slow link."""
    say(f"the same over a link of {SLOW_RATE:,} bytes a second")
    embedded, me, large = _with_payloads(folder)
    log = me.public, 1
    link = Link(int(str(embedded.urls[0]).rpartition(":")[2]), rate=SLOW_RATE)
    url = f"intervals://127.0.0.1:{link.port}"
    with (
        live(folder, url, log, (large.public, 1)) as bob,
        SQLiteStore(bob / "store.db", read_only=True) as reader,
    ):
        wait_for(reader, log)
        times, _ = latencies(lambda _: embedded.append(me, 1, b"news"), reader, log, 0.1, SLOW_APPENDS)
        if (reader.lookup((large.public, 1)).payload_extent() or (0, 0))[1] == LARGE:
            raise AssertionError("the payloads had arrived before the last news")
    embedded.close()
    name = f"live, from an append's return, beside payloads of 4 MiB over a link of {SLOW_RATE / 1e6:g} MB/s"
    return [milliseconds(f"{name}, p50", times, 0.5, None), milliseconds(f"{name}, p99", times, 0.99, None)]


# -- a link that is cut ---------------------------------------------------------------------------------------------


class Link(Thread):
    """Passes connections on to a port, and cuts each after so many bytes towards the caller (0: never).

    ``rate``: bytes a second that it passes to the caller, None: as many as come.
    """

    def __init__(self, port: int, cut: int = 0, rate: int | None = None) -> None:
        super().__init__(daemon=True)
        self.passed = 0
        self.port = 0
        self._to, self._cut, self._rate = port, cut, rate
        self._loop = asyncio.new_event_loop()
        self.start()
        while not self.port:
            time.sleep(0.01)

    def run(self) -> None:
        """Serve."""
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = socket.socket()
        if self._rate is not None:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LINE_BYTES)  # A slow line holds little itself.
        line.setblocking(False)
        await self._loop.sock_connect(line, ("127.0.0.1", self._to))
        there, towards = await asyncio.open_connection(sock=line, limit=_LINE_BYTES)
        up = asyncio.create_task(self._pass(reader, towards, 0))
        await self._pass(there, writer, self._cut, self._rate)
        up.cancel()
        for side in (writer, towards):
            side.close()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: int, rate: int | None = None
    ) -> None:
        left = cut or 2**62
        while left > 0 and (data := await reader.read(min(65536 if rate is None else 4096, left))):
            left -= len(data)
            self.passed += len(data)
            if rate is not None:
                await asyncio.sleep(len(data) / rate)
            try:
                writer.write(data)
                await writer.drain()
            except OSError:
                return
        if left > 0 and not writer.is_closing():
            writer.write_eof()


def measure_cut(folder: Path, scheme: str = "intervals") -> list[Figure]:
    """How many bytes more it takes over a link that is cut again and again."""
    say(f"1,000 entries and a payload of 20 MiB over a link that is cut every {CUT_BYTES:,} bytes")
    alice, me = make_home(folder / "alice"), Identity(bytes(32))
    rng = random.Random(1)
    with SQLiteStore(alice / "store.db") as store:
        store.add(build_log(1000, payload_size=PAYLOAD, log_id=2).items(), authenticated=True)
        store.append(me, 1, (rng.randbytes(65536) for _ in range(20 * 16)))
        logs = [(summary.author, summary.log_id) for summary in store.logs()]
    totals, tries = [], 0
    with serving(alice, scheme=scheme, quiet=True) as (url, _):
        for cut in (0, CUT_BYTES):
            bob = make_home(folder / f"bob{cut}")
            link = Link(int(url.rpartition(":")[2]), cut)
            tries = 1
            while sync_over(bob, link, logs, scheme):
                tries += 1
            totals.append(link.passed)
    return [
        Figure(
            f"{scheme}: bytes over a link that is cut every {CUT_BYTES // 1024} KiB ({tries} connections)",
            totals[1] / 1e6,
            "MB",
            "a link that is not cut",
            totals[1] / totals[0],
            CUT_GOAL,
            at_least=False,
        )
    ]


def sync_over(home: Path, link: Link, logs: list[tuple[bytes, int]], scheme: str = "intervals") -> bool:
    """Sync over a link; whether it was cut."""
    url = f"{scheme}://127.0.0.1:{link.port}"
    done = subprocess.run(culm(home, "sync", url, *map(log_name, logs), "--json"), capture_output=True, check=False)
    if done.returncode not in {0, 3}:
        raise AssertionError(done.stderr.decode())
    return done.returncode == 3
