"""The log itself: numbers, hashes, entries, fork proofs."""

from __future__ import annotations

from culm.bamboo import Entry, ForkProof, Identity, decode_varu64, decode_yamf, encode_varu64
from culm.errors import EncodingError, MalformedEntry
from culm.testing import build_log
from fuzz.target import Target


def _varu64(data: bytes) -> None:
    number, end = decode_varu64(data)
    assert encode_varu64(number) == data[:end]


def _yamf(data: bytes) -> None:
    found, end = decode_yamf(data)
    assert found == data[:end]


def _entry(data: bytes) -> None:
    entry, end = Entry.decode_prefix(data)
    assert entry.encoded == data[:end]
    assert entry.seq > 0


def _proof(data: bytes) -> None:
    assert ForkProof.decode(data).encode() == data


def _entries() -> tuple[bytes, ...]:
    """Entries of every shape: first, usual, with a lipmaalink of its own, last, with the greatest numbers; a proof."""
    log = build_log(14, payload_size=9)
    last = log.append(b"", is_end=True)
    huge = Identity(bytes(32)).create_entry(
        log_id=2**64 - 1,
        seq=2**64 - 1,
        backlink=last.hash,
        lipmaalink=last.hash,
        size=2**64 - 1,
        payload_hash=last.payload_hash,
        is_end=True,
    )
    return tuple(entry.encoded for entry in (log.entries[0], log.entries[1], log.entries[3], last, huge))


def _fork() -> bytes:
    log = build_log(5, payload_size=9)
    proof = ForkProof.of(log.entries[4], log.make(5, b"another"))
    assert proof is not None
    return proof.encode()


_NUMBERS = (0, 1, 247, 248, 255, 256, 65535, 65536, 2**32, 2**64 - 1)
_ENTRIES = _entries()
TARGETS = (
    Target("bamboo.varu64", _varu64, (EncodingError,), tuple(map(encode_varu64, _NUMBERS)), longest=16),
    Target("bamboo.yamf", _yamf, (EncodingError,), (Entry.decode(_ENTRIES[1]).hash,), longest=80),
    Target("bamboo.entry", _entry, (MalformedEntry,), _ENTRIES, longest=400),
    Target("bamboo.proof", _proof, (MalformedEntry,), (_fork(),), longest=800),
)
