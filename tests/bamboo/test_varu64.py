"""VarU64 (docs/specs/bamboo.md, "VarU64")."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.bamboo import MAX_U64, decode_varu64, encode_varu64
from culm.bamboo.varu64 import decode_any_varu64
from culm.errors import EncodingError, Truncated
from tests.bamboo.oracle import vectors

STATED = {
    0: "00",
    247: "f7",
    248: "f8f8",
    255: "f8ff",
    256: "f90100",
    65535: "f9ffff",
    65536: "fa010000",
    2**64 - 1: "ffffffffffffffffff",
}
numbers = st.one_of(st.integers(0, 1000), st.integers(0, MAX_U64), st.integers(0, 64).map(lambda k: 2**k - 1))


def test_deployed_numbers() -> None:
    """Every number is encoded as the deployed peer encodes it."""
    cases = vectors("varu64")

    assert [case["bytes"] for case in cases] == [encode_varu64(int(case["n"])).hex() for case in cases]


def test_deployed_bytes() -> None:
    """What the deployed peer encodes decodes to its number, and nothing is left over."""
    cases = [(int(case["n"]), bytes.fromhex(case["bytes"])) for case in vectors("varu64")]

    assert [(number, len(data)) for number, data in cases] == [decode_varu64(data) for _, data in cases]


@pytest.mark.parametrize(("number", "encoded"), STATED.items())
def test_stated_encodings(number: int, encoded: str) -> None:
    """The encodings the specification spells out are ours, in both directions."""
    assert encoded == encode_varu64(number).hex()
    assert (number, len(encoded) // 2) == decode_varu64(bytes.fromhex(encoded))


@pytest.mark.parametrize("encoded", ["f800", "f8f7", "f900ff", "fa00ffff", "ff00ffffffffffffff"])
def test_longer_than_needed(encoded: str) -> None:
    """A form that is not the shortest is refused, and not because it is cut."""
    with pytest.raises(EncodingError, match="shortest") as caught:
        decode_varu64(bytes.fromhex(encoded))

    assert 0 == caught.value.offset
    assert not isinstance(caught.value, Truncated)


@pytest.mark.parametrize("encoded", ["f900", "ff00"])
def test_a_leading_zero_is_refused_at_once(encoded: str) -> None:
    """A number that is cut but can no longer become canonical is malformed: waiting for its rest is of no use."""
    with pytest.raises(EncodingError) as caught:
        decode_varu64(bytes.fromhex(encoded))

    assert not isinstance(caught.value, Truncated)


@given(number=numbers, before=st.binary(max_size=4), after=st.binary(max_size=4))
@settings(deadline=None)
def test_round_trip(number: int, before: bytes, after: bytes) -> None:
    """A number decodes to itself wherever it stands, in any kind of buffer, and leaves the rest alone."""
    encoded = encode_varu64(number)
    data = before + encoded + after
    expected = (number, len(before) + len(encoded))

    assert expected == decode_varu64(data, len(before))
    assert expected == decode_varu64(bytearray(data), len(before))
    assert expected == decode_varu64(memoryview(data), len(before))


@given(number=numbers, offset=st.integers(0, 3))
@settings(deadline=None)
def test_every_truncation(number: int, offset: int) -> None:
    """However a number is cut, the error says so and where the number begins."""
    encoded = encode_varu64(number)
    found = []
    for length in range(len(encoded)):
        with pytest.raises(Truncated) as caught:
            decode_varu64(bytes(offset) + encoded[:length], offset)
        found.append(caught.value.offset)

    assert [offset] * len(encoded) == found


@given(data=st.binary(min_size=1, max_size=12))
@settings(deadline=None)
def test_one_encoding_for_a_number(data: bytes) -> None:
    """Whatever bytes decode are exactly what their number encodes to; all others raise ``EncodingError``."""
    try:
        number, end = decode_varu64(data)
    except EncodingError:
        return

    assert data[:end] == encode_varu64(number)


@pytest.mark.parametrize("number", [-1, -(2**64), 2**64, 2**70])
def test_numbers_that_do_not_fit(number: int) -> None:
    """Only 0 to 2^64 - 1 can be encoded."""
    with pytest.raises(ValueError, match="unsigned 64-bit"):
        encode_varu64(number)


@pytest.mark.parametrize(
    ("encoded", "number"),
    [("00", 0), ("f7", 247), ("f805", 5), ("f8f8", 248), ("f90001", 1), ("f90102", 258), ("ff00000000000000ff", 255)],
)
def test_any_form(encoded: str, number: int) -> None:
    """Where longer forms are accepted, each of them is its number, wherever it stands, and is refused if it is cut."""
    data = bytes.fromhex(encoded)

    assert (number, len(data)) == decode_any_varu64(data)
    assert (number, 2 + len(data)) == decode_any_varu64(b"\xff\xff" + data + b"\x01", 2)
    for size in range(len(data)):
        with pytest.raises(Truncated):
            decode_any_varu64(data[:size])
