"""A connection over one stream of bytes: setup, then bymux with a stream for each channel.

The two channels must not wait for each other: a cancellation has to get through while the data channel is full. So each
is a stream of its own. Control is stream 0, with endless credit, because what the peer may say there is bounded by its
credit for proposals. Data is stream 1, with credit for as much as can be dealt with at once.

Specification: docs/specs/proposals.md, "Session".
"""

from collections.abc import Iterator

from culm.errors import RemoteProtocolError, Truncated
from culm.proposals.endpoint import Endpoint
from culm.proposals.events import Event, Rested
from culm.proposals.limits import Limits
from culm.proposals.setup import Setup
from culm.transfer import Source
from culm.types import Buffer
from culm.wire.bymux import INFINITE, Answered, Asked, Closed, Multiplexer, Received, Stream
from culm.wire.connection import UNLIMITED, UntimedConnection

CONTROL, DATA = 0, 1
_HEADS = 32  # Bytes that a piece of a payload has in front of it, at most: a switch, and how long it is.
_FEW = 4096  # Bytes of credit up to which a piece is not made shorter for them.


class Connection(UntimedConnection[Event]):
    """One endpoint over one stream of bytes. Its owner proposes and answers by way of ``endpoint``.

    ``proactive``: it opened the connection. ``setup``: what it says of itself. ``together``: see ``Endpoint``.
    """

    def __init__(
        self,
        source: Source,
        *,
        proactive: bool,
        setup: Setup | None = None,
        limits: Limits | None = None,
        together: bool = False,
    ) -> None:
        self.endpoint = Endpoint(source, proactive=proactive, setup=setup, limits=limits, together=together)
        self.answers = 0  # to pings
        self.is_closing = False
        self._mux = Multiplexer({CONTROL: Stream(credit=INFINITE, granted=INFINITE), DATA: Stream()})
        self._head: bytearray | None = bytearray()  # of the peer's setup, until it is read
        self._setup_sent = False
        self._rests = self._peer_rests = False  # That a side has nothing more to send is to be said, or to be told.

    @property
    def is_over(self) -> bool:
        """Whether both channels are ended, in both directions."""
        return not self._mux.streams

    def _receive(self, data: Buffer) -> Iterator[Event]:
        """All bytes are read before the first event is given."""
        events: list[Event] = []
        failure: RemoteProtocolError | None = None
        try:
            if self.has_more and not data:
                events += self.endpoint.go_on()
            else:
                self._take_all(data, events)
            if self._peer_rests and not self.has_more:  # Not before: what it has sent is not all dealt with.
                self._peer_rests = False
                events.append(Rested())
        except RemoteProtocolError as error:
            failure = error
            events += self.endpoint.take_events()
        yield from events
        if failure is not None:
            raise failure

    @property
    def has_more(self) -> bool:
        """Whether bytes that came decode to more than is dealt with at once (``culm.wire.connection``)."""
        return self.endpoint.receiver.is_held

    def _take_all(self, data: Buffer, events: list[Event]) -> None:
        if self._head is not None:
            self._head += data
            try:
                theirs, size = Setup.pull(self._head)
            except Truncated:
                return
            self.endpoint.peer_setup(theirs)
            data, self._head = bytes(self._head[size:]), None
        packets, failure = self._mux.receive(data)
        for event in packets:
            match event:
                case Received(stream, piece) if stream == CONTROL:
                    # Items that came along with a fault of the control channel are as good as those before it.
                    failure = self._control_fault(piece, events) or failure
                case Received(_, piece):
                    self._peer_rests = False
                    events += self.endpoint.receive_data(piece)
                case Asked(stream) if stream == DATA:
                    self._peer_rests = True
                case Answered():
                    self.answers += 1
                case Closed(int()):
                    self.endpoint.expect_end()
                    self.is_closing = True
        if failure is not None:
            raise failure

    def _control_fault(self, piece: Buffer, events: list[Event]) -> RemoteProtocolError | None:
        """Take bytes of the control channel; the peer's fault in them."""
        try:
            events += self.endpoint.receive_control(piece)
        except RemoteProtocolError as error:
            events += self.endpoint.take_events()
            return error
        return None

    def refill(self) -> None:
        """Everything that was received is dealt with: let the peer send a whole window again."""
        left, receiver = self._mux.left(DATA), self.endpoint.receiver
        if left is not None and (amount := receiver.window.grant(left + receiver.unread)):
            self._mux.grant(DATA, amount)

    def keep_alive(self) -> None:
        """Queue a ping, whose answer ``answers`` counts, on anything that the peer has not ended yet."""
        for stream in (None, DATA, CONTROL) if self._mux.streams else ():
            if self._mux.may_ping(stream):
                self._mux.ping(stream)
                return

    def rest(self) -> None:
        """Say that nothing more is to be sent for now, behind all that waits: by a ping on the data channel.

        Other pings go elsewhere, as long as they can.
        """
        self._rests = True

    def close(self) -> None:
        """End both channels, once everything was sent."""
        if not self.is_closing:
            for stream in (DATA, CONTROL):
                if stream in self._mux.streams:
                    self._write(stream)
                    self._mux.close(stream)
                if stream in self._mux.streams:
                    self._mux.stop_read(stream)
            self.is_closing = True

    def _write(self, stream: int) -> None:
        """Hand what waits for a stream to bymux; once the end has begun it is dropped."""
        endpoint = self.endpoint
        pieces: list[Buffer] = endpoint.register.data_to_send() if stream == DATA else [endpoint.control_to_send()]
        for piece in pieces:
            if piece and not self.is_closing:
                self._mux.write(stream, piece)

    def respond(self, limit: int) -> bool:
        """Write items, as far as the peer takes them now; whether there may be more at once."""
        room = min(limit, self._mux.room(DATA) - self.endpoint.register.pending)
        if room > _FEW:  # Otherwise the end of the last piece waits for credit, and goes out in a packet of its own.
            room -= _HEADS
        return room > 0 and self.endpoint.respond(room)

    def data_to_send(self, limit: int = UNLIMITED) -> bytes:
        """Take about ``limit`` bytes for the peer, as far as its credit allows."""
        for stream in (CONTROL, DATA):
            self._write(stream)
        out = self._mux.data_to_send(limit)
        if self._rests and self._mux.may_ping(DATA) and not any(map(self._mux.queued, (CONTROL, DATA))):
            self._rests = False
            self._mux.ping(DATA)
            out += self._mux.data_to_send(limit)
        if not self._setup_sent:
            self._setup_sent = True
            self.refill()
            return self.endpoint.setup.encode() + out + self._mux.data_to_send(limit)
        return out
