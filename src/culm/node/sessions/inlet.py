"""Inlets: how bytes come from a socket to a session, without copies on the way.

asyncio's own reader makes new bytes of each reading, appends them to a buffer, and copies them once more when they are
asked for. Large payloads would pay for that with each byte. An inlet has two buffers at most: the system writes into
one, while the session parses the other one in place. A connection keeps no reference to bytes once it has parsed them
(``culm.wire.connection``), so buffers serve again and again. If a view of a buffer is kept all the same, that buffer
does not serve again.

A node has many peers that say little. So the buffers belong to all inlets together, and from its first ``take`` on an
inlet has one only while bytes come, or are dealt with. It is a small one, unless much came the last time.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from weakref import ref

from culm.types import Buffer

_BYTES = 1024 * 1024  # Of a buffer: enough to keep a fast link busy, so that each turn has much to parse.
_FEW_BYTES = 16 * 1024  # Of the buffer of a peer that said little the last time.
_LEAST_ROOM = 1024  # Bytes of a buffer that are left when reading pauses. TLS may hand on what it has already.
_KEPT = 4  # Buffers that wait to serve again: so many peers rarely send at the same moment.

_free: list[bytearray] = []


def _lend() -> bytearray:
    return _free.pop() if _free else bytearray(_BYTES)


def _take_back(buffer: bytearray) -> None:
    """Let a large buffer serve again, unless there are views of it."""
    if len(buffer) != _BYTES or len(_free) >= _KEPT:
        return
    try:
        buffer.append(buffer.pop())  # Fails while there are views, because the size changes.
    except BufferError:
        return
    _free.append(buffer)


class Inlet(asyncio.StreamReader):
    """The reader of a connection. Until the first ``take`` it is like any other; a handshake reads by lines or bytes.

    ``limit`` is for that time: twice as many bytes may wait to be read.
    """

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self._is_direct = self._has_ended = self._is_paused = self._is_busy = False
        self._filling = self._given = bytearray()  # Without bytes: none is lent.
        self._filled = 0
        self._view = memoryview(b"")
        self._moved = asyncio.Event()
        self._source: Any = None

    async def take(self, size: int) -> Buffer:
        """The next bytes, none at the end. What is given is overwritten after the next call. ``size`` is a hint."""
        if not self._is_direct:
            data = await self.read(size)
            self._is_direct = len(data) < size  # Otherwise more bytes may be left from the handshake.
            return data
        self._view.release()
        _take_back(self._given)
        self._given = bytearray()
        while not self._filled:  # Bytes from before the connection broke still count.
            if (error := self.exception()) is not None:
                raise error
            if self._has_ended:
                return b""
            self._moved.clear()
            await self._moved.wait()
        self._given, self._filling = self._filling, bytearray()
        self._is_busy = self._filled > _FEW_BYTES // 2
        self._view, self._filled = memoryview(self._given)[: self._filled], 0
        if self._is_paused:
            self._is_paused = False
            self._source.resume_reading()
        return self._view

    def let_go(self) -> None:
        """Free the buffers: nobody reads any more. The connection refers to its reader, and may stay for a while."""
        self._view.release()
        self._given = self._filling = bytearray()
        self._filled, self._is_busy = 0, False

    # -- what the socket's protocol calls ------------------------------------------------------------------------

    def set_transport(self, transport: asyncio.BaseTransport) -> None:
        """The connection is made."""
        super().set_transport(transport)
        self._source = transport

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if not self._filling:
            self._filling = _lend() if self._is_busy else bytearray(_FEW_BYTES)
        elif self._filled == len(self._filling):  # A new one: the writer may have a view of this one.
            self._filling = self._filling + bytes(_BYTES)
        return memoryview(self._filling)[self._filled :]

    def came(self, size: int) -> None:
        """So many bytes were written there."""
        if not self._is_direct:
            self.feed_data(memoryview(self._filling)[:size])
            return
        self._filled += size
        if len(self._filling) - self._filled < _LEAST_ROOM and not self._is_paused:
            self._is_paused = True
            self._source.pause_reading()
        self._moved.set()

    def feed_eof(self) -> None:
        """No more bytes come."""
        super().feed_eof()
        self._has_ended = True
        self._moved.set()

    def set_exception(self, exc: Exception) -> None:
        """The connection broke."""
        super().set_exception(exc)
        self._moved.set()


async def take(reader: asyncio.StreamReader, size: int) -> Buffer:
    """The next bytes of any reader, about ``size`` of them at most; none at the end. See ``Inlet.take``."""
    return await (reader.take(size) if isinstance(reader, Inlet) else reader.read(size))


def let_go(reader: asyncio.StreamReader) -> None:
    """Free what any reader holds of a connection that is over; see ``Inlet.let_go``."""
    if isinstance(reader, Inlet):
        reader.let_go()


class _Receiving(asyncio.StreamReaderProtocol, asyncio.BufferedProtocol):
    """Has the bytes of a socket written into an inlet's buffers. An inlet that is not read any more may go."""

    def __init__(self, inlet: Inlet, *args: Any) -> None:  # noqa: ANN401 - as asyncio has them
        super().__init__(inlet, *args)
        self._inlet = ref(inlet)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - what asyncio proposes
        inlet = self._inlet()
        return memoryview(bytearray(_BYTES)) if inlet is None else inlet.room()

    def buffer_updated(self, nbytes: int) -> None:
        inlet = self._inlet()
        if inlet is not None:
            inlet.came(nbytes)


Taken = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


def receiving(limit: int, taken: Taken | None = None) -> _Receiving:
    """The protocol of a new connection; ``taken`` gets the streams of one that is accepted."""
    loop = asyncio.get_running_loop()
    return _Receiving(Inlet(limit, loop), taken, loop)


async def connected(host: str, port: int, limit: int, **options: Any) -> tuple[Inlet, asyncio.StreamWriter]:  # noqa: ANN401 - as asyncio has them
    """As ``asyncio.open_connection``, with an inlet as the reader."""
    loop = asyncio.get_running_loop()
    reader = Inlet(limit, loop)
    transport, protocol = await loop.create_connection(lambda: _Receiving(reader, None, loop), host, port, **options)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
