"""One stream of a ``culm://`` connection, dressed up as a pair of asyncio streams.

A session's driver expects a reader and a writer, as a socket has them. The interval session that runs inside a
``culm://`` session gets these two instead. They have only those methods that a driver uses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from culm.session import Connection

_QUEUED_BYTES = 32 * 1024  # While more waits to be sent, ``drain`` waits: so news on the same socket get through soon.


class TransferReader(asyncio.StreamReader):
    """What the peer sends. The peer gets credit for all that is read; ``wake`` lets the outer session send that."""

    def __init__(self, connection: Connection, wake: Callable[[], None]) -> None:
        super().__init__()
        self._connection = connection
        self._wake_session = wake

    async def read(self, n: int = -1) -> bytes:
        """Up to ``n`` bytes; none at the end of the stream."""
        data = await super().read(n)
        self._connection.consumed(len(data))
        self._wake_session()
        return data


class TransferWriter:
    """What is sent to the peer. ``wake`` is called when bytes were queued, so that the outer session sends them."""

    def __init__(self, connection: Connection, wake: Callable[[], None]) -> None:
        self._connection = connection
        self._wake = wake
        self._moved = asyncio.Event()
        self._is_closed = False

    @property
    def transport(self) -> TransferWriter:
        """The writer itself, because a driver asks a transport only for the size of its buffer."""
        return self

    def write(self, data: bytes) -> None:
        """Queue bytes behind those that wait; ignored after ``close``."""
        if not self._is_closed:
            self._connection.transfer(data)
            self._wake()

    async def drain(self) -> None:
        """Wait until at most ``_QUEUED_BYTES`` are queued."""
        while self._connection.transfer_queued > _QUEUED_BYTES and not self._is_closed:
            self._moved.clear()
            await self._moved.wait()

    def moved(self) -> None:
        """The outer session has sent something: let ``drain`` look again."""
        self._moved.set()

    def get_write_buffer_size(self) -> int:
        """Bytes that are queued."""
        return self._connection.transfer_queued

    def close(self) -> None:
        """Write nothing more. The peer sees no end of this stream: the outer connection ends with it."""
        self._is_closed = True
        self._moved.set()

    abort = close  # There is no socket of our own to reset.

    async def wait_closed(self) -> None:
        """Return at once, because closing takes no time here."""
