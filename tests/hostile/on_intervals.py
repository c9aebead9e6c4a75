"""Attacks on ``intervals://``, where nobody proves who they are."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress
from dataclasses import replace

from culm.bamboo import MAX_U64
from culm.intervals import At, Regular, Request
from culm.intervals.codec import push_message
from culm.intervals.messages import Cancel, Eager, Lazy, RequestCredit, ResponseCredit
from tests.hostile.attack import Attack, Field
from tests.hostile.serving import (
    MOST_LOOKS,
    Intervals,
    ended_log,
    forged_log,
    forked_logs,
    large_with_a_wrong_end,
    new_log,
    sees_the_fork,
    served,
)
from tests.hostile.wires import Cut, Wire

CUT = "cut off"
ALL = Regular(At(1), At(MAX_U64))
CREDIT = 1024  # that a node gives


async def _tells(field: Field, *parts: bytes) -> str:
    wire = await Wire.dial(field.target, "intervals", field.address)
    reading = asyncio.create_task(wire.swallow())
    with suppress(Cut):
        await wire.send(*parts)
    await reading
    return CUT


def request(number: int, log: tuple[bytes, int], *, lazy: bool = False) -> bytes:
    """A request as bytes."""
    return push_message(Request(number, *log, ALL, lazy=lazy))


async def too_many(field: Field) -> str:
    """Has more requests open than it has credit for.

    They are for a log that the node has, and it may send nothing of it: so none of them is over while the others
    arrive, which would give its credit back.
    """
    asked = [request(number, field.target.large_log) for number in range(CREDIT + 1)]
    return await _tells(field, b"".join(asked))


async def overflows_credit(field: Field) -> str:
    """Gives the node credit until it overflows 64 bits."""
    return await _tells(field, *([push_message(ResponseCredit(MAX_U64))] * 2))


async def overflows_requests(field: Field) -> str:
    """Lets the node ask until that overflows 64 bits."""
    return await _tells(field, *([push_message(RequestCredit(MAX_U64))] * 2))


async def claims(field: Field) -> str:
    """Claims 2^63 bytes of data."""
    return await _tells(field, push_message(Eager(1 << 63, None)))


async def announces_nothing(field: Field) -> str:
    """Announces items that nobody asked for."""
    return await _tells(field, push_message(Lazy(MAX_U64, 0, None, None)))


async def asks_and_cancels(field: Field) -> str:
    """Asks and takes it back, by ids far from each other."""
    wire = await Wire.dial(field.target, "intervals", field.address)
    reading = asyncio.create_task(wire.swallow())
    log, count = field.target.logs[0], 0
    with suppress(Cut):
        for _ in field.rounds(15):
            ids = [random.getrandbits(60) * 2 for _ in range(1000)]
            await wire.send(b"".join(request(number, log) + push_message(Cancel(number)) for number in ids))
            count += len(ids)
            if field.over.is_set():
                break
    wire.finish()
    await reading
    return f"{count} requests"


async def asks_and_cancels_unread(field: Field) -> str:
    """Asks and takes it back, and reads nothing."""
    wire = await Wire.dial(field.target, "intervals", field.address)
    wire.stop_reading()
    log = field.target.logs[0]
    some = b"".join(request(number, log) + push_message(Cancel(number)) for number in range(0, 2000, 2))
    await field.press(wire.flood(some, 10**9 if field.is_long else 15))
    wire.close()
    return f"{wire.sent} bytes were taken"


async def tiny_messages(field: Field) -> str:
    """Sends messages of two bytes that say nothing."""
    wire = await Wire.dial(field.target, "intervals", field.address)
    reading = asyncio.create_task(wire.swallow())
    some = push_message(ResponseCredit(0)) * 32768
    with suppress(Cut):
        for _ in field.rounds(6):
            await wire.send(some)
            if field.over.is_set():
                break
    wire.finish()
    await reading
    return f"{wire.sent // 2} messages"


async def unread(field: Field) -> str:
    """Asks for everything and reads nothing."""
    wire = await Wire.dial(field.target, "intervals", field.address)
    wire.stop_reading()
    logs = [*field.target.logs, field.target.large_log]
    with suppress(Cut):
        await wire.send(push_message(ResponseCredit(1 << 60)))
        await wire.send(*(request(number, logs[number % len(logs)]) for number in range(CREDIT)))
    await field.over.wait()
    wire.close()
    return CUT


async def same_again(field: Field) -> str:
    """Asks a thousand times for the same entries, and reads them."""
    wire = await Wire.dial(field.target, "intervals", field.address)
    logs = field.target.logs
    with suppress(Cut):
        await wire.send(push_message(ResponseCredit(1 << 60)))
        await wire.send(*(request(number, logs[number % len(logs)]) for number in range(CREDIT)))
        while wire.received < 10_000_000 or (field.is_long and not field.over.is_set()):
            await wire.read()
    wire.close()
    return f"{wire.received} bytes"


async def mirrored(field: Field) -> str:
    """Asks for logs that there are not, so that the node asks for them, too."""
    wire = await Wire.dial(field.target, "intervals", field.address)
    reading = asyncio.create_task(wire.swallow())
    author, count = os.urandom(32), 0
    with suppress(Cut):
        await wire.send(push_message(RequestCredit(1 << 60)))
        for first in field.rounds(20):
            numbers = range(first * 1000, first * 1000 + 1000)
            await wire.send(*(request(number, (author, number)) + push_message(Cancel(number)) for number in numbers))
            count += 1000
            if field.over.is_set():
                break
    wire.finish()
    await reading
    return f"{count} logs"


async def wrong_at_the_end(field: Field) -> str:
    """Serves a large payload whose last byte is wrong, as often as it is asked for it."""
    log, store = large_with_a_wrong_end(16_000_000)
    entry = log.entries[0]
    peer = await Intervals.join(field, store)
    await peer.ask((log.identity.public, log.log_id))
    with suppress(TimeoutError):  # The node may keep the session for news, which never come.
        async with asyncio.timeout(10):
            await peer.serve()
    peer.wire.close()
    return "asked once" if peer.wire.sent < 2 * entry.size else f"asked for {peer.wire.sent} bytes"


async def breaks_off(field: Field) -> str:
    """Serves half a payload with a wrong byte and hangs up; another peer then serves the rest as it is."""
    log, payload = new_log(), os.urandom(4_000_000)
    entry = log.append(payload)
    liar = await Intervals.join(field, served(log, p1=bytes((payload[0] ^ 1,)) + payload[1:]))
    await liar.ask(entry.log)
    await liar.serve(len(payload) // 2)
    liar.wire.close()
    others = field.others(2)
    honest = await Intervals.join(replace(field, address=others[0]), served(log))
    await honest.ask(entry.log)
    serving = asyncio.create_task(honest.serve())
    reader = await Intervals.join(replace(field, address=others[1]))
    for _ in range(MOST_LOOKS):
        if await reader.is_shown_a_payload(entry):
            break
    is_cut = serving.done()
    for peer in (honest, reader):
        peer.wire.close()
    await serving
    return "the honest one is cut off" if is_cut else f"{honest.wire.sent / len(payload):.0f} times the payload"


async def behind_the_end(field: Field) -> str:
    """Serves entries behind the end of a log."""
    log, store = ended_log()
    peer = await Intervals.join(field, store)
    await peer.ask((log.identity.public, log.log_id))
    await peer.serve()
    return CUT


async def two_faces(field: Field) -> str:
    """Shows one history of a log in one connection, another one in another."""
    logs, stores = forked_logs()
    name = logs[0].identity.public, logs[0].log_id
    peers = [await Intervals.join(field, store) for store in stores]
    tasks = []
    for peer in peers:
        await peer.ask(name)
        tasks.append(asyncio.create_task(peer.serve()))
    told = await sees_the_fork(field, name)
    for peer in peers:
        peer.wire.close()
    await asyncio.gather(*tasks)
    return "a fork, told to others" if told else "believed"


async def claims_newest(field: Field) -> str:
    """Claims to hold the newest entry of the node's own log, and shows a forged one."""
    log = field.target.own_log
    peer = await Intervals.join(field, served(forged_log(log)))
    with suppress(Cut):
        await peer.ask(log)  # So the node asks for it in turn.
        await peer.serve()
    return CUT


