"""Operations on encoded ranges (docs/specs/ranges.md, "Operations on bytes").

A pipeline that merges millions of ranges spends most of its time on decoding them, if it does so. But canonical VarU64s
sort as bytes like the numbers, and flags are restrictions. So a merge is a bitwise AND of the flags, and minima and
maxima of slices of bytes. Numbers are decoded only where a path has to be walked: to keep two different sparse ranges
sparse, to move certificate limits, and to find out whether a merge is exact.

The results are, byte for byte, those of ``culm.ranges.algebra``, and the tests compare the two. Inputs must be valid
encodings. A certificate limit that is off its path is not noticed; it costs only the peer that sent it.
"""

from typing import NamedTuple

from culm.bamboo import MAX_U64, decode_varu64, encode_varu64
from culm.ranges import algebra
from culm.ranges.encoding import decode
from culm.ranges.exactness import LONGEST_RUN, is_exact
from culm.ranges.model import CERT, CLOSED, FORB, NOMETA, NOPAY, ONE, SIZE, SPARSE, Range
from culm.ranges.paths import meet_head, meet_tail, on_path, unavoidable

_EMPTY = b"\xff"
_ZERO = b"\0"
_LAST = encode_varu64(MAX_U64)
_LONG = 248  # first bytes from here on say how long a number is
_BARE = CERT | SIZE | FORB  # a range without these flags has only a start and an end


class View(NamedTuple):
    """The fields of a range as slices, undecoded. ``end`` is empty if there is none; ``forbidden`` are the numbers."""

    flags: int
    start: bytes
    end: bytes
    head: bytes
    tail: bytes
    least: bytes
    limit: bytes
    forbidden: bytes


def view(data: bytes) -> View:
    """Find the fields; missing ones are zero. Without metadata the limits are start and end: no certificates."""
    flags = data[0]
    first = data[1]
    at = 2 if first < _LONG else first - 245
    start = data[1:at]
    end = b""
    if flags & ONE:
        end = start
    elif flags & CLOSED:
        end, at = _field(data, at)
    head = tail = least = limit = _ZERO
    forbidden = b""
    if flags & _BARE:
        if flags & NOMETA:
            head, tail = start, end or _LAST
        elif flags & CERT:
            head, at = _field(data, at)
            if flags & CLOSED:
                tail, at = _field(data, at)
        if not flags & NOPAY:
            if flags & SIZE:
                least, at = _field(data, at)
                limit, at = _field(data, at)
            if flags & FORB:
                length, at = decode_varu64(data, at)
                forbidden = data[at : at + length]
    return View(flags, start, end, head, tail, least, limit, forbidden)


def _field(data: bytes, at: int) -> tuple[bytes, int]:
    first = data[at]
    end = at + 1 if first < _LONG else at + first - 246
    return data[at:end], end


def build(flags: int, fields: View) -> bytes:
    """Write a range, with the flags corrected to agree with the fields."""
    flags = _agreeing(flags, fields)
    if flags & NOMETA and flags & NOPAY:
        return _EMPTY
    parts = [bytes((flags,)), fields.start]
    if flags & CLOSED and not flags & ONE:
        parts.append(fields.end)
    if flags & CERT and not flags & NOMETA:
        parts.append(fields.head)
        if flags & CLOSED:
            parts.append(fields.tail)
    if not flags & NOPAY:
        if flags & SIZE:
            parts += (fields.least, fields.limit)
        if flags & FORB:
            parts += (encode_varu64(len(fields.forbidden)), fields.forbidden)
    return b"".join(parts)


def _agreeing(flags: int, fields: View) -> int:
    if flags & CLOSED and fields.start == fields.end:
        flags |= ONE | SPARSE
    else:
        flags &= ~ONE
    limited = fields.head != _ZERO or (flags & CLOSED and fields.tail != _ZERO)
    if flags & CERT and not flags & NOMETA and not limited:
        flags &= ~CERT
    if flags & NOPAY:
        return flags
    if fields.forbidden and flags & ONE:
        return flags | NOPAY | SIZE | FORB
    flags &= ~(SIZE | FORB)
    if fields.forbidden:
        flags |= FORB
    if fields.least != _ZERO or fields.limit != _ZERO:
        flags |= SIZE
    return flags


def _upper(one: bytes, other: bytes) -> bytes:
    return _ZERO if _ZERO in (one, other) else max(one, other)


def _lower(one: bytes, other: bytes) -> bytes:
    if one == _ZERO:
        return other
    return one if other == _ZERO else min(one, other)


