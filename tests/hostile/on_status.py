"""Attacks on the status page: connections that are held, requests that cannot be read, payloads that nobody reads."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import quote, urlsplit

from culm.wire.places import log_text
from tests.hostile.attack import Attack, Field

HELD, UNREAD = 300, 40
MALFORMED = b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _dial(field: Field, address: str) -> Streams:
    url = urlsplit(field.target.status)
    return await asyncio.open_connection(url.hostname, url.port, local_addr=(address, 0))


async def _answer(field: Field, address: str, request: bytes) -> str:
    """The first line of what is answered to a request; nothing if the connection is ended."""
    try:
        reader, writer = await _dial(field, address)
    except OSError:
        return ""
    writer.write(request)
    try:
        return (await reader.readline()).decode().strip()
    except OSError:
        return ""
    finally:
        writer.close()


async def holds_all(field: Field) -> str:
    """Holds three hundred connections and asks for nothing, again and again in the long run."""
    healthy = ""
    for _ in field.rounds(1):
        held: list[Streams] = []
        for _ in range(HELD):
            with suppress(OSError):
                held.append(await _dial(field, field.address))
        answers = [await _answer(field, address, HEALTH) for address in (field.address, field.others(1)[0])]
        healthy = "healthy" if answers == ["HTTP/1.1 200 OK"] * 2 else f"answered {answers}"
        for _, writer in held:
            writer.transport.abort()
        if field.over.is_set() or healthy != "healthy":
            break
    return healthy


async def talks_nonsense(field: Field) -> str:
    """Sends requests that cannot be read. Each traceback in the node's log would be a failure of the node."""
    count = 0
    for count in field.rounds(200):  # noqa: B007 - it is told
        await _answer(field, field.address, MALFORMED)
        if field.is_long and field.over.is_set():
            break
    return await _answer(field, field.address, MALFORMED) + f" to {count + 2}"


async def _begun(field: Field, address: str, request: bytes) -> tuple[str, asyncio.StreamWriter]:
    """Ask for something, and read its headers and nothing of what follows them."""
    reader, writer = await _dial(field, address)
    writer.write(request)
    return (await reader.readuntil(b"\r\n\r\n")).decode(), writer


async def takes_no_payload(field: Field) -> str:
    """Asks for a payload of 16 MiB over forty connections and reads nothing of it; asks as the page of another site."""
    address = f"/api/payload?log={quote(log_text(field.target.large_log), safe='')}&seq=1"
    request = f"GET {address} HTTP/1.1\r\nHost: localhost\r\n".encode()
    foreign = b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"
    needed = ("attachment;", "application/octet-stream", "nosniff", "default-src 'none'")
    said = ""
    for _ in field.rounds(1):
        held: list[asyncio.StreamWriter] = []
        heads: list[str] = []
        for _ in range(UNREAD):
            with suppress(OSError, asyncio.IncompleteReadError):
                head, writer = await _begun(field, field.address, request + b"\r\n")
                heads.append(head)
                held.append(writer)
        files = sum(all(words in head for words in needed) for head in heads)
        refused = await _answer(field, field.address, request + foreign + b"\r\n")
        healthy = await _answer(field, field.others(1)[0], HEALTH)
        said = f"{files} of {len(heads)} attachments, {refused}, {healthy}"
        for writer in held:
            writer.transport.abort()
        if field.over.is_set():
            break
    return said


ATTACKS = [
    Attack("status", "all connections", holds_all, None, gets="^healthy$", connections=80, at_once=1),
    Attack(
        "status",
        "unread payloads",
        takes_no_payload,
        None,
        gets="^40 of 40 attachments, HTTP/1.1 403 Forbidden, HTTP/1.1 200 OK$",
        connections=80,
        at_once=1,
    ),
    Attack("status", "malformed requests", talks_nonsense, "Duplicate 'Host'", gets="400 Bad Request to"),
]
