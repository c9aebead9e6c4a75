"""What is known of a payload: the states an entry's payload can be in, and payloads that came without their entry.

A payload is judged where its bytes are at hand, by whoever reads the file or the store; only the judgement travels.
In a bundle a payload stands apart from its entry and belongs to a *place*, to whichever entry of that number it fits.
Its ``PayloadFrame`` travels then, and meets the entries of its place when their log is audited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from culm.bamboo import YAMF_BYTES, decode_varu64, decode_yamf, encode_varu64, yamf_hash
from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import EncodingError

if TYPE_CHECKING:
    from culm.bamboo import Entry

ABSENT = "absent"
FORGOTTEN = "forgotten"  # deleted on purpose
MISMATCH = "mismatch"  # bytes of another hash stand in its place
PARTIAL = "partial"  # only its beginning is there
HELD = "held"
SIZE_MISMATCH = "size_mismatch"  # the right hash and another size: the author lied, the log is invalid from here on

STATES = (ABSENT, FORGOTTEN, MISMATCH, PARTIAL, HELD, SIZE_MISMATCH)
"""All states, ascending: where copies of an entry differ, the greatest is what is known of its payload."""

_RANKS = {state: rank for rank, state in enumerate(STATES)}
_FRAME_TAG = 2  # behind the tags that entries have: one byte tells the two apart
_EMPTY = yamf_hash(b"")


def rank(state: str) -> int:
    """The position of a state in ``STATES``; ``ValueError`` if it is none."""
    try:
        return _RANKS[state]
    except KeyError:
        raise ValueError(f"{state!r} is not a payload state ({', '.join(STATES)})") from None


def better(one: str, other: str) -> str:
    """What two copies together tell: the greater of two states."""
    return one if _RANKS[one] >= _RANKS[other] else other


def judged(entry: Entry, payload_hash: bytes, size: int) -> str:
    """The state of a payload whose bytes have this YAMF-hash and this size."""
    if payload_hash != entry.payload_hash:
        return MISMATCH
    return HELD if size == entry.size else SIZE_MISMATCH


def without_bytes(entry: Entry) -> str:
    """The state of a payload no byte of which is at hand: an empty one is there all the same."""
    return HELD if entry.size == 0 and entry.payload_hash == _EMPTY else ABSENT


@dataclass(frozen=True, slots=True)
class PayloadFrame:
    """A payload that is there for the entries of one place: its YAMF-hash and its size in bytes."""

    author: bytes
    log_id: int
    seq: int
    payload_hash: bytes
    size: int

    def encode(self) -> bytes:
        """The frame as bytes: equal frames, and only they, have equal ones. No entry begins like them."""
        numbers = encode_varu64(self.log_id) + encode_varu64(self.seq) + encode_varu64(self.size)
        return bytes([_FRAME_TAG]) + self.author + self.payload_hash + numbers

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what ``encode`` wrote; ``EncodingError`` for anything else."""
        if data[:1] != bytes([_FRAME_TAG]):
            raise EncodingError("not a payload frame")
        at = 1 + AUTHOR_BYTES + YAMF_BYTES
        payload_hash, _ = decode_yamf(data, 1 + AUTHOR_BYTES)
        log_id, at = decode_varu64(data, at)
        seq, at = decode_varu64(data, at)
        size, at = decode_varu64(data, at)
        if at != len(data):
            raise EncodingError("bytes follow a payload frame", at)
        return cls(data[1 : 1 + AUTHOR_BYTES], log_id, seq, payload_hash, size)


def is_frame(record: bytes) -> bool:
    """Whether bytes that are an entry or a payload frame are the latter."""
    return record[0] == _FRAME_TAG
