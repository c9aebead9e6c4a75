"""Attacks on ``culm://`` sessions: by strangers, and by members of the clump who have gone bad."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from culm.bamboo import Identity, encode_varu64
from culm.intervals.codec import push_message
from culm.intervals.messages import RequestCredit
from culm.ranges import Range, RangeSet, UnreadRanges
from culm.session import Connection, Offer, Transferred
from culm.session.connection import CONTROL_STREAM, DISCOVERY_STREAM, TRANSFER_STREAM
from culm.session.messages import (
    InterestsTold,
    Offered,
    Settled,
    encode,
)
from culm.wire.bymux import CLOSE, CREDIT, PING, packet
from tests.hostile.attack import Attack, Field
from tests.hostile.node import CLUMP
from tests.hostile.wires import Cut, Member, Wire, bymux_write

if TYPE_CHECKING:
    from culm.session.interests import Key

CUT = "cut off"
EVERYTHING = RangeSet([Range(1, None)])
WIDE = UnreadRanges(RangeSet([Range(3 * number + 1, 3 * number + 1) for number in range(1000)]).encode())


# -- strangers -------------------------------------------------------------------------------------------------------


async def stalls(field: Field) -> str:
    """Speaks TLS and then nothing."""
    wire = await Wire.dial(field.target, "culm", field.address)
    await wire.swallow()
    return f"{CUT}; a challenge of {wire.received} bytes"


async def is_of_another_clump(field: Field) -> str:
    """Proves its key, and a clump that is not the node's."""
    wire = await Wire.dial(field.target, "culm", field.address)
    session = Connection(Identity(os.urandom(32)), b"another", os.urandom(32), listener=field.target.key)
    with suppress(Cut):
        while True:
            list(session.receive_data(await wire.read(), 0.0))
            await wire.send(session.data_to_send())
    return f"{CUT}; {'a session' if session.is_open else 'no session'}"


async def calls_while_refused(field: Field) -> str:
    """Is of another clump, and calls again with the right one while the penalty runs."""
    await is_of_another_clump(field)
    told: list[int] = []
    while len(told) < 3:
        wire = await Wire.dial(field.target, "culm", field.address)
        session = Connection(Identity(os.urandom(32)), CLUMP, os.urandom(32), listener=field.target.key)
        with suppress(Cut):
            while not session.is_open:
                list(session.receive_data(await wire.read(), 0.0))
                await wire.send(session.data_to_send())
        if told or session.refused_for or not session.is_open:  # Else the node has not noted the penalty yet.
            told.append(session.refused_for)
    return "a penalty that gets no longer" if 10 >= told[0] >= told[1] >= told[2] > 0 else f"told {told}"


async def replays(field: Field) -> str:
    """Says what a member said to open its session."""
    said: list[bytes] = []
    wire = await Wire.dial(field.target, "culm", field.address)
    session = Connection(Identity(os.urandom(32)), CLUMP, os.urandom(32), listener=field.target.key)
    while not session.is_open:
        list(session.receive_data(await wire.read(), 0.0))
        said.append(session.data_to_send())
        await wire.send(said[-1])
    wire.close()
    again = await Wire.dial(field.target, "culm", field.address)
    with suppress(Cut):
        await again.read()
        await again.send(*said)
    before = again.received
    await again.swallow()
    return f"{CUT}; {again.received - before} bytes more"


async def reflects(field: Field) -> str:
    """Sends back what the node says."""
    wire = await Wire.dial(field.target, "culm", field.address)
    with suppress(Cut):
        while True:
            await wire.send(await wire.read())
    return CUT


async def claims_before_proof(field: Field) -> str:
    """Claims a message of 2^60 bytes before it has proved who it is."""
    wire = await Wire.dial(field.target, "culm", field.address)
    with suppress(Cut):
        await wire.send(bymux_write(CONTROL_STREAM, encode_varu64(1 << 60)))
    await wire.swallow()
    return CUT


