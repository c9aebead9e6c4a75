"""Two connections joined in memory."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from culm.bamboo import Identity
from culm.bamboo.varu64 import decode_varu64
from culm.bushbaby import BambooReceived, Connection, Event, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ALICE, BOB = Identity(b"\1" * 32), Identity(b"\2" * 32)


def randomness(seed: int) -> Callable[[int], bytes]:
    """Random bytes that come back with the seed."""
    return random.Random(seed).randbytes


def make(identity: Identity, seed: int, clump: bytes = b"Quagga", **settings: Any) -> Connection:
    """A connection with repeatable randomness."""
    return Connection(identity, clump, random_bytes=randomness(seed), options=Options(**settings))


def pair(**settings: Any) -> tuple[Connection, Connection]:
    """Two connections of one clump, not yet in touch."""
    return make(ALICE, 1, **settings), make(BOB, 2, **settings)


def carry(sender: Connection, receiver: Connection) -> list[Event]:
    """Take everything one side has to say to the other; entries are read where they come."""
    events: list[Event] = []
    for event in receiver.receive_data(sender.data_to_send(), 0.0):
        if isinstance(event, BambooReceived):
            entries = [(entry, memoryview(bytes(payload))) for entry, payload in event.entries]
            events.append(BambooReceived(iter(entries), event.size))
        else:
            events.append(event)
    return events


def messages_in(data: bytes) -> list[bytes]:
    """The messages in what a side sends."""
    messages = []
    while data:
        _, at = decode_varu64(data)
        length, at = decode_varu64(data, at)
        messages.append(data[: at + length])
        data = data[at + length :]
    return messages


def introduce(one: Connection, other: Connection) -> None:
    """Run the handshake to its end."""
    for _ in range(3):
        carry(one, other)
        carry(other, one)
    assert one.replicating
    assert other.replicating


def send_items(connection: Connection, items: Sequence[bytes]) -> None:
    """Send a BAMBOO of these items."""
    writer = connection.start_bamboo([len(item) for item in items])
    for item in items:
        writer.write(item)
    writer.send()
