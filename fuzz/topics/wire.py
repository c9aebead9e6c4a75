"""What several protocols share: base62, STLV, LZFoo."""

from __future__ import annotations

from culm.errors import EncodingError
from culm.wire.base62 import decode_base62, encode_base62
from culm.wire.lzfoo import Decoder, Encoder
from culm.wire.stlv import StlvReader, encode_header
from fuzz.target import Target


def _base62(data: bytes) -> None:
    assert encode_base62(decode_base62(data)) == data


def _stlv(data: bytes) -> None:
    reader = StlvReader(_check_stlv)
    message, rest = reader.read(memoryview(data))
    if message is not None:
        kind, value = message
        assert encode_header(kind, len(value)) + value + bytes(rest) == data


def _check_stlv(kind: int, length: int) -> None:
    if kind > 8 or length > 1000:
        raise EncodingError("over the limit")


def _lzfoo(data: bytes) -> None:
    """Two messages: each decodes to exactly the size that was said, a bounded one, or is refused."""
    decoder = Decoder(1000)
    half = len(data) // 2
    for part in (data[:half], data[half:]):
        size = int.from_bytes(part[:2], "big")
        decoder.begin(size)
        found = sum(len(piece) for piece in decoder.feed(part[2:]))
        decoder.finish()
        assert found == size


def _compressed() -> bytes:
    """The same text twice, as two messages of one encoder's first."""
    text = b"bamboo, reed and cane; " * 20
    message = len(text).to_bytes(2, "big") + Encoder(1000, 9).encode(text)
    return message + message


_NAMES = encode_base62(bytes(range(32))), encode_base62(bytes(32))
_MESSAGES = encode_header(1, 5) + b"12345", encode_header(8, 300) + bytes(300)
TARGETS = (
    Target("wire.base62", _base62, (EncodingError,), _NAMES, longest=64),
    Target("wire.stlv", _stlv, (EncodingError,), _MESSAGES),
    Target("wire.lzfoo", _lzfoo, (EncodingError,), (_compressed(),)),
)
