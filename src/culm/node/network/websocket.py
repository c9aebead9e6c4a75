"""A WebSocket as a pair of streams, so that a session runs over it as over TCP (RFC 6455; by ``wsproto``).

Browsers cannot open TCP connections, and many networks let nothing out but HTTPS. After the handshake the content of
all binary messages, in a row, is the byte stream of the protocol inside. Where a message begins or ends means nothing.

``wsproto`` does no I/O and hands out the content of a frame while it comes. So a frame of any claimed size needs no
memory here. What a caller can still do is send many tiny frames, because a frame costs far more than its bytes. So
frames have a rate, which a reader of logs stays far below, and little is read at once, so that others have their turn.

Extensions are not accepted. Compression would be of no use for hashes and signatures, and a few bytes could stand for
many.

Specification: docs/specs/intervals.md, "Over a WebSocket".
"""

import asyncio
from typing import Any, cast

from culm.errors import ConfigError, NetworkError, RemoteProtocolError
from culm.node.network.urls import PeerUrl
from culm.node.network.webaccess import EXCHANGE, PROTOCOL, TOKEN_PREFIX, WebAccess
from culm.node.sessions.stats import PeerRefused
from culm.node.sessions.tasks import reason_of
from culm.node.sharing.rates import Bucket, Streams, unsent
from culm.node.surroundings import clock

_READ_BYTES = 4096  # Parsed in one go: a thousand empty frames at most, some milliseconds.
_MOST_HEAD = 16 * 1024  # Bytes of the caller's HTTP request; browsers send a few hundred, and cookies.
_FRAMES = 500.0  # A second, beyond a first thousand: a hundredth of the CPU. A page sends some for each thing it gets.
_REFUSALS = {
    401: "it wants a token: set token_file for this peer, to a file with one that the node knows",
    403: "it serves no page of this origin",
    400: "it is no node, or one that speaks something else there",
}
_MOST_UNSENT = 64 * 1024  # Bytes of answers to pings that the caller has not taken, before no more is read from it.


def check_installed() -> None:
    """``ConfigError`` if wsproto is missing."""
    try:
        import wsproto  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ConfigError("ws:// and wss:// need wsproto: pip install 'culm[web]'") from None


class _Writer:
    """Sends what is written as binary messages. It has those methods of ``asyncio.StreamWriter`` that sessions use."""

    def __init__(self, writer: asyncio.StreamWriter, connection: Any) -> None:  # noqa: ANN401 - a type of the extra
        self._writer = writer
        self._connection = connection
        self._is_ended = False
        self.drain = writer.drain
        self.wait_closed = writer.wait_closed
        self.get_extra_info = writer.get_extra_info

    @property
    def transport(self) -> asyncio.WriteTransport:
        """The connection below. TLS exchanges it when it begins."""
        return self._writer.transport

    def write(self, data: bytes) -> None:
        """Send bytes; ignored after the end."""
        from wsproto.events import BytesMessage  # noqa: PLC0415 - an extra

        if data:
            self.send(BytesMessage(data=data))

    def send(self, event: Any) -> None:  # noqa: ANN401 - a type of the extra
        """Send a frame of any kind; ignored after the end."""
        if not self._is_ended:
            self._writer.write(self._connection.send(event))

    def write_eof(self) -> None:
        """Say that nothing more comes. The caller answers that, and then its side has ended, too."""
        from wsproto.events import CloseConnection  # noqa: PLC0415 - an extra

        self.send(CloseConnection(code=1000))
        self._is_ended = True

    def answer_end(self, event: Any) -> None:  # noqa: ANN401 - a type of the extra
        """The caller has ended the connection: say that this was heard."""
        self.send(event.response())
        self._is_ended = True

    def close(self) -> None:
        """End the connection."""
        if not self._writer.is_closing():
            self.write_eof()
        self._writer.close()


