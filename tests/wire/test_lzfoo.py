"""LZFoo, in Python and by the native core: the examples, round trips, everything that is refused, and bombs.

Specification: docs/specs/proposals.md, "LZFoo", "LZFoo messages".
"""

from __future__ import annotations

import hashlib
import math
import random
import tracemalloc
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm import native
from culm.wire.compression import new_decoder, new_encoder
from culm.wire.lzfoo import PIECE_BYTES, Decoder, Encoder, LZFooError

if TYPE_CHECKING:
    from collections.abc import Iterator

with_core = pytest.mark.skipif(native.core is None, reason="the native core is not built (make native)")

TEXTS = st.one_of(
    st.binary(max_size=300),
    st.text("abc ", max_size=400).map(str.encode),
    st.lists(st.sampled_from([b"bamboo ", b"culm, ", b"reed and cane; ", b"\n"]), max_size=80).map(b"".join),
)


@pytest.fixture(autouse=True, scope="module", params=["python", pytest.param("native", marks=with_core)])
def path(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test runs on both paths."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(native, "core", None)
        yield


def decode(decoder: Decoder, size: int, data: bytes, cut: int | None = None) -> bytes:
    """A whole message."""
    decoder.begin(size)
    pieces = [data] if cut is None else [data[at : at + cut] for at in range(0, len(data), cut)]
    found = b"".join(piece for fed in pieces for piece in decoder.feed(fed))
    decoder.finish()
    return found


@pytest.mark.parametrize(
    ("size", "text", "expected"),
    [
        (8, "03616263" + "8502", b"abcbcbcb"),
        (20, "0762616d626f6f20" + "8d07", b"bamboo bamboo bamboo"),
        (1000, "0161" + "f903e701", b"a" * 1000),
        (5, "7805" + "68656c6c6f", b"hello"),
        (0, "", b""),
        (0, "00", b""),
        (1, "0161" + "8001", b"a"),
    ],
)
def test_examples(size: int, text: str, expected: bytes) -> None:
    """T51 to T53, T58: what comes out, in whatever pieces it goes in."""
    for cut in (None, 1, 2, 3):
        assert decode(new_decoder(1024), size, bytes.fromhex(text), cut) == expected, cut


@pytest.mark.parametrize("cut", [None, 1, 100])
def test_far_copies(cut: int | None) -> None:
    """Offsets of one, two and three bytes, in the middle of a long message, each reach back exactly so far."""
    text = random.Random(5).randbytes(600)
    data = b"".join(b"\x64" + text[at : at + 100] for at in range(0, 600, 100))
    expected = text
    for head, offset in (("f7", 247), ("f8f8", 248), ("f8ff", 255), ("f90100", 256), ("f90258", 600)):
        data += b"\x8a" + bytes.fromhex(head)
        expected += expected[len(expected) - offset :][:10]
    data += b"\x64" + text[:100]
    expected += text[:100]
    assert expected == decode(new_decoder(700), 750, data, cut)


def varu64(number: int) -> bytes:
    """As the specification of Bamboo has it."""
    if number < 248:
        return bytes((number,))
    width = (number.bit_length() + 7) // 8
    return bytes((247 + width,)) + number.to_bytes(width, "big")


def head(kind: int, length: int) -> bytes:
    """A tag, and the bytes of a length that does not fit into it."""
    if length < 120:
        return bytes((kind | length,))
    width = (length.bit_length() + 7) // 8
    return bytes((kind | (119 + width),)) + length.to_bytes(width, "big")


@pytest.mark.parametrize("window", [300, 6_000, 70_000])
@pytest.mark.parametrize("cut", [None, 50, 1_000])
def test_any_elements(window: int, cut: int | None) -> None:
    """Literals and copies of all lengths, from all distances, decode to what a byte-by-byte reading of them gives."""
    rng = random.Random(window)
    data, expected = b"", bytearray()
    for _ in range(600):
        length = rng.choice((0, 1, rng.randint(2, 119), rng.randint(118, 122), rng.randint(120, 700)))
        if rng.random() < 0.4 or not expected:
            text = rng.randbytes(length)
            data += head(0, length) + text
            expected += text
        else:
            furthest = min(window, len(expected))
            offset = rng.choice((1, length or 1, length + 1, 247, 248, 255, 256, rng.randint(1, furthest), furthest))
            offset = min(offset, furthest)
            data += head(0x80, length) + varu64(offset)
            for _ in range(length):
                expected.append(expected[-offset])
    assert decode(new_decoder(window), len(expected), data, cut) == expected


@pytest.mark.parametrize(
    ("window", "digest"),
    [
        (1, "ee86f07124d70e9081821fdabad47d0f"),
        (100, "9974d01b373251971ab619cafa4dfb3c"),
        (3_000, "94c1387f64b613435d8048b9a032c886"),
        (65_536, "03c74f6d961989c1f3506155399ef13f"),
    ],
)
def test_encoders_write_these_bytes(window: int, digest: str) -> None:
    """What both encoders make of the same messages, once and for all: sizes that are published depend on it."""
    rng = random.Random(6)
    words = [rng.randbytes(rng.randint(3, 12)) for _ in range(60)]
    encoder, found = new_encoder(window), hashlib.blake2b(digest_size=16)
    for number in range(60):
        kinds = (
            b"".join(rng.choice(words) for _ in range(number)),
            rng.randbytes(rng.choice((0, 7, 8, 9, 40, 700))),
            words[number % 60] * 3 + rng.randbytes(200) + b"".join(words[:20]) + rng.randbytes(5),
            words[number % 60] * rng.choice((1, 2, 50)),
            b"".join(bytes((rng.choice(b"ab"),)) for _ in range(80)) + b"the same in all of them" * 2,
        )
        message = encoder.encode_if_smaller(kinds[number % 5], (0.9, math.inf, 0.3)[number % 3])
        found.update(b"kept" if message is None else len(message).to_bytes(8, "big") + message)
    assert found.hexdigest() == digest


def test_history() -> None:
    """T54, T56: copies reach into earlier messages, and no further than there was anything."""
    decoder = new_decoder(1024)
    assert decode(decoder, 7, bytes.fromhex("0762616d626f6f20")) == b"bamboo "
    assert decode(decoder, 13, bytes.fromhex("8d07")) == b"bamboo bamboo"
    decoder = new_decoder(1024)
    decode(decoder, 1, b"\x01Z")
    assert decode(decoder, 2, bytes.fromhex("01618102")) == b"aZ"


def test_the_window() -> None:
    """T55: a copy reaches as far back as the window, and not a byte further."""
    data = bytes.fromhex("056162636465" + "8305")
    assert decode(new_decoder(5), 8, data) == b"abcdeabc"
    with pytest.raises(LZFooError):
        decode(new_decoder(4), 8, data)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (2, "0161" + "8102"),
        (2, "0161" + "8100"),
        (41, "0161" + "8000" + "28" + "62" * 40),
        (5, "0568656c6c"),
        (6, "0568656c6c6f"),
        (4, "0568656c6c6f"),
        (2, "0161" + "81"),
        (2, "0161" + "81f8"),
        (9, "78"),
        (9, "7f000000000000"),
        (3, "0161" + "83ff" + "ff" * 8),
        (2**64 - 1, "0161" + "ff" + "ff" * 8 + "02"),
    ],
)
def test_refused(size: int, text: str) -> None:
    """T56, T57, T59 and others: one error for everything that is wrong, whole or byte by byte."""
    for cut in (None, 1):
        with pytest.raises(LZFooError):
            decode(new_decoder(100), size, bytes.fromhex(text), cut)


