"""One direction of a simulated connection: bytes on their way, in pieces, late, slowly, or not at all.

The sender's transport queues what it writes. At most a *window* of that is under way or waits at the receiver. So a
receiver that does not read holds up the sender, as with TCP.
"""

from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Protocol

from culm.testing.simulation.loop import SimulatedLoop

_FIRST_BYTES = 2000  # These first bytes of a connection may come in very small pieces, since handshakes are fragile.
_SILLY = 512  # Bytes: a sender waits until the window has opened by so much. TCP avoids tiny segments in the same way.


@dataclass(slots=True)
class Traits:
    """What a connection is like.

    ``latency``: seconds that a piece takes; ``jitter``: it may take up to so many more. ``rate``: bytes a second, 0:
    unlimited. ``window``: bytes that may be under way. ``piece``: the most bytes that travel together; ``first_piece``:
    the same for the first bytes of a connection.
    """

    latency: float
    jitter: float
    rate: int
    window: int
    piece: int
    first_piece: int


class End(Protocol):
    """What a pipe asks of the transports at its ends, which stand above it (``SimulatedTransport``)."""

    context: Context

    def take(self, data: bytes | None) -> None:
        """Bytes have arrived; None: the other side has ended."""

    def was_pumped(self) -> None:
        """Some of what was written is on its way."""


class Pipe:
    """Carries bytes from one transport to another. Set ``source`` and ``target`` before using it.

    ``cut_at``: after so many bytes ``cut`` is called, and no more is carried; None: never. ``is_stalled``: nothing
    arrives for now. ``is_dead``: nothing arrives ever again; ``unheard`` is called for each piece instead. ``queued``
    counts the bytes that were written and not sent, ``carried`` those that were sent. ``sent`` is called with the size
    of each piece when it is sent.
    """

    source: End
    target: End

    def __init__(self, loop: SimulatedLoop, random: Random, traits: Traits) -> None:
        self.cut_at: int | None = None
        self.cut: Callable[[], None] = lambda: None
        self.is_stalled = False
        self.is_dead = False
        self.is_garbling = False  # Whether the next byte arrives as another one.
        self.unheard: Callable[[], None] = lambda: None
        self.sent: Callable[[int], None] = lambda _: None
        self.queued = 0
        self.carried = 0
        self._loop = loop
        self._random = random
        self._traits = traits
        self._waiting: deque[memoryview] = deque()
        self._flying = 0
        self._last = 0.0  # When the piece that was sent last arrives; none may arrive before it.
        self._held: deque[bytes | None] = deque()  # Arrived during a stall.
        self._ends = False

    def write(self, data: bytes) -> None:
        """Queue bytes."""
        self._waiting.append(memoryview(data))
        self.queued += len(data)
        self.pump()

    def end(self) -> None:
        """End writing; the receiver learns of it behind everything that was written."""
        if not self._ends:
            self._ends = True
            self.pump()

    def forget(self) -> None:
        """Drop what is queued. What is under way still arrives."""
        self._waiting.clear()
        self.queued = 0

    def pump(self) -> None:
        """Send as much as the window allows."""
        traits = self._traits
        while self._waiting and (room := traits.window - self._flying) > 0:
            if room < _SILLY and room < self.queued:
                break  # Wait until the window is open wider; see _SILLY.
            data = self._waiting.popleft()
            piece = traits.piece if self.carried > _FIRST_BYTES else traits.first_piece
            size = min(self._random.randint(1, piece), room)
            if self.cut_at is not None:
                size = min(size, self.cut_at - self.carried)
                if size <= 0:
                    self._waiting.appendleft(data)
                    self.cut_at = None  # The last byte that gets through is on its way.
                    self._loop.call_at(max(self._last, self._loop.time()), self._cut)
                    return
            if size < len(data):
                self._waiting.appendleft(data[size:])
                data = data[:size]
            self.queued -= len(data)
            self.carried += len(data)
            self._flying += len(data)
            self.sent(len(data))
            self._send(bytes(data))
        if self._ends and not self._waiting:
            self._ends = False
            self._send(None)

    def _cut(self) -> None:
        self.cut()
        self.pump()

    def _send(self, data: bytes | None) -> None:
        if self.is_garbling and data:
            self.is_garbling, data = False, bytes([data[0] ^ 1, *data[1:]])
        traits, now = self._traits, self._loop.time()
        arrival = now + traits.latency + self._random.random() * traits.jitter
        if traits.rate and data:
            arrival = max(arrival, self._last) + len(data) / traits.rate
        self._last = max(self._last, arrival)
        self._loop.call_at(self._last, self._arrive, data, context=self.target.context)

    def _arrive(self, data: bytes | None) -> None:
        if self.is_dead:
            self.unheard()
            return
        if self.is_stalled or self._held:
            self._held.append(data)
            return
        self.target.take(data)

    def resume(self) -> None:
        """End a stall: what was held arrives."""
        self.is_stalled = False
        if self._held:
            self._loop.call_soon(self._release, context=self.target.context)

    def _release(self) -> None:
        while self._held and not self.is_stalled:
            data = self._held.popleft()
            if self.is_dead:
                self.unheard()
            else:
                self.target.take(data)

    def consumed(self, size: int) -> None:
        """The receiver has read ``size`` bytes, so the window opens by as many."""
        self._flying -= size
        if self._waiting or self._ends:
            self.pump()
            self.source.was_pumped()
