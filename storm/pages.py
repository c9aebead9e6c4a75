"""A page in the storm: it reads a log from a node over a WebSocket, through cuts and restarts, and goes on after each.

It is the page of ``web/`` in Python: it asks for a log from the number that it lacks on, and takes nothing for granted.
Whatever it gets has to be what the author published, in order, and signed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from culm.errors import RemoteProtocolError
from culm.intervals import At, Connection, FromGreatest, Regular
from culm.node.network.webaccess import PROTOCOL, WebAccess
from culm.transfer import EntryReceived, PayloadFailed
from tests.memory import MemoryStore

if TYPE_CHECKING:
    from culm.node.network.urls import PeerUrl
    from culm.types import Log
    from storm.world import World

_RETRY_SECONDS = 0.5
_MASK = bytes(4)  # Allowed, and leaves the content as it is.
_ASKING = (
    "GET / HTTP/1.1\r\nHost: node\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
).encode()


class AnyAddress(WebAccess):
    """Lets a node listen at ``ws://`` at any address, since those of a simulated network are no loopback."""

    __slots__ = ()

    def check(self, url: PeerUrl) -> None:
        """Anywhere."""


class Page:
    """A page that reads one log of one node, until it is cancelled."""

    def __init__(self, world: World, url: PeerUrl, log: Log) -> None:
        self._world, self._url, self._log = world, url, log
        self._next = 1

    async def read(self) -> None:
        """Read, and connect again whenever the connection ends."""
        while True:
            with suppress(OSError, EOFError):  # Refused, cut, or the node restarts.
                await self._connected()
            await asyncio.sleep(_RETRY_SECONDS)

    async def _connected(self) -> None:
        reader, writer = await asyncio.open_connection(self._url.host, self._url.port)
        try:
            writer.write(_ASKING)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 101 "):
                self._world.fail(f"a page was answered with {head!r}")
            await self._ask(reader, writer)
        finally:
            writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, is_asking = Connection(MemoryStore()), False
        while True:
            if connection.ours.credit and not is_asking:
                is_asking = True
                connection.request(*self._log, Regular(At(self._next, 0), FromGreatest(0)))
            writer.write(_frame(connection.data_to_send()))
            await writer.drain()
            try:
                for event in connection.receive_data(await _content(reader), 0.0):
                    self._take(event)
            except RemoteProtocolError as error:
                self._world.fail(f"a page was sent what no node may send: {error}", error)
            connection.refill()
            if is_asking and not connection.ours.requests:  # The node knows of a fork, or it is stateless.
                return

    def _take(self, event: object) -> None:
        if isinstance(event, EntryReceived):
            entry = event.entry
            if (entry.log, entry.seq) != (self._log, self._next):
                self._world.fail(f"a page that waits for entry {self._next} got {entry}")
            if wrong := self._world.ledger.meet(entry):
                self._world.fail(f"a page got {entry}: {wrong}")
            self._next = entry.seq + 1
            self._world.counts["entries that came to a page"] += 1
        elif isinstance(event, PayloadFailed):
            self._world.fail(f"a page got a wrong payload of {event.entry}")


def _frame(content: bytes) -> bytes:
    """A message of up to 64 KiB, or nothing for none."""
    size = len(content)
    length = bytes((0x80 | size,)) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
    return b"\x82" + length + _MASK + content if content else b""


async def _content(reader: asyncio.StreamReader) -> bytes:
    """The content of the next frame; ``EOFError`` at the end."""
    first, size = await reader.readexactly(2)
    if size == 126:
        size = int.from_bytes(await reader.readexactly(2), "big")
    elif size == 127:
        size = int.from_bytes(await reader.readexactly(8), "big")
    content = await reader.readexactly(size)
    if first != 0x82:
        raise EOFError
    return content
