"""Connections: TCP, and TLS for ``culm://``."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

from culm.errors import ConfigError, NetworkError
from culm.node.network.tls import calling_context, peer_key
from culm.node.sessions.stats import PeerRefused
from culm.wire.places import author_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from culm.node.network.urls import PeerUrl

_STREAM_LIMIT = 64 * 1024
CONNECT_SECONDS = 10.0

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(url: PeerUrl) -> Streams:
    """Connect to a peer; ``NetworkError`` if that fails or takes more than ten seconds.

    With ``culm://``, ``PeerRefused`` if somebody else answers than the one whose key the address has.
    """
    secure = {"ssl": calling_context(), "server_hostname": ""} if url.is_secure else {}
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            streams = await asyncio.open_connection(url.host, url.port, limit=_STREAM_LIMIT, **secure)  # type: ignore[arg-type]
    except TimeoutError:
        raise NetworkError(f"{url} did not answer within {CONNECT_SECONDS:g} s") from None
    except ssl.SSLError as error:
        raise NetworkError(f"{url} failed the TLS 1.3 handshake: {error.reason}") from None
    except OSError as error:
        raise NetworkError(f"cannot reach {url}: {_reason(error)}") from None
    if secure and (key := peer_key(streams[1])) != url.key:
        streams[1].close()
        raise PeerRefused(f"another node answers at {url}: its key is {author_text(key)}")
    return streams


async def listen_at(
    url: PeerUrl,
    accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> tuple[asyncio.Server, PeerUrl]:
    """Listen; the server, and its address with the port that it got. ``ConfigError`` if that cannot be.

    TLS is the caller's business (``secured``), who so can refuse a connection before it costs anything.
    """
    try:
        server = await asyncio.start_server(accept, url.host, url.port, limit=_STREAM_LIMIT)
    except OSError as error:
        raise ConfigError(f"cannot listen at {url}: {_reason(error)}") from None
    return server, replace(url, port=server.sockets[0].getsockname()[1])


async def secured(writer: asyncio.StreamWriter, context: ssl.SSLContext, seconds: float) -> None:
    """Shake hands by TLS with somebody who called, within so many seconds; ``NetworkError`` if that fails.

    It has to be the first thing that is awaited on a connection: what comes before is not for TLS.
    """
    transport = writer.transport
    try:
        await writer.start_tls(context, ssl_handshake_timeout=seconds)
    except ssl.SSLError as error:
        raise NetworkError(f"the caller failed the TLS 1.3 handshake: {error.reason}") from None
    except OSError as error:
        raise NetworkError(f"the connection broke during the TLS handshake: {_reason(error)}") from None
    except AttributeError:  # lost just when the handshake was over: asyncio has nothing to put in the transport's place
        writer._transport = transport  # type: ignore[attr-defined]  # noqa: SLF001
        raise NetworkError("the connection broke during the TLS handshake") from None


def _reason(error: OSError) -> str:
    """The system's words for an error: asyncio's own repeat the address."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
