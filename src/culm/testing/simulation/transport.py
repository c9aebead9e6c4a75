"""The transport at one end of a simulated connection: a program writes to it, and it feeds the program's protocol.

It behaves like asyncio's transports for sockets: ``pause_writing`` when too much is queued, reading that can be paused,
closing behind what is queued (``close``) or at once (``abort``).
"""

from __future__ import annotations

import asyncio
from asyncio.protocols import BufferedProtocol, _feed_data_to_buffered_proto  # type: ignore[attr-defined]
from asyncio.transports import _FlowControlMixin  # as asyncio's own transports
from collections import deque
from contextvars import copy_context
from typing import Any, Protocol

from culm.testing.simulation.loop import SimulatedLoop
from culm.testing.simulation.pipe import Pipe


class Link(Protocol):
    """What an end asks of its connection, which stands above it (``culm.testing.simulation.network.Connection``)."""

    loop: SimulatedLoop

    def closed(self, end: SimulatedTransport, *, politely: bool) -> None:
        """This end was closed. ``politely``: it had read all that came, so the other side sees an orderly end."""

    def arrived_in_vain(self, end: SimulatedTransport) -> None:
        """Bytes came to this end after it was closed."""


class SimulatedTransport(_FlowControlMixin):
    """One end. All that it calls runs in ``context``, that of its maker, so that it belongs to the right host."""

    def __init__(
        self, connection: Link, outgoing: Pipe, incoming: Pipe, own: tuple[str, int], other: tuple[str, int]
    ) -> None:
        super().__init__({"peername": other, "sockname": own}, connection.loop)
        self.context = copy_context()
        self.most_queued = 0  # The most bytes that were ever queued.
        self._connection = connection
        self._loop: SimulatedLoop = connection.loop
        self._outgoing = outgoing
        self._incoming = incoming
        self._protocol: Any = None
        self._inbox: deque[bytes | None] = deque()
        self._is_paused = False  # Whether reading is paused.
        self._is_closing = False
        self._has_ended = False  # Whether ``write_eof`` was called.
        self.is_lost = False  # Whether the protocol was told, or is about to be told, that the connection is over.

    # -- what asyncio asks of a transport ----------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Feed ``protocol``."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that is fed."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Keep what arrives until ``resume_reading``."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Feed the protocol again, at first with what has arrived meanwhile."""
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._hand_on, context=self.context)

    def get_write_buffer_size(self) -> int:
        """Bytes that were written and that the network has not taken."""
        return self._outgoing.queued

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Queue bytes for the network."""
        if self._has_ended:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._is_closing or not data:
            return
        self._outgoing.write(bytes(data))
        self.most_queued = max(self.most_queued, self._outgoing.queued)
        self._maybe_pause_protocol()  # type: ignore[attr-defined]

    def can_write_eof(self) -> bool:
        """Whether one direction can be ended alone: it can."""
        return True

    def write_eof(self) -> None:
        """End writing behind what is queued. Reading goes on."""
        if not self._has_ended and not self._is_closing:
            self._has_ended = True
            self._outgoing.end()

    def close(self) -> None:
        """Close behind what is queued."""
        if self._is_closing:
            return
        self._is_closing = True
        if not self._outgoing.queued:
            self._lose(None)

    def abort(self) -> None:
        """Close at once."""
        self._force_close(None)

    def _force_close(self, error: BaseException | None) -> None:
        """Close at once, because of an error (asyncio's TLS calls this)."""
        self._is_closing = True
        self._outgoing.forget()
        self._lose(error)

    def _lose(self, error: BaseException | None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        unread = any(self._inbox)
        self._inbox.clear()
        self._loop.call_soon(self._tell_lost, error, context=self.context)
        self._connection.closed(self, politely=not unread)

    def _tell_lost(self, error: BaseException | None) -> None:
        self._protocol.connection_lost(error)
        self._protocol = None

    # -- what the network does ---------------------------------------------------------------------------------

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """The connection is made: feed a protocol, and tell it."""
        self._protocol = protocol
        if not self.is_lost:
            self._protocol.connection_made(self)

    def take(self, data: bytes | None) -> None:
        """Bytes have arrived, or (None) the end of them."""
        if self.is_lost:
            self._connection.arrived_in_vain(self)
            return
        self._inbox.append(data)
        if not self._is_paused:
            self._hand_on()

    def _hand_on(self) -> None:
        while self._inbox and not self._is_paused and not self.is_lost:
            data = self._inbox.popleft()
            if data is None:
                if not self._is_closing and not self._protocol.eof_received():
                    self.close()
                continue
            self._incoming.consumed(len(data))
            if self._is_closing:  # The program has closed the connection and wants nothing more.
                continue
            if isinstance(self._protocol, BufferedProtocol):
                _feed_data_to_buffered_proto(self._protocol, data)
            else:
                self._protocol.data_received(data)

    def was_pumped(self) -> None:
        """The network has taken bytes from the queue."""
        self._loop.call_soon(self._look_at_queue, context=self.context)

    def _look_at_queue(self) -> None:
        if self.is_lost:
            return
        self._maybe_resume_protocol()  # type: ignore[attr-defined]
        if self._is_closing and not self._outgoing.queued:
            self._lose(None)

    def break_off(self, error: OSError) -> None:
        """The connection is broken, and this side learns of it now."""
        self._loop.call_soon(self._broken, error, context=self.context)

    def _broken(self, error: OSError) -> None:
        if not self.is_lost:
            self._force_close(error)

    def die(self) -> None:
        """The host is gone: nothing goes out or comes in any more, and nobody is told."""
        self._outgoing.is_dead = self._incoming.is_dead = True
