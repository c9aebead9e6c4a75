"""Attacks on ``negentropy://``, where nobody proves who they are."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from culm.bamboo import encode_varu64
from culm.negentropy.codec import VERSION
from culm.node.negentropy.comparison import MAX_MESSAGE
from tests.hostile.attack import Attack, Field
from tests.hostile.wires import Cut, Wire

CUT = "cut off"
_VERSION = bytes((VERSION,))


def framed(message: bytes) -> bytes:
    """A message behind its length."""
    return encode_varu64(len(message)) + message


async def _asks(wire: Wire, message: bytes) -> int:
    """Send a message and read the answer; its bytes."""
    await wire.send(framed(message))
    data = await wire.read()
    first = data[0]
    width = max(0, first - 247)
    size = int.from_bytes(data[1 : 1 + width], "big") if width else first
    missing = size + 1 + width - len(data)
    while missing > 0:
        missing -= len(await wire.read())
    return size


def filled(part: bytes, most: int = MAX_MESSAGE // 4) -> bytes:
    """A message of as many ranges as there may be, each the same bytes."""
    return _VERSION + part * ((most - 1) // len(part))


async def claims(field: Field) -> str:
    """Claims a message of 2^60 bytes."""
    wire = await Wire.dial(field.target, "negentropy", field.address)
    with suppress(Cut):
        await wire.send(encode_varu64(1 << 60))
    await wire.swallow()
    return CUT


async def never_ends(field: Field) -> str:
    """Sends all but the last byte of a message of 4 MiB."""
    wire = await Wire.dial(field.target, "negentropy", field.address)
    with suppress(Cut):
        await wire.send(encode_varu64(MAX_MESSAGE), bytes(MAX_MESSAGE - 1))
    await wire.swallow()
    return CUT


async def splits(part: bytes, field: Field) -> str:
    """Asks about as many ranges as fit into a message."""
    wire = await Wire.dial(field.target, "negentropy", field.address)
    size, message = 0, filled(part)
    with suppress(Cut):
        for _ in field.rounds(1):
            size += await _asks(wire, message)
            if field.over.is_set():
                break
    wire.close()
    return f"{size} bytes for {wire.sent}"


async def huge_split(field: Field) -> str:
    """Asks for the difference in a million ranges, each with a wrong fingerprint."""
    return await splits(b"\x01\x01\x80\x01" + os.urandom(16), field)


async def huge_skip(field: Field) -> str:
    """Skips a million ranges."""
    return await splits(b"\x01\x00\x00", field)


async def huge_lists(field: Field) -> str:
    """Lists nothing in a million ranges."""
    return await splits(b"\x01\x00\x02\x00", field)


async def everything(field: Field) -> str:
    """Asks for the whole list of records again and again."""
    wire = await Wire.dial(field.target, "negentropy", field.address)
    size, message = 0, _VERSION + b"\x00\x00\x02\x00"
    with suppress(Cut):
        for _ in field.rounds(100):
            size += await _asks(wire, message)
            if field.over.is_set():
                break
    wire.close()
    return f"{size} bytes for {wire.sent}"


async def everything_unread(field: Field) -> str:
    """Asks for the whole list of records again and again and reads nothing."""
    wire = await Wire.dial(field.target, "negentropy", field.address)
    wire.stop_reading()
    message = framed(_VERSION + b"\x00\x00\x02\x00") * 1000
    await field.press(wire.flood(message))
    await field.over.wait()
    wire.close()
    return CUT


async def changes_its_mind(field: Field) -> str:
    """Chooses what to compare again and again: a snapshot each time."""
    wire = await Wire.dial(field.target, "negentropy", field.address)
    count = 0
    with suppress(Cut):
        for count in field.rounds(100):  # noqa: B007 - it is told
            await _asks(wire, b"\0heads")
            if field.over.is_set():
                break
    wire.close()
    return f"{count + 1} snapshots"


async def many_at_once(field: Field) -> str:
    """Compares in as many connections as it gets."""
    wires = [await Wire.dial(field.target, "negentropy", field.address) for _ in range(20)]
    message = filled(b"\x01\x00\x02\x00", 100_000)

    async def one(wire: Wire) -> int:
        size = 0
        with suppress(Cut):
            for _ in field.rounds(1):
                size += await _asks(wire, message)
                if field.over.is_set():
                    break
        wire.close()
        return size

    size = sum(await asyncio.gather(*map(one, wires)))
    return f"{size} bytes for {sum(wire.sent for wire in wires)}"


ATTACKS = [
    Attack("negentropy", "claimed size", claims, "a message of"),
    Attack("negentropy", "message without end", never_ends, None),
    Attack("negentropy", "huge split", huge_split, None, gets="bytes for", cpu=4.0),
    Attack("negentropy", "huge skip", huge_skip, None, gets="bytes for", cpu=6.0),
    Attack("negentropy", "huge lists", huge_lists, None, gets="bytes for", cpu=5.0, is_quick=False),
    Attack("negentropy", "everything", everything, None, gets="bytes for"),
    Attack("negentropy", "everything unread", everything_unread, "did not answer in time"),
    Attack("negentropy", "many snapshots", changes_its_mind, None, gets="snapshots"),
    Attack("negentropy", "many at once", many_at_once, None, gets="bytes for", cpu=9.0, connections=80, is_quick=False),
]
