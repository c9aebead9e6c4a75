"""What several protocols share: base62, places, STLV, CBOR, LZFoo, bymux."""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from ipaddress import ip_address
from typing import TYPE_CHECKING

from culm.bamboo.base62 import decode_base62, encode_base62
from culm.errors import ConfigError, EncodingError, LocalProtocolError, Place, RemoteProtocolError
from culm.node.lan.multicast import SERVICE, announced_in
from culm.wire import cbor
from culm.wire.announcement import MAX_BYTES, Announcement, clump_key, seal, unseal
from culm.wire.bymux import INFINITE, WRITE, Event, Multiplexer, Received, Stream, packet, pull_packet
from culm.wire.compression import new_decoder, new_encoder
from culm.wire.invitation import Invitation
from culm.wire.lzfoo import Decoder, Encoder, LZFooError, pull_head
from culm.wire.places import log_text, parse_log_or_place, place_text
from culm.wire.stlv import StlvReader, encode_header
from fuzz.script import pieces, steps, written
from fuzz.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable

_WINDOW = 1000
_HOUR_SECONDS = 3600
_CLUMP_KEY = clump_key(b"a clump of the fuzzer")


def base62(data: bytes) -> None:
    """A key has one text."""
    assert encode_base62(decode_base62(data)) == data


def places(data: bytes) -> None:
    """What is read as a log or a place is written and read as the same."""
    found, seq = parse_log_or_place(data.decode(errors="replace"))
    text = log_text(found) if seq is None else place_text(Place(*found, seq))
    assert parse_log_or_place(text) == (found, seq)


def invitation(data: bytes) -> None:
    """An invitation, with its checksum made right, has one encoding and one text, or is refused."""
    if data[:1] == b"c":
        Invitation.parse(data.decode(errors="replace"))
        return
    sealed = data + blake2b(data, digest_size=4).digest()
    found = Invitation.decode(sealed)
    assert found.encode() == sealed
    url = found.url()
    assert url.isprintable()
    assert Invitation.parse(url.upper()) == found


def announcement(data: bytes) -> None:
    """An announcement, with its MAC made right, has one encoding, or is refused; with another MAC it is refused."""
    with suppress(EncodingError):
        unseal(data, _CLUMP_KEY, _HOUR_SECONDS)
        raise AssertionError("a MAC that nobody made holds")
    hour = (1).to_bytes(8, "big")
    mac = blake2b(hour + data, digest_size=32, key=_CLUMP_KEY, person=b"culm neighbour 1").digest()
    found = unseal(data + mac, _CLUMP_KEY, _HOUR_SECONDS)
    assert seal(found, _CLUMP_KEY, _HOUR_SECONDS) == data + mac


def records(data: bytes) -> None:
    """What is found in a TXT record was in it, and is bounded."""
    found = announced_in(f"x.{SERVICE}", data)
    assert found is None or (len(found) <= MAX_BYTES and b"culm=" + found in data)


def stlv(data: bytes) -> None:
    """Messages are what they were made of, whatever pieces they come in."""
    whole = _stlv_messages(data, 0)
    assert _stlv_messages(data, 1 + len(data) % 7) == whole
    taken = b"".join(encode_header(kind, len(value)) + value for kind, value in whole)
    assert data.startswith(taken)


def _stlv_messages(data: bytes, size: int) -> list[tuple[int, bytes]]:
    reader = StlvReader(_check_stlv)
    found = []
    for piece in pieces(data, size):
        rest = memoryview(piece)
        while True:
            message, rest = reader.read(rest)
            if message is None:
                break
            found.append((message[0], bytes(message[1])))
        assert reader.held <= 1100
    return found


def _check_stlv(kind: int, length: int) -> None:
    if kind > 8 or length > 1000:
        raise EncodingError("over the limit")


def heads(data: bytes) -> None:
    """Items of CBOR are written again as the same bytes."""
    view, at = memoryview(data), 0
    again = bytearray()
    while at < len(view):
        major, number, behind = cbor.pull_head(view, at)
        if major in (cbor.BYTES, cbor.TEXT):
            value, as_text, at = cbor.pull_string(view, at)
            assert len(value) == number
            cbor.push_string(again, value, as_text=as_text)
        elif major == cbor.ARRAY:
            count, at = cbor.pull_array(view, at, most=1000)
            cbor.push_head(again, cbor.ARRAY, count)
        else:
            value_, at = cbor.pull_unsigned(view, at)
            assert behind == at
            cbor.push_unsigned(again, value_)
        assert again == data[:at]
    cbor.expect_end(view, at)


