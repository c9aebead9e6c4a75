"""Files of entries: bundles and plain concatenations."""

from __future__ import annotations

import io

from culm.bamboo import ForkProof
from culm.errors import EncodingError
from culm.store.files import BundleWriter, EntryRecord, PayloadRecord, read_records
from culm.testing import build_log
from fuzz.target import Target


def _export(data: bytes) -> None:
    for record in read_records(io.BytesIO(data)):
        if isinstance(record, EntryRecord | PayloadRecord) and record.payload is not None:
            read = sum(len(piece) for piece in record.payload)
            assert read == record.payload.size


def _files() -> tuple[bytes, bytes]:
    """The same entries in both forms, the bundle with a fork proof."""
    log = build_log(5, payload_size=9)
    proof = ForkProof.of(log.entries[4], log.make(5, b"another"))
    assert proof is not None
    bundle = io.BytesIO()
    writer = BundleWriter(bundle)
    writer.proof(proof)
    for entry in log.entries:
        writer.entry(entry)
        writer.payload(entry.place, entry.size, [log.payloads[entry.hash]])
    writer.close()
    return b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries), bundle.getvalue()


TARGETS = (Target("store.export", _export, (EncodingError,), _files()),)
