"""VarU64: unsigned 64-bit integers in one to nine bytes (docs/specs/bamboo.md, "VarU64").

A first byte below 248 is the number itself. 248 to 255 say that 1 to 8 big-endian bytes follow. Only the
shortest form is accepted, so that every number has one encoding and hashes over encodings are unique.
"""

from culm.errors import EncodingError, Truncated

MAX_U64 = 2**64 - 1
MAX_VARU64_BYTES = 9
_FIRST_LONG = 248  # first bytes from here on announce 1, 2, ... 8 bytes
_SMALL = [bytes([n]) for n in range(_FIRST_LONG)]


def encode_varu64(number: int) -> bytes:
    """The canonical encoding of ``number`` (0 to 2^64 - 1); ``ValueError`` outside of that."""
    if 0 <= number < _FIRST_LONG:
        return _SMALL[number]
    if not 0 <= number <= MAX_U64:
        raise ValueError(f"{number} is not an unsigned 64-bit integer")
    width = (number.bit_length() + 7) >> 3
    return bytes([_FIRST_LONG - 1 + width]) + number.to_bytes(width, "big")


def decode_varu64(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[int, int]:
    """Read a number at ``offset``; return it and the offset behind it.

    Raises ``Truncated`` if the bytes end too early and ``EncodingError`` if a shorter form exists.
    """
    if offset >= len(data):
        raise Truncated("truncated: a VarU64 is missing", offset)
    first = data[offset]
    if first < _FIRST_LONG:
        return first, offset + 1
    width = first - _FIRST_LONG + 1
    end = offset + 1 + width
    # The first two bytes already show a form that is too long: no need to wait for the rest.
    if width > 1 and offset + 1 < len(data) and data[offset + 1] == 0:
        raise EncodingError("VarU64 is not in its shortest form", offset)
    if end > len(data):
        raise Truncated(f"truncated: a VarU64 of {width + 1} bytes ends after {len(data) - offset}", offset)
    number = int.from_bytes(data[offset + 1 : end], "big")
    if width == 1 and number < _FIRST_LONG:
        raise EncodingError("VarU64 is not in its shortest form", offset)
    return number, end


def decode_any_varu64(data: bytes | bytearray | memoryview, offset: int = 0) -> tuple[int, int]:
    """Read a number for protocols that also accept longer forms; only ``Truncated`` is raised."""
    if offset >= len(data):
        raise Truncated("truncated: a VarU64 is missing", offset)
    first = data[offset]
    if first < _FIRST_LONG:
        return first, offset + 1
    end = offset + first - _FIRST_LONG + 2
    if end > len(data):
        raise Truncated("truncated: a VarU64 is incomplete", offset)
    return int.from_bytes(data[offset + 1 : end], "big"), end