def lzfoo(data: bytes) -> None:
    """Two messages in pieces: each decodes to what a plain reading of its elements gives, or both refuse it.

    In Python, and by the native core where it is.
    """
    refused = []
    for decoder in (Decoder(_WINDOW), new_decoder(_WINDOW)):
        try:
            _decode_twice(data, decoder)
        except LZFooError as error:
            refused.append(error)
    assert len({(str(error), error.offset) for error in refused}) <= 1
    assert len(refused) in (0, 2)
    if refused:
        raise refused[0]


def _decode_twice(data: bytes, decoder: Decoder) -> None:
    history, half = bytearray(), len(data) // 2
    for part in (data[:half], data[half:]):
        size, message = int.from_bytes(part[:2], "big"), part[3:]
        expected = _plainly(message, history, size)
        decoder.begin(size)
        found = bytearray()
        try:
            for piece in pieces(message, part[2] if len(part) > 2 else 0):
                for out in decoder.feed(piece):
                    found += out
            decoder.finish()
        except LZFooError:
            assert expected is None
            raise
        assert bytes(found) == expected
        history += found


def _plainly(message: bytes, history: bytearray, size: int) -> bytes | None:
    """What a message decodes to, element by element and byte by byte; None if it breaks the rules."""
    out = bytearray(history)
    at = 0
    while at < len(message):
        head = pull_head(message, at)
        if head is None:
            return None
        length, offset, at = head
        if len(out) + length > len(history) + size:
            return None
        if offset is None:
            if at + length > len(message):
                return None
            out += message[at : at + length]
            at += length
        elif not 0 < offset <= min(_WINDOW, len(out)):
            return None
        else:
            for _ in range(length):
                out.append(out[-offset])
    return bytes(out[len(history) :]) if len(out) == len(history) + size else None


def encoder(data: bytes) -> None:
    """Whatever is encoded, in any pieces, decodes to itself; the native core, where it is, writes the same bytes."""
    head, rest = data[:2].ljust(2, b"\0"), data[2:]
    most, cut = head[0] / 100, head[1]
    encoder_, other, decoder = Encoder(_WINDOW), new_encoder(_WINDOW), Decoder(_WINDOW)
    for text in pieces(rest * (1 + cut % 3), cut * 8):
        encoded = encoder_.encode_if_smaller(text, most)
        assert encoded == other.encode_if_smaller(text, most)
        if encoded is None:
            continue
        decoder.begin(len(text))
        assert b"".join(decoder.feed(encoded)) == text
        decoder.finish()


def _endpoint() -> Multiplexer:
    """An end with streams of all kinds: without limit, with some credit, with none."""
    streams = {0: Stream(INFINITE, INFINITE), 1: Stream(100, 100), 2: Stream()}
    return Multiplexer(streams)


_ACTIONS: tuple[Callable[[Multiplexer], object], ...] = (
    lambda end: end.write(0, bytes(300)),
    lambda end: end.write(1, bytes(90)),
    lambda end: end.grant(1, 70),
    lambda end: end.grant(2, INFINITE),
    lambda end: end.consumed(1, 50),
    lambda end: end.close(1),
    lambda end: end.stop_read(1),
    lambda end: end.ping(),
    lambda end: end.close(None),
    lambda end: end.stop_read(None),
    lambda end: _well_formed(end.data_to_send(64)),
)


def _received(end: Multiplexer, data: bytes) -> list[Event]:
    events, failure = end.receive(data)
    if failure is not None:
        raise failure
    return events


def bymux(data: bytes) -> None:
    """An end that does what it likes meanwhile takes anything, and says only packets."""
    end = _endpoint()
    for step in steps(data, len(_ACTIONS)):
        if isinstance(step, bytes):
            _received(end, step)
        else:
            with suppress(LocalProtocolError):
                _ACTIONS[step](end)
    _well_formed(end.data_to_send())


