"""A stream of a session as a pair of asyncio's streams, as far as the sessions of the protocols use those."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.session import Connection

_QUEUED_BYTES = 128 * 1024  # that wait to be sent, at which who writes has to wait


class TransferReader(asyncio.StreamReader):
    """What the peer sends. ``consumed`` is called with the number of bytes that were read."""

    def __init__(self, consumed: Callable[[int], None]) -> None:
        super().__init__()
        self._consumed = consumed

    async def read(self, n: int = -1) -> bytes:
        """Some bytes; none at the end."""
        data = await super().read(n)
        self._consumed(len(data))
        return data


class TransferWriter:
    """What is sent to the peer. ``wake`` is called when there is something to send."""

    def __init__(self, connection: Connection, wake: Callable[[], None]) -> None:
        self._connection = connection
        self._wake = wake
        self._moved = asyncio.Event()
        self._is_closed = False

    @property
    def transport(self) -> TransferWriter:
        """The writer itself: it answers what a transport is asked here."""
        return self

    def write(self, data: bytes) -> None:
        """Queue bytes."""
        if not self._is_closed:
            self._connection.transfer(data)
            self._wake()

    async def drain(self) -> None:
        """Wait until not too much is queued."""
        while self._connection.transfer_queued > _QUEUED_BYTES and not self._is_closed:
            self._moved.clear()
            await self._moved.wait()

    def moved(self) -> None:
        """Something was sent."""
        self._moved.set()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait."""
        return self._connection.transfer_queued

    def close(self) -> None:
        """Nothing more is written: the session ends with its transfers."""
        self._is_closed = True
        self._moved.set()

    def abort(self) -> None:
        """The same."""
        self.close()

    async def wait_closed(self) -> None:
        """There is nothing to wait for."""