ATTACKS = [
    Attack("intervals", "newest entry claimed", claims_newest, "signature"),
    Attack("intervals", "too many requests", too_many, "without credit"),
    Attack("intervals", "credit that overflows", overflows_credit, "more credit than"),
    Attack("intervals", "requests that overflow", overflows_requests, "more credit than"),
    Attack("intervals", "claimed size", claims, "is not open|with credit for"),
    Attack("intervals", "unasked announcement", announces_nothing, "is not open"),
    Attack("intervals", "asks and cancels", asks_and_cancels, None, gets="requests", cpu=5.0),
    Attack("intervals", "asks and cancels unread", asks_and_cancels_unread, None, gets="taken"),
    Attack("intervals", "tiny messages", tiny_messages, None, gets="messages", cpu=6.0),
    Attack("intervals", "everything unread", unread, "has not read|sent nothing", cpu=5.0),
    Attack("intervals", "the same again", same_again, None, gets="bytes", memory=40.0, cpu=6.0, is_quick=False),
    Attack("intervals", "logs that there are not", mirrored, None, gets="logs", cpu=6.0, is_quick=False),
    Attack("intervals", "wrong again and again", wrong_at_the_end, "does not match the hash", gets="asked once"),
    Attack("intervals", "half a payload is wrong", breaks_off, None, gets="^[12] times"),
    Attack("intervals", "behind the end", behind_the_end, "."),
    Attack("intervals", "two faces", two_faces, None, gets="told to others"),
]
