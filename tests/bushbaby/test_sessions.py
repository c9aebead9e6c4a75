"""The deployed peer's recorded sessions, replayed from both sides (tests/vectors/bushbaby/session.json).

Specification: docs/specs/bushbaby.md, "Handshake", "Replication".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from culm.bamboo import Identity
from culm.bushbaby import (
    Authenticated,
    BambooReceived,
    Connection,
    HaveReceived,
    Options,
    PeerIdentified,
    WantReceived,
)
from culm.bushbaby.messages import decode_bamboo, decode_have, decode_want
from culm.bushbaby.options import Limits
from culm.wire.cbor import pull_array, pull_string

VECTORS = Path(__file__).parents[1] / "vectors" / "bushbaby"
SESSIONS: list[dict[str, Any]] = json.loads((VECTORS / "session.json").read_text())
SIDES = [("initiator", "responder"), ("responder", "initiator")]


def side_of(recorded: dict[str, Any], clump: str) -> Connection:
    """A connection with a recorded side's secrets, that uses its nonces in its order."""
    nonces = iter([bytes.fromhex(message["nonce"]) for message in recorded["messages"] if "nonce" in message])
    return Connection(
        Identity(bytes.fromhex(recorded["long_term_secret"])),
        clump.encode(),
        random_bytes=lambda _: next(nonces),
        ephemeral_secret=bytes.fromhex(recorded["ephemeral_secret"]),
        options=Options(mark=False),
    )


def items_of(plaintext: bytes) -> list[bytes]:
    """The items of a BAMBOO."""
    data = memoryview(plaintext)
    count, at = pull_array(data, 0, most=1000)
    items = []
    for _ in range(count):
        item, _, at = pull_string(data, at)
        items.append(bytes(item))
    return items


@pytest.mark.parametrize("number", range(len(SESSIONS)))
@pytest.mark.parametrize(("we", "they"), SIDES)
def test_replay_is_byte_for_byte_the_recorded_stream(number: int, we: str, they: str) -> None:
    """Given a side's secrets and nonces and asked for the same messages, our bytes are the deployed peer's."""
    session = SESSIONS[number]
    ours, theirs = session[we], session[they]
    connection = side_of(ours, session["clump_id"])
    greeting = b"".join(bytes.fromhex(message["raw"]) for message in theirs["messages"][:2])
    events = list(connection.receive_data(greeting, 0.0))

    assert events == [
        PeerIdentified(bytes.fromhex(theirs["long_term_pk"])),
        Authenticated(bytes.fromhex(theirs["long_term_pk"]), is_culm=False),
    ]
    for message in ours["messages"][2:]:
        plaintext = bytes.fromhex(message["plaintext"])
        if message["type"] == 5:
            connection.send_have(decode_have(memoryview(plaintext), Limits()))
        elif message["type"] == 6:
            connection.send_want(decode_want(memoryview(plaintext), Limits()))
        else:
            items = items_of(plaintext)
            writer = connection.start_bamboo([len(item) for item in items])
            for item in items:
                writer.write(item)
            writer.send()
    sent = connection.data_to_send()
    assert sent.hex() == ours["stream"]


@pytest.mark.parametrize("number", range(len(SESSIONS)))
@pytest.mark.parametrize(("we", "they"), SIDES)
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_the_recorded_stream_is_understood(number: int, we: str, they: str, step: int) -> None:
    """Fed in pieces of any size, a recorded stream gives the events its author meant, and every entry in it."""
    session = SESSIONS[number]
    theirs = session[they]
    connection = side_of(session[we], session["clump_id"])
    stream = bytes.fromhex(theirs["stream"])
    found: list[tuple[int, object]] = []
    for at in range(0, len(stream), step):
        for event in connection.receive_data(stream[at : at + step], 0.0):
            match event:
                case HaveReceived(items):
                    found.append((5, items))
                case WantReceived(items):
                    found.append((6, items))
                case BambooReceived():
                    found.append((8, [(entry, bytes(payload)) for entry, payload in event.entries]))
                case _:
                    pass
    expected = []
    for message in theirs["messages"][2:]:
        plaintext = memoryview(bytes.fromhex(message["plaintext"]))
        decoded: object
        if message["type"] == 5:
            decoded = decode_have(plaintext, Limits())
        elif message["type"] == 6:
            decoded = decode_want(plaintext, Limits())
        else:
            decoded = [(entry, bytes(payload)) for entry, payload in decode_bamboo(plaintext, Limits())]
        expected.append((message["type"], decoded))
    assert found == expected
    assert connection.replicating
