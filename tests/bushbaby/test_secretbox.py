"""Nonce boxes: the deployed peer's, and the library's.

Specification: docs/specs/bushbaby.md, "Nonce boxes".
"""

from __future__ import annotations

import json
import tracemalloc
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_secretbox

from culm.bushbaby.handshake import Hello, SessionKeys
from culm.bushbaby.options import MAX_PLAINTEXT
from culm.bushbaby.salsa_tail import block_numbers, keystream
from culm.bushbaby.secretbox import OVERHEAD, Boxes, open_box, seal
from culm.errors import LocalProtocolError, RemoteProtocolError

KNOWN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "bushbaby" / "secretbox.json").read_text()
)
KEY, NONCE = bytes(range(32)), bytes(range(100, 124))


def sealed(plaintext: bytes, key: bytes, nonce: bytes, *, odd_counter: bool) -> bytearray:
    """A nonce box around a plaintext."""
    box = bytearray(OVERHEAD) + plaintext
    seal(memoryview(box), key, nonce, odd_counter=odd_counter)
    return box


@pytest.mark.parametrize("vector", KNOWN, ids=lambda vector: str(vector["length"]))
def test_the_deployed_peers_boxes(vector: dict[str, Any]) -> None:
    """Boxes of all lengths are the deployed peer's, and open again."""
    plaintext = bytes(i % 251 for i in range(1, vector["length"] + 1))
    key, nonce = bytes.fromhex(vector["key"]), bytes.fromhex(vector["nonce"])
    box = sealed(plaintext, key, nonce, odd_counter=True)
    assert sha256(box[24:]).hexdigest() == vector["box_sha256"]
    assert bytes(box[24:40]).hex() == vector["tag"]
    assert bytes(open_box(memoryview(box), key, odd_counter=True)) == plaintext


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, MAX_PLAINTEXT, MAX_PLAINTEXT + 1, 100_000])
def test_the_standard_boxes_are_the_librarys(length: int) -> None:
    """Without the odd counter a box is libsodium's, at every length."""
    plaintext = bytes(i % 253 for i in range(length))
    assert bytes(sealed(plaintext, KEY, NONCE, odd_counter=False)[24:]) == crypto_secretbox(plaintext, NONCE, KEY)


@given(st.integers(0, 255), st.binary(min_size=32, max_size=32), st.binary(min_size=24, max_size=24))
def test_our_keystream_is_the_librarys_where_the_counters_agree(block: int, key: bytes, nonce: bytes) -> None:
    """Any of the first 256 blocks is what libsodium XORs there."""
    box = crypto_secretbox(bytes(64 * (block + 1)), nonce, key)[16:]
    ours = keystream(key, nonce, block_numbers(block, 1)).tobytes()
    start = 64 * block - 32  # a box's first 32 bytes of keystream make the tag's key
    assert ours[max(0, -start) :] == box[max(0, start) : start + 64]


@pytest.mark.parametrize(("block", "standard"), [(0, 0), (255, 255), (256, 1), (257, 0x0101), (512, 2), (65536, 1)])
def test_the_odd_counter(block: int, standard: int) -> None:
    """The deployed peer's block numbers, read as the standard ones: its 256th block is a second block 1."""
    assert block_numbers(block, 1).tolist() == [standard]


@given(st.integers(0, 17_000), st.integers(0, 10**6), st.booleans())
def test_a_changed_box_is_refused(length: int, at: int, odd_counter: bool) -> None:
    """A flipped bit anywhere behind the nonce, or in it, is found."""
    box = sealed(bytes(length), KEY, NONCE, odd_counter=odd_counter)
    box[at % len(box)] ^= 1 << (at % 8)
    with pytest.raises(RemoteProtocolError):
        open_box(memoryview(box), KEY, odd_counter=odd_counter)


@pytest.mark.slow
@pytest.mark.parametrize("odd_counter", [False, True])
def test_a_large_box_is_never_held_twice(odd_counter: bool) -> None:
    """Sealing and opening 20 MiB takes little memory besides the box itself."""
    size = 20 * 1024 * 1024
    box = bytearray(OVERHEAD + size)
    sealed(bytes(MAX_PLAINTEXT + 1), KEY, NONCE, odd_counter=odd_counter)  # numpy is loaded before memory is counted
    tracemalloc.start()
    seal(memoryview(box), KEY, NONCE, odd_counter=odd_counter)
    plaintext = open_box(memoryview(box), KEY, odd_counter=odd_counter)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plaintext[:100] == bytes(100)
    assert plaintext[-100:] == bytes(100)
    assert peak < 0.3 * size


@pytest.mark.parametrize("odd_counter", [False, True])
@pytest.mark.parametrize("length", [40, MAX_PLAINTEXT + 41])
def test_a_forged_box_is_given_back(length: int, odd_counter: bool) -> None:
    """The error about a forged box keeps nothing of it lent: collecting it as garbage would crash CPython 3.11."""
    box = memoryview(bytearray(length))
    with pytest.raises(RemoteProtocolError, match="not sealed") as failure:
        open_box(box, KEY, odd_counter=odd_counter)

    box.release()  # BufferError while anything in the traceback of the failure still points into the box
    assert failure.tb is not None


def test_no_nonce_is_used_twice() -> None:
    """Two boxes under one nonce would show the difference of their contents, so the second one is not sealed."""
    boxes = Boxes(9, odd_counter=False)
    boxes.keys = SessionKeys(Hello(bytes(32), bytes(32)), KEY, KEY)
    boxes.seal(memoryview(bytearray(OVERHEAD)), NONCE)

    with pytest.raises(LocalProtocolError, match="make a new one"):
        boxes.seal(memoryview(bytearray(OVERHEAD)), NONCE)
