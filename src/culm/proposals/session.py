"""A connection over one stream of bytes: setup, then bymux with a stream for each channel (seed 000, "Running ...").

Control is stream 0, without limits; data is stream 1, with credit for what can be dealt with at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.errors import RemoteProtocolError, Truncated
from culm.proposals.connection import Connection
from culm.proposals.setup import Setup
from culm.wire.bymux import INFINITE, Answered, Closed, Multiplexer, Received, Stream, Unread

if TYPE_CHECKING:
    from culm.proposals.events import Event
    from culm.proposals.limits import Limits
    from culm.transfer import Source

CONTROL, DATA = 0, 1


class Session:
    """One endpoint over one stream. ``is_over``: both sides have ended both channels in order."""

    def __init__(
        self, source: Source, *, proactive: bool, setup: Setup | None = None, limits: Limits | None = None
    ) -> None:
        self.connection = Connection(source, proactive=proactive, setup=setup, limits=limits)
        self.answers = 0  # to pings
        self.is_closing = False
        self._mux = Multiplexer(
            proactive=proactive, streams={CONTROL: Stream(credit=INFINITE, granted=INFINITE), DATA: Stream()}
        )
        self._head: bytearray | None = bytearray()  # of the peer's setup, until it is read
        self._setup_sent = False
        self._to_consume = 0

    @property
    def is_over(self) -> bool:
        """Whether both channels are ended, in both directions."""
        return not self._mux.streams

    @property
    def is_clean(self) -> bool:
        """Whether the connection may end here: nothing lives, and no message is cut off."""
        return not self.connection.exchanges

    def receive_data(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Take bytes from the peer. ``RemoteProtocolError``: the connection is to be dropped."""
        if self._head is not None:
            self._head += data
            try:
                theirs, size = Setup.pull(self._head)
            except Truncated:
                return []
            self.connection.peer_setup(theirs)
            data, self._head = bytes(self._head[size:]), None
        events: list[Event] = []
        for event in self._mux.receive_data(data):
            match event:
                case Received(stream, piece):
                    events += self._take(stream, piece)
                case Answered():
                    self.answers += 1
                case Closed() | Unread():
                    self._take_end(event)
                case _:
                    raise RemoteProtocolError("a new stream, which nobody asked for")
        return events

    @property
    def is_held(self) -> bool:
        """Whether more came than is to be dealt with at once: call ``go_on``, and ``refill`` when there is no more."""
        return self.connection.receiver.is_held

    def go_on(self) -> list[Event]:
        """Go on with what was left for later. ``RemoteProtocolError`` as ``receive_data``."""
        before = self.connection.receiver.unread
        events = self.connection.go_on()
        self._to_consume += before - self.connection.receiver.unread
        return events

    def _take(self, stream: int, piece: bytes) -> list[Event]:
        before = self.connection.receiver.unread
        if stream == CONTROL:
            events = self.connection.receive_control(piece)
            self._to_consume += before - self.connection.receiver.unread
        else:
            events = self.connection.receive_data(piece)
            self._to_consume += len(piece) + before - self.connection.receiver.unread
        return events

    def _take_end(self, event: Closed | Unread) -> None:
        if isinstance(event, Closed) and event.stream is not None:
            self.connection.expect_end()
            self.is_closing = True

    def refill(self) -> None:
        """What came is dealt with: the peer may send more."""
        self._mux.consumed(DATA, self._to_consume)
        self._to_consume = 0

    def ping(self) -> None:
        """Ask for a sign of life, as long as there may be one: a peer may have ended everything but a channel."""
        for stream in (None, DATA, CONTROL) if self._mux.streams else ():
            if self._mux.may_ping(stream):
                self._mux.ping(stream)
                return

    def close(self) -> None:
        """End both channels, once everything was sent."""
        if not self.is_closing:
            self.is_closing = True
            for stream in (DATA, CONTROL):
                if stream in self._mux.streams:
                    self._mux.write(stream, self._data_of(stream))
                    self._mux.close(stream)
                if stream in self._mux.streams:
                    self._mux.stop_read(stream)

    def _data_of(self, stream: int) -> bytes:
        return self.connection.control_to_send() if stream == CONTROL else self.connection.data_to_send()

    def respond(self, limit: int) -> bool:
        """Write items, as far as the peer takes them now; whether there may be more at once."""
        room = min(limit, self._mux.room(DATA) - self.connection.sender.pending)
        return room > 0 and self.connection.respond(room)

    def data_to_send(self) -> bytes:
        """Bytes for the peer."""
        for stream in (CONTROL, DATA):
            data = self._data_of(stream)
            if data and not self.is_closing:
                self._mux.write(stream, data)
        out = self._mux.data_to_send()
        if not self._setup_sent:
            self._setup_sent = True
            self._mux.grant(DATA, self.connection.limits.window)
            return self.connection.setup.encode() + out + self._mux.data_to_send()
        return out
