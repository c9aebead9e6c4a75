"""Where the model of the deployed peer meets Culm: a listener in the simulated network, whose clock jumps."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from culm.node.config import NodeLimits
from culm.node.network.urls import PeerUrl
from culm.node.sessions.session import Purpose
from culm.node.sync import SyncSummary, sync
from tests.interop.deployed import BAMBOO, DeployedConnection, DeployedPeer, HungUp
from tests.node.links import CONFIG, HERE, Party, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from culm.testing.builders import LogBuilder

REAL = replace(CONFIG, limits=NodeLimits())
"""The limits that a node really has: those of the other tests are shorter than what the deployed peer needs."""
HOUR = 3600.0


class Meeting:
    """The deployed peer as a listener. ``ends``: when and why each connection ended, as the peer saw it."""

    def __init__(self, peer: DeployedPeer) -> None:
        self.peer = peer
        self.began: list[float] = []
        self.ends: list[tuple[float, str]] = []
        self.lost = 0  # Entries that were in the inbox when a connection ended.
        self._random = Random(5)
        self._tasks: set[asyncio.Task[None] | None] = set()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        self._tasks.add(asyncio.current_task())
        clock = asyncio.get_running_loop().time
        connection = DeployedConnection(self.peer, self._random.randbytes, clock())
        self.began.append(clock())
        reason = "the other side hung up"
        try:
            while True:
                try:
                    async with asyncio.timeout_at(connection.next_timer()):
                        data = await reader.read(1 << 16)
                    if not data:
                        break
                    connection.receive(data)
                except TimeoutError:
                    pass
                writer.write(connection.advance(clock()))
        except HungUp as error:
            reason = str(error)
        except OSError as error:
            reason = f"the connection broke: {error}"
        self.lost += len(connection.inbox)
        self.ends.append((clock(), reason))
        writer.close()

    async def call(self, url: PeerUrl) -> None:
        """Call a node, and talk until the connection ends."""
        await self.talk(*await asyncio.open_connection(url.host, url.port))

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[PeerUrl]:
        """Listen for as long as a block lasts."""
        server = await asyncio.start_server(self.talk, HERE, 0)
        try:
            yield PeerUrl("bushbaby", HERE, server.sockets[0].getsockname()[1])
        finally:
            server.close()
            await asyncio.gather(*filter(None, self._tasks))  # They end when they see that the other side is gone.


def give(peer: DeployedPeer, log: LogBuilder) -> None:
    """Let the deployed peer hold a log."""
    for entry in log.entries:
        peer.hold(entry.encoded + log.payloads[entry.hash])


def bytes_of(*logs: LogBuilder) -> int:
    """The bytes of all entries with their payloads."""
    return sum(len(entry.encoded) + entry.size for log in logs for entry in log.entries)


def sync_with(party: Party, meeting: Meeting, **settings: Any) -> SyncSummary:
    """``culm sync`` with the peer, once."""

    async def main() -> SyncSummary:
        async with meeting.listening() as url:
            return await sync(party.identity, replace(REAL, **settings), party.store, url, Purpose(is_live=False))

    return run(main, HOUR)


__all__ = ["BAMBOO", "Meeting", "bytes_of", "give", "sync_with"]