def _numbers(listed: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(listed):
        number, at = _field(listed, at)
        found.append(number)
    return found


def _value(number: bytes) -> int:
    return number[0] if len(number) == 1 else int.from_bytes(number[1:], "big")


# -- hull and merge -------------------------------------------------------------------------------------------------


def hull_bytes(a: bytes, b: bytes) -> bytes:
    """``culm.ranges.hull`` on bytes. Numbers are loaded only if both are sparse and their spans differ."""
    if b in (a, _EMPTY):
        return a
    if a == _EMPTY:
        return b
    one, other = view(a), view(b)
    forbidden = b""
    if one.forbidden and other.forbidden:
        known = set(_numbers(other.forbidden))
        forbidden = b"".join(number for number in _numbers(one.forbidden) if number in known)
    return _join(one, other, forbidden, merging=False)


def merge_bytes(a: bytes, b: bytes) -> tuple[bytes, bool]:
    """``culm.ranges.merge`` on bytes, and whether it denotes exactly the union of both."""
    if b in (a, _EMPTY):
        return a, True
    if a == _EMPTY:
        return b, True
    one, other = view(a), view(b)
    forbidden = b""
    if not (one.flags & other.flags & NOPAY):
        listed = sorted({*_listed(one), *_listed(other)})
        forbidden = b"".join(seq for seq in listed if _without_payload(one, seq) and _without_payload(other, seq))
    joined = _join(one, other, forbidden, merging=True)
    return joined, _is_exact(one, other, joined)


def _listed(fields: View) -> list[bytes]:
    if fields.flags & ONE and fields.flags & NOPAY:
        return [fields.start]
    return _numbers(fields.forbidden) if fields.forbidden else []


def _without_payload(fields: View, seq: bytes) -> bool:
    """Whether a number's payload is certainly not asked for."""
    if fields.flags & NOPAY or seq < fields.start or (fields.end and seq > fields.end):
        return True
    if fields.forbidden and seq in _numbers(fields.forbidden):
        return True
    if fields.flags & SPARSE and fields.end:
        return not on_path(_value(seq), _value(fields.end), _value(fields.start))
    return False


def _join(a: View, b: View, forbidden: bytes, *, merging: bool) -> bytes:
    flags = a.flags & b.flags
    start = min(a.start, b.start)
    end = max(a.end, b.end) if flags & CLOSED else b""
    if flags & SPARSE and (a.start, a.end) != (b.start, b.end) and not _ends_on_path(a, b, start, end):
        flags &= ~SPARSE
    head, tail = _ZERO, _ZERO
    if flags & CERT:
        head = min(a.head, b.head)
        tail = _upper(a.tail, b.tail) if flags & CLOSED else _ZERO
    if a.flags & NOPAY or b.flags & NOPAY:
        one = b if a.flags & NOPAY else a
        least, limit = one.least, one.limit
        forbidden = forbidden if merging else one.forbidden
    else:
        least, limit = min(a.least, b.least), _upper(a.limit, b.limit)
    return build(flags, View(flags, start, end, head, tail, least, limit, forbidden))


def _ends_on_path(a: View, b: View, start: bytes, end: bytes) -> bool:
    corners = {_value(corner) for corner in (a.start, b.start, a.end, b.end) if corner}
    low = _value(start)
    if not end:
        return all(unavoidable(corner, low) for corner in corners)
    high = _value(end)
    return all(on_path(corner, high, low) for corner in corners)


def _is_exact(one: View, other: View, joined: bytes) -> bool:
    """Whether a merge is exact: for dense ranges without lists by comparing slices, for others by decoding them."""
    paths = [fields for fields in (one, other) if fields.flags & SPARSE and not fields.flags & ONE]
    listed = one.forbidden or other.forbidden or (one.flags ^ other.flags) & (NOMETA | NOPAY)
    if len(paths) == 1 and not listed and _sticks_out(paths[0], other if paths[0] is one else one):
        return False
    if paths or listed or one.flags & other.flags & ONE:
        return is_exact(_as_range(one), _as_range(other), _as_range(view(joined)))
    first, second = (one, other) if one.start <= other.start else (other, one)
    if first.end and second.start > first.end and _value(second.start) > _value(first.end) + 1:
        return False
    sizes = min(one.least, other.least), _upper(one.limit, other.limit)
    wide = [fields for fields in (one, other) if (fields.least, fields.limit) == sizes]
    if len(wide) == 1:
        return _is_within(other if wide[0] is one else one, wide[0])
    if wide:
        return True
    overlap = (other.limit == _ZERO or one.least <= other.limit) and (one.limit == _ZERO or other.least <= one.limit)
    return overlap and _is_within(one, other) and _is_within(other, one)


def _sticks_out(path: View, stretch: View) -> bool:
    """Whether too much of a path is outside of a dense span for the path to have all numbers there."""
    if stretch.flags & SPARSE:
        return False
    if stretch.end and (not path.end or _value(path.end) - _value(stretch.end) > 2 * LONGEST_RUN):
        return True
    return _value(stretch.start) - _value(path.start) > 2 * LONGEST_RUN


def _is_within(inner: View, outer: View) -> bool:
    return outer.start <= inner.start and (inner.end or _LAST) <= (outer.end or _LAST)


def _as_range(fields: View) -> Range:
    """Decode the fields that decide whether a merge is exact: all but the certificate limits."""
    flags = fields.flags
    sparse, metadata, payloads = bool(flags & SPARSE), not flags & NOMETA, not flags & NOPAY
    end = _value(fields.end) if fields.end else None
    forbidden = tuple(map(_value, _numbers(fields.forbidden))) if fields.forbidden else ()
    sizes = _value(fields.least), _value(fields.limit)
    return Range.trusted(_value(fields.start), end, sparse, metadata, payloads, *sizes, forbidden, 0, 0)


# -- intersect, trim, extend ----------------------------------------------------------------------------------------


def intersect_bytes(a: bytes, b: bytes) -> tuple[bytes, bool]:
    """``culm.ranges.intersect`` on bytes, and whether the result is exact."""
    if _EMPTY in (a, b):
        return _EMPTY, True
    one, other = view(a), view(b)
    if (one.flags | other.flags) & SPARSE:
        found, exact = algebra.intersect(_decoded(a), _decoded(b))
        return found.encode(), exact
    return _intersect_dense(one, other), True


def trim_bytes(data: bytes, low: int, high: int | None = None) -> tuple[bytes, bool]:
    """``culm.ranges.trim`` on bytes."""
    if not 1 <= low <= (MAX_U64 if high is None else high) <= MAX_U64:
        raise ValueError(f"{low} to {high} is not a range of sequence numbers")
    if data == _EMPTY:
        return data, True
    fields = view(data)
    if fields.flags & SPARSE:
        found, exact = algebra.trim(_decoded(data), low, high)
        return found.encode(), exact
    start, end = encode_varu64(low), b"" if high is None else encode_varu64(high)
    plain = View(CLOSED if end else 0, start, end, _ZERO, _ZERO, _ZERO, _ZERO, b"")
    return _intersect_dense(fields, plain), True


def _intersect_dense(one: View, other: View) -> bytes:
    start, end = max(one.start, other.start), min(one.end or _LAST, other.end or _LAST)
    if start > end:
        return _EMPTY
    flags = one.flags | other.flags
    least, limit = max(one.least, other.least), _lower(one.limit, other.limit)
    forbidden = b""
    if one.forbidden or other.forbidden:
        merged = sorted({*_numbers(one.forbidden), *_numbers(other.forbidden)})
        forbidden = b"".join(number for number in merged if start <= number <= end)
    if limit != _ZERO and least >= limit:
        flags |= NOPAY | SIZE | FORB
    head = tail = _ZERO
    if flags & CERT and not flags & NOMETA:
        head = max(_moved_head(one, start), _moved_head(other, start))
        if flags & CLOSED:
            tail = _lower(_moved_tail(one, end), _moved_tail(other, end))
    return build(flags, View(flags, start, end if flags & CLOSED else b"", head, tail, least, limit, forbidden))


def _moved_head(fields: View, start: bytes) -> bytes:
    if fields.head == _ZERO or fields.start == start:
        return fields.head
    return encode_varu64(meet_head(_value(fields.head), _value(start)))


def _moved_tail(fields: View, end: bytes) -> bytes:
    if fields.tail == _ZERO or fields.end == end:
        return fields.tail
    return encode_varu64(meet_tail(_value(fields.tail), _value(end)))


def extend_bytes(data: bytes, low: int, high: int | None) -> bytes:
    """``culm.ranges.extend`` on bytes."""
    if data == _EMPTY:
        return data
    fields = view(data)
    start = min(fields.start, encode_varu64(low))
    end = b"" if high is None or not fields.end else max(fields.end, encode_varu64(high))
    if (start, end) == (fields.start, fields.end):
        return data
    flags = fields.flags
    if flags & ONE or (flags & SPARSE and not _ends_on_path(fields, fields, start, end)):
        flags &= ~(ONE | SPARSE)
    if not end:
        flags &= ~CLOSED
    head = tail = _ZERO
    if flags & CERT and not flags & NOMETA:
        head = _moved_head(fields, start)
        tail = _moved_tail(fields, end) if end else _ZERO
    return build(flags, fields._replace(start=start, end=end, head=head, tail=tail))


def _decoded(data: bytes) -> Range:
    """Decode, with a list of forbidden numbers of any length, because its length was checked when it was received."""
    return decode(data, max_forbidden_bytes=len(data))
