"""Attacks on ``ws://``, where web pages read: before the handshake is over, and with frames."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from culm.intervals.codec import push_message
from culm.intervals.messages import ResponseCredit
from tests.hostile.attack import Attack, Field
from tests.hostile.node import PAGE, TOKEN
from tests.hostile.on_intervals import request
from tests.hostile.wires import Cut, Wire

CUT = "cut off"
_MASK = bytes(4)  # Allowed, and leaves the content as it is.


def asking(origin: str = PAGE, token: str = TOKEN, more: str = "") -> bytes:
    """The request of a page for a WebSocket."""
    return (
        "GET / HTTP/1.1\r\nHost: node.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nOrigin: {origin}\r\n"
        f"Sec-WebSocket-Protocol: culm-intervals, culm-token.{token}\r\n{more}\r\n"
    ).encode()


def frame(first: int, content: bytes = b"", claimed: int | None = None) -> bytes:
    """A frame; ``claimed``: the length that it says."""
    size = len(content) if claimed is None else claimed
    if size < 126:
        return bytes((first, 0x80 | size)) + _MASK + content
    wide = size >= 1 << 16
    return bytes((first, 0xFF if wide else 0xFE)) + size.to_bytes(8 if wide else 2, "big") + _MASK + content


async def _answered(field: Field, sent: bytes) -> str:
    wire = await Wire.dial(field.target, "ws", field.address)
    with suppress(Cut):
        await wire.send(sent)
        status = (await wire.read()).split(b" ", 2)[1]
        await wire.swallow()
        return f"refused with {status.decode()}"
    return CUT


async def another_page(field: Field) -> str:
    """Is a page of another site."""
    return await _answered(field, asking(origin="https://evil.example"))


async def guesses(field: Field) -> str:
    """Guesses the token."""
    return await _answered(field, asking(token="a-token-of-hostile-tesst"))


async def long_handshake(field: Field) -> str:
    """Sends an HTTP header of a gigabyte."""
    wire = await Wire.dial(field.target, "ws", field.address)
    with suppress(Cut):
        await wire.send(asking()[:-2] + b"Cookie: ")
        await wire.flood(b"c" * 65536, 16384)
    return CUT


async def slow_handshake(field: Field) -> str:
    """Begins the handshake, a byte now and then."""
    wire = await Wire.dial(field.target, "ws", field.address)
    ended = asyncio.create_task(wire.swallow())
    with suppress(Cut):
        for byte in asking():
            await wire.send(bytes((byte,)))
            done, _ = await asyncio.wait([ended], timeout=0.05)  # its pace
            if done:
                break
    await ended
    return CUT


async def _joined(field: Field) -> Wire:
    wire = await Wire.dial(field.target, "ws", field.address)
    await wire.send(asking())
    await wire.read()
    return wire


async def _flood(field: Field, some: bytes, rounds: int, *, first: bytes = b"") -> int:
    """Send bytes again and again, as fast as the node takes them; how many were sent in all."""
    wire = await _joined(field)
    reading = asyncio.create_task(wire.swallow())
    with suppress(Cut):
        await wire.send(first)
        for _ in field.rounds(rounds):
            await wire.send(some)
            if field.over.is_set():
                break
    wire.finish()
    await reading
    return wire.sent


async def huge_frame(field: Field) -> str:
    """Sends a frame of 4 EiB, all of it messages of two bytes that say nothing."""
    some = push_message(ResponseCredit(0)) * 32768
    return f"{await _flood(field, some, 6, first=frame(0x82, claimed=1 << 62))} bytes"


async def empty_frames(field: Field) -> str:
    """Sends frames without content, as fast as it can."""
    return f"{await _flood(field, frame(0x82) * 10_000, 3) // len(frame(0x82))} frames"


async def slow_frames(field: Field) -> str:
    """Sends a frame of a message that never ends, a byte now and then."""
    wire = await _joined(field)
    ended = asyncio.create_task(wire.swallow())
    with suppress(Cut):
        await wire.send(frame(0x02, b"\x02"))
        for _ in range(10_000):
            await wire.send(frame(0x00))
            done, _ = await asyncio.wait([ended], timeout=0.05)  # its pace
            if done:
                break
    await ended
    return CUT


async def pings(field: Field) -> str:
    """Pings without end, and reads no answer."""
    wire = await _joined(field)
    wire.stop_reading()
    await field.press(wire.flood(frame(0x89, b"p" * 125) * 500, 10**9 if field.is_long else 60))
    wire.close()
    return f"{wire.sent} bytes were taken"


async def broken_frames(field: Field) -> str:
    """Sends frames that break the rules, and calls again."""
    count = 0
    for _ in field.rounds(30):
        if field.over.is_set():
            break
        with suppress(Cut):
            wire = await _joined(field)
            await wire.send(frame(0x83, b"?"))
            await wire.swallow()
        count += 1
    return f"{CUT}, {count} times"


async def unread(field: Field) -> str:
    """Asks for everything and reads nothing."""
    wire = await _joined(field)
    wire.stop_reading()
    logs = [*field.target.logs, field.target.large_log]
    asked = b"".join(request(number, logs[number % len(logs)]) for number in range(1024))
    with suppress(Cut):
        await wire.send(frame(0x82, push_message(ResponseCredit(1 << 60)) + asked))
    await field.over.wait()
    wire.close()
    return CUT


ATTACKS = [
    Attack("ws", "page of another site", another_page, "origin", gets="refused with 403"),
    Attack("ws", "token guessed", guesses, "token", gets="refused with 401"),
    Attack("ws", "long handshake", long_handshake, "more than"),
    Attack("ws", "slow handshake", slow_handshake, "handshake within"),
    Attack("ws", "huge frame", huge_frame, None, gets="bytes", cpu=6.0),
    Attack("ws", "empty frames", empty_frames, None, gets="frames", cpu=6.0),
    Attack("ws", "slow frames", slow_frames, "sent nothing"),
    Attack("ws", "pings unread", pings, None, gets="taken", cpu=6.0),
    Attack("ws", "broken frames", broken_frames, "rules of WebSocket"),
    Attack("ws", "everything unread", unread, "has not read|sent nothing", cpu=6.0),
]
