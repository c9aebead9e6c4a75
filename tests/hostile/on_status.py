"""Attacks on the status page: connections that are held, and requests that cannot be read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from tests.hostile.attack import Attack, Field

HELD = 300
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


ATTACKS = [
    Attack("status", "all connections", holds_all, None, gets="^healthy$", connections=80, at_once=1),
    Attack("status", "malformed requests", talks_nonsense, "Duplicate 'Host'", gets="400 Bad Request to"),
]
