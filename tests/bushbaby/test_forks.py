"""Tips, forks and fork proofs between Culm nodes, byte for byte.

Specification: docs/specs/bushbaby.md, "Forks", "Recognising Culm".
"""

from __future__ import annotations

from hashlib import blake2b

import pytest

from culm.bamboo import ForkProof
from culm.bushbaby import ForksReceived, HaveItem, HaveReceived, Limits
from culm.bushbaby.handshake import generation_of, marked_nonce
from culm.bushbaby.messages import MAX_FORKS, decode_forks, decode_have, encode_fork, encode_have_item
from culm.errors import EncodingError, LocalProtocolError
from culm.testing import build_log
from tests.bushbaby.peers import ALICE, BOB, carry, introduce, make, pair

ZEROS = "30" * 43  # 32 zero bytes in base62
LONG = f"85 782b{ZEROS} 19012c 05 48 0a0b0c0d0e0f1011 04"
"""Log 300 of author 00..00: 5 entries, a tip, a fork at 4."""
LOG = build_log(3)
PROOF = ForkProof.of(LOG.entries[2], LOG.make(3, b"another"))


def decoded(*items: str) -> list[HaveItem]:
    """The items of a HAVE."""
    return decode_have(memoryview(bytes([0x80 + len(items)]) + b"".join(map(bytes.fromhex, items))), Limits())


def test_a_tip_and_a_fork_stand_behind_the_newest_entry() -> None:
    """An item of a HAVE has three values, or five: then the last two are the tip and the lowest fork."""
    item = HaveItem(bytes(32), 300, 5, bytes(range(10, 18)), 4)
    assert bytes.fromhex(LONG) == encode_have_item(item)
    short = f"83 782b{ZEROS} 19012c 05"
    assert [item, HaveItem(bytes(32), 300, 5)] == decoded(LONG, short)
    assert bytes.fromhex(short) == encode_have_item(item._replace(tip=b"", fork=0))


@pytest.mark.parametrize(
    "item",
    [
        f"84 782b{ZEROS} 01 05 48 0a0b0c0d0e0f1011",
        f"85 782b{ZEROS} 01 05 47 0a0b0c0d0e0f10 04",
        f"85 782b{ZEROS} 01 05 00 04",
        f"85 782b{ZEROS} 01 05 48 0a0b0c0d0e0f1011 41ff",
        f"86 782b{ZEROS} 01 05 48 0a0b0c0d0e0f1011 04 00",
    ],
    ids=["no fork", "a short tip", "a number as tip", "a string as fork", "six values"],
)
def test_other_shapes_are_malformed(item: str) -> None:
    """Four values or six, and tips of other lengths, break the format."""
    with pytest.raises(EncodingError):
        decoded(item)


def test_a_proof_is_one_byte_string() -> None:
    """A FORKS is an array of byte strings, each of two entries in a row."""
    assert PROOF is not None
    both = PROOF.first.encoded + PROOF.second.encoded
    head = b"\x59" + len(both).to_bytes(2, "big")
    assert head + both == encode_fork(PROOF)
    assert [PROOF] == decode_forks(memoryview(b"\x81" + head + both))
    for wrong in (
        b"\x81" + head + PROOF.second.encoded + PROOF.first.encoded,
        b"\x81" + head + both + b"\x00",
        b"\x81\x59" + (len(both) - 1).to_bytes(2, "big") + both[:-1],
        b"\x98" + bytes([MAX_FORKS + 1]) + (head + both) * (MAX_FORKS + 1),
    ):
        with pytest.raises(EncodingError):
            decode_forks(memoryview(wrong))


def test_the_marks_of_a_nonce() -> None:
    """Eight random bytes, the mark of a node that tells of forks, the mark of a Culm node."""
    key, start = bytes(range(32)), bytes(range(100, 124))
    second = blake2b(start[:8], digest_size=8, key=key, person=b"culm-bushbaby-2").digest()
    first = blake2b(start[:8] + second, digest_size=8, key=key, person=b"culm-bushbaby-1").digest()
    nonce = start[:8] + second + first
    assert nonce == marked_nonce(start, key)
    older = start[:16] + blake2b(start[:16], digest_size=8, key=key, person=b"culm-bushbaby-1").digest()
    assert [2, 1, 0, 0] == [generation_of(each, key) for each in (nonce, older, start, nonce[:-1] + b"x")]
    assert 0 == generation_of(nonce, bytes(32))


def test_forks_travel_between_nodes_that_know_them() -> None:
    """A node shows a proof, and a HAVE brings tip and fork."""
    assert PROOF is not None
    one, other = pair()
    introduce(one, other)
    item = HaveItem(bytes(32), 300, 5, bytes(range(10, 18)), 4)
    one.send_forks([PROOF] * (MAX_FORKS + 1))
    one.send_have([item])
    assert [ForksReceived([PROOF] * MAX_FORKS), ForksReceived([PROOF]), HaveReceived([item])] == carry(one, other)


def test_other_peers_get_no_tips_and_no_proofs() -> None:
    """To a peer that is no Culm node, a HAVE has three values for each log, and a proof cannot be sent."""
    assert PROOF is not None
    one, other = make(ALICE, 1, mark=True), make(BOB, 2, mark=False)
    introduce(one, other)
    with pytest.raises(LocalProtocolError):
        one.send_forks([PROOF])
    one.send_have([HaveItem(bytes(32), 300, 5, bytes(range(10, 18)), 4)])
    assert [HaveReceived([HaveItem(bytes(32), 300, 5)])] == carry(one, other)
