"""YAMF-hash: a self-describing hash (docs/specs/bamboo.md, "YAMF-hash").

VarU64 id of the hash function, VarU64 digest length, digest. The format leaves room for other functions, but BLAKE2b
with a 64-byte digest (id 0) is the only one so far. So every YAMF-hash is ``00 40`` and 64 bytes.
"""

from hashlib import blake2b

from culm.errors import EncodingError, Truncated

YAMF_PREFIX = b"\x00\x40"
YAMF_BYTES = 66


def yamf_hash(data: bytes | bytearray | memoryview) -> bytes:
    """The YAMF-hash of ``data``: 66 bytes."""
    return YAMF_PREFIX + blake2b(data).digest()


def decode_yamf(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[bytes, int]:
    """Read a YAMF-hash at ``offset``; return its 66 bytes and the offset behind it.

    Raises ``Truncated`` or, for another hash function or digest length, ``EncodingError``.
    """
    end = offset + YAMF_BYTES
    found = bytes(data[offset:end])
    if not YAMF_PREFIX.startswith(found[:2]):
        raise EncodingError("not a BLAKE2b YAMF-hash (00 40 ...)", offset)
    if len(found) < YAMF_BYTES:
        raise Truncated(f"truncated: a YAMF-hash ends after {len(found)} of {YAMF_BYTES} bytes", offset)
    return found, end
