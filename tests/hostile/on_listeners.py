"""Attacks on every listener: connections without end, and bytes that are nobody's protocol."""

from __future__ import annotations

import asyncio
import os
import ssl
from contextlib import suppress
from functools import partial

from culm.node.network.tls import calling_context
from culm.node.network.urls import LISTENER_SCHEMES
from tests.hostile.attack import Attack, Field
from tests.hostile.node import DESCRIPTORS
from tests.hostile.wires import Cut, Wire

CUT = "cut off"
_WITH_TLS = ("culm", "wss")  # A connection that has begun TLS costs its buffers.


async def crowds(scheme: str, field: Field, number_of_calls: int = 1000) -> str:
    """Opens a thousand connections at once from eight addresses and says nothing."""
    wires: list[Wire] = []
    refused = 0
    addresses = [field.address, *field.others(7)]
    for number in range(number_of_calls):
        try:
            wires.append(await Wire.dial(field.target, scheme, addresses[number % 8], tls=False))
        except Cut:
            refused += 1
    await asyncio.gather(*(wire.swallow() for wire in wires))
    return f"{CUT}, all {len(wires) + refused}"


async def takes_descriptors(scheme: str, field: Field) -> str:
    """Opens more connections than the node may have files open, and says nothing."""
    return await crowds(scheme, field, 2 * DESCRIPTORS)


async def comes_and_goes(scheme: str, field: Field) -> str:
    """Connects and drops, as often as it can."""
    calls = 0
    for calls in field.rounds(1500):  # noqa: B007 - it is told
        if field.over.is_set():
            break
        with suppress(Cut):
            (await Wire.dial(field.target, scheme, field.address, tls=False)).close()
    return f"{calls + 1} calls"


async def shakes_hands(field: Field) -> str:
    """Speaks TLS and drops, as often as it can."""
    calls = 0
    for calls in field.rounds(1000):  # noqa: B007 - it is told
        if field.over.is_set():
            break
        with suppress(Cut, ssl.SSLError):
            (await Wire.dial(field.target, "culm", field.address)).close()
    return f"{calls + 1} calls"


async def dribbles(field: Field) -> str:
    """Begins TLS, a byte now and then."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        calling_context().wrap_bio(incoming, outgoing).do_handshake()
    hello = outgoing.read()
    wire = await Wire.dial(field.target, "culm", field.address, tls=False)
    ended = asyncio.create_task(wire.swallow())
    with suppress(Cut):
        for at in range(len(hello) - 1):
            await wire.send(hello[at : at + 1])
            done, _ = await asyncio.wait([ended], timeout=0.05)  # its pace
            if done:
                break
    await ended
    return CUT


async def talks_nonsense(scheme: str, field: Field) -> str:
    """Sends random bytes."""
    wire = await Wire.dial(field.target, scheme, field.address, tls=False)
    with suppress(Cut):
        await wire.send(b"\x7f" + os.urandom(100_000))
    await wire.swallow()
    return CUT


ATTACKS = [
    *(
        Attack(
            scheme,
            "a thousand connections",
            partial(crowds, scheme),
            None,
            gets="all 1000",
            memory=200.0 if scheme in _WITH_TLS else 40.0,
            connections=700,
            is_quick=scheme == "culm",
            at_once=1,
        )
        for scheme in LISTENER_SCHEMES
    ),
    *(
        Attack(
            scheme,
            "every descriptor",
            partial(takes_descriptors, scheme),
            "connections are open already",
            gets=f"all {2 * DESCRIPTORS}",
            memory=80.0 if scheme in _WITH_TLS else 40.0,
            connections=DESCRIPTORS // 2,
            kind="scarce",
            is_quick=scheme == "culm",
            # There are 24 places: an honest peer gets one whose caller has said nothing for two seconds. On a quick
            # machine these are most of its time.
            ratio=0.05,
            at_once=1,
        )
        for scheme in LISTENER_SCHEMES
    ),
    *(
        Attack(
            scheme,
            "comes and goes",
            partial(comes_and_goes, scheme),
            None,
            gets="calls",
            memory=200.0 if scheme in _WITH_TLS else 40.0,
            connections=500,
            is_quick=False,
        )
        for scheme in LISTENER_SCHEMES
    ),
    Attack(
        "culm",
        "TLS handshakes",
        shakes_hands,
        "more than 600 calls a minute",
        gets="calls",
        cpu=9.0,
        memory=200.0,
        connections=500,
        is_quick=False,
    ),
    Attack("culm", "slow TLS", dribbles, None),
    *(Attack(scheme, "nonsense", partial(talks_nonsense, scheme), None) for scheme in LISTENER_SCHEMES),
]