def test_no_window() -> None:
    """T92: without a window nothing compressed may come, not even literals."""
    with pytest.raises(LZFooError):
        new_decoder(0).begin(3)


def encoded(encoder: Encoder, data: bytes) -> bytes:
    """A message, whatever its size."""
    message = encoder.encode_if_smaller(data, math.inf)
    assert message is not None
    return message


def test_lengths() -> None:
    """T60: tags and lengths of literals and copies."""
    for size, head in ((119, "77"), (120, "7878"), (300, "79012c")):
        assert encoded(new_encoder(1000), random.Random(1).randbytes(size)).hex().startswith(head)
    for size, text in ((119, "f705"), (120, "f87805"), (300, "f9012c05")):
        assert encoded(new_encoder(1000), b"abcde" * 100)[:6] == b"\x05abcde"
        assert decode(new_decoder(300), 5 + size, b"\x05abcde" + bytes.fromhex(text)) == (b"abcde" * 100)[: 5 + size]
    assert decode(new_decoder(300), 600, b"\x79\x01\x2c" + b"x" * 300 + bytes.fromhex("f9012cf9012c")) == b"x" * 600


def test_the_first_bytes_are_history() -> None:
    """A message that comes again is one copy from its first byte on, also if it was the first of all."""
    encoder, text = new_encoder(1000), random.Random(4).randbytes(40)
    assert encoded(encoder, text) == head(0, 40) + text
    assert encoded(encoder, text) == head(0x80, 40) + varu64(40)
    assert encoded(encoder, text + text) == head(0x80, 80) + varu64(40)