# -- members ---------------------------------------------------------------------------------------------------------


async def _tells(member: Member, *parts: bytes) -> str:
    """Send bytes that a session has no credit for, or should not say; then wait for the end."""
    with suppress(Cut):
        await member.wire.send(*parts)
    await member.wire.swallow()
    return CUT


async def claims_large(field: Field) -> str:
    """Claims a message of 2^60 bytes on the discovery stream."""
    member = await Member.join(field.target, field.address)
    return await _tells(member, bymux_write(DISCOVERY_STREAM, encode_varu64(1 << 60)))


async def overdraws(field: Field) -> str:
    """Writes 8 MB to a stream at once, whatever its credit is."""
    member = await Member.join(field.target, field.address)
    return await _tells(member, bymux_write(TRANSFER_STREAM, bytes(8_000_000)))


async def overflows_credit(field: Field) -> str:
    """Gives the node credit until it overflows 64 bits."""
    member = await Member.join(field.target, field.address)
    grant = packet(CREDIT, TRANSFER_STREAM, (1 << 63) - 1)
    return await _tells(member, grant, grant, grant)


async def ends_a_stream(field: Field) -> str:
    """Ends a stream of the session, which goes on for as long as the session."""
    member = await Member.join(field.target, field.address)
    return await _tells(member, packet(CLOSE, CONTROL_STREAM))


async def pings_unread(field: Field) -> str:
    """Asks for signs of life without end and reads none."""
    member = await Member.join(field.target, field.address)
    member.wire.stop_reading()
    pings = packet(PING, None) * 65536
    await field.press(member.wire.flood(pings, 10**9 if field.is_long else 20))
    member.wire.close()
    return f"{member.wire.sent} bytes were taken"


async def tiny_packets(field: Field) -> str:
    """Says what it wants in packets of one byte each, again and again."""
    member = await Member.join(field.target, field.address)
    message = encode(InterestsTold(reset=True, items=[]))
    split = b"".join(bymux_write(CONTROL_STREAM, bytes((byte,))) for byte in message)
    with suppress(Cut):
        for _ in field.rounds(3):
            if field.over.is_set():
                break
            await member.push(CONTROL_STREAM, b"")
            for _ in range(64):
                await _spend(member, message, split)
    member.wire.close()
    return "is heard"


