"""Calling a node at ``ws://`` or ``wss://``, also through an HTTP proxy.

Many networks let nothing out but HTTPS, and some only through a proxy that has to be asked first. ``wss://`` gets
through both. It proves the name of a host, as the web does, and no key of a node: entries are signed by their authors,
so a wrong host can withhold them and see what is asked for, and that is all. So the certificate is checked against the
authorities that this machine trusts (``SSL_CERT_FILE`` names others).

The proxy is that of the environment, ``https_proxy`` and ``no_proxy``, as other programs take it. It is asked for a
connection to the node (CONNECT) and sees encrypted bytes only, because TLS begins behind it.

Specification: docs/specs/intervals.md, "Over a WebSocket".
"""

import asyncio
import ssl
from base64 import b64encode
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from culm.bamboo.keyfile import read_private
from culm.errors import ConfigError, NetworkError
from culm.node.network.urls import PeerUrl
from culm.node.network.webaccess import read_tokens
from culm.node.network.websocket import check_installed, head_of, join
from culm.node.sharing.rates import Streams

_HTTP_PORT = 80


async def call(url: PeerUrl, limit: int, token_file: Path | None) -> Streams:
    """Connect to a node; the streams inside the WebSocket. ``limit``: bytes that wait to be read.

    ``token_file``: a file whose first token is shown. It is read for each call. ``OSError`` if the node is not reached,
    ``NetworkError`` if it, or the proxy, does not do what is asked, ``ConfigError`` for a file that cannot be used.
    """
    check_installed()
    token = None if token_file is None else read_tokens(read_private(token_file))[0]
    streams = await (
        _secured(url, limit) if url.scheme == "wss" else asyncio.open_connection(url.host, url.port, limit=limit)
    )
    try:
        return await join(streams, url, token)
    except BaseException:
        streams[1].transport.abort()
        raise


async def _secured(url: PeerUrl, limit: int) -> Streams:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # A proxy in front of the node may speak no newer one.
    context.set_alpn_protocols(["http/1.1"])
    if (proxy := _proxy_for(url.host)) is None:
        return await asyncio.open_connection(url.host, url.port, limit=limit, ssl=context)
    reader, writer = await asyncio.open_connection(proxy.hostname, proxy.port or _HTTP_PORT, limit=limit)
    try:
        await _ask(proxy, url, reader, writer)
        await writer.start_tls(context, server_hostname=url.host)
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


def _proxy_for(host: str) -> SplitResult | None:
    """The proxy by which a host is reached, as the environment says; None if it is reached without."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - takes long to load

    text = getproxies().get("https")
    if not text or proxy_bypass(host):
        return None
    proxy = urlsplit(text if "://" in text else f"http://{text}")
    if proxy.scheme != "http" or not proxy.hostname:
        raise ConfigError("https_proxy in the environment names no proxy of the form http://HOST:PORT")
    return proxy


async def _ask(proxy: SplitResult, url: PeerUrl, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ask a proxy for a connection to the node; ``NetworkError`` if it refuses."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    lines = [f"CONNECT {host}:{url.port} HTTP/1.1", f"Host: {host}:{url.port}"]
    if proxy.username is not None:
        known = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
        lines.append(f"Proxy-Authorization: Basic {b64encode(known).decode()}")
    writer.write("\r\n".join([*lines, "", ""]).encode())
    place = f"the proxy {proxy.hostname}:{proxy.port or _HTTP_PORT}"
    answer = (await head_of(reader, f"{place} hung up")).split(b" ", 2)
    status = answer[1][:3].decode(errors="replace") if answer[0].startswith(b"HTTP/1.") and len(answer) > 1 else ""
    if status != "200":
        said = f"status {status}" if status.isdecimal() else "something that is no HTTP"
        raise NetworkError(f"{place} does not connect to {url}: it answers with {said}")
