"""Bushbaby: boxes, the messages in them, a connection of any kind, a peer that has proved itself."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from culm.bamboo import Identity
from culm.bushbaby import (
    BambooReceived,
    Connection,
    Dialect,
    HaveItem,
    Limits,
    Options,
    OtherDialect,
    PeerIdentified,
    WantItem,
)
from culm.bushbaby.messages import decode_bamboo, decode_have, decode_want, encode_have_item, encode_want_item
from culm.bushbaby.secretbox import NONCE_BYTES, OVERHEAD, open_box, seal
from culm.errors import EncodingError, LocalProtocolError, RemoteProtocolError
from culm.testing import build_log
from culm.wire.cbor import push_string
from culm.wire.stlv import encode_header
from fuzz.script import pieces
from fuzz.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable

_KEY = bytes(range(32))
_LIMITS = Limits(max_message=100_000, max_entries_per_message=100, max_have_items=50, max_want_items=50, max_boxes=20)
_HAVE, _WANT, _BAMBOO = 5, 6, 8
_SECRETS = bytes([11]) * 32, bytes([12]) * 32


def box(data: bytes) -> None:
    """What a box opens to is sealed to the same box, in both forms of the cipher."""
    odd = len(data) % 2 == 0
    copy = bytearray(data)
    plaintext = bytes(open_box(memoryview(copy), _KEY, odd_counter=odd))
    again = bytearray(OVERHEAD) + plaintext
    seal(memoryview(again), _KEY, data[:NONCE_BYTES], odd_counter=odd)
    assert bytes(again) == data


def have(data: bytes) -> None:
    """Announcements are written again as they came, but for the kind of string that an author is."""
    items = decode_have(memoryview(data), _LIMITS)
    assert b"".join(map(encode_have_item, items)) in data.replace(b"\x58\x2b", b"\x78\x2b")


def want(data: bytes) -> None:
    """The same for requests."""
    items = decode_want(memoryview(data), _LIMITS)
    assert b"".join(map(encode_want_item, items)) in data.replace(b"\x58\x2b", b"\x78\x2b")


def bamboo(data: bytes) -> None:
    """Each entry comes with as many bytes as it says."""
    for entry, payload in decode_bamboo(memoryview(data), _LIMITS):
        assert len(payload) == entry.size


def _made(number: int, options: int) -> Connection:
    """A connection of fixed secrets, whose nonces count up. ``options`` are bits."""
    counter = iter(range(number * 1000, number * 1000 + 999))
    return Connection(
        Identity(bytes([number]) * 32),
        b"fuzz",
        random_bytes=lambda size: next(counter).to_bytes(size, "big"),
        ephemeral_secret=_SECRETS[number - 1],
        options=Options(
            Dialect.DOCUMENT if options & 1 else Dialect.DEPLOYED,
            _LIMITS,
            ask_first=bool(options & 2),
            wait_for_hello=bool(options & 4),
            wait_for_auth=bool(options & 8),
            mark=not options & 16,
        ),
    )


def _take(side: Connection, data: bytes, *, accepts: bool = False) -> bool:
    """What a node does with bytes of a peer; whether the connection goes on."""
    for event in side.receive_data(data, 0.0):
        if isinstance(event, BambooReceived):
            list(event.entries)
        elif accepts and isinstance(event, PeerIdentified):
            side.accept()
        elif isinstance(event, OtherDialect):
            return False
    return True


def connection(data: bytes) -> None:
    """A side of any kind takes anything: nothing is sent before its time, nothing after a fault."""
    options = data[0] if data else 0
    side = _made(2, options)
    for piece in pieces(data[1:], 37):
        try:
            if not _take(side, piece):
                return
        except RemoteProtocolError:
            assert not side.replicating
            with suppress(LocalProtocolError):
                side.send_have([])
                raise AssertionError("a broken connection went on") from None
            raise
        if options & 2:
            with suppress(LocalProtocolError):
                side.accept()


def _opened(options: int) -> tuple[Connection, Callable[[int, bytes, int], bytes]]:
    """A side whose peer has proved itself, and what seals anything as that peer would: kind, plaintext, nonce."""
    kept = options & 17
    side, peer = _made(2, kept), _made(1, kept)
    for _ in range(3):
        _take(peer, side.data_to_send())
        _take(side, peer.data_to_send())
    assert side.replicating
    key = peer.boxes.session_keys.send
    odd = not kept & 1 and not side.is_culm

    def sealed(kind: int, plaintext: bytes, nonce: int) -> bytes:
        message = bytearray(OVERHEAD) + plaintext
        seal(memoryview(message), key, nonce.to_bytes(NONCE_BYTES, "little"), odd_counter=odd)
        return encode_header(kind, len(message)) + message

    return side, sealed


def peer(data: bytes) -> None:
    """Whatever a peer seals that has proved itself: events, or a refusal.

    An input is the kind of connection, and then messages: type, nonce, length of two bytes, plaintext.
    """
    side, sealed = _opened(data[0] if data else 0)
    at = 1
    while at + 4 <= len(data):
        kind, nonce, size = data[at], data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        _take(side, sealed(kind, data[at + 4 : at + 4 + size], nonce))
        at += 4 + size
    side.send_have([HaveItem(_AUTHOR, 0, 2)])
    side.send_want([WantItem(_AUTHOR)])
    assert side.data_to_send()


def _stream(options: int) -> bytes:
    """All that one side of a whole session says."""
    one, other = _made(1, options), _made(2, options)
    said = b""
    for _ in range(3):
        data = one.data_to_send()
        said += data
        _take(other, data, accepts=bool(options & 2))
        _take(one, other.data_to_send(), accepts=bool(options & 2))
    if not one.replicating:
        return said
    log = build_log(2, payload_size=9)
    one.send_have([HaveItem(log.identity.public, 0, 2)])
    one.send_want([WantItem(log.identity.public)])
    items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
    writer = one.start_bamboo([len(item) for item in items])
    for item in items:
        writer.write(item)
    writer.send()
    return said + one.data_to_send()


def _sealed() -> tuple[bytes, ...]:
    found = []
    for size in (500, 501):
        made = bytearray(OVERHEAD) + bytes(size)
        seal(memoryview(made), _KEY, bytes(24), odd_counter=len(made) % 2 == 0)
        found.append(bytes(made))
    return tuple(found)


def _items() -> bytes:
    """Entries with their payloads, in both forms of string."""
    log = build_log(3, payload_size=9)
    items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
    message = bytearray(b"\x82")
    push_string(message, items[0], as_text=True)
    push_string(message, items[1] + items[2], as_text=False)
    return bytes(message)


def messages() -> bytes:
    """A message of each type, as ``peer`` has them."""
    contents = (_HAVE, _HAVES[0]), (_WANT, _WANTS[0]), (_BAMBOO, _items()), (_HAVE, b"\x80")
    return b"".join(
        bytes([kind, number]) + len(content).to_bytes(2, "big") + content
        for number, (kind, content) in enumerate(contents, 1)
    )


_AUTHOR = build_log(1).identity.public
_HAVE_ITEMS = [HaveItem(_AUTHOR, 0, 20), HaveItem(_AUTHOR, 2**64 - 1, 2**64 - 1)]
_WANT_ITEMS = [WantItem(_AUTHOR), WantItem(_AUTHOR, 7), WantItem(_AUTHOR, 0, 20), WantItem(_AUTHOR, 0, None, 2, 3)]
_HAVES = b"\x82" + b"".join(map(encode_have_item, _HAVE_ITEMS)), b"\x80"
_WANTS = b"\x84" + b"".join(map(encode_want_item, _WANT_ITEMS)), b"\x80"
_KINDS = (0, 1, 2, 16)
TARGETS = (
    Target("bushbaby.box", box, (RemoteProtocolError,), _sealed(), longest=700, share=0.3),
    Target("bushbaby.have", have, (EncodingError,), _HAVES, share=0.5),
    Target("bushbaby.want", want, (EncodingError,), _WANTS, share=0.5),
    Target("bushbaby.bamboo", bamboo, (EncodingError,), (_items(), b"\x80")),
    Target(
        "bushbaby.connection",
        connection,
        (RemoteProtocolError,),
        tuple(bytes([options]) + _stream(options) for options in _KINDS),
    ),
    Target("bushbaby.peer", peer, (RemoteProtocolError,), tuple(bytes([n]) + messages() for n in (0, 1, 16))),
)