class _Reader:
    """The content of the caller's messages. It has the one method of ``asyncio.StreamReader`` that sessions use."""

    def __init__(self, reader: asyncio.StreamReader, writer: _Writer, connection: Any) -> None:  # noqa: ANN401
        self._reader, self._writer, self._connection = reader, writer, connection
        self._content = bytearray()
        self._frames = Bucket(_FRAMES)
        self._is_over = False

    async def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; none at the end. ``RemoteProtocolError`` for frames that break the rules.

        Frames count beyond the first of each reading: a large one comes in many readings, and has no rate.
        """
        while not self._content and not self._is_over:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                break
            frames = self._receive(data)
            await asyncio.sleep(self._frames.reserve(max(0, frames - 1), clock()))
            if unsent(cast("asyncio.StreamWriter", self._writer)) > _MOST_UNSENT:
                await self._writer.drain()
        some = bytes(self._content[:size])
        del self._content[:size]
        return some

    def _receive(self, data: bytes) -> int:
        """Take bytes of the caller; how many frames, or parts of frames, they have."""
        from wsproto import events  # noqa: PLC0415 - an extra
        from wsproto.connection import ConnectionState  # noqa: PLC0415

        frames = 0
        self._connection.receive_data(data)
        for frames, event in enumerate(self._connection.events(), 1):
            match event:
                case events.BytesMessage():
                    self._content += event.data
                case events.Ping():
                    self._writer.send(event.response())
                case events.CloseConnection():
                    # wsproto shows broken frames as an end, too, but its state shows that the caller has sent none.
                    if self._connection.state in (ConnectionState.OPEN, ConnectionState.LOCAL_CLOSING):
                        raise RemoteProtocolError(f"the peer broke the rules of WebSocket: {event.reason}")
                    self._writer.answer_end(event)
                    self._is_over = True
                    return frames
                case events.TextMessage():
                    raise RemoteProtocolError("the peer sent text in a WebSocket, but intervals are binary messages")
        return frames


async def upgraded(streams: Streams, access: WebAccess, seconds: float) -> tuple[Streams, bool]:
    """Do the handshake with a caller, within ``seconds``; the streams inside, and whether the caller may bring entries.

    ``NetworkError`` if the caller is refused, or does not ask for a WebSocket. It is closed then.
    """
    from wsproto import ConnectionType, WSConnection  # noqa: PLC0415 - an extra

    reader, writer = streams
    connection = WSConnection(ConnectionType.SERVER)
    try:
        async with asyncio.timeout(seconds):
            request = await _request(reader, connection)
        protocol = _answer(request, access, writer, connection)
    except TimeoutError:
        writer.close()
        raise NetworkError(f"the caller did not finish the WebSocket handshake within {seconds:g} s") from None
    except OSError as error:
        writer.close()
        raise NetworkError(f"the connection broke during the WebSocket handshake: {reason_of(error)}") from None
    except BaseException:
        writer.close()
        raise
    return _inside(reader, writer, connection), protocol == EXCHANGE


def _inside(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: Any) -> Streams:  # noqa: ANN401
    out = _Writer(writer, connection)
    return cast("Streams", (_Reader(reader, out, connection), out))


async def join(streams: Streams, url: PeerUrl, token: str | None) -> Streams:
    """Ask the node at ``url`` for a WebSocket, with a token if it wants one; the streams inside.

    ``PeerRefused`` if it does not let us in, ``NetworkError`` if it answers anything else.
    """
    from wsproto import ConnectionType, WSConnection  # noqa: PLC0415 - an extra
    from wsproto.events import AcceptConnection, RejectConnection, Request  # noqa: PLC0415
    from wsproto.utilities import RemoteProtocolError as Broken  # noqa: PLC0415

    reader, writer = streams
    connection = WSConnection(ConnectionType.CLIENT)
    host = f"[{url.host}]" if ":" in url.host else url.host
    offered = [EXCHANGE, PROTOCOL, *([TOKEN_PREFIX + token] if token else [])]
    writer.write(connection.send(Request(f"{host}:{url.port}", url.path or "/", subprotocols=offered)))
    head = await head_of(reader, f"{url} hung up during the WebSocket handshake")
    try:
        connection.receive_data(head)
        answer = next(connection.events(), None)
    except (Broken, ValueError):  # ValueError: a header that is no text.
        answer = None
    match answer:
        case AcceptConnection(subprotocol=name) if name in {EXCHANGE, PROTOCOL}:
            return _inside(reader, writer, connection)
        case RejectConnection(status_code=status) if status in _REFUSALS:
            raise PeerRefused(f"{url} answers with status {status}: {_REFUSALS[status]}")
        case RejectConnection(status_code=status):
            raise NetworkError(f"{url} answers with status {status}, and not as a node does")
    raise NetworkError(f"{url} does not answer as a WebSocket of a node does")


async def head_of(reader: asyncio.StreamReader, hung_up: str) -> bytes:
    """The head of an HTTP message, with the empty line behind it; ``NetworkError`` if there is none, or a large one."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        raise NetworkError(hung_up) from None
    except asyncio.LimitOverrunError:
        head = bytes(_MOST_HEAD + 1)
    if len(head) > _MOST_HEAD:
        raise NetworkError(f"the other side's HTTP head has more than {_MOST_HEAD} bytes")
    return head


def _answer(request: Any, access: WebAccess, writer: asyncio.StreamWriter, connection: Any) -> str:  # noqa: ANN401
    """Let a caller in, by the subprotocol that is returned, or say that it is refused and raise ``NetworkError``."""
    from wsproto.events import AcceptConnection, RejectConnection  # noqa: PLC0415 - an extra

    headers = {bytes(name).lower(): bytes(value) for name, value in request.extra_headers}
    origin = headers.get(b"origin")
    objection = access.objection(None if origin is None else origin.decode("latin-1"), request.subprotocols)
    if objection is not None:
        status, reason = objection
        writer.write(connection.send(RejectConnection(status_code=status, headers=[(b"connection", b"close")])))
        raise NetworkError(f"the caller is refused: {reason}")
    exchanges = access.exchange and origin is None and EXCHANGE in request.subprotocols
    protocol = EXCHANGE if exchanges else PROTOCOL
    writer.write(connection.send(AcceptConnection(subprotocol=protocol)))
    return protocol


async def _request(reader: asyncio.StreamReader, connection: Any) -> Any:  # noqa: ANN401 - types of the extra
    """The caller's request for a WebSocket; ``NetworkError`` if it sends something else.

    Only the request is read: frames that a caller sends at once behind it stay in the stream.
    """
    from wsproto.utilities import RemoteProtocolError as Broken  # noqa: PLC0415 - an extra

    head = await head_of(reader, "the caller hung up during the WebSocket handshake")
    try:
        connection.receive_data(head)
    except (Broken, ValueError) as error:  # ValueError: a header that is no text, such as a Host that is no name.
        raise NetworkError(f"the caller does not ask for a WebSocket: {error}") from None
    request = next(connection.events(), None)
    if request is None:
        raise NetworkError("the caller does not ask for a WebSocket")
    return request
