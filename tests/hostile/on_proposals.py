"""Attacks on ``proposals://``, where nobody proves who they are."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from culm.bamboo import MAX_U64
from culm.proposals import Setup
from culm.proposals.control import push_control
from culm.proposals.data import Apology, Compressed, Metadata, Raw, Skip, Switch, Why, push_data
from culm.proposals.messages import Cancel, Code, Grant, Proposal
from culm.wire.bymux import CREDIT, PING, WRITE, packet
from tests.hostile.attack import Attack, Field
from tests.hostile.serving import (
    Proposals,
    ended_log,
    entry_of,
    large_with_a_wrong_end,
    new_log,
)
from tests.hostile.wires import Cut, Wire, bymux_write

CUT = "cut off"
CONTROL, DATA = 0, 1
SETUP = Setup(send_window=1 << 20, receive_window=1 << 20).encode()
MOST = 1024  # proposals at a time


async def _tells(field: Field, *parts: bytes) -> str:
    wire = await Wire.dial(field.target, "proposals", field.address)
    reading = asyncio.create_task(wire.swallow())
    with suppress(Cut):
        await wire.send(*parts)
    await reading
    return CUT


async def _tells_with_credit(field: Field, data: bytes) -> str:
    peer = await Proposals.join(field)
    await peer.confirmed(field.target.logs[0])  # now there is credit for data
    with suppress(Cut):
        await peer.wire.send(bymux_write(DATA, data))
    await peer.wire.swallow()
    return CUT


def control(*messages: object) -> bytes:
    """Messages on the control channel."""
    return bymux_write(CONTROL, b"".join(map(push_control, messages)))  # type: ignore[arg-type]


def proposal(number: int, log: tuple[bytes, int]) -> Proposal:
    """A proposal of all of a log."""
    return Proposal(number, *log, 1)


async def stalls(field: Field) -> str:
    """Says half of its setup."""
    return await _tells(field, SETUP[:1])


async def too_many(field: Field) -> str:
    """Proposes more than it has credit for.

    They are for logs that the node has: refused ones would give their credit back while the others arrive.
    """
    logs = field.target.logs
    return await _tells(field, SETUP, control(*(proposal(2 * n, logs[n % len(logs)]) for n in range(MOST + 1))))


async def overflows_grant(field: Field) -> str:
    """Lets the node propose until that overflows 64 bits."""
    return await _tells(field, SETUP, control(Grant(MAX_U64), Grant(MAX_U64)))


async def overflows_credit(field: Field) -> str:
    """Gives the node credit until it overflows 64 bits."""
    return await _tells(field, SETUP, *([packet(CREDIT, DATA, MAX_U64)] * 2))


async def overdraws(field: Field) -> str:
    """Writes more data than its credit."""
    return await _tells(field, SETUP, packet(WRITE, DATA, 1 << 40), bytes(1_000_000))


async def other_streams(field: Field) -> str:
    """Opens streams of its own."""
    return await _tells(field, SETUP, *(packet(WRITE, None, number) for number in range(2, 2000, 2)))


async def data_of_nothing(field: Field) -> str:
    """Sends data of proposals that there are not."""
    return await _tells_with_credit(field, push_data(Switch(8)) + push_data(Raw(1 << 60)))


async def apologises(field: Field) -> str:
    """Apologises for what it never sent."""
    return await _tells_with_credit(field, push_data(Apology()))


async def tiny_grants(field: Field) -> str:
    """Grants nothing, in messages of two bytes."""
    wire = await Wire.dial(field.target, "proposals", field.address)
    reading = asyncio.create_task(wire.swallow())
    some = control(*([Grant(0)] * 30_000))
    with suppress(Cut):
        await wire.send(SETUP)
        for _ in field.rounds(8):
            await wire.send(some)
            if field.over.is_set():
                break
    wire.finish()
    await reading
    return f"{wire.sent // 2} messages"


async def tiny_packets(field: Field) -> str:
    """Says nothing, in packets of no bytes."""
    wire = await Wire.dial(field.target, "proposals", field.address)
    reading = asyncio.create_task(wire.swallow())
    some = packet(WRITE, CONTROL, 0) * 30_000
    with suppress(Cut):
        await wire.send(SETUP)
        for _ in field.rounds(8):
            await wire.send(some)
            if field.over.is_set():
                break
    wire.finish()
    await reading
    return f"{wire.sent // 3} packets"


async def pings_unread(field: Field) -> str:
    """Asks for signs of life without end and reads none."""
    wire = await Wire.dial(field.target, "proposals", field.address)
    wire.stop_reading()
    await wire.send(SETUP)
    await field.press(wire.flood(packet(PING, None) * 65536, 10**9 if field.is_long else 20))
    wire.close()
    return f"{wire.sent} bytes were taken"


async def proposes_and_cancels(field: Field) -> str:
    """Proposes what the node has, and takes it back."""
    wire = await Wire.dial(field.target, "proposals", field.address)
    reading = asyncio.create_task(wire.swallow())
    count = 0
    with suppress(Cut):
        await wire.send(SETUP)
        for number in field.rounds(200):
            name = 2 * number
            await wire.send(control(proposal(name, field.target.logs[number % 8]), Cancel(name, Code.DO_NOT_RETRY)))
            count += 1
            if field.over.is_set():
                break
    wire.finish()
    await reading
    return f"{count} proposals"


async def proposes_unread(field: Field) -> str:
    """Proposes everything and reads nothing."""
    wire = await Wire.dial(field.target, "proposals", field.address)
    wire.stop_reading()
    logs = [*field.target.logs, field.target.large_log]
    with suppress(Cut):
        await wire.send(SETUP, packet(CREDIT, DATA, 1 << 60))
        await wire.send(control(*(proposal(2 * number, log) for number, log in enumerate(logs))))
    await field.over.wait()
    wire.close()
    return CUT


async def mirrored(field: Field) -> str:
    """Proposes logs that there are not, so that the node proposes them, too."""
    wire = await Wire.dial(field.target, "proposals", field.address)
    reading = asyncio.create_task(wire.swallow())
    author, count = os.urandom(32), 0
    with suppress(Cut):
        await wire.send(SETUP, control(Grant(1 << 40)))
        await wire.send(control(*(proposal(2 * number, (author, number)) for number in range(MOST))))
        count += MOST
    wire.finish()
    await reading
    return f"{count} logs"


async def wrong_at_the_end(field: Field) -> str:
    """Serves a large payload whose last byte is wrong."""
    log, store = large_with_a_wrong_end(16_000_000)
    peer = await Proposals.join(field, store)
    await peer.propose((log.identity.public, log.log_id))
    await peer.serve()
    return CUT


async def behind_the_end(field: Field) -> str:
    """Serves entries behind the end of a log."""
    log, _ = ended_log()
    peer = await Proposals.join(field)
    number = await peer.confirmed((log.identity.public, log.log_id))
    data = push_data(Switch(number))
    for entry in log.entries:
        payload = log.payloads[entry.hash]
        data += push_data(Metadata(entry.is_end, None, entry.size, entry.payload_hash, entry.signature))
        data += push_data(Raw(len(payload))) + payload
    with suppress(Cut):
        await peer.wire.send(bymux_write(DATA, data))
    await peer.serve()
    return CUT


async def breaks_off(field: Field) -> str:
    """Sends most of each payload of a log, and then says that the rest is not available."""
    log, payload = new_log(), os.urandom(60_000)
    entries = [log.append(payload) for _ in range(1200)]
    peer = await Proposals.join(field)
    number = await peer.confirmed((log.identity.public, log.log_id))
    most = push_data(Raw(50_000)) + payload[:50_000] + push_data(Skip(Why.NOT_AVAILABLE))
    await peer.push(push_data(Switch(number)))
    for entry in entries:
        meta = Metadata(entry.is_end, None, entry.size, entry.payload_hash, entry.signature)
        await peer.push(push_data(meta) + most)
    peer.wire.close()
    return f"{len(entries)} broken payloads"


async def bombs(field: Field) -> str:
    """Serves a payload of 2^40 zeros in a few compressed bytes."""
    log, size = new_log(), 1 << 40
    entry = entry_of(log, size, b"\x00\x40" + bytes(64))
    setup = Setup(send_window=1 << 20, receive_window=1 << 20)
    peer = await Proposals.join(field, setup=setup)
    number = await peer.confirmed(entry.log)
    data = push_data(Switch(number)) + push_data(
        Metadata(entry.is_end, None, size, entry.payload_hash, entry.signature)
    )
    body = b"\x01\x00" + b"\xfe" + (size - 1).to_bytes(7, "big") + b"\x01"  # a zero; the rest is copied from it
    data += push_data(Compressed(size, len(body))) + body
    with suppress(Cut):
        await peer.wire.send(bymux_write(DATA, data))
    await field.press(peer.serve())
    peer.wire.close()
    return CUT


async def claims_newest(field: Field) -> str:
    """Confirms whatever the node proposes of its own log, as if it held the newest entry, and sends nothing."""
    log = field.target.own_log
    peer = await Proposals.join(field)
    peer.connection.propose(Proposal(0, *log, 1, 1, 1, 1))  # So the node proposes the log in turn.
    await peer.answer()
    asked = False
    with suppress(Cut):
        while not asked:
            await peer.turn()
            asked = any(not one.is_ours and one.proposal.end == 1 for one in peer.connection.exchanges.values())
    peer.wire.close()
    return "asked for it" if asked else "not asked"


ATTACKS = [
    Attack("proposals", "newest entry claimed", claims_newest, None, gets="^asked for it"),
    Attack("proposals", "half a setup", stalls, "sent nothing"),
    Attack("proposals", "too many proposals", too_many, "without credit"),
    Attack("proposals", "proposals that overflow", overflows_grant, "more credit for"),
    Attack("proposals", "credit that overflows", overflows_credit, "more credit than"),
    Attack("proposals", "more than the credit", overdraws, "with credit for"),
    Attack("proposals", "streams of its own", other_streams, "without credit"),
    Attack("proposals", "data of nothing", data_of_nothing, "does not exist"),
    Attack("proposals", "apology for nothing", apologises, "an item of no proposal"),
    Attack("proposals", "tiny messages", tiny_grants, None, gets="messages", cpu=6.0, is_quick=False),
    Attack("proposals", "tiny packets", tiny_packets, None, gets="packets", cpu=6.0),
    Attack("proposals", "pings without reading", pings_unread, None, gets="taken"),
    Attack("proposals", "proposes and cancels", proposes_and_cancels, None, gets="proposals"),
    Attack("proposals", "everything unread", proposes_unread, "has not read|sent nothing"),
    Attack("proposals", "logs that there are not", mirrored, None, gets="logs", cpu=6.0),
    Attack("proposals", "wrong at the end", wrong_at_the_end, "not the one"),
    Attack("proposals", "payloads that break off", breaks_off, None, gets="^1200 broken", memory=25.0, cpu=5.0),
    Attack("proposals", "behind the end", behind_the_end, "."),
    Attack("proposals", "compressed bomb", bombs, ".", cpu=6.0),
]
