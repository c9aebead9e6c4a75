"""What is fuzzed: each decoder with the errors it may raise, and valid messages to start from.

A target's function returns normally or raises one of its documented errors; whatever else leaves it is a finding. Where
decoding succeeds, encoding again must give the same bytes.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from culm.bamboo import Entry, ForkProof, Identity, decode_varu64, decode_yamf, encode_varu64
from culm.errors import EncodingError, MalformedEntry
from culm.store.files import BundleWriter, EntryRecord, PayloadRecord, read_records
from culm.testing import build_log

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Target:
    """A decoder under test. ``run`` feeds it bytes; ``allowed`` are its documented errors; ``seeds`` are valid."""

    name: str
    run: Callable[[bytes], None]
    allowed: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]


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


def _export(data: bytes) -> None:
    for record in read_records(io.BytesIO(data)):
        if isinstance(record, EntryRecord | PayloadRecord) and record.payload is not None:
            read = sum(len(piece) for piece in record.payload)
            assert read == record.payload.size


def _seeds() -> dict[str, tuple[bytes, ...]]:
    log = build_log(14, payload_size=9)
    last = log.append(b"", is_end=True)
    fork = log.make(5, b"another")
    huge = Identity(bytes(32)).create_entry(
        log_id=2**64 - 1,
        seq=2**64 - 1,
        backlink=last.hash,
        lipmaalink=last.hash,
        size=2**64 - 1,
        payload_hash=last.payload_hash,
        is_end=True,
    )
    proof = ForkProof.of(log.entries[4], fork)
    assert proof is not None
    bundle = io.BytesIO()
    writer = BundleWriter(bundle)
    writer.proof(proof)
    for entry in log.entries[:5]:
        writer.entry(entry)
        writer.payload(entry.place, entry.size, [log.payloads[entry.hash]])
    writer.close()
    plain = b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries[:5])
    numbers = (0, 1, 247, 248, 255, 256, 65535, 65536, 2**32, 2**64 - 1)
    return {
        "varu64": tuple(encode_varu64(number) for number in numbers),
        "yamf": (last.hash,),
        "entry": tuple(entry.encoded for entry in (log.entries[0], log.entries[1], log.entries[3], last, huge)),
        "proof": (proof.encode(),),
        "export": (plain, bundle.getvalue()),
    }


def targets() -> list[Target]:
    """All targets."""
    seeds = _seeds()
    return [
        Target("varu64", _varu64, (EncodingError,), seeds["varu64"]),
        Target("yamf", _yamf, (EncodingError,), seeds["yamf"]),
        Target("entry", _entry, (MalformedEntry,), seeds["entry"]),
        Target("proof", _proof, (MalformedEntry,), seeds["proof"]),
        Target("export", _export, (EncodingError,), seeds["export"]),
    ]
