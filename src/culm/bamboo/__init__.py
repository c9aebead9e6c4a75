"""The Bamboo log: entries, links, identities, verification and forks. Does no I/O but key files.

Specification: docs/specs/bamboo.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from culm.bamboo.audit import ForkFinding, LogAuditor, audit
from culm.bamboo.decimal import read_u64
from culm.bamboo.entry import MAX_ENTRY_BYTES, Entry
from culm.bamboo.forks import ForkCase, ForkProof, contradiction
from culm.bamboo.lipmaa import certificate_pool, has_lipmaalink, linkers, lipmaa, path, spine
from culm.bamboo.varu64 import MAX_U64, decode_varu64, encode_varu64
from culm.bamboo.verification import (
    are_authentic,
    check_ahead,
    check_payload,
    check_payload_digest,
    check_signature,
    is_authentic,
    start_checking,
)
from culm.bamboo.yamf import YAMF_BYTES, decode_yamf, yamf_hash

if TYPE_CHECKING:
    from culm.bamboo.hashing import PayloadHasher
    from culm.bamboo.identity import Identity

__all__ = [
    "MAX_ENTRY_BYTES",
    "MAX_U64",
    "YAMF_BYTES",
    "Entry",
    "ForkCase",
    "ForkFinding",
    "ForkProof",
    "Identity",
    "LogAuditor",
    "PayloadHasher",
    "are_authentic",
    "audit",
    "certificate_pool",
    "check_ahead",
    "check_payload",
    "check_payload_digest",
    "check_signature",
    "contradiction",
    "decode_varu64",
    "decode_yamf",
    "encode_varu64",
    "has_lipmaalink",
    "is_authentic",
    "linkers",
    "lipmaa",
    "path",
    "read_u64",
    "spine",
    "start_checking",
    "yamf_hash",
]

_LATER = {"Identity": "identity", "PayloadHasher": "hashing"}


def __getattr__(name: str) -> object:
    """What is imported at its first use: it brings threads or libsodium, and who checks a proof may need neither."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"culm.bamboo.{_LATER[name]}"), name)
