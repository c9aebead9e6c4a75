"""Bymux: many streams of bytes over one, each with its own flow control (docs/specs/proposals.md, "Bymux").

::

    packet = header, [stream id], [number], [bytes]
    header = type (3 bits), global (1 bit), width of the id (2 bits), width of the number (2 bits)

Several conversations share one connection, for instance short control messages and long payloads. Without flow control
a reader that is slow on one stream would have to buffer without bound, or stop reading the connection and so block the
others. Therefore a side may write to a stream only as many bytes as the other side has given it *credit* for, and each
side gives credit only for what it has room for. Credit is spent by writing and never taken back.

A stream has two ends that close independently: *Close* says "I write no more", *StopRead* says "I read no more". The
other side answers each with its counterpart, and the stream is forgotten when all four packets have passed. The
connection as a whole has the same pair, about creating streams. Culm's protocols agree on their streams beforehand, so
here neither side creates any: a peer that does so breaks the protocol.

``Multiplexer`` is one end. It does no I/O: bytes from the peer go in by ``receive``, bytes for it come out of
``data_to_send``. The reader of a stream gives credit by ``grant``, or reports by ``consumed`` how many of the bytes it
has processed. Then their credit goes back in few large packets: when it is at least a sixteenth of what the peer may
still have left. It must not be much more, because the peer stands still while its credit is on the way.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from culm.bamboo import MAX_U64
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.types import Buffer

CREDIT, WRITE, PING, PONG, CLOSE, STOP_READ = range(6)
INFINITE = MAX_U64  # credit without a limit; a real count never reaches it
# Bytes of one stream in a row while others wait for a turn. Larger packets would delay a short control message behind a
# long payload; much smaller ones would spend more of the connection and the processor on headers.
PACKET_BYTES = 16 * 1024
MAX_HEADER_BYTES = 17  # header, stream id of 8 bytes, number of 8 bytes
_GLOBAL = 0x10
_TIMES = 16  # what the peer has left at most, counted in what is given back


@dataclass(frozen=True, slots=True)
class Received:
    """The peer wrote ``data`` to a stream: all of one ``receive``, joined."""

    stream: int
    data: bytes


@dataclass(frozen=True)
class _About:
    """``stream``: None is the connection as a whole, which speaks of creating and accepting streams."""

    stream: int | None


class Closed(_About):
    """The peer writes no more to a stream, or creates no streams."""


class Unread(_About):
    """The peer reads no more from a stream, whose queue is dropped, or accepts no streams."""


class Asked(_About):
    """The peer sent a ping, which is answered, behind the bytes in the events before."""


class Answered(_About):
    """The peer answered a ping."""


Event = Received | Closed | Unread | Asked | Answered


@dataclass(slots=True)
class Stream:
    """One stream. All counts are bytes; of the connection as a whole, which is kept as one, streams to be created."""

    credit: int = 0  # that we may still write
    granted: int = 0  # that the peer may still write
    queue: deque[memoryview] = field(default_factory=deque)  # to be written
    queued: int = 0  # sum of the queue
    to_grant: int = 0  # processed by our reader, whose credit is not yet given back
    is_closing: bool = False  # to be closed when its queue is empty
    sent: set[int] = field(default_factory=set)  # which of CLOSE and STOP_READ we sent
    came: set[int] = field(default_factory=set)  # and which of them the peer sent

    @property
    def is_over(self) -> bool:
        """Whether both sides have sent both closing packets."""
        return len(self.sent) + len(self.came) == 4


def packet(kind: int, stream: int | None, number: int | None = None) -> bytes:
    """A packet, without the bytes that follow a write. ``stream`` None: about the connection."""
    header = kind << 5 | (_GLOBAL if stream is None else _width(stream) << 2)
    if number is not None:
        header |= _width(number)
    numbers = (each.to_bytes(1 << _width(each), "big") for each in (stream, number) if each is not None)
    return bytes((header,)) + b"".join(numbers)


def _width(number: int) -> int:
    return 0 if number < 1 << 8 else 1 if number < 1 << 16 else 2 if number < 1 << 32 else 3


def pull_packet(data: Buffer, at: int) -> tuple[int, int | None, int | None, int] | None:
    """Read a packet: type, stream (None: the connection), number, and the offset behind; None if it is incomplete.

    The bytes of a write follow at that offset. ``RemoteProtocolError`` for an unknown type.
    """
    if at >= len(data):
        return None
    header = data[at]
    kind = header >> 5
    if kind > STOP_READ:
        raise RemoteProtocolError(f"the peer sent a bymux packet of unknown type {kind}")
    at += 1
    middle = at if header & _GLOBAL else at + (1 << (header >> 2 & 3))
    end = middle + (1 << (header & 3)) if kind in (CREDIT, WRITE) else middle
    if end > len(data):
        return None
    stream = int.from_bytes(data[at:middle], "big") if middle > at else None
    number = int.from_bytes(data[middle:end], "big") if end > middle else None
    return kind, stream, number, end


class Multiplexer:
    """One end of a bymux connection. ``streams`` exist from the start, with the credit of each side."""

    def __init__(self, streams: Mapping[int, Stream]) -> None:
        self.streams = dict(streams)
        self._whole = Stream()  # The connection: what global packets are about.
        self._head = bytearray()  # the beginning of an incomplete packet
        self._body = 0  # bytes of the present write that have not arrived yet
        self._body_of = 0
        self._packets = bytearray()  # for the peer: all packets but writes, which go out as credit allows
        self._to_answer: list[int | None] = []  # streams that the peer closed or stopped reading
        self._turns: deque[int] = deque()

    # -- in ----------------------------------------------------------------------------------------------------

    def receive(self, data: Buffer) -> tuple[list[Event], RemoteProtocolError | None]:
        """Take bytes from the peer: the events up to a fault, and the fault or None.

        Neighbouring pieces of one stream are joined. After a fault the connection around this takes nothing more.
        """
        events: list[Event] = []
        pieces: dict[int, list[memoryview]] = {}
        failure: RemoteProtocolError | None = None
        try:
            self._take(memoryview(data), events, pieces)
        except RemoteProtocolError as error:
            failure = error
        _join(pieces, events)
        if failure is None:
            self._answer_ends()
        return events, failure

    def _take(self, view: memoryview, events: list[Event], pieces: dict[int, list[memoryview]]) -> None:
        at, size = 0, len(view)
        while at < size:
            if self._body:
                taken = min(self._body, size - at)
                pieces.setdefault(self._body_of, []).append(view[at : at + taken])
                self._body -= taken
                at += taken
                continue
            before = len(self._head)
            self._head += view[at : at + MAX_HEADER_BYTES]
            found = pull_packet(self._head, 0)
            if found is None:
                return
            kind, stream_id, number, end = found
            at += end - before
            self._head.clear()
            if kind in (CLOSE, STOP_READ, PING):
                _join(pieces, events)
            self._take_packet(kind, stream_id, number or 0, events)

    def _take_packet(self, kind: int, stream_id: int | None, number: int, events: list[Event]) -> None:
        stream = self._whole if stream_id is None else self.streams.get(stream_id)
        if stream is None:
            raise RemoteProtocolError(f"the peer sent a packet for stream {stream_id}, which does not exist")
        if kind == WRITE:
            self._take_write(stream, stream_id, number)
        elif kind == CREDIT:
            if STOP_READ in stream.came:
                raise RemoteProtocolError(f"the peer gave credit for {_name(stream_id)} after it stopped reading")
            stream.credit = _with_credit(stream.credit, number, is_finite=stream_id is None)
        elif kind in (PING, PONG):
            self._take_sign(kind, stream, stream_id, events)
        elif kind in stream.came:
            raise RemoteProtocolError(f"the peer sent a second Close or StopRead for {_name(stream_id)}")
        else:
            self._take_end(kind, stream, stream_id, events)

    def _take_sign(self, kind: int, stream: Stream, stream_id: int | None, events: list[Event]) -> None:
        """Take a ping or pong."""
        if len(stream.came) == 2:
            raise RemoteProtocolError("the peer sent a ping or pong after both of its ends were closed")
        if kind == PONG:
            events.append(Answered(stream_id))
        elif len(stream.sent) < 2 and len(self._packets) < _MOST_ANSWERS:
            self._packets += packet(PONG, stream_id)
            events.append(Asked(stream_id))

    def _take_end(self, kind: int, stream: Stream, stream_id: int | None, events: list[Event]) -> None:
        """Take a Close or StopRead."""
        stream.came.add(kind)
        events.append(Closed(stream_id) if kind == CLOSE else Unread(stream_id))
        if kind == STOP_READ:
            stream.queue.clear()
            stream.queued = 0
        if stream_id not in self._to_answer:
            self._to_answer.append(stream_id)

    def _take_write(self, stream: Stream, stream_id: int | None, size: int) -> None:
        if stream_id is None:
            raise RemoteProtocolError("the peer created a stream without credit for it")
        if CLOSE in stream.came:
            raise RemoteProtocolError(f"the peer wrote to stream {stream_id} after closing it")
        if stream.granted != INFINITE:
            if size > stream.granted:
                raise RemoteProtocolError(
                    f"the peer wrote {size} bytes to stream {stream_id} with credit for {stream.granted}"
                )
            stream.granted -= size
        self._body, self._body_of = size, stream_id

    def _answer_ends(self) -> None:
        """Answer the peer's Close and StopRead with their counterparts, our own Close first."""
        for stream_id in self._to_answer:
            came = self._at(stream_id).came
            if STOP_READ in came:
                self._say_end(CLOSE, stream_id)
            if CLOSE in came:
                self._say_end(STOP_READ, stream_id)
        self._to_answer.clear()

    def _say_end(self, kind: int, stream_id: int | None) -> None:
        """Send a Close or StopRead, unless it was sent; and forget the stream once it is over."""
        stream = self._whole if stream_id is None else self.streams.get(stream_id)
        if stream is not None and kind not in stream.sent:
            stream.sent.add(kind)
            self._packets += packet(kind, stream_id)
        if stream_id is not None and stream is not None and stream.is_over:
            del self.streams[stream_id]

    # -- out ---------------------------------------------------------------------------------------------------

    def _at(self, stream_id: int | None) -> Stream:
        if stream_id is None:
            return self._whole
        if stream_id not in self.streams:
            raise LocalProtocolError(f"stream {stream_id} does not exist")
        return self.streams[stream_id]

    def write(self, stream_id: int, data: Buffer) -> None:
        """Queue bytes for a stream; they go out as credit and turns allow. Dropped if the peer has stopped reading.

        ``LocalProtocolError`` if the stream does not exist or is closed.
        """
        stream = self._at(stream_id)
        if stream.is_closing or CLOSE in stream.sent:
            if STOP_READ in stream.came:
                return
            raise LocalProtocolError(f"stream {stream_id} is closed for writing")
        if data:
            stream.queue.append(memoryview(data))
            stream.queued += len(data)
            if stream_id not in self._turns:
                self._turns.append(stream_id)

    def queued(self, stream_id: int) -> int:
        """The number of bytes that wait to be written to a stream; 0 if it does not exist."""
        stream = self.streams.get(stream_id)
        return stream.queued if stream is not None else 0

    def room(self, stream_id: int | None) -> int:
        """The number of bytes that could still be written without waiting for credit; 0 if it does not exist.

        Of the connection (None): of streams that could still be created.
        """
        stream = self._whole if stream_id is None else self.streams.get(stream_id)
        return 0 if stream is None or CLOSE in stream.sent else max(0, stream.credit - stream.queued)

    def grant(self, stream_id: int | None, amount: int) -> None:
        """Give the peer credit for ``amount`` more bytes, or ``INFINITE``, which cannot be taken back.

        Of the connection (None): for so many new streams.
        """
        stream = self._at(stream_id)
        if STOP_READ in stream.sent:
            raise LocalProtocolError(f"cannot give credit for stream {stream_id}: this side stopped reading it")
        if amount == INFINITE:
            stream.granted, number = INFINITE, 0
        else:
            if amount < 1 or stream.granted + amount >= INFINITE:
                raise LocalProtocolError(f"cannot give {amount} bytes of credit on top of {stream.granted}")
            stream.granted, number = stream.granted + amount, amount
        self._packets += packet(CREDIT, stream_id, number)

    def consumed(self, stream_id: int, amount: int) -> None:
        """Report that ``amount`` received bytes are processed; their credit goes back as the module says."""
        stream = self.streams.get(stream_id)
        if stream is None or STOP_READ in stream.sent or stream.granted == INFINITE:
            return
        stream.to_grant += amount
        if stream.to_grant * _TIMES >= max(1, stream.granted):
            self.grant(stream_id, stream.to_grant)
            stream.to_grant = 0

    def left(self, stream_id: int) -> int | None:
        """The number of bytes that the peer may still write, or is just writing; None if we read no more of it."""
        stream = self.streams.get(stream_id)
        if stream is None or STOP_READ in stream.sent:
            return None
        return stream.granted + (self._body if self._body_of == stream_id else 0)

    def may_ping(self, stream_id: int | None = None) -> bool:
        """Whether a ping is allowed: not once we have both closed and stopped reading, as no answer would come."""
        return (stream_id is None or stream_id in self.streams) and len(self._at(stream_id).sent) < 2

    def ping(self, stream_id: int | None = None) -> None:
        """Send a ping, which the peer answers with a pong (``Answered``)."""
        if not self.may_ping(stream_id):
            raise LocalProtocolError("cannot ping: both of our ends are closed")
        self._packets += packet(PING, stream_id)

    def close(self, stream_id: int | None) -> None:
        """Write no more to a stream, after its queue is sent; or (None) say that we create no streams."""
        stream = self._at(stream_id)
        stream.is_closing = True
        if not stream.queued:
            self._say_end(CLOSE, stream_id)

    def stop_read(self, stream_id: int | None) -> None:
        """Read no more from a stream, or (None) say that we accept no streams."""
        self._at(stream_id)
        self._say_end(STOP_READ, stream_id)

    def data_to_send(self, limit: int = INFINITE) -> bytes:
        """Bytes for the peer, up to about ``limit``. The streams take turns, a packet each, so that none starves.

        A stream on its own fills the rest with one packet: what is queued later goes out later in any case.
        """
        parts: list[Buffer] = [bytes(self._packets)]
        size = len(self._packets)
        self._packets.clear()
        waiting = 0
        while self._turns and size < limit and waiting < len(self._turns):
            stream_id = self._turns.popleft()
            stream = self.streams.get(stream_id)
            if stream is None or not stream.queued:
                continue
            most = PACKET_BYTES if self._turns else max(PACKET_BYTES, limit - size)
            room = min(most, stream.credit, stream.queued)
            if not room:
                self._turns.append(stream_id)
                waiting += 1
                continue
            waiting = 0
            parts.append(packet(WRITE, stream_id, room))
            size += room
            if stream.credit != INFINITE:
                stream.credit -= room
            stream.queued -= room
            while room:
                first = stream.queue.popleft()
                parts.append(first[:room])
                if len(first) > room:
                    stream.queue.appendleft(first[room:])
                room -= min(room, len(first))
            if stream.queued:
                self._turns.append(stream_id)
            elif stream.is_closing:
                self._say_end(CLOSE, stream_id)
        parts.append(bytes(self._packets))  # Closing packets, which go behind the bytes of their stream.
        self._packets.clear()
        return b"".join(parts)


# Bytes of pongs that wait at most. A peer that pings without reading gets no more answers; otherwise it could fill our
# memory with them.
_MOST_ANSWERS = 4096


def _name(stream_id: int | None) -> str:
    return "new streams" if stream_id is None else f"stream {stream_id}"


def _join(pieces: dict[int, list[memoryview]], events: list[Event]) -> None:
    """Turn received pieces into one event for each stream, the lowest id first, so that the order is predictable."""
    events += [Received(stream_id, b"".join(pieces[stream_id])) for stream_id in sorted(pieces)]
    pieces.clear()


def _with_credit(credit: int, amount: int, *, is_finite: bool) -> int:
    """Credit with some more. 0 stands for infinite credit, except for that to create streams."""
    if not amount and not is_finite:
        return INFINITE
    if credit + amount > INFINITE:
        raise RemoteProtocolError("more credit than 64 bits hold, or on top of infinite credit")
    return credit + amount
