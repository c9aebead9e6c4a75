"""Caps on bandwidth: token buckets, and streams that keep to them.

A cap of 1 MB a second could be kept by counting: send at will, and stop until the next second when 1 MB has gone. The
line is then busy for a moment and idle for the rest. And 1 MB at the end of one second and 1 MB at the beginning of the
next make 2 MB without a pause. A *token bucket* is smooth. Think of a bucket under a dripping tap: each byte takes a
drop out, drops fall in at the capped rate, and what does not fit runs over. A bucket of a twentieth of a second's worth
of drops is the most that can ever go at once, however long the line was idle.

Here a byte may take a drop that has not fallen yet: the level becomes negative, and the sender waits until it is back
at zero. That keeps the order of senders without a queue, because each one reserves behind the one before.

Several buckets can go for one connection: the peer's own cap, and that of all peers together. The wait is the longest
one. What is read waits *before* it is handed on, so that TCP tells the peer to slow down. What is written goes out in
pieces that fit into the smallest bucket.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from culm.node.surroundings import clock

BURST_SECONDS = 0.05
"""A bucket holds what its rate allows in this time. Longer makes traffic lumpy; shorter costs a timer for each few
bytes, and timers are only good to some milliseconds."""
LEAST_BURST = 1024  # Bytes. With a tiny rate a piece would otherwise be a few bytes, each with a timer of its own.
_HIGH_WATER = 64 * 1024  # Bytes waiting for their time before ``drain`` waits: asyncio's own limit for a transport.
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Bucket:
    """``rate`` bytes a second, ``burst`` of them at once. Time is an argument, in seconds."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.burst = max(LEAST_BURST, int(rate * BURST_SECONDS))
        self._tokens = float(self.burst)
        self._at: float | None = None

    def reserve(self, size: int, now: float) -> float:
        """Take out ``size`` tokens, at most ``burst``; the seconds to wait before so many bytes may go.

        The level may become negative. So the next caller waits longer, and callers go in the order in which they asked.
        """
        if self._at is not None and now > self._at:
            self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now if self._at is None else max(now, self._at)
        self._tokens -= size
        return max(0.0, -self._tokens / self.rate)


class _Pace:
    """All the caps of one direction of a connection. ``piece``: bytes, the most that any of the buckets takes."""

    def __init__(self, buckets: Sequence[Bucket], clock: Callable[[], float]) -> None:
        self.buckets = buckets
        self._clock = clock
        self.piece = min(bucket.burst for bucket in buckets)

    async def wait(self, size: int) -> None:
        """Wait until ``size`` bytes, at most ``piece``, may go by every bucket."""
        now = self._clock()
        wait = max(bucket.reserve(size, now) for bucket in self.buckets)
        if wait > 0:
            await asyncio.sleep(wait)


class PacedReader:
    """A reader that keeps to some caps. It has only those methods of ``asyncio.StreamReader`` that sessions use."""

    def __init__(self, reader: asyncio.StreamReader, pace: _Pace) -> None:
        self._reader = reader
        self.pace = pace

    async def read(self, size: int) -> bytes:
        """Up to ``size`` bytes, and no more than ``burst`` ones; none at the end of the stream."""
        data = await self._reader.read(min(size, self.pace.piece))
        if data:
            await self.pace.wait(len(data))
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
    """A writer that keeps to some caps. It has only those methods of ``asyncio.StreamWriter`` that sessions use.

    ``transport`` is the real one. Bytes in its buffer were offered to the peer and not taken, which may mean that the
    peer hangs. Bytes that wait here (``waiting``) were not offered yet, which says nothing about the peer.
    """

    def __init__(self, writer: asyncio.StreamWriter, pace: _Pace) -> None:
        self._writer = writer
        self.pace = pace
        self._pending: deque[memoryview] = deque()
        self.waiting = 0  # Bytes whose time has not come.
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._ends = self._closes = False
        self.transport = writer.transport

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Queue bytes; a task sends them when the caps allow. Ignored after ``close`` or a failure."""
        if self._closes or self._failure is not None or not data:
            return
        self._pending.append(memoryview(bytes(data)))
        self.waiting += len(data)
        if self._task is None:
            self._task = asyncio.create_task(self._send())

    async def drain(self) -> None:
        """Wait until at most 64 KiB wait; raises the error that sending has failed with."""
        while self.waiting > _HIGH_WATER and self._failure is None:
            self._moved.clear()
            await self._moved.wait()
        if self._failure is not None:
            raise self._failure
        await self._writer.drain()

    async def _send(self) -> None:
        try:
            while self._pending:
                view = self._pending.popleft()
                piece, rest = view[: self.pace.piece], view[self.pace.piece :]
                if rest:
                    self._pending.appendleft(rest)
                await self.pace.wait(len(piece))
                self._writer.write(piece)
                await self._writer.drain()
                self.waiting -= len(piece)
                self._moved.set()
            if self._ends:
                self._writer.write_eof()
        except (OSError, RuntimeError) as error:
            self._failure = error
            self._pending.clear()
            self.waiting = 0
        self._task = None
        self._moved.set()
        if self._closes:
            self._writer.close()

    def write_eof(self) -> None:
        """End the stream behind everything that waits."""
        self._ends = True
        if self._task is None:
            self._writer.write_eof()

    def close(self) -> None:
        """Close the connection when everything is sent."""
        self._closes = True
        if self._task is None:
            self._writer.close()

    async def wait_closed(self) -> None:
        """Wait until everything is sent and the connection is closed."""
        if self._task is not None:
            await asyncio.wait([self._task])
        await self._writer.wait_closed()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """As the real writer's."""
        return self._writer.get_extra_info(name, default)


def paced(
    streams: Streams,
    reading: Sequence[Bucket],
    writing: Sequence[Bucket],
    clock: Callable[[], float] = clock,
) -> Streams:
    """Streams that keep to these buckets. A direction without buckets stays the real stream, and costs nothing."""
    reader, writer = streams
    if reading:
        reader = cast("asyncio.StreamReader", PacedReader(reader, _Pace(reading, clock)))
    if writing:
        writer = cast("asyncio.StreamWriter", PacedWriter(writer, _Pace(writing, clock)))
    return reader, writer


def unsent(writer: asyncio.StreamWriter) -> int:
    """Bytes that were written and are not in the operating system's hands yet, those that a cap holds back included."""
    return writer.transport.get_write_buffer_size() + int(getattr(writer, "waiting", 0))
