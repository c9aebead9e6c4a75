"""What is known of peers, over restarts: on clocks that the tests turn, in files that they damage."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm.bushbaby import Dialect
from culm.errors import ConfigError, RemoteProtocolError
from culm.node.bushbaby.remembered import Dialects
from culm.node.config import NodeConfig, NodeLimits
from culm.node.network.urls import PeerUrl
from culm.node.service import NodeService
from culm.node.sessions.session import Purpose
from culm.node.sessions.stats import SessionStats
from culm.node.sharing.kept import KeptPeers, Note, examined
from culm.node.sharing.peering import Peering
from culm.node.sync import sync
from culm.testing.builders import build_log
from tests.interop.deployed import DeployedPeer
from tests.interop.meeting import HOUR, REAL, Meeting, give
from tests.node.links import CONFIG, HERE, Party, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

KEY, OTHER = b"k" * 32, b"o" * 32
ADDRESS, ELSEWHERE = "203.0.113.9", "198.51.100.1"
NONSENSE = RemoteProtocolError("nonsense")
DAY = 86_400.0


class Clock:
    """Seconds that pass when told."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        """The time."""
        return self.now


class Process:
    """One run of a node: its own clock begins anywhere, the wall's is that of all runs."""

    def __init__(self, path: Path, wall: Clock, began: float = 1000.0) -> None:
        self.clock = Clock(began)
        self.wall = wall
        self.kept = KeptPeers(path, wall)
        limits = NodeLimits(penalty_seconds=10, max_penalty_seconds=600)
        self.peering = Peering(NodeConfig(b"x", limits=limits), self.clock, self.kept)
        self.dialects = Dialects(self.kept)
        self.kept.exchange()

    def passes(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.clock.now += seconds
        self.wall.now += seconds

    def offends(self, identity: bytes | None = None, address: str = ADDRESS) -> None:
        """A peer breaks the rules."""
        self.peering.ended("x", address, identity, SessionStats(), NONSENSE)

    def pleases(self, identity: bytes | None = None, address: str = ADDRESS) -> None:
        """A peer sends an entry."""
        self.peering.ended("x", address, identity, SessionStats(entries_received=1), None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a home has the file."""
    return tmp_path / "peers.json"


@pytest.fixture
def wall() -> Clock:
    """A day in 2026."""
    return Clock(1_790_000_000.0)


def test_a_penalty_goes_on_after_a_restart(path: Path, wall: Clock) -> None:
    """A restart ends no penalty and forgets no offence: the next one costs twice as much. Time counts meanwhile."""
    first = Process(path, wall)
    for _ in range(3):
        first.offends(KEY)
    first.offends()
    first.kept.exchange()
    wall.now += 4
    second = Process(path, wall, began=5.0)
    assert [second.peering.refuses_peer(KEY, ELSEWHERE), second.peering.refused_for(ADDRESS)] == [36, 6]
    second.offends(KEY)
    second.kept.exchange()
    assert Process(path, wall).peering.refuses_peer(KEY, ELSEWHERE) == 80
    wall.now += 80
    last = Process(path, wall)
    assert [last.peering.refuses_peer(KEY, ELSEWHERE), last.peering.refused_for(ADDRESS)] == [0, 0]


def test_who_was_good_is_known_after_a_restart(path: Path, wall: Clock) -> None:
    """A known identity gets through while its address is refused, unless its last session was bad."""
    first = Process(path, wall)
    first.pleases(KEY)
    first.pleases(OTHER)
    first.offends(OTHER)
    first.kept.exchange()
    wall.now += DAY
    second = Process(path, wall)
    second.offends()
    assert [second.peering.refuses_peer(one, ADDRESS) for one in (KEY, OTHER)] == [0, 10]


def test_what_is_forgiven_stays_forgiven(path: Path, wall: Clock) -> None:
    """A good session takes an offence back in the file, too."""
    first = Process(path, wall)
    first.offends()
    first.kept.exchange()
    second = Process(path, wall)
    second.pleases()
    second.kept.exchange()
    assert Process(path, wall).peering.refused_for(ADDRESS) == 0


def test_the_dialect_of_an_address_is_kept(path: Path, wall: Clock) -> None:
    """The next process knows in which dialect to speak, and need not listen first. A pipe has no address to keep."""
    first = Process(path, wall)
    first.dialects.heard("203.0.113.9:7878", Dialect.DOCUMENT)
    first.dialects.heard("[2001:db8::1]:7878", Dialect.DEPLOYED)
    first.dialects.heard("a caller", Dialect.DOCUMENT)
    first.kept.exchange()
    second = Process(path, wall)
    assert second.dialects.at("203.0.113.9:7878") == (Dialect.DOCUMENT, True)
    assert second.dialects.at("[2001:db8::1]:7878") == (Dialect.DEPLOYED, True)
    assert second.dialects.at("a caller") == (Dialect.DEPLOYED, False)


@pytest.mark.parametrize("jump", [-1_790_000_000.0, -DAY, 400 * DAY, 10_000 * DAY])
def test_a_clock_that_jumped(path: Path, wall: Clock, jump: float) -> None:
    """However wrong a clock is, or was when an offence was noted, no penalty gets longer than it was."""
    first = Process(path, wall)
    first.offends(KEY)
    first.kept.exchange()
    wall.now += jump
    second = Process(path, wall)
    assert second.peering.refuses_peer(KEY, ELSEWHERE) == (10 if jump < 0 else 0)
    second.offends(OTHER)
    second.kept.exchange()
    wall.now -= jump
    assert Process(path, wall).peering.refuses_peer(OTHER, ELSEWHERE) == (10 if jump > 0 else 0)


def test_a_clock_that_jumps_while_the_node_runs(path: Path, wall: Clock) -> None:
    """The node's own clock only goes forward: a jump of the other one neither ends nor prolongs a penalty."""
    one = Process(path, wall)
    one.offends(KEY)
    for jump in (-1e9, 2e9, -1e9):
        wall.now += jump
        one.passes(1)
        one.pleases(OTHER)
        one.kept.exchange()
    assert one.peering.refuses_peer(KEY, ELSEWHERE) == 7


DAMAGED: dict[str, str | bytes] = {
    "cut": '{"identities": {"6b6b',
    "empty": "",
    "a list": "[]",
    "deep": "[" * 100_000,
    "lists": '{"identities": [1]}',
    "no fields": '{"addresses": {"203.0.113.9": 3}}',
    "unknown field": '{"addresses": {"203.0.113.9": {"colour": 3}}}',
    "no key": '{"identities": {"6b": {"strikes": 1}}}',
    "text": '{"addresses": {"203.0.113.9": {"strikes": "many"}}}',
    "negative": '{"addresses": {"203.0.113.9": {"strikes": -1}}}',
    "endless": '{"addresses": {"203.0.113.9": {"strikes": 1, "until": 1e999}}}',
    "no number": '{"addresses": {"203.0.113.9": {"strikes": 1, "until": NaN}}}',
    "huge": '{"addresses": {"203.0.113.9": {"strikes": 1, "until": 1%s}}}' % ("0" * 4000),
    "dialect": '{"dialects": {"203.0.113.9:1": {"dialect": "latin"}}}',
    "a dialect in a list": '{"dialects": {"203.0.113.9:1": {"dialect": [1]}}}',
    "not utf-8": b"\xff\xfe",
    "too long": " " * (16 * 1024 * 1024 + 1),
    "valid and too long": "{}" + " " * (16 * 1024 * 1024),
    "no version": '{"version": "one"}',
    "version 0": '{"version": 0}',
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_begun_anew(path: Path, wall: Clock, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    """A file that cannot be read is told of in one line, stops nothing, and is replaced by what is known from now."""
    text = DAMAGED[damage]
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    one = Process(path, wall)
    one.kept.exchange()
    assert [record.message.split(":")[0] for record in caplog.records] == ["what was known of peers is lost"]
    one.pleases(KEY)
    one.kept.exchange()
    assert [*json.loads(path.read_text())["identities"]] == [KEY.hex()]
    caplog.clear()
    Process(path, wall)
    assert not caplog.records


def test_a_file_that_cannot_be_written(path: Path, wall: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """A home that cannot be written costs what would be kept, told once, and nothing else."""
    path.mkdir()
    one = Process(path, wall)
    for _ in range(3):
        one.offends(KEY)
        one.kept.exchange()
    assert one.peering.refuses_peer(KEY, ELSEWHERE) == 40
    told = [record.message for record in caplog.records if "cannot keep" in record.message]
    assert len(told) == 1
    assert str(path) in told[0]


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_can_be_asked_for(path: Path, damage: str) -> None:
    """Whoever examines a home is told of everything that a node would replace, and the file stays as it is."""
    text = DAMAGED[damage]
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=f"{path} is damaged: "):
        examined(path)
    assert data == path.read_bytes()


def test_what_is_known_can_be_counted(path: Path, wall: Clock) -> None:
    """Without a file there is nothing; with one, the notes of each kind are counted. An early one has no version."""
    assert examined(path) == {"identities": 0, "addresses": 0, "dialects": 0}
    path.write_text('{"dialects": {"host:1": {"at": 5.0, "dialect": "document"}}}')
    assert examined(path) == {"identities": 0, "addresses": 0, "dialects": 1}
    one = Process(path, wall)
    one.offends()
    one.pleases(KEY)
    one.kept.exchange()
    assert examined(path) == {"identities": 1, "addresses": 1, "dialects": 0}  # That one was older than ninety days.


def test_a_file_of_a_later_version(path: Path, wall: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """It is left alone, so that going back to an earlier version loses nothing. The node knows nothing and says so."""
    text = '{"version": 2, "identities": []}'
    path.write_text(text)
    one = Process(path, wall)
    for _ in range(3):
        one.offends(KEY)
        one.kept.exchange()
    assert one.peering.refuses_peer(KEY, ELSEWHERE) == 40
    (line,) = [record.message for record in caplog.records if "cannot keep" in record.message]
    assert "version 2" in line
    assert text == path.read_text()
    with pytest.raises(ConfigError, match="version 2"):
        examined(path)


def test_two_processes_share_the_file(path: Path, wall: Clock) -> None:
    """Each adds what it learned and takes over what the other did; none undoes what the other has written."""
    node, other = Process(path, wall), Process(path, wall, began=7.0)
    node.offends(KEY)
    other.offends()
    other.dialects.heard("203.0.113.9:1", Dialect.DOCUMENT)
    for one in (node, other, node):
        one.kept.exchange()
    for one in (node, other, Process(path, wall)):
        assert [one.peering.refuses_peer(KEY, ELSEWHERE), one.peering.refused_for(ADDRESS)] == [10, 10]
        assert one.dialects.at("203.0.113.9:1") == (Dialect.DOCUMENT, True)
    other.pleases(KEY)
    other.kept.exchange()
    node.kept.exchange()
    assert node.peering.refuses_peer(KEY, ELSEWHERE) == 0


@pytest.mark.slow
def test_what_is_kept_is_bounded(path: Path, wall: Clock) -> None:
    """Of each kind the latest are kept; those of invented identities do not drive out those that were good."""
    one = KeptPeers(path, wall)
    one.note("identities", KEY.hex(), Note(good=True))
    for number in range(4200):
        wall.now += 1
        one.note("identities", number.to_bytes(32).hex(), Note(strikes=1, until=wall.now + 10, penalty=10))
        one.note("dialects", f"host:{number}", Note(dialect="document"))
    one.exchange()
    found = json.loads(path.read_text())
    assert found.pop("version") == 1
    assert {kind: len(notes) for kind, notes in found.items()} == {"identities": 4096, "dialects": 4096}
    assert KEY.hex() in found["identities"]
    assert "host:103" not in found["dialects"]
    assert "host:104" in found["dialects"]
    assert path.stat().st_size < 1024 * 1024


def test_old_notes_are_dropped(path: Path, wall: Clock) -> None:
    """After ninety days without news a peer is forgotten; each sign of it begins them anew."""
    one = Process(path, wall)
    one.pleases(KEY)
    one.pleases(OTHER)
    for _ in range(10):
        one.passes(10 * DAY)
        one.pleases(KEY)
        one.kept.exchange()
    assert [*json.loads(path.read_text())["identities"]] == [KEY.hex()]


def test_only_changes_are_written(path: Path, wall: Clock) -> None:
    """Sessions that go as before cost no writing."""
    one = Process(path, wall)
    assert not path.exists()
    one.pleases(KEY)
    one.dialects.heard("203.0.113.9:1", Dialect.DOCUMENT)
    one.kept.exchange()
    written = path.stat()
    assert written.st_mode & 0o777 == 0o600
    for _ in range(20):
        one.passes(60)
        one.pleases(KEY)
        one.dialects.heard("203.0.113.9:1", Dialect.DOCUMENT)
        one.kept.exchange()
    assert path.stat().st_ino == written.st_ino
    assert path.stat().st_mtime_ns == written.st_mtime_ns


# -- in a node, and in a sync ----------------------------------------------------------------------------------------


@pytest.fixture
def alice(tmp_path: Path) -> Iterator[Party]:
    """A person with a store."""
    made = Party(tmp_path, 1)
    yield made
    made.close()


def test_a_sync_knows_the_dialect_of_the_last_one(alice: Party, path: Path) -> None:
    """The first sync listens for a second and calls twice, the next one calls once and speaks at once."""
    met = Meeting(DeployedPeer(b"\x20" * 32, b"Quagga", is_literal=True, waits=True))
    give(met.peer, build_log(10, seed=5))

    async def main() -> list[tuple[int, float]]:
        found = []
        async with met.listening() as url:
            for _ in range(2):
                before = len(met.began)
                summary = await sync(
                    alice.identity, REAL, alice.store, url, Purpose(is_live=False), kept=KeptPeers(path)
                )
                found.append((len(met.began) - before, summary.seconds))
        return found

    (calls, seconds), (calls_later, seconds_later) = run(main, HOUR)
    assert (calls, calls_later) == (2, 1)
    assert seconds - seconds_later > 1
    assert [note["good"] for note in json.loads(path.read_text())["identities"].values()] == [True]


class Contacted:
    """A peer that sends nonsense to everybody who calls, and a node that keeps contact with it, on the loop's clock."""

    def __init__(self, alice: Party, path: Path) -> None:
        self.calls: list[float] = []
        self.now = asyncio.get_running_loop().time
        self.path = path
        self._alice = alice

    def wall(self) -> float:
        """Seconds since 1970."""
        return 1_700_000_000.0 + self.now()

    async def listen(self) -> None:
        """Begin to answer calls."""
        self._server = await asyncio.start_server(self._answer, HERE, 0)
        self.url = PeerUrl("intervals", HERE, self._server.sockets[0].getsockname()[1])

    async def _answer(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls.append(self.now())
        writer.write(b"\xff" * 100)
        writer.close()

    @asynccontextmanager
    async def node(self) -> AsyncIterator[NodeService]:
        """A node that has this peer in its configuration."""
        config = replace(CONFIG, limits=replace(CONFIG.limits, penalty_seconds=100))
        stop = asyncio.Event()
        node = NodeService(self._alice.identity, config, self._alice.store, KeptPeers(self.path, self.wall))
        running = asyncio.create_task(node.run([], [self.url], stop=stop))
        yield node
        stop.set()
        await running


def test_a_node_waits_for_the_end_of_a_peers_penalty(
    alice: Party, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A peer gets 100 s. The node stops after 30 s, and another one starts 20 s later: it calls after another 50 s.

    Both say until when they wait. The log has a line of the second one; of the first, it has the penalty itself.
    """

    async def main() -> tuple[list[float], set[str]]:
        peer, troubles = Contacted(alice, path), set()
        await peer.listen()
        for seconds in (30, 70):
            async with peer.node() as node:
                await asyncio.sleep(10)
                troubles.add(str(node.roster.troubles[peer.url])[-46:])
                await asyncio.sleep(seconds - 10)
            await asyncio.sleep(20)
        return peer.calls, troubles

    (first, second), (trouble,) = run(main, HOUR)
    assert 100 <= second - first <= 101
    assert trouble == "; it is not called before 2023-11-14T22:31:41Z"
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("not called")]
    assert len(lines) == 1
    assert "22:31:41Z" in lines[0]


def test_a_node_calls_when_a_penalty_is_lifted(alice: Party, path: Path) -> None:
    """Another process forgives the peer, as a good culm sync does: the node calls within seconds."""

    async def main() -> tuple[list[float], str | None]:
        peer = Contacted(alice, path)
        await peer.listen()
        other = KeptPeers(path, peer.wall)
        other.note("addresses", HERE, Note(strikes=1, until=peer.wall() + 300, penalty=300))
        other.exchange()
        async with peer.node() as node:
            await asyncio.sleep(100)
            calls = [*peer.calls]
            other.note("addresses", HERE, Note())
            other.exchange()
            lifted = peer.now()
            await asyncio.sleep(20)
            return [*calls, *(call - lifted for call in peer.calls)], node.roster.troubles[peer.url]

    (called,), _ = run(main, HOUR)
    assert 0 < called < 15


def test_a_node_refuses_whom_the_last_one_refused(alice: Party, path: Path) -> None:
    """A node writes what it learned within seconds, without an end; the next one refuses the offender at once."""

    def read() -> dict[str, dict[str, object]]:
        document: dict[str, dict[str, object]] = json.loads(path.read_text())
        return document

    async def main() -> tuple[list[bool], list[list[str]]]:
        config = replace(CONFIG, limits=replace(CONFIG.limits, penalty_seconds=1000))
        taken, found = [], []
        for _ in range(2):
            stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
            node = NodeService(alice.identity, config, alice.store, KeptPeers(path))
            listen = [PeerUrl("intervals", HERE, 0)]
            running = asyncio.create_task(node.run(listen, [], stop=stop, listening=places.put_nowait))
            url = await places.get()
            reader, writer = await asyncio.open_connection(url.host, url.port)
            await asyncio.sleep(1)
            taken.append(not reader.at_eof())
            if taken[-1]:
                writer.write(b"\xff" * 100)
                await reader.read()
            writer.close()
            await asyncio.sleep(6)
            found.append([*read()["addresses"]])
            stop.set()
            await running
        return taken, found

    assert run(main) == ([True, False], [[HERE]] * 2)