def _well_formed(data: bytes) -> None:
    at = 0
    while at < len(data):
        found = pull_packet(data, at)
        assert found is not None
        kind, stream, number, at = found
        if kind == WRITE and stream is not None:
            at += number or 0
    assert at == len(data)


def split(data: bytes) -> None:
    """What a peer says does not depend on how its bytes are cut."""
    assert _told(data[1:], data[0] if data else 0) == _told(data[1:], 0)


def _told(data: bytes, size: int) -> tuple[dict[int, bytes], list[Event], bytes] | None:
    """What is told of a peer, stream by stream, and what it is answered; None if it is refused."""
    end = _endpoint()
    received: dict[int, bytes] = {}
    others: list[Event] = []
    try:
        for piece in pieces(data, size):
            for event in _received(end, piece):
                if isinstance(event, Received):
                    received[event.stream] = received.get(event.stream, b"") + event.data
                else:
                    others.append(event)
    except RemoteProtocolError:
        return None
    return received, others, bytes(sorted(end.data_to_send()))


def _said() -> bytes:
    """What a peer of such an end may say."""
    said = [packet(0, 2, 1000), packet(0, 1, 50), packet(1, 1, 7) + b"1234567", packet(1, 0, 300) + bytes(300)]
    said += [packet(2, 1), packet(3, None), packet(1, 1, 2) + b"ab", packet(4, 1), packet(5, 1)]
    said += [packet(0, None, 5), packet(2, None), packet(4, None), packet(5, None)]
    return b"".join(said)


def _compressed() -> bytes:
    """The same text twice, as two messages of one encoder's first."""
    text = b"bamboo, reed and cane; " * 20
    message = len(text).to_bytes(2, "big") + b"\0" + (Encoder(_WINDOW).encode_if_smaller(text) or b"")
    return message + message


_KEY = bytes(range(32))
_NAME = encode_base62(_KEY)
_SCRIPT = written([0, 1, _said()[:30], 2, 3, 10, _said()[30:], 4, 7, 5, 6, 8, 9], len(_ACTIONS))
_ITEMS = bytes.fromhex("83 01 1818 44 00010203 63 616263 9818") + bytes(24) + bytes.fromhex("1b ffffffffffffffff")
_SAID = Invitation(_KEY, (("node.example", 7801), ("::1", 1)), b"x", ((_KEY, 1), (bytes(32), 300)), "alice", 9)
_INVITATIONS = _SAID.encode()[:-4], Invitation(_KEY, (("a", 1),)).encode()[:-4], _SAID.url().encode()
_ANNOUNCED = (
    seal(Announcement(_KEY, ((ip_address("10.0.0.5"), 1), (ip_address("fd00::5"), 7801))), _CLUMP_KEY, 0)[:-32],
    seal(Announcement(_KEY, ((ip_address("127.0.0.1"), 65535),)), _CLUMP_KEY, 0)[:-32],
)
TARGETS = (
    Target("wire.base62", base62, (EncodingError,), (_NAME, encode_base62(bytes(32))), longest=64, share=0.1),
    Target(
        "wire.places", places, (ConfigError,), (_NAME + b"/7/5", _KEY.hex().encode() + b"/0"), longest=6000, share=0.3
    ),
    Target("wire.invitation", invitation, (ConfigError,), _INVITATIONS, longest=1500, share=0.3),
    Target("wire.announcement", announcement, (EncodingError,), _ANNOUNCED, longest=160, share=0.2),
    Target("wire.records", records, (), (b"\x03v=2\x08culm=abc", b"\x05culm=", b""), longest=600, share=0.1),
    Target("wire.stlv", stlv, (EncodingError,), (encode_header(1, 5) + b"12345" + encode_header(8, 300) + bytes(300),)),
    Target("wire.cbor", heads, (EncodingError,), (_ITEMS,), share=0.5),
    Target("wire.lzfoo", lzfoo, (EncodingError,), (_compressed(),)),
    Target("wire.encoder", encoder, (), (b"\xff\x10" + b"bamboo " * 30, b"\x5a\x07" + bytes(500)), share=0.5),
    Target("wire.bymux", bymux, (RemoteProtocolError,), (_SCRIPT,)),
    Target("wire.split", split, (), (b"\x01" + _said(), b"\x05" + _said())),
)
