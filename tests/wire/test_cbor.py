"""The CBOR subset, against the recorded bytes and against cbor2.

Specification: docs/specs/bushbaby.md, "CBOR".
"""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.errors import EncodingError, Truncated
from culm.wire.cbor import (
    ARRAY,
    expect_end,
    head_size,
    pull_array,
    pull_string,
    pull_unsigned,
    push_head,
    push_string,
    push_unsigned,
)

U64 = st.integers(0, 2**64 - 1)


@given(U64)
def test_unsigned_as_cbor2_has_them(number: int) -> None:
    """Integers are written as cbor2 writes them, and read back to the end."""
    out = bytearray()
    push_unsigned(out, number)
    assert bytes(out) == cbor2.dumps(number)
    assert len(out) == head_size(number)
    assert pull_unsigned(memoryview(out), 0) == (number, len(out))


@pytest.mark.parametrize(
    ("number", "data"),
    [
        (23, "17"), (24, "1818"), (255, "18ff"), (256, "190100"), (65535, "19ffff"), (65536, "1a00010000"),
        (2**32 - 1, "1affffffff"), (2**32, "1b0000000100000000"), (2**64 - 1, "1b" + 8 * "ff"),
    ],
)  # fmt: skip
def test_the_shortest_head(number: int, data: str) -> None:
    """RFC 8949, section 3: the last number of each width stands in so many bytes, and the next one needs more."""
    out = bytearray()
    push_unsigned(out, number)
    assert (data, len(data) // 2) == (out.hex(), head_size(number))
    assert (number, len(out)) == pull_unsigned(memoryview(out), 0)


@given(st.binary(max_size=300), st.booleans())
def test_strings_as_cbor2_has_them(value: bytes, as_text: bool) -> None:
    """Strings of both kinds carry raw bytes; as bytes they are what cbor2 writes."""
    out = bytearray()
    push_string(out, value, as_text=as_text)
    if not as_text:
        assert bytes(out) == cbor2.dumps(value)
    found, text, end = pull_string(memoryview(out), 0)
    assert (bytes(found), text, end) == (value, as_text, len(out))


@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_heads_have_numbers_of_64_bits(number: int) -> None:
    """What has no place in a head is refused, and nothing is written."""
    out = bytearray()
    with pytest.raises(ValueError, match="is not an unsigned 64-bit integer"):
        push_head(out, ARRAY, number)
    assert not out


@given(st.lists(U64, max_size=40))
def test_arrays_as_cbor2_has_them(numbers: list[int]) -> None:
    """Arrays of integers are what cbor2 writes."""
    out = bytearray()
    push_head(out, ARRAY, len(numbers))
    for number in numbers:
        push_unsigned(out, number)
    assert bytes(out) == cbor2.dumps(numbers)
    data = memoryview(out)
    count, at = pull_array(data, 0, most=40)
    found = []
    for _ in range(count):
        number, at = pull_unsigned(data, at)
        found.append(number)
    expect_end(data, at)
    assert found == numbers


@pytest.mark.parametrize(
    "data", ["1817", "190001", "1a00000001", "1b0000000000000001", "1c", "1f", "20", "40", "f6", "a0", "c0"]
)
def test_not_an_unsigned_integer(data: str) -> None:
    """Longer heads than needed, other types, reserved and indefinite heads are refused."""
    with pytest.raises(EncodingError):
        pull_unsigned(memoryview(bytes.fromhex(data)), 0)


@pytest.mark.parametrize("data", ["", "18", "19ff", "1bffffffffffffff"])
def test_truncated_integers(data: str) -> None:
    """An integer that ends early says so."""
    with pytest.raises(Truncated):
        pull_unsigned(memoryview(bytes.fromhex(data)), 0)


@pytest.mark.parametrize("data", ["9bffffffffffffffff", "9a00100000", "9f", "80ff"])
def test_claimed_counts_are_checked(data: str) -> None:
    """An array of more items than bytes, an indefinite one, or one with bytes behind it is refused, at no cost."""
    view = memoryview(bytes.fromhex(data))
    with pytest.raises(EncodingError):
        expect_end(view, pull_array(view, 0, most=2**64)[1])


@pytest.mark.parametrize(
    ("data", "least", "most", "why"),
    [
        ("8201", 3, 3, "an array of 2 items, expected 3"),
        ("8201", 0, 1, "an array of 2 items, expected 0 to 1"),
        ("830102", 0, 3, "an array of 3 items cannot fit into 2 bytes"),
    ],
)
def test_why_a_count_is_refused(data: str, least: int, most: int, why: str) -> None:
    """The message says how many items were claimed, and how many could be."""
    with pytest.raises(EncodingError, match=why + "$") as refused:
        pull_array(memoryview(bytes.fromhex("00" + data)), 1, least=least, most=most)
    assert refused.value.offset == 1


def test_claimed_lengths_are_checked() -> None:
    """A string that claims 2^63 bytes is truncated, nothing more."""
    with pytest.raises(Truncated):
        pull_string(memoryview(bytes.fromhex("7b8000000000000000")), 0)
