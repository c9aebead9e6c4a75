"""The simulated network, clock and disk do what real ones do: this is what a storm is worth."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import sqlite3
from collections import Counter
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from culm.testing.simulation.disk import Disk, lay_out
from culm.testing.simulation.host import Host, unheard
from culm.testing.simulation.loop import SimulatedLoop, Spinning, Stalled
from culm.testing.simulation.network import FATES, Network, Weather
from culm.testing.simulation.pipe import Traits
from culm.testing.simulation.transport import SimulatedTransport

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

PORT = 7000
SENT = bytes(range(256)) * 400
ADDRESS = "10.0.0.2"


@pytest.fixture(autouse=True)
def world_that_goes() -> Iterator[None]:
    """What a test leaves open in its world is no leak of a real thing."""
    gc.disable()
    # Looking through all that is there anyway would take longer than the test. It stays frozen: taking that back would
    # undo what tests/conftest.py has frozen, too.
    gc.freeze()
    yield
    with unheard():
        gc.collect()
    gc.enable()


class Two:
    """Two hosts on a network; ``b`` sends back what it gets, and says how a connection ended."""

    def __init__(self, weather: Weather | None = None) -> None:
        self.loop = SimulatedLoop()
        self.told: list[str] = []
        self.network = Network(self.loop, Random(1), lambda name, _: self.told.append(name), Counter())
        self.loop.network = self.network
        self.network.weather = weather or Weather()
        self.a, self.b = self.host("a", "10.0.0.1"), self.host("b", ADDRESS)
        self.heard: list[bytes] = []
        self.endings: list[str] = []

    def host(self, name: str, address: str) -> Host:
        """A host that is up."""
        host = Host(self.loop, name, address, None, Random(name))
        self.network.add(host)
        return host

    async def listen(self) -> Any:
        """Have ``b`` listen."""
        return await self.b.start(self._listen())

    async def _listen(self) -> Any:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while data := await reader.read(1000):
                    self.heard.append(data)
                    writer.write(data)
                    await writer.drain()
                self.endings.append("end")
            except OSError as error:
                self.endings.append(type(error).__name__)
            writer.close()

        return await asyncio.start_server(echo, ADDRESS, PORT)

    async def call(self, sent: bytes, seconds: float = 30.0) -> tuple[bytes, str]:
        """Have ``a`` call, send, and read: what came, and how it ended."""
        return await self.a.start(self._call(sent, seconds))

    async def _call(self, sent: bytes, seconds: float) -> tuple[bytes, str]:
        got = b""
        writer = None
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_connection(ADDRESS, PORT)
                writer.write(sent)
                while len(got) < len(sent) and (data := await reader.read(1000)):
                    got += data
        except OSError as error:  # the end of our patience is one, too
            return got, os.strerror(error.errno) if error.errno else "in vain"
        else:
            return got, "all" if len(got) == len(sent) else "end"
        finally:
            if writer is not None:
                writer.close()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run to the end."""
        self.loop.run_until_complete(work)
        self.loop.wind_up()


@pytest.mark.parametrize("slow", [0.0, 1.0])
def test_a_calm_network(slow: float) -> None:
    """Everything that is sent arrives, in order; where a connection has a rate, after the time that this takes."""
    two = Two(Weather(slow=slow))

    async def main() -> None:
        await two.listen()
        began = two.loop.time()
        assert (SENT, "all") == await two.call(SENT, 200.0)
        took = two.loop.time() - began
        assert (took > 0.5) == (slow > 0)
        await asyncio.sleep(1)
        assert ["end"] == two.endings

    two.run(main())


