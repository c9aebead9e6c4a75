"""The part of CBOR that the protocols need (RFC 8949, sections 3 and 4.2; docs/specs/bushbaby.md, "CBOR").

Unsigned integers, byte strings, text strings and arrays, each with the shortest head there is and a definite length.
Everything else is refused: negative numbers, maps, tags, floats, indefinite lengths, longer heads than needed. Each
``pull_`` reads one head, so that nesting goes exactly as deep as the caller's code and never recurses.

Strings come back as slices of the buffer, not as copies and never as ``str``: the deployed Bushbaby peer writes raw
bytes as text strings, which are not valid UTF-8. A claimed length or count is checked against the bytes that are
really there before anything is made of it.

Departure: section 4.2 recommends the shortest heads for deterministic encoding; here they are required.
"""

from culm.bamboo.varu64 import MAX_U64
from culm.errors import EncodingError, Truncated
from culm.types import Buffer

UNSIGNED = 0
BYTES = 2
TEXT = 3
ARRAY = 4
_NAMES = ("an unsigned integer", "a negative integer", "a byte string", "a text string", "an array", "a map", "a tag")
_FIRST_LONG = 24  # smaller numbers stand in the first byte itself
_WIDTHS = {24: 1, 25: 2, 26: 4, 27: 8}
_LEAST = {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}  # the smallest number that needs so many bytes


def head_size(number: int) -> int:
    """Bytes that the head of an item takes: of the integer itself, or of the length of a string or array."""
    if number < _FIRST_LONG:
        return 1
    return 2 if number < 1 << 8 else 3 if number < 1 << 16 else 5 if number < 1 << 32 else 9


def push_head(out: bytearray, major: int, number: int) -> None:
    """Append a head of the given major type; ``ValueError`` unless ``number`` is an unsigned 64-bit integer."""
    if not 0 <= number <= MAX_U64:
        raise ValueError(f"{number} is not an unsigned 64-bit integer")
    if number < _FIRST_LONG:
        out.append(major << 5 | number)
        return
    width = head_size(number) - 1
    out.append(major << 5 | (_FIRST_LONG + width.bit_length() - 1))
    out += number.to_bytes(width, "big")


def push_unsigned(out: bytearray, number: int) -> None:
    """Append an unsigned integer."""
    push_head(out, UNSIGNED, number)


def push_string(out: bytearray, value: Buffer, *, as_text: bool) -> None:
    """Append a string: a text string's head if ``as_text``, else a byte string's. Nothing is encoded or checked."""
    push_head(out, TEXT if as_text else BYTES, len(value))
    out += value


def pull_head(data: memoryview, at: int) -> tuple[int, int, int]:
    """Read any head at ``at``: its major type, its number and the offset behind it."""
    if at >= len(data):
        raise Truncated("truncated: an item is missing", at)
    first = data[at]
    major, number = first >> 5, first & 0x1F
    if number < _FIRST_LONG:
        return major, number, at + 1
    if number == _FIRST_LONG and at + 1 < len(data) and data[at + 1] >= _FIRST_LONG:  # a short cut: most are as short
        return major, data[at + 1], at + 2
    width = _WIDTHS.get(number)
    if width is None:
        raise EncodingError(f"CBOR head {first:#04x}: indefinite lengths and reserved heads are refused", at)
    end = at + 1 + width
    if end > len(data):
        raise Truncated("truncated: the head of an item is incomplete", at)
    number = int.from_bytes(data[at + 1 : end], "big")
    if number < _LEAST[width]:
        raise EncodingError("a CBOR head is not in its shortest form", at)
    return major, number, end


def pull_unsigned(data: memoryview, at: int) -> tuple[int, int]:
    """Read an unsigned integer: it and the offset behind it."""
    if at < len(data) and data[at] < _FIRST_LONG:  # a short cut, because most numbers are small
        return data[at], at + 1
    major, number, end = pull_head(data, at)
    if major != UNSIGNED:
        raise _unexpected("an unsigned integer", major, at)
    return number, end


def pull_array(data: memoryview, at: int, *, least: int = 0, most: int) -> tuple[int, int]:
    """Read the head of an array of ``least`` to ``most`` items: their number and the offset of the first."""
    major, count, end = pull_head(data, at)
    if major != ARRAY:
        raise _unexpected("an array", major, at)
    if not least <= count <= most:
        wanted = str(most) if least == most else f"{least} to {most}"
        raise EncodingError(f"an array of {count} items, expected {wanted}", at)
    if count > len(data) - end:  # Every item takes at least a byte; otherwise a short message could claim 2^64 items.
        raise Truncated(f"truncated: an array of {count} items cannot fit into {len(data) - end} bytes", at)
    return count, end


def pull_string(data: memoryview, at: int) -> tuple[memoryview, bool, int]:
    """Read a string of either kind: a slice of ``data``, whether it is a text string, and the offset behind it."""
    major, length, start = pull_head(data, at)
    if major not in (BYTES, TEXT):
        raise _unexpected("a string", major, at)
    end = start + length
    if end > len(data):
        raise Truncated(f"truncated: a string of {length} bytes ends after {len(data) - start}", at)
    return data[start:end], major == TEXT, end


def expect_end(data: memoryview, at: int) -> None:
    """Raise ``EncodingError`` if bytes follow the last item."""
    if at != len(data):
        raise EncodingError(f"{len(data) - at} bytes follow the last item", at)


def _unexpected(wanted: str, major: int, at: int) -> EncodingError:
    found = _NAMES[major] if major < len(_NAMES) else "a float or simple value"
    return EncodingError(f"expected {wanted}, found {found}", at)
