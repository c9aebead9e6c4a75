"""A sensor with little memory, behind a link that breaks all the time.

Shows: one-time syncs, going on after a break, acknowledgements, forgetting payloads that have arrived.

    python examples/sensor.py

Every hour the sensor appends a reading, once a picture larger than what the link carries before it breaks, and tries to
sync; each attempt goes on at the byte that the last one reached. The station says up to which entry it holds all,
and the sensor believes it: these payloads are forgotten, and no others.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path

from culm import Identity, NetworkError, Node

READINGS = 1  # log id
PICTURE = 150_000  # bytes
HOURS = 6  # of measuring
CLUMP = "sensor example"


async def clear(sensor: Node, station: bytes) -> None:
    """Forget what the station says that it holds."""
    for held in sensor.held_by(READINGS):
        if held.peer == station:
            async for entry in sensor.entries(READINGS, last=held.complete):
                await sensor.forget(entry)


async def waiting(sensor: Node) -> int:
    """How many readings the sensor still keeps."""
    return sum(log.payloads for log in await sensor.logs() if log.author == sensor.author)


async def measure_and_send(folder: Path, link: FlakyLink) -> int:
    """Measure, and sync until everything is acknowledged; the hours that took."""
    me = Identity.create()
    async with (
        Node.open(store=folder / "station.db", identity=Identity.create(), clump=CLUMP) as station,
        Node.open(store=folder / "sensor.db", identity=me, clump=CLUMP) as sensor,
    ):
        url = await link.lead_to(await station.listen("culm://127.0.0.1:0"))
        await sensor.follow(station.author)  # and nobody else: it would fill the memory
        for hour in count():
            if hour < HOURS:
                await sensor.append(READINGS, f"{hour}:00 {20 + hour % 5} degrees")
            if hour == 2:
                await sensor.append(READINGS, random.randbytes(PICTURE))
            try:
                summary = await sensor.sync(url)
                print(f"hour {hour}: sent {summary.bytes_sent} bytes", end="")
            except NetworkError as error:
                print(f"hour {hour}: {error}", end="")
            await clear(sensor, station.author)
            kept = await waiting(sensor)
            print(f"; the sensor keeps {kept} payloads")
            if hour >= HOURS and not kept:
                break
        link.close()
        return hour


class FlakyLink:
    """A link that carries so many bytes, then breaks; the next connection carries as many again."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self._target = ("", 0)
        self._servers: list[asyncio.Server] = []

    async def lead_to(self, url: str) -> str:
        """Listen in front of an address; the address that goes through the link."""
        place, _, port = url.rpartition(":")
        self._target = ("127.0.0.1", int(port))
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self._servers.append(server)
        return f"{place}:{server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """Carry nothing more."""
        for server in self._servers:
            server.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        left = self.budget

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            nonlocal left
            while left > 0 and (data := await source.read(min(left, 4096))):
                left -= len(data)
                sink.write(data)
                await sink.drain()
            back.close()
            writer.close()

        with suppress(OSError):
            await asyncio.gather(pump(reader, back), pump(there, writer))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(measure_and_send(Path(name), FlakyLink(60_000)))
