"""Ranges as bytes (docs/specs/ranges.md, "Encoding", "Errors"): a flags byte, then numbers.

Every flag is a restriction, so the flags of a merge are those that both ranges have: a bitwise AND. Every number is the
end of an interval, and a canonical VarU64 sorts as bytes like the number itself, so that a minimum needs no decoding.
Together this lets ``culm.ranges.onbytes`` merge ranges without reading them.

Only some of the 256 flag bytes are valid, because a restriction that follows from another has to be set as well. So
each range has exactly one encoding, and equal ranges can be found by comparing bytes.
"""

from culm.bamboo import decode_varu64
from culm.errors import EncodingError, Truncated
from culm.ranges.model import CERT, CLOSED, EMPTY, FORB, NOMETA, NOPAY, NOTHING, ONE, SIZE, SPARSE, Range
from culm.ranges.paths import on_path, spine

# Bytes of a list of forbidden numbers that a receiver accepts by default: a few hundred numbers. A list is checked
# against every entry that is sent, so a longer one would let a peer cost us much with one request.
MAX_FORBIDDEN_BYTES = 1024


def _valid_flags() -> frozenset[int]:
    forms = (0, SPARSE, CLOSED, CLOSED | SPARSE)
    certificates = (0, CERT, CERT | NOMETA)
    payloads = (0, FORB, SIZE, SIZE | FORB, NOPAY | SIZE | FORB)
    several = {form | cert | pay for form in forms for cert in certificates for pay in payloads}
    nothing = {form | NOMETA | CERT | NOPAY | SIZE | FORB for form in forms}
    one = CLOSED | ONE | SPARSE
    singles = {one | cert | pay for cert in certificates for pay in (0, SIZE, NOPAY | SIZE | FORB)}
    return frozenset((several - nothing) | singles | {NOTHING})


VALID_FLAGS = _valid_flags()


def encode(item: Range) -> bytes:
    """The bytes of a range."""
    return item.encode()


def decode(data: bytes, *, max_forbidden_bytes: int = MAX_FORBIDDEN_BYTES) -> Range:
    """The range that ``data`` is the encoding of; ``EncodingError`` if it is none."""
    item, end = decode_prefix(data, max_forbidden_bytes=max_forbidden_bytes)
    if end != len(data):
        raise EncodingError(f"{len(data) - end} bytes follow the range", end)
    return item


def decode_prefix(data: bytes, offset: int = 0, *, max_forbidden_bytes: int = MAX_FORBIDDEN_BYTES) -> tuple[Range, int]:
    """The range whose encoding begins at ``offset``, and the offset behind it.

    Lists of forbidden numbers longer than ``max_forbidden_bytes`` are refused.
    """
    if offset >= len(data):
        raise Truncated("truncated: the flags byte of a range is missing", offset)
    flags, at = data[offset], offset + 1
    if flags not in VALID_FLAGS:
        raise EncodingError(f"the flags byte {flags:#04x} is not a valid combination", offset)
    if flags == NOTHING:
        return EMPTY, at
    start, end, at = _read_span(data, at, flags)
    head = tail = least = limit = 0
    if flags & CERT and not flags & NOMETA:
        head, tail, at = _read_limits(data, at, start, end)
    forbidden: tuple[int, ...] = ()
    if not flags & NOPAY:
        if flags & SIZE:
            least, limit, at = _read_sizes(data, at)
        if flags & FORB:
            forbidden, at = _read_forbidden(data, at, (start, end), max_forbidden_bytes)
    sparse, metadata, payloads = bool(flags & SPARSE), not flags & NOMETA, not flags & NOPAY
    # The checks above leave only reduced values, so that reducing once more would be wasted work.
    item = Range.trusted(start, end, sparse, metadata, payloads, least, limit, forbidden, head, tail)
    return item, at


def _read_span(data: bytes, at: int, flags: int) -> tuple[int, int | None, int]:
    where = at
    start, at = decode_varu64(data, at)
    if start == 0:
        raise EncodingError("the range starts with entry 0; the first entry of a log is 1", where)
    if flags & ONE:
        return start, start, at
    if not flags & CLOSED:
        return start, None, at
    end, at = decode_varu64(data, at)
    if end <= start:
        raise EncodingError(f"the range ends at {end}, not after its start {start}", where)
    return start, end, at


def _read_sizes(data: bytes, at: int) -> tuple[int, int, int]:
    where = at
    least, at = decode_varu64(data, at)
    limit, at = decode_varu64(data, at)
    if least == limit == 0 or 0 < limit <= least:
        raise EncodingError(f"the size limits {least} and {limit} leave out nothing or everything", where)
    return least, limit, at


def _read_limits(data: bytes, at: int, start: int, end: int | None) -> tuple[int, int, int]:
    where = at
    head, at = decode_varu64(data, at)
    tail = 0
    if end is not None:
        tail, at = decode_varu64(data, at)
    if not head and not tail:
        raise EncodingError("the range has certificate limits, but both are 0", where)
    if head and not on_path(head, start, 1):
        raise EncodingError(f"head-max {head} is not on the path from {start} to 1", where)
    if tail and end is not None and not on_path(tail, spine(end), end):
        raise EncodingError(f"tail-min {tail} is not on the path from {spine(end)} to {end}", where)
    return head, tail, at


def _read_forbidden(data: bytes, at: int, span: tuple[int, int | None], most: int) -> tuple[tuple[int, ...], int]:
    where = at
    start, end = span
    length, at = decode_varu64(data, at)
    if not length:
        raise EncodingError("the list of forbidden numbers is empty", where)
    if length > most:
        raise EncodingError(f"{length} bytes of forbidden numbers; at most {most} are accepted", where)
    behind = at + length
    if behind > len(data):
        raise Truncated("truncated: the list of forbidden numbers is incomplete", where)
    numbers: list[int] = []
    before = start - 1
    while at < behind:
        number, at = decode_varu64(data, at)
        if number <= before or (end is not None and number > end):
            raise EncodingError(f"the forbidden number {number} is out of order or outside of the range", where)
        numbers.append(number)
        before = number
    if at != behind:
        raise Truncated("truncated: the last forbidden number goes beyond the end of its list", where)
    return tuple(numbers), at
