"""``culm://``: messages, strangers on either side, and a peer that has proved itself."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from culm.bamboo import Identity
from culm.errors import LocalProtocolError, RemoteProtocolError
from culm.negentropy import ArrayStorage, Negentropy
from culm.ranges import Range, RangeSet
from culm.session import Connection, Interests, Limits, Offer
from culm.session.events import Asked, Reconcile
from culm.session.limits import LEAST_MESSAGE
from culm.session.messages import (
    Challenge,
    Deframer,
    Discovery,
    InterestsTold,
    Offered,
    Proof,
    Reading,
    Settled,
    Welcome,
    decode,
    decode_discovery,
    decode_heads,
    decode_names,
    encode,
    encode_discovery,
    encode_item,
)
from fuzz.script import pieces, steps, written
from fuzz.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from culm.session.interests import Key

_CALLER, _LISTENER = (Identity(bytes([number]) * 32) for number in (1, 2))
_CLUMP = b"fuzz"
_NONCES = b"c" * 32, b"l" * 32
_OFFER = Offer(bytes(32), 5, RangeSet([Range(1, 9), Range(20, 90, sparse=True)]), b"12345678", 7)
_LIMITS = Limits(LEAST_MESSAGE, 20)
_WANTED: list[tuple[Key, RangeSet]] = [
    ((), RangeSet([Range(1)])),
    ((bytes(32),), RangeSet()),
    ((bytes(32), 9), RangeSet([Range(3, 8)])),
]
_RECORDS = ArrayStorage.of((number, bytes([number]) * 32) for number in range(100))


def message(data: bytes) -> None:
    """Each part of a control message that is read is written again, and then read as the same."""
    for found in list(decode(data)):
        if not isinstance(found, Reading):
            (again,) = Deframer(2 * len(data) + 100).feed(encode(found))
            *_, last = decode(again)
            assert last == found


def names(data: bytes) -> None:
    """The same for names."""
    found = decode_names(data)
    assert decode_names(encode_item(found)) == found


def discovery(data: bytes) -> None:
    """Messages of the discovery stream, in pieces: each is of a kind, and says what its kind can."""
    deframer = Deframer(2000)
    for piece in pieces(data, 11):
        for found in deframer.feed(piece):
            kind, body = decode_discovery(found)
            assert b"".join(Deframer(2000).feed(encode_discovery(kind, body))) == found
            if kind.name == "ASK":
                assert b"".join(decode_heads(body)) == body


def stranger(data: bytes) -> None:
    """Whatever a stranger sends, it is not let in, and told nothing but the nonce, unless it sends the proof."""
    listener = Connection(_LISTENER, _CLUMP, _NONCES[1], refuses=lambda key: 0.0 if key == _CALLER.public else 10.0)
    greeting = len(listener.data_to_send())
    assert greeting < 60
    told = b""
    try:
        for piece in pieces(data, 9):
            list(listener.receive_data(piece, 0.0))
            told += listener.data_to_send()
    finally:
        assert listener.peer == (_CALLER.public if listener.is_open else None)
        assert listener.is_open or len(told) <= len(data)  # answers to pings


def impostor(data: bytes) -> None:
    """Whatever answers a call, it is not talked to unless it knows the clump: it gets the proof and no more."""
    caller = Connection(_CALLER, _CLUMP, _NONCES[0], listener=_LISTENER.public)
    for piece in pieces(data, 9):
        list(caller.receive_data(piece, 0.0))
        if not caller.is_open:
            with suppress(LocalProtocolError):
                caller.tell_interests(Interests())
                raise AssertionError("a stranger was told what is wanted")
    caller.data_to_send()


def _reconcile(side: Connection) -> None:
    side.reconcile(Negentropy(_RECORDS, LEAST_MESSAGE).initiate())


_ACTIONS: tuple[Callable[[Connection], object], ...] = (
    _reconcile,
    lambda side: side.ask([bytes(32)] * min(3, side.most_asked)),
    lambda side: side.name([_OFFER]),
    lambda side: side.name([_OFFER] * 200),
    lambda side: side.end_round(),
    lambda side: side.offer([_OFFER] * 100),
    lambda side: side.settle(1),
    lambda side: side.tell_interests(Interests(dict(_WANTED))),
    lambda side: side.transfer(bytes(500)),
    lambda side: side.consumed(300),
    lambda side: side.keep_alive(),
    lambda side: side.data_to_send(),
)


def peer(data: bytes) -> None:
    """Whatever a peer sends that is let in, to a side that does what it likes: events, or a refusal."""
    caller, listener = _pair()
    side = caller if data[:1] < b"\x80" else listener
    for step in steps(data[1:], len(_ACTIONS)):
        if isinstance(step, int):
            with suppress(LocalProtocolError):
                _ACTIONS[step](side)
            continue
        for event in side.receive_data(step, 0.0):
            if isinstance(event, Reconcile):
                with suppress(RemoteProtocolError):
                    Negentropy(_RECORDS).reconcile(event.message)
            elif isinstance(event, Asked):
                assert event.heads
        assert len(side.their_interests) <= side.limits.max_interests
    side.data_to_send()


def _pair() -> tuple[Connection, Connection]:
    """Both sides of an open session."""
    caller = Connection(_CALLER, _CLUMP, _NONCES[0], listener=_LISTENER.public, limits=_LIMITS)
    listener = Connection(_LISTENER, _CLUMP, _NONCES[1], limits=_LIMITS)
    for _ in range(3):
        list(caller.receive_data(listener.data_to_send(), 0.0))
        list(listener.receive_data(caller.data_to_send(), 0.0))
    assert caller.is_open
    assert listener.is_open
    return caller, listener


@cache
def _proof() -> bytes:
    """What the caller sends to a listener."""
    caller = Connection(_CALLER, _CLUMP, _NONCES[0], listener=_LISTENER.public)
    listener = Connection(_LISTENER, _CLUMP, _NONCES[1])
    list(caller.receive_data(listener.data_to_send(), 0.0))
    return caller.data_to_send()


@cache
def _welcome() -> bytes:
    """What a listener sends to the caller until it is open, and then what it has."""
    caller = Connection(_CALLER, _CLUMP, _NONCES[0], listener=_LISTENER.public)
    listener = Connection(_LISTENER, _CLUMP, _NONCES[1])
    said = listener.data_to_send()
    list(caller.receive_data(said, 0.0))
    list(listener.receive_data(caller.data_to_send(), 0.0))
    listener.offer([_OFFER])
    return said + listener.data_to_send()


def _rounds(calls: bool) -> bytes:
    """The script of one side of a whole discovery, with all else that may be said."""
    caller, listener = _pair()
    side, other = (caller, listener) if calls else (listener, caller)
    row: list[int | bytes] = []

    def act(*actions: int) -> None:
        for action in actions:
            row.append(action)
            with suppress(LocalProtocolError):
                _ACTIONS[action](side)

    def hear() -> None:
        list(other.receive_data(side.data_to_send(), 0.0))
        said = other.data_to_send()
        row.extend((11, said))
        list(side.receive_data(said, 0.0))

    turns = ((7, 0), (8,), (1, 2), (9,), (4, 6), (5, 10)) if calls else ((0,), (2, 8), (4,), (5, 7), (9, 10), ())
    theirs = ((0,), (2,), (0,), (4,), (6, 5), (7,)) if calls else ((0, 7), (1,), (2,), (4, 8), (5, 6), ())
    for ours, actions in zip(turns, theirs, strict=True):
        act(*ours)
        hear()
        for action in actions:
            with suppress(LocalProtocolError):
                _ACTIONS[action](other)
        hear()
    return (b"\x00" if calls else b"\xff") + written(row, len(_ACTIONS))


def _targets() -> tuple[Target, ...]:
    messages = (
        Challenge(bytes(32)),
        Proof(bytes(32), bytes(32), bytes(64), bytes(32), Limits()),
        Welcome(bytes(32), Limits()),
        InterestsTold(reset=True, items=_WANTED),
        Offered([_OFFER, _OFFER]),
        Settled(2**64 - 1),
    )
    bare = tuple(next(iter(Deframer(10_000).feed(encode(item)))) for item in messages)
    caller, _ = _pair()
    _reconcile(caller)
    bodies = b"\x61", bytes(64), b"\x80", b""
    kinds = [encode_discovery(kind, body) for kind, body in zip(Discovery, bodies, strict=True)]
    return (
        Target("session.message", message, (RemoteProtocolError,), bare),
        Target("session.names", names, (RemoteProtocolError,), (encode_item([_OFFER]), encode_item([]))),
        Target("session.discovery", discovery, (RemoteProtocolError,), (b"".join(kinds),), share=0.5),
        Target("session.stranger", stranger, (RemoteProtocolError,), (_proof(),)),
        Target("session.impostor", impostor, (RemoteProtocolError,), (_welcome(),)),
        Target("session.peer", peer, (RemoteProtocolError,), (_rounds(calls=True), _rounds(calls=False)), share=2.0),
    )


TARGETS = _targets()
