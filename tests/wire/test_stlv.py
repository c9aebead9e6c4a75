"""STLV framing.

Specification: docs/specs/bamboo.md, "STLV".
"""

from __future__ import annotations

import json
import random
from mmap import mmap
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.errors import EncodingError, RemoteProtocolError
from culm.wire import stlv
from culm.wire.stlv import StlvReader, encode_header

KNOWN = json.loads((Path(__file__).parents[1] / "vectors" / "bushbaby" / "stlv.json").read_text())


def read_all(reader: StlvReader, data: bytes) -> list[tuple[int, bytes]]:
    """All messages that some bytes complete."""
    found: list[tuple[int, bytes]] = []
    rest = memoryview(data)
    while True:
        message, rest = reader.read(rest)
        if message is None:
            return found
        found.append((message[0], bytes(message[1])))


@pytest.mark.parametrize("vector", KNOWN, ids=lambda vector: vector["header"])
def test_headers(vector: dict[str, str]) -> None:
    """Headers are the deployed peer's."""
    assert encode_header(int(vector["type"]), int(vector["length"])).hex() == vector["header"]


@given(st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=400)), max_size=6), st.integers(1, 50))
def test_any_chunking_gives_the_same_messages(messages: list[tuple[int, bytes]], step: int) -> None:
    """However a stream is cut into pieces, the messages come out whole and in order."""
    stream = b"".join(encode_header(kind, len(value)) + value for kind, value in messages)
    reader = StlvReader(lambda _kind, _length: None)
    found = []
    for at in range(0, len(stream), step):
        found += read_all(reader, stream[at : at + step])
    assert found == messages
    assert reader.held == 0


@pytest.mark.parametrize("step", [100_000, 1024 * 1024, 5_000_000])
def test_large_values_lie_apart(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that has grown large is moved, its bytes stay the same; where there is no such place it stays."""
    value = random.Random(step).randbytes(3_000_000)
    stream = encode_header(7, len(value)) + value + encode_header(8, 1) + b"x"
    for can_move in (True, False):
        if not can_move:
            monkeypatch.setattr(stlv, "mmap", Mock(side_effect=OSError))
        reader = StlvReader(lambda _kind, _length: None)
        found = []
        for at in range(0, len(stream), step):
            found += read_all(reader, stream[at : at + step])
        assert found == [(7, value), (8, b"x")]
        assert reader.held == 0


@pytest.mark.parametrize(("size", "is_apart"), [(1024 * 1024, False), (1024 * 1024 + 1, True)])
def test_which_values_lie_apart(size: int, is_apart: bool) -> None:
    """A value of more than 1 MiB is in pages of its own, and one of 1 MiB is in the heap."""
    value = random.Random(size).randbytes(size)
    reader = StlvReader(lambda _kind, _length: None)
    message, rest = reader.read(memoryview(encode_header(7, size) + value))
    assert message is not None
    assert isinstance(message[1].obj, mmap) == is_apart
    assert (message[1], bytes(rest)) == (value, b"")


@pytest.mark.parametrize("step", [1, 2, 17, 1000])
def test_headers_come_in_pieces(step: int) -> None:
    """The longest header, of 18 bytes, and one of an empty value are read wherever they are cut."""
    most = 2**64 - 1
    messages = [(most, b""), (most, bytes(300)), (2**63, b"abc"), (0, b""), (300, b"d")]
    stream = b"".join(encode_header(kind, len(value)) + value for kind, value in messages) + b"\xff" * 18
    asked: list[tuple[int, int]] = []
    reader = StlvReader(lambda kind, length: asked.append((kind, length)))
    found = [each for at in range(0, len(stream), step) for each in read_all(reader, stream[at : at + step])]
    assert found == messages
    assert asked[-1] == (most, most)


def test_a_claimed_length_is_asked_about_before_anything_is_kept() -> None:
    """The owner refuses a length before a byte of the value is taken."""

    def refuse(kind: int, length: int) -> None:
        raise RemoteProtocolError(f"{kind} {length}")

    reader = StlvReader(refuse)
    with pytest.raises(RemoteProtocolError, match="8 9223372036854775808"):
        reader.read(memoryview(encode_header(8, 2**63) + bytes(100)))
    assert reader.held <= 18


def test_headers_must_be_canonical() -> None:
    """A number in a longer form than needed is refused."""
    reader = StlvReader(lambda _kind, _length: None)
    with pytest.raises(EncodingError):
        reader.read(memoryview(bytes.fromhex("01f800")))
