"""What is known of a payload: the states an entry's payload can be in, and payloads that come without their entry.

Payloads can be large, so their bytes do not travel through Spark. The task that reads a file or a store hashes each
payload there and then, and sends on only its state.

In a bundle a payload stands apart from its entry. It belongs to a *place* (author, log, number), and to whichever entry
of that place names its hash; that entry may be in another file. So its hash and size travel as a ``PayloadFrame``,
which is compared with the entries of its place once they are together (``pack``).
"""

from dataclasses import dataclass
from typing import Self

from culm.bamboo import Entry, decode_varu64, decode_yamf, encode_varu64, yamf_hash
from culm.bamboo.entry import AUTHOR_BYTES
from culm.errors import EncodingError

ABSENT = "absent"
FORGOTTEN = "forgotten"  # deleted on purpose
MISMATCH = "mismatch"  # bytes of another hash stand in its place
PARTIAL = "partial"  # only a beginning of it is held
HELD = "held"
SIZE_MISMATCH = "size_mismatch"  # the right hash and another size: the author lied, the log is invalid from here on

STATES = (ABSENT, FORGOTTEN, MISMATCH, PARTIAL, HELD, SIZE_MISMATCH)
"""All states, ascending. Where copies of an entry differ, the greatest state is what is known of its payload.

``SIZE_MISMATCH`` is the greatest because it is proof of a lie, which no copy can take back.
"""

_FRAME_TAG = 2  # entries begin with 0 or 1, so that the first byte tells a frame from an entry
_EMPTY = yamf_hash(b"")


def rank(state: str) -> int:
    """The position of a state in ``STATES``; ``ValueError`` if it is none."""
    return STATES.index(state)


def judged(entry: Entry, payload_hash: bytes, size: int) -> str:
    """The state of a payload whose bytes have this YAMF-hash and this size."""
    if payload_hash != entry.payload_hash:
        return MISMATCH
    return HELD if size == entry.size else SIZE_MISMATCH


def without_bytes(entry: Entry) -> str:
    """The state of an entry's payload when no bytes are at hand. The empty payload is held all the same."""
    return HELD if entry.size == 0 and entry.payload_hash == _EMPTY else ABSENT


@dataclass(frozen=True, slots=True)
class PayloadFrame:
    """A payload that was read apart from its entry: its place, its YAMF-hash and its size in bytes."""

    author: bytes
    log_id: int
    seq: int
    payload_hash: bytes
    size: int

    def encode(self) -> bytes:
        """The frame as bytes. Equal frames have equal bytes, and no entry begins with the same byte."""
        numbers = encode_varu64(self.log_id) + encode_varu64(self.seq) + encode_varu64(self.size)
        return bytes([_FRAME_TAG]) + self.author + self.payload_hash + numbers

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read what ``encode`` wrote; ``EncodingError`` for anything else."""
        if data[:1] != bytes([_FRAME_TAG]):
            raise EncodingError("not a payload frame")
        payload_hash, at = decode_yamf(data, 1 + AUTHOR_BYTES)
        log_id, at = decode_varu64(data, at)
        seq, at = decode_varu64(data, at)
        size, at = decode_varu64(data, at)
        if at != len(data):
            raise EncodingError("bytes follow a payload frame", at)
        return cls(data[1 : 1 + AUTHOR_BYTES], log_id, seq, payload_hash, size)