@pytest.mark.parametrize("fate", [fate for fate in FATES if fate not in ("stall", "garbled")])
@pytest.mark.parametrize("cut_at", [0, 1, 777, 5000])
def test_a_cut_at_any_byte(fate: str, cut_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind a certain byte never arrives; who is told of it, and how, depends on what befell."""
    two = Two(Weather())

    def drawn(_: Network, connection: Any) -> None:
        connection.pipes[0].cut_at = cut_at
        connection.pipes[0].cut = lambda: connection.befall(fate, 0)

    monkeypatch.setattr(Network, "_draw_fate", drawn)

    async def main() -> None:
        await two.listen()
        got, how = await two.call(SENT, 10.0)
        await asyncio.sleep(1)
        assert SENT[:cut_at] == b"".join(two.heard)
        assert SENT[: len(got)] == got
        assert len(got) <= cut_at
        assert (how == "in vain") == (fate == "lost")
        assert bool(two.endings) == (fate in ("reset", "end") or ("speaks" in fate and cut_at > 0))

    two.run(main())
    assert [f"connection: {fate}"] == two.told


def test_the_system_finds_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody is told that a connection is lost, the system's own questions find out, for both ends."""
    two = Two(Weather())

    def drawn(_: Network, connection: Any) -> None:
        connection.pipes[0].cut_at = 777
        connection.pipes[0].cut = lambda: connection.befall("lost", 0)

    monkeypatch.setattr(Network, "_draw_fate", drawn)

    async def main() -> None:
        await two.listen()
        assert os.strerror(errno.ETIMEDOUT) == (await two.call(SENT, 60.0))[1]
        await asyncio.sleep(1)
        assert two.endings

    two.run(main())


def test_a_small_window_is_no_silly_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that opens by a few bytes at a time is not filled by a few bytes: a short piece stays one of few."""
    pieces: list[int] = []
    take = SimulatedTransport.take

    def counted(self: SimulatedTransport, data: bytes | None) -> None:
        pieces.append(len(data or b""))
        take(self, data)

    monkeypatch.setattr(SimulatedTransport, "take", counted)
    monkeypatch.setattr(Network, "_traits", lambda *_: Traits(0.01, 0.0, 0, 1024, 1000, 1000))
    two = Two(Weather())

    async def main() -> None:
        await two.listen()
        assert (SENT, "all") == await two.call(SENT, 1000.0)

    two.run(main())
    assert max(pieces) <= 1000
    assert sum(pieces) / len(pieces) > 200


def test_nobody_there() -> None:
    """A host that is down does not answer; one that does not listen refuses; one that is cut off does not answer."""
    two = Two()

    async def main() -> None:
        assert (b"", "Connection refused") == await two.call(b"hello")
        server = await two.listen()
        assert (b"hello", "all") == await two.call(b"hello")
        two.network.cut_off(two.a.address, two.b.address)
        assert (b"", "Connection timed out") == await two.call(b"hello", 100.0)
        two.network.join(two.a.address, two.b.address)
        assert (b"hello", "all") == await two.call(b"hello")
        server.close()
        assert (b"", "Connection refused") == await two.call(b"hello")
        two.network.remove(two.b, silently=True)
        assert (b"", "Connection timed out") == await two.call(b"hello", 100.0)

    two.run(main())


def test_a_host_that_comes_back() -> None:
    """What a host that is gone still does has no effect: the one that came after it keeps its listener."""
    two = Two()

    async def main() -> None:
        earlier = await two.listen()
        two.b.is_gone = True
        two.network.remove(two.b, silently=False)
        gone, two.b = two.b, two.host("b", ADDRESS)
        await two.listen()
        earlier.close()
        assert (b"hello", "all") == await two.call(b"hello")
        two.b, here = gone, two.b
        await two.listen()  # does not take the place, nor complain that it is taken
        assert two.network.listeners[ADDRESS, PORT].host is here

    two.run(main())


def test_cut_off_and_joined() -> None:
    """What is under way while two hosts do not reach each other arrives when they do again."""
    two = Two()

    async def main() -> None:
        await two.listen()
        calling = two.loop.create_task(two.call(SENT, 60.0))
        while not two.heard:
            await asyncio.sleep(0.001)
        two.network.cut_off(two.a.address, two.b.address)
        heard = len(two.heard)
        await asyncio.sleep(20)
        assert heard == len(two.heard)
        two.network.join(two.a.address, two.b.address)
        assert (SENT, "all") == await calling

    two.run(main())


def test_a_reader_that_is_slow() -> None:
    """Who writes to somebody who does not read is held up, and nothing is lost."""
    two = Two()
    read: list[bytes] = []

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(50)
        read.append(await reader.readexactly(len(SENT) * 5))
        writer.close()

    async def fill() -> float:
        _, writer = await asyncio.open_connection(ADDRESS, PORT)
        for _ in range(5):
            writer.write(SENT)
            await writer.drain()
        writer.close()
        return two.loop.time()

    async def main() -> None:
        await two.b.start(asyncio.start_server(slowly, ADDRESS, PORT))
        began = two.loop.time()
        assert await two.a.start(fill()) > began + 50
        await asyncio.sleep(60)
        assert [SENT * 5] == read

    two.run(main())


# -- the clock -------------------------------------------------------------------------------------------------------


def test_a_machine_that_sleeps() -> None:
    """A frozen host does nothing; when it goes on, its clock has jumped, and what was due is due at once."""
    two = Two()
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(1)
            ticks.append(two.loop.time())

    async def main() -> None:
        ticking = two.a.start(tick())
        await asyncio.sleep(2.5)
        two.a.freeze()
        await asyncio.sleep(100)
        assert 2 == len(ticks)
        two.a.thaw()
        await asyncio.sleep(1.5)
        assert 4 == len(ticks)
        assert ticks[2] - ticks[1] > 99
        ticking.cancel()

    two.run(main())


def test_the_loop_tells_of_what_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callbacks that make callbacks while time stands still, and a wait for nothing, end the run."""
    monkeypatch.setattr("culm.testing.simulation.loop._MOST_AT_ONCE", 1000)
    loop = SimulatedLoop()

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    async def wait() -> None:
        await loop.create_future()

    with pytest.raises(Spinning):
        loop.run_until_complete(spin())
    loop.wind_up()
    with pytest.raises(Stalled):
        loop.run_until_complete(wait())
    loop.wind_up()
    loop.close()


# -- the disk --------------------------------------------------------------------------------------------------------


def _write(disk: Disk, count: int) -> None:
    with closing(sqlite3.connect(disk.store)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS things (thing BLOB)")
        connection.executemany("INSERT INTO things VALUES (?)", [(bytes(3000),)] * count)


def _count(disk: Disk) -> int:
    with closing(sqlite3.connect(disk.store)) as connection:
        count: int = connection.execute("SELECT count(*) FROM things").fetchone()[0]
        return count


def test_a_full_disk(tmp_path: Path) -> None:
    """Writes beyond a disk's room fail, as the system makes them, and are told of; with room again they succeed."""
    told: list[str] = []
    disk = Disk(tmp_path, Random(1), told.append)
    disk.perform(lambda: _write(disk, 3))
    disk.room = 4096
    with pytest.raises(sqlite3.Error):
        disk.perform(lambda: _write(disk, 30))
    assert ["OperationalError"] == told
    assert disk.was_hurt
    disk.room = None
    disk.perform(lambda: _write(disk, 2))
    assert 5 == _count(disk)


def test_killed_within_a_write(tmp_path: Path) -> None:
    """Whatever instant of a write is looked at, what is found there has the write wholly, or not at all."""
    found = set()
    for number in range(30):
        folder, copy = tmp_path / f"{number}", tmp_path / f"{number}-found"
        folder.mkdir()
        copy.mkdir()
        disk = Disk(folder, Random(number), lambda _: None)
        disk.perform(lambda disk=disk: _write(disk, 1))  # type: ignore[misc]
        images: list[dict[str, bytes]] = []
        with closing(sqlite3.connect(disk.store)):  # somebody has it open: the WAL file stays
            _count(disk)
            disk.die_within_a_write(images.append)
            disk.perform(lambda disk=disk: _write(disk, 4))  # type: ignore[misc]
        lay_out(copy, images[0])
        found.add(_count(Disk(copy, Random(0), lambda _: None)))
    assert {1, 5} == found


@pytest.mark.parametrize(("folded", "least"), [(False, 1), (True, 4)])
def test_a_power_cut(tmp_path: Path, *, folded: bool, least: int) -> None:
    """What was not synced may be gone, each transaction wholly; what was copied into the store's file is safe."""
    found = set()
    for number in range(16):
        folder, copy = tmp_path / f"{number}", tmp_path / f"{number}-found"
        folder.mkdir()
        copy.mkdir()
        disk = Disk(folder, Random(number), lambda _: None)
        _write(disk, 1)
        with closing(sqlite3.connect(disk.store)) as reader:  # somebody has it open: the WAL file stays
            reader.execute("SELECT * FROM things").fetchall()
            disk.everything_is_safe()
            for _ in range(3):
                _write(disk, 1)
            if folded:
                reader.execute("PRAGMA wal_checkpoint(PASSIVE)")
            for _ in range(3):
                _write(disk, 1)
            lay_out(copy, disk.image_after_power_cut())
        found.add(_count(Disk(copy, Random(0), lambda _: None)))
    assert least == min(found)
    assert len(found) > 2


def test_a_thread_of_a_host(tmp_path: Path) -> None:
    """What a thread does takes simulated time, and its errors reach the task that waits for it."""
    two = Two()
    disk = Disk(tmp_path, Random(1), lambda _: None)
    host = Host(two.loop, "c", "10.0.0.3", disk, Random(1))
    host.sloth = 1e6

    def fail() -> None:
        raise OSError(errno.EIO, "the disk is broken")

    async def main() -> None:
        began = two.loop.time()
        assert 5 == await two.loop.run_in_executor(host.thread(), sum, [2, 3])
        assert two.loop.time() > began
        with pytest.raises(OSError, match="is broken"):
            await two.loop.run_in_executor(host.thread(), fail)

    two.run(main())
    assert 2 == host.calls
