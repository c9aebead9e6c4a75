"""A real node in a process of its own, and what it costs: CPU seconds and memory, as the system counts them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Literal

from culm.bamboo import Identity
from culm.node.home import Home
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from culm.ranges import Range, RangeSet
from culm.store import SQLiteStore
from culm.testing.builders import build_log
from tests.certificates import certified

if TYPE_CHECKING:
    from collections.abc import Iterator

    from culm.types import Log

CLUMP = b"hostile"
AUTHOR_SEED, PARTS_SEED = 40, 41
PARTS = RangeSet([Range(5, 10), Range(20, None, sparse=True)])  # what a node follows of logs of ``PARTS_SEED``
PAGE, TOKEN = "https://pages.example", "a-token-of-hostile-tests"
LOGS, ENTRIES, PAYLOAD = 8, 200, 200
LARGE_LOG, LARGE_BYTES = 100, 16 * 1024 * 1024
OWN_LOG = 200  # of the node's identity, which is marked; its one entry is given to nobody
DESCRIPTORS = 128  # that a node of the kind "scarce" may have open, those of its store included
QUOTA, AUTHOR_QUOTA = 64_000_000, 24_000_000  # Bytes: what is in the home at the start fits, and some logs more.
Kind = Literal[
    "all",
    "parts",
    "scarce",
    "quotas culm",
    "quotas bushbaby",
    "quotas intervals",
    "quotas proposals",
    "lan",
    "lan crowded",
]
"""A node that follows everything; parts of one author's logs; everything, with few descriptors; everything, within
quotas; everything, and finds neighbours. There is one with quotas for each protocol, because after the first attack it
is full. So is the list of neighbours of one that finds them."""
_finders = count()  # Of the nodes that find neighbours.
_TICKS = os.sysconf("SC_CLK_TCK")
_PIECE = 256 * 1024
_COUNT_SECONDS = 0.05  # between two looks at how many connections are open
_SETTLE_SECONDS = 20.0
_QUIET_CPU = 1 / _TICKS  # seconds of CPU between two such looks, of a node that does nothing: one tick, by chance


@dataclass(frozen=True, slots=True)
class Target:
    """Where a node listens, by protocol, who it is, and whose logs it has. ``status``: where its status page is.

    ``lan``: the address at which it hears mDNS, if it finds neighbours. No other program of this machine uses it.
    Such a node has a ``clump`` of its own, because it would find others that are attacked on this machine.
    """

    urls: dict[str, PeerUrl]
    author: bytes
    status: str
    lan: str
    clump: bytes

    @property
    def key(self) -> bytes:
        """The node's identity."""
        key = self.urls["culm"].key
        assert key is not None
        return key

    @property
    def logs(self) -> list[tuple[bytes, int]]:
        """The logs of small entries."""
        return [(self.author, log_id) for log_id in range(LOGS)]

    @property
    def own_log(self) -> tuple[bytes, int]:
        """The node's own log of one entry, which no peer has confirmed since the home was restored."""
        return self.key, OWN_LOG

    @property
    def large_log(self) -> tuple[bytes, int]:
        """The log of one large payload."""
        return self.author, LARGE_LOG

    def to_json(self) -> str:
        """As text, for another process."""
        urls = {name: str(url) for name, url in self.urls.items()}
        return json.dumps(
            {
                "urls": urls,
                "author": self.author.hex(),
                "status": self.status,
                "lan": self.lan,
                "clump": self.clump.hex(),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Target:
        """The opposite."""
        data = json.loads(text)
        urls = {name: PeerUrl.parse(url, schemes=LISTENER_SCHEMES) for name, url in data["urls"].items()}
        return cls(urls, bytes.fromhex(data["author"]), data["status"], data["lan"], bytes.fromhex(data["clump"]))


def fill(home: Path, kind: Kind, clump: bytes) -> bytes:
    """Make a home whose store has eight logs of small entries, and one with a large payload; their author.

    The home's own identity is marked, as after a restore.
    """
    subprocess.run(
        [sys.executable, "-m", "culm.cli", "--home", str(home), "init"], check=True, stdout=subprocess.DEVNULL
    )
    author = Identity(AUTHOR_SEED.to_bytes(32, "big"))
    with SQLiteStore(home / "store.db") as store:
        for log_id in range(LOGS):
            log = build_log(ENTRIES, seed=AUTHOR_SEED, log_id=log_id, payload_size=PAYLOAD)
            store.add(log.items(), authenticated=True, durable=False)
        pieces = (bytes([at % 251]) * _PIECE for at in range(LARGE_BYTES // _PIECE))
        store.append(author, LARGE_LOG, pieces)
        mine = Home(home).identity(None)
        store.append(mine, OWN_LOG, [b"mine"])
        store.unconfirm(mine.public)
    followed = Identity(PARTS_SEED.to_bytes(32, "big")).public
    in_parts: dict[bytes | Log, RangeSet] = {followed: PARTS, author.public: EVERYTHING}
    policy = Policy(unshared=frozenset({(mine.public, OWN_LOG)}), interests=in_parts if kind == "parts" else None)
    Home(home).policy_file.save(clump, policy)
    return author.public


def tokens_of(home: Path) -> Path:
    """A file with the token of web pages, which only its owner can read."""
    path = home / "web-tokens"
    path.touch(mode=0o600)
    path.write_text(TOKEN + "\n", encoding="ascii")
    return path


def is_confirmed(home: Path) -> bool:
    """Whether a peer has made the node believe that its own log has no newer entry."""
    with SQLiteStore(home / "store.db", read_only=True) as store:
        return store.is_confirmed((Home(home).identity_public("default"), OWN_LOG))


@dataclass(frozen=True, slots=True)
class Cost:
    """What something cost a node: CPU seconds; the most memory and connections beyond what it had before.

    Memory is in MB (10^6 bytes); a connection is anything that is open.
    """

    cpu: float
    memory: float
    connections: int


class Node:
    """A node that is served. ``reasons`` counts why it refused connections, or ended sessions."""

    def __init__(self, home: Path, kind: Kind, options: tuple[str, ...] = ()) -> None:
        clump, lan, finding = CLUMP, "", []
        if kind.startswith("lan"):
            number = next(_finders)
            clump = f"hostile, {os.getpid()}, {number:03}".encode()
            # Two sockets of port 5353 at one address would share the datagrams, and mDNS lets programs open them.
            lan = f"127.{251 + number % 4}.{os.getpid() // 256 % 256}.{os.getpid() % 256}"
            finding = ["--lan", "--lan-weak", "--lan-at", lan]
        author = fill(home, kind, clump)
        listen = [argument for name in LISTENER_SCHEMES for argument in ("--listen", f"{name}://127.0.0.1:0")]
        certificate, secret = certified(home)
        listen += ["--web-origins", PAGE, "--web-token-file", str(tokens_of(home))]
        listen += ["--web-certificate-file", str(certificate), "--web-key-file", str(secret)]
        call = ["nice", "-n", "5", sys.executable, "-m", "culm.cli", "--home", str(home)]
        call += ["serve", "--clump", clump.decode(), "--http", "127.0.0.1:0", "--http-payloads", *listen]
        call += ["--log-format", "json", "--verbose", *options]
        if kind.startswith("quotas"):
            call += ["--quota", str(QUOTA), "--author-quota", str(AUTHOR_QUOTA)]
        call += finding
        if kind == "scarce":
            call = ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", *call]
        self._process = subprocess.Popen(
            call,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if not key.startswith("CULM_")},
        )
        self.pid = self._process.pid
        self.reasons: Counter[str] = Counter()
        self.lines: list[dict[str, str]] = []
        self.failures: list[str] = []  # lines that are none of a node that works
        self._heard = Condition()
        self._reader = Thread(target=self._read, daemon=True)
        assert self._process.stdout is not None
        status, *places = [self._process.stdout.readline().split()[1] for _ in ("status", *LISTENER_SCHEMES)]
        self._reader.start()
        urls = [PeerUrl.parse(place, schemes=LISTENER_SCHEMES) for place in places]
        self.target = Target({url.scheme: url for url in urls}, author, status, lan, clump)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for text in self._process.stderr:
            with self._heard:
                try:
                    line = json.loads(text)
                except ValueError:
                    self.failures.append(text.rstrip())
                    continue
                self.lines.append(line)
                if "reason" in line and line["level"] != "info":
                    self.reasons[_shape(line["reason"])] += 1
                if line["level"] == "error":
                    self.failures.append(text.rstrip())
                self._heard.notify_all()

    def wait_for_reason(self, pattern: str, address: str, seconds: float = 30.0) -> str | None:
        """What the node has against a peer at an address, or complains of without naming a peer, by a pattern."""

        def found() -> str | None:
            return next((reason for reason in self.said_of(address) if re.search(pattern, reason)), None)

        with self._heard:
            self._heard.wait_for(lambda: found() is not None, seconds)
            return found()

    def said_of(self, address: str) -> list[str]:
        """The reasons that the log gives about a peer at an address, or without naming a peer."""
        return [line.get("reason", "") for line in self.lines if _host(line.get("peer", address)) == address]

    # -- what it costs -----------------------------------------------------------------------------------------

    def cpu(self) -> float:
        """CPU seconds so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def _memory(self, name: str) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(status.split(f"{name}:")[1].split()[0]) * 1024 / 1e6

    @property
    def memory(self) -> float:
        """MB in use now."""
        return self._memory("VmRSS")

    @property
    def descriptors(self) -> int:
        """Open files and connections."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - a number is enough

    def _settle(self) -> None:
        """Wait until the node has nothing left to do of an earlier attack, or its cost would count for the next one.

        The attacker is gone as soon as the node has cut it off. The node then still ends the session, and stores or
        drops what came: a hundred thousand requests, for instance.
        """
        deadline, before = time.monotonic() + _SETTLE_SECONDS, (-1.0, -1)
        while self.lives and time.monotonic() < deadline:
            now = self.cpu(), self.descriptors
            if now[1] == before[1] and now[0] - before[0] <= _QUIET_CPU:
                break
            before = now
            time.sleep(_COUNT_SECONDS)

    @contextmanager
    def measured(self) -> Iterator[list[Cost]]:
        """What the block costs the node; the list has it afterwards."""
        self._settle()
        costs: list[Cost] = []
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
        cpu, memory, before = self.cpu(), self.memory, self.descriptors
        most, is_over = before, Event()

        def count() -> None:
            nonlocal most
            while not is_over.wait(_COUNT_SECONDS) and self.lives:
                most = max(most, self.descriptors)

        counter = Thread(target=count, daemon=True)
        counter.start()
        try:
            yield costs
        finally:
            is_over.set()
            counter.join()
        if self.lives:
            costs.append(Cost(self.cpu() - cpu, max(0.0, self._memory("VmHWM") - memory), most - before))

    @property
    def lives(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def stop(self) -> int:
        """End it as its operator does; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return code


def _host(place: str) -> str:
    return place.partition(":")[0]  # an IPv4 address, with a port or without


def _shape(reason: str) -> str:
    """A reason without its numbers, so that reasons can be counted."""
    return re.sub(r"\d+(\.\d+)?", "N", reason)
