"""Bushbaby: boxes, the messages in them, a whole connection."""

from __future__ import annotations

from culm.bamboo import Identity
from culm.bushbaby import BambooReceived, Connection, HaveItem, Limits, WantItem
from culm.bushbaby.messages import decode_bamboo, decode_have, decode_want, encode_have_item, encode_want_item
from culm.bushbaby.secretbox import OVERHEAD, open_box, seal
from culm.errors import EncodingError, RemoteProtocolError
from culm.testing import build_log
from culm.wire.cbor import push_string
from fuzz.target import Target

_KEY = bytes(range(32))
_LIMITS = Limits(max_message=100_000)


def _box(data: bytes) -> None:
    box = bytearray(data)
    plaintext = bytes(open_box(memoryview(box), _KEY, odd_counter=True))
    again = bytearray(OVERHEAD) + plaintext
    seal(memoryview(again), _KEY, data[:24], odd_counter=True)
    assert bytes(again) == data


def _have(data: bytes) -> None:
    items = decode_have(memoryview(data), _LIMITS)
    assert b"".join(map(encode_have_item, items)) in data.replace(b"\x58\x2b", b"\x78\x2b")


def _want(data: bytes) -> None:
    items = decode_want(memoryview(data), _LIMITS)
    assert b"".join(map(encode_want_item, items)) in data.replace(b"\x58\x2b", b"\x78\x2b")


def _bamboo(data: bytes) -> None:
    for entry, payload in decode_bamboo(memoryview(data), _LIMITS):
        assert len(payload) == entry.size


def _peers() -> tuple[Connection, Connection]:
    """Two connections of fixed secrets; a nonce counts up."""
    made = []
    for number in (1, 2):
        counter = iter(range(number * 1000, number * 1000 + 999))
        made.append(
            Connection(
                Identity(bytes([number]) * 32),
                b"fuzz",
                random_bytes=lambda size, counter=counter: next(counter).to_bytes(size, "big"),  # type: ignore[misc]
                ephemeral_secret=bytes([10 + number]) * 32,
                limits=_LIMITS,
            )
        )
    return made[0], made[1]


def _session_stream() -> bytes:
    """All that one side of a whole session says."""
    one, other = _peers()
    stream = b""
    for _ in range(2):
        for data in one.data_to_send():
            stream += data
            list(other.receive_data(data))
        for data in other.data_to_send():
            list(one.receive_data(data))
    log = build_log(2, payload_size=9)
    one.send_have([HaveItem(log.identity.public, 0, 2)])
    one.send_want([WantItem(log.identity.public)])
    items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
    writer = one.start_bamboo([len(item) for item in items])
    for item in items:
        writer.write(item)
    writer.send()
    return stream + b"".join(one.data_to_send())


def _connection(data: bytes) -> None:
    _, other = _peers()
    for event in other.receive_data(data):
        if isinstance(event, BambooReceived):
            list(event.entries)


def _sealed() -> bytes:
    box = bytearray(OVERHEAD) + bytes(500)
    seal(memoryview(box), _KEY, bytes(24), odd_counter=True)
    return bytes(box)


def _items() -> bytes:
    """Entries with their payloads, in both forms of string."""
    log = build_log(3, payload_size=9)
    items = [entry.encoded + log.payloads[entry.hash] for entry in log.entries]
    message = bytearray(b"\x82")
    push_string(message, items[0], as_text=True)
    push_string(message, items[1] + items[2], as_text=False)
    return bytes(message)


_AUTHOR = build_log(1).identity.public
_HAVE = [HaveItem(_AUTHOR, 0, 20), HaveItem(_AUTHOR, 2**64 - 1, 2**64 - 1)]
_WANT = [WantItem(_AUTHOR), WantItem(_AUTHOR, 7), WantItem(_AUTHOR, 0, 20), WantItem(_AUTHOR, 0, None, 2, 3)]
TARGETS = (
    Target("bushbaby.box", _box, (RemoteProtocolError,), (_sealed(),)),
    Target("bushbaby.have", _have, (EncodingError,), (b"\x82" + b"".join(map(encode_have_item, _HAVE)), b"\x80")),
    Target("bushbaby.want", _want, (EncodingError,), (b"\x84" + b"".join(map(encode_want_item, _WANT)), b"\x80")),
    Target("bushbaby.bamboo", _bamboo, (EncodingError,), (_items(), b"\x80")),
    Target("bushbaby.connection", _connection, (RemoteProtocolError,), (_session_stream(),)),
)
