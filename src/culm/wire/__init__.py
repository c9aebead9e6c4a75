"""What several protocols share on the wire: STLV framing, base62 identities, the CBOR subset. Does no I/O."""

from culm.bamboo.base62 import BASE62_CHARS, decode_base62, encode_base62
from culm.types import Buffer
from culm.wire.stlv import MAX_HEADER_BYTES, StlvReader, encode_header

__all__ = [
    "BASE62_CHARS",
    "MAX_HEADER_BYTES",
    "Buffer",
    "StlvReader",
    "decode_base62",
    "encode_base62",
    "encode_header",
]
