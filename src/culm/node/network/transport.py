"""Opening and accepting connections: TCP, TLS for ``culm://``, and others (``culm.node.network.pipes``).

Errors of the system become those of Culm here.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from culm.errors import ConfigError, NetworkError
from culm.node.network import pipes, webcall
from culm.node.network.accepting import listening
from culm.node.network.tls import calling_context, peer_key
from culm.node.network.urls import WEB_SCHEMES, PeerUrl
from culm.node.sessions.inlet import connected, receiving
from culm.node.sessions.stats import PeerRefused
from culm.node.sessions.tasks import reason_of
from culm.wire.places import author_text

STREAM_LIMIT = 128 * 1024
"""Bytes: asyncio stops reading from the socket when twice as many wait to be read by us."""
CONNECT_SECONDS = 10.0
"""For connecting, TLS included. A host that is not there should not hold up ``culm sync`` for the minutes that the
system would wait."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

# A peer that only waits for news says nothing, as a dead one does. So the system asks a silent host for a sign of life,
# and gives the connection up when three such questions, or data that was sent, have no answer for so long.
_PROBE_SECONDS = 60  # Of silence before the first question: seldom enough to cost nothing on a metered line.
_PROBES = {"TCP_KEEPIDLE": _PROBE_SECONDS, "TCP_KEEPALIVE": _PROBE_SECONDS, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
_UNTAKEN_MS = 120_000  # Milliseconds that sent data may wait for an answer: as long as the questions take together.

# What is handed to a socket cannot be overtaken any more. Systems take a megabyte and more, which on a slow link takes
# a second and more to go. So that news do not wait for all that behind a large payload, the system and asyncio each
# hold about this much that has not gone out.
_UNSENT_BYTES = 16 * 1024


def _tune(writer: asyncio.StreamWriter) -> None:
    """Let little wait to be sent on a TCP connection, and have the system end it when the other host is gone.

    Pipes and Unix sockets end with their peer, and are quick.
    """
    connection = writer.get_extra_info("socket")
    if connection is None or connection.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    writer.transport.set_write_buffer_limits(_UNSENT_BYTES)
    with suppress(OSError):  # A connection that is lost already; reading from it says so.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in {**_PROBES, "TCP_USER_TIMEOUT": _UNTAKEN_MS, "TCP_NOTSENT_LOWAT": _UNSENT_BYTES}.items():
            if (option := getattr(socket, name, None)) is not None:  # Each system knows some of them.
                connection.setsockopt(socket.IPPROTO_TCP, option, value)


async def connect(url: PeerUrl, token_file: Path | None = None) -> Streams:
    """Connect to a peer; ``NetworkError`` if that fails or takes more than ``CONNECT_SECONDS``.

    With ``culm://``, ``PeerRefused`` if the listener proves another key than the one in the address. ``token_file``:
    see ``webcall.call``.
    """
    secure = {"ssl": calling_context(), "server_hostname": ""} if url.is_secure else {}
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if url.via:
                return await pipes.call(url, STREAM_LIMIT)
            if url.scheme in WEB_SCHEMES:
                return await webcall.call(url, STREAM_LIMIT, token_file)
            streams = await connected(url.host, url.port, STREAM_LIMIT, **secure)
    except TimeoutError:
        raise NetworkError(f"{url} did not answer within {CONNECT_SECONDS:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise PeerRefused(f"the certificate of {url} is not trusted: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise NetworkError(f"{url} failed the TLS{' 1.3' * url.is_secure} handshake: {error.reason}") from None
    except OSError as error:
        raise NetworkError(f"cannot reach {url}: {reason_of(error)}") from None
    _tune(streams[1])
    if secure and (key := peer_key(streams[1])) != url.key:
        streams[1].transport.abort()  # At once: an orderly end of TLS takes longer than a command that fails here runs.
        raise PeerRefused(f"another node answers at {url}: its key is {author_text(key)}")
    return streams


async def listen_at(
    url: PeerUrl,
    accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> tuple[asyncio.Server, PeerUrl]:
    """Listen; the server, and the address with the port that the system gave. ``ConfigError`` if that fails.

    ``accept`` gets plain TCP connections. It starts TLS itself (``secured``), so that it can refuse a connection before
    the handshake costs anything.
    """

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _tune(writer)
        await accept(reader, writer)

    try:
        if url.via:
            loop = asyncio.get_running_loop()
            return await loop.create_unix_server(
                partial(receiving, STREAM_LIMIT, taken), sock=pipes.bound(url.host)
            ), url
        server = await listening(partial(receiving, STREAM_LIMIT, taken), url.host, url.port)
    except OSError as error:
        raise ConfigError(f"cannot listen at {url}: {reason_of(error)}") from None
    return server, replace(url, port=server.sockets[0].getsockname()[1])


async def secured(writer: asyncio.StreamWriter, context: ssl.SSLContext, seconds: float) -> None:
    """Do the TLS handshake with a caller, within ``seconds``; ``NetworkError`` if it fails.

    Nothing else may be awaited on the connection before. Otherwise the first bytes of the handshake could be read as
    plain data, and TLS would miss them.
    """
    transport = writer.transport
    try:
        await writer.start_tls(context, ssl_handshake_timeout=seconds)
        writer.transport.set_write_buffer_limits(_UNSENT_BYTES)
    except ssl.SSLError as error:
        raise NetworkError(f"the caller failed the TLS 1.3 handshake: {error.reason}") from None
    except OSError as error:
        raise NetworkError(f"the connection broke during the TLS handshake: {reason_of(error)}") from None
    except AttributeError:
        # The connection was lost just when the handshake was over. asyncio has then put None in the transport's place;
        # put the old transport back, so that the writer can be closed.
        writer._transport = transport  # type: ignore[attr-defined]  # noqa: SLF001
        raise NetworkError("the connection broke during the TLS handshake") from None
