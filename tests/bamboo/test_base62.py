"""Base62 identities.

Specification: docs/specs/bushbaby.md, "Base62".
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm.bamboo.base62 import decode_base62, encode_base62
from culm.errors import EncodingError

VECTORS = Path(__file__).parents[1] / "vectors" / "bushbaby"
KNOWN = json.loads((VECTORS / "base62.json").read_text())
IDENTITIES = json.loads((VECTORS / "identities.json").read_text())


@pytest.mark.parametrize("vector", KNOWN, ids=lambda vector: vector["base62"])
def test_vectors(vector: dict[str, str]) -> None:
    """The deployed peer's base62 is ours, in both directions."""
    assert encode_base62(bytes.fromhex(vector["bytes"])).decode() == vector["base62"]
    assert decode_base62(vector["base62"].encode()).hex() == vector["bytes"]


@pytest.mark.parametrize("vector", IDENTITIES, ids=lambda vector: vector["base62_public"][:6])
def test_identities(vector: dict[str, str]) -> None:
    """Public and secret keys of the deployed peer read and write alike."""
    for name in ("public", "secret"):
        assert encode_base62(bytes.fromhex(vector[name])).decode() == vector[f"base62_{name}"]


@given(st.binary(min_size=32, max_size=32))
def test_round_trip(key: bytes) -> None:
    """Every key has one form of 43 characters, and it reads back."""
    text = encode_base62(key)
    assert len(text) == 43
    assert decode_base62(text) == key


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        (b"", 0),
        (b"0" * 42, 0),
        (b"0" * 44, 0),
        (b"0" * 10 + b"-" + b"0" * 32, 10),
        (b"z" * 43, 0),
        (b"0" * 42 + b"\xff", 42),
    ],
)
def test_anything_else_is_refused(text: bytes, offset: int) -> None:
    """Other lengths, other characters and numbers of 2^256 and more are errors that name their place."""
    with pytest.raises(EncodingError) as caught:
        decode_base62(text)
    assert caught.value.offset == offset


@pytest.mark.parametrize("length", [0, 31, 33])
def test_only_32_bytes_are_an_identity(length: int) -> None:
    """A key of another length has no base62: 43 characters would stand for another key."""
    with pytest.raises(ValueError, match=f"32 bytes, not {length}"):
        encode_base62(bytes(length))
