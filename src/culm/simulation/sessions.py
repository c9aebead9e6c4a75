"""Real sessions of two whole nodes, to count the bytes that they send.

A session between protocol objects alone would be quicker to set up, but somebody would have to write down what a node
says with them, and that would be wrong as soon as a node says something else. So these are nodes as ``culm serve`` and
``culm sync`` run them, each with a store of its own. Only the clock, the threads and the network around them are
simulated (``culm.testing.simulation``), so that a session takes no longer than its work.

Every link takes ``_LATENCY`` one way, and computing takes no time. So whatever is sent at one moment answers what
arrived at that moment, and the number of such moments is the number of messages that wait for one another.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from culm.bamboo import Identity
from culm.errors import CulmError
from culm.node.config import NodeConfig
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.session import Purpose
from culm.node.surroundings import Surroundings
from culm.node.sync import sync
from culm.ranges import Range, RangeSet
from culm.store import SQLiteStore
from culm.testing import LogBuilder
from culm.testing.simulation.host import Host
from culm.testing.simulation.loop import SimulatedLoop
from culm.testing.simulation.network import Connection, Network, Weather
from culm.testing.simulation.pipe import Traits

BASE_ENTRIES = 40
"""Entries of each log before it grew: enough for lipmaalinks of several lengths, few enough to be signed at once."""

_CLUMP = b"simulated"
_PORT = 7000
_SCHEMES = {"negentropy": "intervals"}  # by which what a comparison has shown to be missing is fetched
_LATENCY = 0.01  # Seconds. Well below every interval at which a node does something by itself.
_CALM = Weather(always=Traits(_LATENCY, 0.0, 0, 1 << 40, 1 << 40, 1 << 40))
_AFTERWARDS = 1.0  # Seconds for what the listener says when the caller is done.


class Talk(NamedTuple):
    """The size of a session: bytes both ways, and messages. A message is all that a side says before an answer."""

    bytes: int
    messages: int


class _Side:
    """A node with its machine and its store."""

    def __init__(self, network: Network, number: int, folder: Path) -> None:
        self.address = f"10.0.0.{number}"
        self.identity = Identity(bytes([number]) * 32)
        random = Random(number)  # noqa: S311 - a session that is measured again has to be the same
        self.host = Host(network.loop, self.address, self.address, None, random)
        self.host.sloth = 0.0
        self.store = SQLiteStore(folder / f"{number}.db")
        self.config = NodeConfig(
            _CLUMP,
            surroundings=Surroundings(
                secret_bytes=random.randbytes,
                thread=self.host.thread,
                threads=self.host.thread,
                spent=lambda: 0.0,
                written=lambda _: None,
            ),
        )
        network.add(self.host)


def logs_of(logs: int, grown: int, more: int, payload: int) -> Iterator[LogBuilder]:
    """Logs of ``BASE_ENTRIES`` entries each; the first ``grown`` of them have ``more`` new entries besides."""
    for number in range(logs):
        log = LogBuilder(Identity(blake2b(b"author %d" % number, digest_size=32).digest()), number)
        for _ in range(BASE_ENTRIES + (more if number < grown else 0)):
            log.append(b"." * payload)
        yield log


def hold_session(protocol: str, logs: int, grown: int, more: int, payload: int) -> Talk:
    """A whole one-time sync of two nodes with the same logs; the listener has news: see ``logs_of``.

    With ``negentropy`` it is the part that comes after the comparison: the caller knows which logs it lacks something
    of, and asks for that with intervals. ``CulmError`` if the two do not hold the same afterwards.
    """
    if protocol == "negentropy" and not grown:
        return Talk(0, 0)
    loop = SimulatedLoop()
    sent: list[tuple[int, int]] = []  # when, in latencies, and how many bytes

    def connected(connection: Connection) -> None:
        for pipe in connection.pipes:
            pipe.sent = lambda size: sent.append((round(loop.time() / _LATENCY), size))

    random = Random(1)  # noqa: S311 - as above
    loop.network = network = Network(loop, random, lambda *_: None, Counter(), _CALM, connected)
    with TemporaryDirectory() as folder:
        rich, poor = sides = [_Side(network, number, Path(folder)) for number in (1, 2)]
        loop.thread = rich.host.thread
        try:
            for log in logs_of(logs, grown, more, payload):
                rich.store.add(log.items())
                poor.store.add(log.items(log.entries[:BASE_ENTRIES]))
            loop.run_until_complete(_exchange(rich, poor, protocol))
            held = [{(log.author, log.newest, log.payloads) for log in side.store.logs()} for side in sides]
            if held[0] != held[1]:
                raise CulmError(f"a {protocol} session of {logs} logs ended before both sides had the same")
        finally:
            loop.wind_up()
            loop.close()
            for side in sides:
                side.store.close()
    return Talk(sum(size for _, size in sent), len({moment for moment, _ in sent}))


async def _exchange(rich: _Side, poor: _Side, protocol: str) -> None:
    url = PeerUrl(_SCHEMES.get(protocol, protocol), rich.address, _PORT, rich.identity.public)
    newest = {(log.author, log.log_id): log.newest for log in rich.store.logs()}
    purpose = Purpose(is_live=False, mirrors=False, logs=tuple(newest))
    if protocol in _SCHEMES:  # The comparison has shown what is missing.
        first = BASE_ENTRIES + 1
        lacking = {log: RangeSet([Range(first, last)]) for log, last in newest.items() if last >= first}
        purpose = replace(purpose, logs=tuple(lacking), interest=lambda log: lacking[log])
    stop, listening = asyncio.Event(), asyncio.Event()
    node = NodeService(rich.identity, rich.config, rich.store)
    serving = rich.host.start(node.run([url], [], stop=stop, listening=lambda _: listening.set()))
    await listening.wait()
    await poor.host.start(sync(poor.identity, poor.config, poor.store, url, purpose))
    await asyncio.sleep(_AFTERWARDS)
    stop.set()
    await serving
