"""YAMF-hash (docs/specs/bamboo.md, "YAMF-hash")."""

from __future__ import annotations

from hashlib import blake2b

import pytest

from culm.bamboo import YAMF_BYTES, decode_yamf, yamf_hash
from culm.errors import EncodingError, Truncated


def test_form() -> None:
    """A YAMF-hash is the function's id 0, the length 64, and the BLAKE2b digest: 66 bytes."""
    assert b"\x00\x40" + blake2b(b"some bytes").digest() == yamf_hash(b"some bytes")
    assert YAMF_BYTES == len(yamf_hash(b""))


def test_round_trip() -> None:
    """A hash in the midst of other bytes is read as it is, from any kind of buffer."""
    data = b"before" + yamf_hash(b"some bytes") + b"after"
    expected = (yamf_hash(b"some bytes"), 6 + YAMF_BYTES)

    assert [expected] * 3 == [decode_yamf(kind(data), 6) for kind in (bytes, bytearray, memoryview)]


def test_every_truncation() -> None:
    """However a hash is cut, the error says so and where the hash begins."""
    found = []
    for length in range(YAMF_BYTES):
        with pytest.raises(Truncated) as caught:
            decode_yamf(b"x" + yamf_hash(b"")[:length], 1)
        found.append(caught.value.offset)

    assert [1] * YAMF_BYTES == found


@pytest.mark.parametrize("prefix", ["0140", "0020", "0041", "00f840", "f840", "0000"])
def test_other_functions_and_lengths(prefix: str) -> None:
    """Another hash function or digest length is refused, and not because the bytes are cut."""
    with pytest.raises(EncodingError, match="BLAKE2b") as caught:
        decode_yamf(bytes.fromhex(prefix) + bytes(64))

    assert not isinstance(caught.value, Truncated)


@pytest.mark.parametrize("prefix", ["01", "0020"])
def test_refused_as_soon_as_it_is_clear(prefix: str) -> None:
    """The first wrong byte is enough: a cut hash that can no longer be right is malformed."""
    with pytest.raises(EncodingError) as caught:
        decode_yamf(bytes.fromhex(prefix))

    assert not isinstance(caught.value, Truncated)
