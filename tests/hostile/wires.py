"""What an attacker speaks with: bytes over TCP or TLS from an address of its choice, and handshakes as they should be.

An attacker waits for what it is waiting for, never for time to pass; what the node does to it, it learns from the wire.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from culm.bamboo import Identity
from culm.bushbaby import Authenticated, Options, PeerIdentified
from culm.bushbaby import Connection as BushbabyConnection
from culm.intervals.codec import push_message
from culm.intervals.messages import ResponseCredit
from culm.node.network.tls import calling_context
from culm.session import Connection as SessionConnection
from culm.wire.bymux import WRITE, packet
from tests.hostile.node import CLUMP

if TYPE_CHECKING:
    from culm.session import Event
    from tests.hostile.node import Target

READ_BYTES = 256 * 1024
ALIVE = push_message(ResponseCredit(0))  # what the transfer stream says where there is nothing to say
_BUFFER = 64 * 1024
_UNREAD_BYTES = 64 * 1024  # that wait on this machine for who does not read: the node is to feel it soon


class Cut(Exception):
    """The node has ended the connection."""


class Wire:
    """A connection to a node. ``sent``, ``received``: bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.sent = self.received = 0

    @classmethod
    async def dial(cls, target: Target, scheme: str, address: str = "127.0.0.1", *, tls: bool = True) -> Wire:
        """Connect from an address of this machine; with ``culm://`` TLS is spoken, unless it is not to be."""
        url = target.urls[scheme]
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD_BYTES)
        plain.bind((address, 0))
        plain.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(plain, (url.host, url.port))
            secure = {"ssl": calling_context(), "server_hostname": ""} if scheme == "culm" and tls else {}
            streams = await asyncio.open_connection(sock=plain, **secure)  # type: ignore[arg-type]
        except OSError as error:
            plain.close()
            raise Cut(str(error)) from None
        return cls(*streams)

    @property
    def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection, for an attacker that speaks as a node does."""
        return self._reader, self._writer

    async def flood(self, data: bytes, times: int = 10**9) -> None:
        """Send the same again and again."""
        for _ in range(times):
            await self.send(data)

    async def send(self, *parts: bytes) -> None:
        """Send bytes, as fast as the node takes them; ``Cut`` if it does not any more."""
        for part in parts:
            if self._writer.is_closing() or self._reader.at_eof():
                self.close()
                raise Cut
            self._writer.write(part)
            self.sent += len(part)
            try:
                await self._writer.drain()
            except OSError:
                self.close()
                raise Cut from None

    async def read(self) -> bytes:
        """What came; ``Cut`` at the end."""
        try:
            data = await self._reader.read(READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self.close()
            raise Cut
        self.received += len(data)
        return data

    async def swallow(self) -> None:
        """Read until the node ends the connection."""
        with suppress(Cut):
            while True:
                await self.read()

    def stop_reading(self) -> None:
        """Take nothing any more. That the node has ended the connection, shows in its log only."""
        with suppress(RuntimeError):
            self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def finish(self) -> None:
        """Say that this was all: what was sent is heard, and then the node ends the connection, too."""
        with suppress(OSError, RuntimeError):
            self._writer.write_eof()

    def close(self) -> None:
        """Hang up at once."""
        self._writer.transport.abort()


class Member:
    """An attacker who is in a ``culm://`` session: it knows the clump, and proved a key of its own."""

    def __init__(self, wire: Wire, session: SessionConnection, identity: Identity) -> None:
        self.wire, self.session, self.identity = wire, session, identity

    @classmethod
    async def join(cls, target: Target, address: str, identity: Identity | None = None) -> Member:
        """Connect and shake hands; ``Cut`` if the node does not want to."""
        wire = await Wire.dial(target, "culm", address)
        identity = identity or Identity(os.urandom(32))
        session = SessionConnection(identity, CLUMP, os.urandom(32), listener=target.key)
        member = cls(wire, session, identity)
        while not session.is_open:
            member.take(await wire.read())
            await wire.send(session.data_to_send())
        return member

    def take(self, data: bytes) -> list[Event]:
        """What the node says."""
        return list(self.session.receive_data(data, 0.0))

    async def flush(self) -> None:
        """Send what the session has to say, as far as there is credit for it."""
        while data := self.session.data_to_send(_BUFFER):
            await self.wire.send(data)

    async def read(self) -> list[Event]:
        """What the node says next."""
        return self.take(await self.wire.read())

    async def push(self, stream: int, data: bytes) -> None:
        """Write bytes to a stream of the session, and wait for the credit that they need; with a sign of life."""
        mux = self.session._mux
        mux.write(stream, data)
        self.session.transfer(ALIVE)
        await self.flush()
        while mux.queued(stream):
            await self.read()
            await self.flush()


def bymux_write(stream: int, data: bytes) -> bytes:
    """A packet that writes to a stream, whatever the credit for it."""
    return packet(WRITE, stream, len(data)) + data


class Gossip:
    """An attacker who is in a ``bushbaby://`` session. ``mark``: the node is to take it for a Culm node."""

    def __init__(self, wire: Wire, connection: BushbabyConnection, identity: Identity) -> None:
        self.wire, self.connection, self.identity = wire, connection, identity

    @classmethod
    async def join(cls, target: Target, address: str, *, identity: Identity | None = None, mark: bool = True) -> Gossip:
        """Connect and shake hands; ``Cut`` if the node does not want to."""
        wire = await Wire.dial(target, "bushbaby", address)
        identity = identity or Identity(os.urandom(32))
        connection = BushbabyConnection(identity, CLUMP, random_bytes=os.urandom, options=Options(mark=mark))
        gossip = cls(wire, connection, identity)
        await gossip.flush()
        while not connection.replicating:
            for event in connection.receive_data(await wire.read(), 0.0):
                assert isinstance(event, PeerIdentified | Authenticated)
                if isinstance(event, Authenticated):
                    break
            await gossip.flush()
        return gossip

    async def flush(self) -> None:
        """Send what is queued."""
        if data := self.connection.data_to_send():
            await self.wire.send(data)

    async def box(self, kind: int, plaintext: bytes) -> None:
        """Send a message of a kind with any content."""
        self.connection._send_box(kind, plaintext)
        await self.flush()
