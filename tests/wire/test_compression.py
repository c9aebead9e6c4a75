"""LZFoo by the native core and in Python: the same bytes, the same errors. ``test_lzfoo`` holds each to the rules.

Specification: docs/specs/proposals.md, "LZFoo".
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm import native
from culm.wire.compression import NativeDecoder, NativeEncoder, new_decoder, new_encoder
from culm.wire.lzfoo import Decoder, Encoder, LZFooError

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.skipif(native.core is None, reason="the native core is not built (make native)")

_MOST = 300_000  # Bytes of output that are compared, because a message can claim 2^64.
NUMBERS = st.one_of(
    st.integers(0, 40), st.sampled_from([119, 120, 247, 248, 255, 256, 65_535, 65_536, 2**32, 2**63, 2**64 - 1])
)


def outcome(decoder: Decoder, messages: Sequence[tuple[int, Sequence[bytes]]]) -> tuple[bytes, str, int]:
    """What messages (size and pieces) decode to. With an error: the messages before, what it says, and its offset."""
    found = bytearray()
    for size, pieces in messages:
        message = bytearray()
        try:
            decoder.begin(size)
            for piece in pieces:
                for out in decoder.feed(piece):
                    message += out
                    if len(message) > _MOST:
                        return bytes(found + message[:_MOST]), "", 0
            decoder.finish()
        except LZFooError as error:
            return bytes(found), str(error), error.offset
        found += message
    return bytes(found), "", 0


def decoders(window: int) -> tuple[Decoder, Decoder]:
    """One in Python, one by the core."""
    assert native.core is not None
    return Decoder(window), NativeDecoder(window, native.core)


def encoders(window: int) -> tuple[Encoder, Encoder]:
    """One in Python, one by the core."""
    assert native.core is not None
    return Encoder(window), NativeEncoder(window, native.core)


def cut(data: bytes, size: int) -> list[bytes]:
    """Pieces of that size."""
    return [data[at : at + size] for at in range(0, len(data), size)]


@st.composite
def elements(draw: st.DrawFn) -> bytes:
    """A literal or a copy: lengths and offsets near every limit, in any width; some literals are cut short."""
    kind, length = draw(st.sampled_from([0, 0x80])), draw(NUMBERS)
    width = draw(st.integers(max(1, -(-length.bit_length() // 8)), 8))
    head = bytes((kind | length,)) if length < 120 else bytes((kind | 119 + width,)) + length.to_bytes(width, "big")
    if not kind:
        return head + (bytes(range(1, 251)) * 2)[: min(length, 300)]
    offset = draw(NUMBERS)
    width = draw(st.integers(max(1, -(-offset.bit_length() // 8)), 8))
    return head + (bytes((offset,)) if offset < 248 else bytes((247 + width,)) + offset.to_bytes(width, "big"))


@given(
    messages=st.lists(
        st.tuples(
            st.one_of(st.integers(0, 2000), st.sampled_from([70_000, 2**63])),
            st.one_of(st.lists(elements(), max_size=20).map(b"".join), st.binary(max_size=200)),
            st.sampled_from([1, 2, 5, 17, 18, 19, 1000]),
        ),
        max_size=4,
    ),
    window=st.sampled_from([0, 1, 10, 300, 70_000]),
)
@settings(deadline=None, max_examples=300)
def test_hostile_messages(messages: list[tuple[int, bytes, int]], window: int) -> None:
    """Both decoders give the same bytes for any messages, and refuse the same ones with the same error and offset."""
    fed = [(size, cut(data, piece)) for size, data, piece in messages]
    python, core = decoders(window)
    assert outcome(python, fed) == outcome(core, fed)


@given(elements=st.lists(elements(), min_size=1, max_size=6), size=st.sampled_from([0, 40, 500, 2**64 - 1]))
@settings(deadline=None, max_examples=60)
def test_cut_anywhere(elements: list[bytes], size: int) -> None:
    """A message that ends early, and one that comes in two pieces, have the same outcome at each place of the cut."""
    data = b"\x05bambo" + b"".join(elements)
    for at in range(min(len(data), 400)):
        for pieces in ([data[:at]], [data[:at], data[at:]]):
            python, core = decoders(300)
            assert outcome(python, [(size, pieces)]) == outcome(core, [(size, pieces)])


def test_an_error_is_at_its_element() -> None:
    """The offset of an error counts from the bytes that were fed, with the beginning of an element that was kept."""
    data = b"\x03abc" + b"\x85\x02" + b"\x85\x7f"
    for decoder in decoders(100):
        assert outcome(decoder, [(100, [data])]) == (
            b"",
            "a copy from 127 bytes back, which is 0 or outside of the window",
            6,
        )
    for decoder in decoders(100):
        assert outcome(decoder, [(100, [data[:7], data[7:]])])[2] == 0


def test_after_a_long_copy() -> None:
    """An error behind more output than a piece holds is the same, though the core hands out some of it before."""
    data = b"\x01a" + b"\xfa\x02\x00\x00\x01" + b"\x81\x00"
    for decoder in decoders(100):
        assert outcome(decoder, [(200_000, [data])])[1:] == (
            "a copy from 0 bytes back, which is 0 or outside of the window",
            7,
        )


@given(
    texts=st.lists(
        st.one_of(
            st.binary(max_size=300),
            st.text("ab", max_size=400).map(str.encode),
            st.lists(st.sampled_from([b"bamboo ", b"culm, ", b"reed and cane; ", b"\0" * 150]), max_size=60).map(
                b"".join
            ),
        ),
        max_size=12,
    ),
    window=st.sampled_from([0, 1, 5, 64, 1000, 65_536]),
    most=st.sampled_from([0.5, 0.9, 1.0, math.inf]),
)
@settings(deadline=None, max_examples=200)
def test_encoders(texts: list[bytes], window: int, most: float) -> None:
    """Both encoders write the same bytes for any messages, some of them refused for their size."""
    python, core = encoders(window)
    for text in texts:
        assert python.encode_if_smaller(text, most) == core.encode_if_smaller(text, most)


@pytest.mark.slow
@pytest.mark.parametrize("window", [500, 20_000, 100_000])
def test_long_texts(window: int) -> None:
    """The same over many windows, with places that are forgotten, bytes that do not compress, and refused messages."""
    rng = random.Random(window)
    words = [rng.randbytes(rng.randint(3, 12)).hex().encode() for _ in range(300)]
    python, core = encoders(window)
    sent = []
    for size in (10, 3000, 70_000, 100, 20_000, 0, 9, 40_000):
        text = b" ".join(rng.choice(words) for _ in range(size // 15 + 1))[:size] + rng.randbytes(size // 20)
        for most in (0.4, math.inf):
            message = python.encode_if_smaller(text, most)
            assert message == core.encode_if_smaller(text, most)
            if message is not None:
                sent.append((len(text), [message]))
    one, other = decoders(window)
    assert outcome(one, sent) == outcome(other, sent)


def test_who_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions use the core where it is, and Python otherwise."""
    assert (type(new_decoder(1)), type(new_encoder(1))) == (NativeDecoder, NativeEncoder)
    monkeypatch.setattr(native, "core", None)
    assert (type(new_decoder(1)), type(new_encoder(1))) == (Decoder, Encoder)