def test_a_decoder_forgets() -> None:
    """However many small messages come, a decoder keeps a window and a piece or so."""
    decoder, text = new_decoder(1000), b"\x40" + bytes(64)
    tracemalloc.start()
    try:
        for _ in range(10_000):
            decode(decoder, 64, text)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 200_000


def test_a_copy_is_as_long_as_what_agrees() -> None:
    """A block that comes again is one copy of exactly its length, up to the first byte that differs."""
    for length in (8, 9, 31, 32, 33, 63, 64, 65, 95, 96, 97, 118, 119, 120, 200, 247):
        block = random.Random(length).randbytes(length)
        expected = head(0, length + 1) + block + b"\0" + head(0x80, length)
        expected += (b"" if length + 1 < 248 else b"\xf8") + bytes((length + 1,)) + b"\x01\x01"
        assert expected == encoded(new_encoder(1000), block + b"\0" + block + b"\1"), length


@given(texts=st.lists(TEXTS, max_size=12), window=st.sampled_from([1, 5, 64, 1000, 65536]))
@settings(deadline=None, max_examples=150)
def test_round_trips(texts: list[bytes], window: int) -> None:
    """Any messages come back, whatever the window; some of them not sent in the end."""
    encoder, decoder = new_encoder(window), new_decoder(window)
    rng = random.Random(len(texts))
    for text in texts:
        message = encoder.encode_if_smaller(text, rng.choice((0.9, math.inf)))
        if message is not None:
            assert decode(decoder, len(text), message, rng.choice((None, 1, 7))) == text


@given(data=st.binary(max_size=80), size=st.integers(0, 200), window=st.sampled_from([1, 10, 100]))
@settings(deadline=None, max_examples=300)
def test_any_bytes(data: bytes, size: int, window: int) -> None:
    """Any bytes decode to exactly the size that was said, or are refused."""
    with suppress(LZFooError):
        assert len(decode(new_decoder(window), size, data)) == size


@pytest.mark.slow
def test_long_texts() -> None:
    """A text of many windows comes back, and what repeats takes less room."""
    rng = random.Random(2)
    words = [rng.randbytes(rng.randint(3, 12)).hex().encode() for _ in range(300)]
    text = b" ".join(rng.choice(words) for _ in range(20_000))
    encoder, decoder = new_encoder(20_000), new_decoder(20_000)
    total = 0
    for at in range(0, len(text), 5000):
        piece = text[at : at + 5000]
        message = encoded(encoder, piece)
        total += len(message)
        assert decode(decoder, len(piece), message) == piece
    assert total < 0.95 * len(text)


@pytest.mark.slow
def test_places_are_forgotten() -> None:
    """An encoder keeps no more than a window's worth of places, however much it has encoded."""
    rng = random.Random(3)
    encoder = new_encoder(20_000)
    encoder.encode_if_smaller(rng.randbytes(100_000), math.inf)
    tracemalloc.start()
    try:
        for _ in range(200):
            encoder.encode_if_smaller(rng.randbytes(20_000), math.inf)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 8_000_000


@pytest.mark.parametrize("offset", [1, 100])
def test_a_bomb(offset: int) -> None:
    """A few bytes that stand for 2^63 cost only what is taken of them, a piece at a time."""
    tracemalloc.start()
    try:
        decoder = new_decoder(65536)
        decoder.begin(2**63)
        pieces = decoder.feed(b"\x64" + bytes(100) + b"\xff" + (2**62).to_bytes(8, "big") + bytes((offset,)))
        sizes = [len(piece) for piece in islice(pieces, 100)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max(sizes) <= 2 * PIECE_BYTES
    assert peak < 2_000_000
    with pytest.raises(LZFooError):
        decode(new_decoder(65536), 100, b"\x7f" + b"\x7f" * 8)


@pytest.mark.parametrize("cut", [18, 19, 20, 40, 100])
def test_elements_across_pieces(cut: int) -> None:
    """Where pieces end makes no difference to literals and copies, short and long, one after the other."""
    group = "0762616d626f6f20" + "8d07" + "7805" + "68656c6c6f" + "03616263" + "8502" + "f903e701"
    once = b"bamboo " + b"bamboo bamboo"
    plain = b""
    for _ in range(60):
        plain += once + b"hello" + b"abc" + b"bcbcb" + b"b" * 999
    assert decode(new_decoder(1024), len(plain), bytes.fromhex(group) * 60, cut) == plain
