"""Caps on bandwidth: a bucket of tokens, and streams that keep to some of them.

What is read waits before it is handed on, so that the peer's window closes; what is written goes out in small pieces.
Both are smooth: in no stretch of time more goes than its length allows and the burst, a twentieth of a second's worth.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from culm.node.surroundings import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BURST_SECONDS = 0.05
LEAST_BURST = 1024  # bytes
_HIGH_WATER = 64 * 1024  # bytes that wait to be written before ``drain`` waits
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Bucket:
    """``rate`` bytes a second, ``burst`` of them at once. Time is an argument, in seconds."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.burst = max(LEAST_BURST, int(rate * BURST_SECONDS))
        self._tokens = float(self.burst)
        self._at: float | None = None

    def reserve(self, size: int, now: float) -> float:
        """Set bytes aside, at most ``burst``: the seconds to wait before they may go. Who asked first goes first."""
        if self._at is not None and now > self._at:
            self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now if self._at is None else max(now, self._at)
        self._tokens -= size
        return max(0.0, -self._tokens / self.rate)


class _Pace:
    """Several buckets at once."""

    def __init__(self, buckets: Sequence[Bucket], clock: Callable[[], float]) -> None:
        self._buckets = buckets
        self._clock = clock
        self.piece = min(bucket.burst for bucket in buckets)

    async def wait(self, size: int) -> None:
        """Wait until so many bytes may go, at most ``piece``."""
        now = self._clock()
        wait = max(bucket.reserve(size, now) for bucket in self._buckets)
        if wait > 0:
            await asyncio.sleep(wait)


class PacedReader:
    """A stream's reading side at a pace. It has what sessions use of ``asyncio.StreamReader``."""

    def __init__(self, reader: asyncio.StreamReader, pace: _Pace) -> None:
        self._reader = reader
        self._pace = pace

    async def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; none at the end."""
        data = await self._reader.read(min(size, self._pace.piece))
        if data:
            await self._pace.wait(len(data))
        return data

    async def readexactly(self, size: int) -> bytes:
        """Exactly so many bytes; ``asyncio.IncompleteReadError`` if there are fewer."""
        data = bytearray()
        while len(data) < size:
            some = await self.read(size - len(data))
            if not some:
                raise asyncio.IncompleteReadError(bytes(data), size)
            data += some
        return bytes(data)


class PacedWriter:
    """A stream's writing side at a pace. It has what sessions use of ``asyncio.StreamWriter``.

    ``transport`` is the real one: what its buffer holds, the peer has not taken; what waits here, it was not offered.
    """

    def __init__(self, writer: asyncio.StreamWriter, pace: _Pace) -> None:
        self._writer = writer
        self._pace = pace
        self._pending: deque[memoryview] = deque()
        self._size = 0
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._ends = self._closes = False
        self.transport = writer.transport

    @property
    def waiting(self) -> int:
        """Bytes whose time has not come."""
        return self._size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes, to be sent when it is their time."""
        if self._closes or self._failure is not None or not data:
            return
        self._pending.append(memoryview(bytes(data)))
        self._size += len(data)
        if self._task is None:
            self._task = asyncio.create_task(self._send())

    async def drain(self) -> None:
        """Wait until little is left to be sent; raises what went wrong."""
        while self._size > _HIGH_WATER and self._failure is None:
            self._moved.clear()
            await self._moved.wait()
        if self._failure is not None:
            raise self._failure
        await self._writer.drain()

    async def _send(self) -> None:
        try:
            while self._pending:
                view = self._pending.popleft()
                piece, rest = view[: self._pace.piece], view[self._pace.piece :]
                if rest:
                    self._pending.appendleft(rest)
                await self._pace.wait(len(piece))
                self._writer.write(piece)
                await self._writer.drain()
                self._size -= len(piece)
                self._moved.set()
            if self._ends:
                self._writer.write_eof()
        except (OSError, RuntimeError) as error:
            self._failure = error
            self._pending.clear()
            self._size = 0
        self._task = None
        self._moved.set()
        if self._closes:
            self._writer.close()

    def write_eof(self) -> None:
        """Send an end behind everything."""
        self._ends = True
        if self._task is None:
            self._writer.write_eof()

    def close(self) -> None:
        """Close the connection when everything is sent."""
        self._closes = True
        if self._task is None:
            self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until that is done."""
        if self._task is not None:
            await asyncio.wait([self._task])
        await self._writer.wait_closed()

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._closes or self._writer.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What is known of the connection."""
        return self._writer.get_extra_info(name, default)


def paced(
    streams: Streams,
    reading: Sequence[Bucket],
    writing: Sequence[Bucket],
    clock: Callable[[], float] = clock,
) -> Streams:
    """Streams that keep to these buckets; as they are where there are none."""
    reader, writer = streams
    if reading:
        reader = cast("asyncio.StreamReader", PacedReader(reader, _Pace(reading, clock)))
    if writing:
        writer = cast("asyncio.StreamWriter", PacedWriter(writer, _Pace(writing, clock)))
    return reader, writer


def unsent(writer: asyncio.StreamWriter) -> int:
    """Bytes that were written and that the other side has not taken, those included whose time has not come."""
    return writer.transport.get_write_buffer_size() + int(getattr(writer, "waiting", 0))