async def _spend(member: Member, message: bytes, split: bytes) -> None:
    """Send a message in its own packets, waiting for the credit for it."""
    mux = member.session._mux
    stream = mux.streams[CONTROL_STREAM]
    count = min(512, stream.credit // len(message))
    while not count:
        await member.read()
        count = min(512, stream.credit // len(message))
    stream.credit -= count * len(message)
    await member.wire.send(split * count)


async def many_interests(field: Field) -> str:
    """Wants more than 10,000 logs, one after the other."""
    member = await Member.join(field.target, field.address)
    with suppress(Cut):
        for message in _interests():
            await member.push(CONTROL_STREAM, message)
    await member.wire.swallow()
    return CUT


@cache
def _interests() -> list[bytes]:
    """Messages of 12,000 interests. Made once: an attacker would not spend its time on that."""
    author, messages = os.urandom(32), []
    for first in range(0, 12_000, 1000):
        items: list[tuple[Key, RangeSet]] = [((author, first + number), EVERYTHING) for number in range(1000)]
        messages.append(encode(InterestsTold(reset=not first, items=items)))
    return messages


async def wide_interests(field: Field) -> str:
    """Wants a thousand ranges of each of 10,000 logs."""
    member = await Member.join(field.target, field.address)
    author = os.urandom(32)
    with suppress(Cut):
        for first in field.rounds(400):
            items: list[tuple[Key, RangeSet]] = [((author, first * 20 + number), WIDE) for number in range(20)]
            await member.push(CONTROL_STREAM, encode(InterestsTold(reset=False, items=items)))
            if field.over.is_set():
                break
    member.wire.close()
    return CUT


async def many_offers(field: Field) -> str:
    """Offered a million logs that there are not."""
    member = await Member.join(field.target, field.address)
    author, count = os.urandom(32), 0
    with suppress(Cut):
        for first in range(0, 2_000_000 if field.is_long else 20_000, 1000):
            offers = [Offer(author, first + number, EVERYTHING) for number in range(1000)]
            await member.push(CONTROL_STREAM, encode(Offered(offers)))
            count += len(offers)
            if field.over.is_set():
                break
    member.wire.close()
    return f"{count} offers"


async def wide_offers(field: Field) -> str:
    """Offered many logs, each with a thousand gaps."""
    member = await Member.join(field.target, field.address)
    author, count = os.urandom(32), 0
    with suppress(Cut):
        for first in field.rounds(20):
            offers = [Offer(author, first * 20 + number, WIDE) for number in range(20)]
            await member.push(CONTROL_STREAM, encode(Offered(offers)))
            count += len(offers)
            if field.over.is_set():
                break
    member.wire.close()
    return f"{count} offers"


async def settles(field: Field) -> str:
    """Says again and again that it has all it wants."""
    member = await Member.join(field.target, field.address)
    message = encode(Settled(1)) * 5000
    with suppress(Cut):
        for _ in field.rounds(15):
            await member.push(CONTROL_STREAM, message)
            if field.over.is_set():
                break
    member.wire.close()
    return "is heard"


async def claims_newest(field: Field) -> str:
    """Offers the newest entry of the node's own log, and sends nothing when it is asked for it."""
    member = await Member.join(field.target, field.address)
    log = field.target.own_log
    await member.push(CONTROL_STREAM, encode(InterestsTold(reset=True, items=[])))
    await member.push(TRANSFER_STREAM, push_message(RequestCredit(64)))
    await member.push(CONTROL_STREAM, encode(Offered([Offer(*log, RangeSet([Range(1, 1)]))])))
    said = b""
    with suppress(Cut):
        while log[0] not in said:
            said += b"".join(event.data for event in await member.read() if isinstance(event, Transferred))
            await member.flush()
    member.wire.close()
    return "asked for it" if log[0] in said else "not asked"


ATTACKS = [
    Attack("culm", "newest entry claimed", claims_newest, None, gets="^asked for it"),
    Attack("culm", "stalled handshake", stalls, "did not finish the handshake"),
    Attack("culm", "another clump", is_of_another_clump, "another clump", gets="no session"),
    Attack(
        "culm", "calls while refused", calls_while_refused, "refused for another", gets="gets no longer", is_quick=False
    ),
    Attack("culm", "replayed proof", replays, "does not hold the key", gets="; 0 bytes"),
    Attack("culm", "reflected messages", reflects, "CHALLENGE came while"),
    Attack("culm", "size claimed by a stranger", claims_before_proof, "a message of"),
    Attack("culm", "size claimed by a member", claims_large, "a message of"),
    Attack("culm", "more than the credit", overdraws, "with credit for"),
    Attack("culm", "credit that overflows", overflows_credit, "more credit than"),
    Attack("culm", "ended stream", ends_a_stream, "ended a stream"),
    Attack("culm", "pings without reading", pings_unread, None, gets="taken", cpu=6.0),
    Attack("culm", "tiny packets", tiny_packets, None, gets="is heard", cpu=6.0),
    # Each session of these two is cut off after a fortieth of a second of reading. The next one has a new address, and
    # that has used nothing, so that it goes before the honest peer.
    Attack("culm", "many interests", many_interests, "more than 10000 interests", ratio=0.3),
    Attack("culm", "wide interests", wide_interests, "interests of more than", memory=65.0, ratio=0.4),  # 4 MiB as read
    Attack("culm", "many offers", many_offers, None, gets="offers"),
    Attack("culm", "wide offers", wide_offers, None, gets="offers", cpu=6.0),
    Attack("culm", "settled again and again", settles, None, gets="is heard", cpu=6.0),
]
