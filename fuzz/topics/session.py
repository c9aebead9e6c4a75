"""What is fuzzed of ``culm://``: messages, a stranger's bytes, and those of a peer that has proved itself."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from culm.bamboo import Identity
from culm.errors import RemoteProtocolError
from culm.negentropy import ArrayStorage, Negentropy
from culm.ranges import Range, RangeSet
from culm.session import Connection, Interests, Limits, Offer
from culm.session.messages import (
    Challenge,
    Deframer,
    InterestsMessage,
    Offers,
    Proof,
    SettledMessage,
    Welcome,
    decode,
    decode_names,
    encode,
    encode_offers,
)
from fuzz.target import Target

if TYPE_CHECKING:
    from culm.session.interests import Key

_CALLER, _LISTENER = (Identity(bytes([number]) * 32) for number in (1, 2))
_CLUMP = b"fuzz"
_NONCES = b"c" * 32, b"l" * 32
_OFFER = Offer(bytes(32), 5, RangeSet([Range(1, 9), Range(20, 90, sparse=True)]), b"12345678", 7)
_PIECE = 9


def message(data: bytes) -> None:
    """A control message that is read is written again, and then read as the same."""
    found = decode(data)
    (again,) = Deframer(2 * len(data) + 100).feed(encode(found))
    assert decode(again) == found


def names(data: bytes) -> None:
    """The same for names."""
    found = decode_names(data)
    assert decode_names(encode_offers(found)) == found


def stranger(data: bytes) -> None:
    """Whatever a stranger sends, it is not let in, and told nothing but the nonce, unless it sends Alice's proof."""
    listener = Connection.listening(_LISTENER, _CLUMP, _NONCES[1], lambda key: key == _CALLER.public)
    greeting = len(listener.data_to_send())
    assert greeting < 60
    for at in range(0, len(data), _PIECE):
        list(listener.receive_data(data[at : at + _PIECE]))
    assert listener.peer == (_CALLER.public if listener.is_open else None)


def peer(data: bytes) -> None:
    """Whatever a peer sends that is let in: events, or a refusal."""
    caller, listener = _pair()
    side = caller if data[:1] < b"\x80" else listener
    for at in range(1, len(data), _PIECE):
        for _ in side.receive_data(data[at : at + _PIECE]):
            pass
    side.data_to_send()


def _pair() -> tuple[Connection, Connection]:
    """Both sides of an open session."""
    caller = Connection.calling(_CALLER, _LISTENER.public, _CLUMP, _NONCES[0])
    listener = Connection.listening(_LISTENER, _CLUMP, _NONCES[1], lambda _: True)
    for _ in range(3):
        list(caller.receive_data(listener.data_to_send()))
        list(listener.receive_data(caller.data_to_send()))
    assert caller.is_open
    assert listener.is_open
    return caller, listener


@cache
def _proof() -> bytes:
    """What Alice sends to a listener."""
    caller = Connection.calling(_CALLER, _LISTENER.public, _CLUMP, _NONCES[0])
    listener = Connection.listening(_LISTENER, _CLUMP, _NONCES[1], lambda _: True)
    list(caller.receive_data(listener.data_to_send()))
    return caller.data_to_send()


def _targets() -> tuple[Target, ...]:
    wanted: list[tuple[Key, RangeSet]] = [
        ((), RangeSet([Range(1)])),
        ((bytes(32),), RangeSet()),
        ((bytes(32), 9), RangeSet([Range(3, 8)])),
    ]
    messages = (
        Challenge(bytes(32)),
        Proof(bytes(32), bytes(32), bytes(64), bytes(32), Limits()),
        Welcome(bytes(32), Limits()),
        InterestsMessage(reset=True, items=wanted),
        Offers([_OFFER, _OFFER]),
        SettledMessage(2**64 - 1),
    )
    bare = tuple(next(iter(Deframer(10_000).feed(encode(item)))) for item in messages)
    caller, _ = _pair()
    caller.tell_interests(Interests(dict(wanted)))
    caller.reconcile(Negentropy(ArrayStorage.of([(0, bytes(32))])).initiate())
    caller.offer([_OFFER])
    caller.transfer(b"\x01\x02\x03")
    _, listener = _pair()
    listener.tell_interests(Interests({(): RangeSet([Range(1)])}))
    listener.settle(3)
    said = b"\xff" + caller.data_to_send(), b"\x00" + listener.data_to_send()
    return (
        Target("session.message", message, (RemoteProtocolError,), bare),
        Target("session.names", names, (RemoteProtocolError,), (encode_offers([_OFFER]), encode_offers([]))),
        Target("session.stranger", stranger, (RemoteProtocolError,), (_proof(),)),
        Target("session.peer", peer, (RemoteProtocolError,), said),
    )


TARGETS = _targets()
