"""Operations on encoded ranges (docs/specs/ranges.md, "Operations on bytes").

A pipeline that merges millions of ranges spends most of its time on decoding them, if it does so. But canonical VarU64s
sort as bytes like the numbers, and flags are restrictions. So a merge is a bitwise AND of the flags, and minima and
maxima of slices of bytes.

That goes for nearly all ranges, and only for joins. Ranges are decoded where a path has to be walked, to keep two
different sparse ranges sparse or to find out whether a merge is exact; where they list forbidden numbers; and for
intersect, trim and extend, which a pipeline does once for each peer and not once for each range. (The specification
shows how these would go on slices, too.)

The results are, byte for byte, those of ``culm.ranges.algebra``, and the tests compare the two. Inputs must be valid
encodings. Where nothing is decoded, a certificate limit that is off its path is not noticed; it costs only the peer
that sent it.
"""

from typing import NamedTuple

from culm.bamboo import MAX_U64, encode_varu64
from culm.ranges import algebra
from culm.ranges.encoding import decode
from culm.ranges.model import CERT, CLOSED, FORB, NOMETA, NOPAY, ONE, SIZE, SPARSE, Range

_EMPTY = b"\xff"
_ZERO = b"\0"
_LAST = encode_varu64(MAX_U64)
_LONG = 248  # first bytes from here on say how long a number is
_BARE = CERT | SIZE  # a range without these flags has only a start and an end


class View(NamedTuple):
    """The fields of a range as slices, undecoded. ``end`` is empty if there is none. A list is left out."""

    flags: int
    start: bytes
    end: bytes
    head: bytes
    tail: bytes
    least: bytes
    limit: bytes

    @property
    def has_list(self) -> bool:
        """Whether the range lists forbidden numbers."""
        return self.flags & (FORB | NOPAY) == FORB


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
    if flags & _BARE:
        if flags & NOMETA:
            head, tail = start, end or _LAST
        elif flags & CERT:
            head, at = _field(data, at)
            if flags & CLOSED:
                tail, at = _field(data, at)
        if flags & (SIZE | NOPAY) == SIZE:
            least, at = _field(data, at)
            limit, at = _field(data, at)
    return View(flags, start, end, head, tail, least, limit)


def _field(data: bytes, at: int) -> tuple[bytes, int]:
    first = data[at]
    end = at + 1 if first < _LONG else at + first - 246
    return data[at:end], end


def _upper(one: bytes, other: bytes) -> bytes:
    return _ZERO if _ZERO in (one, other) else max(one, other)


def _value(number: bytes) -> int:
    return number[0] if len(number) == 1 else int.from_bytes(number[1:], "big")


def _decoded(data: bytes) -> Range:
    """Decode, with a list of forbidden numbers of any length, because its length was checked when it was received."""
    return decode(data, max_forbidden_bytes=len(data))


# -- hull and merge -------------------------------------------------------------------------------------------------


def hull_bytes(a: bytes, b: bytes) -> bytes:
    """``culm.ranges.hull`` on bytes. Decodes if both are sparse and their spans differ, and lists."""
    if b in (a, _EMPTY):
        return a
    if a == _EMPTY:
        return b
    one, other = view(a), view(b)
    both_sparse = one.flags & other.flags & SPARSE
    if one.has_list or other.has_list or (both_sparse and (one.start, one.end) != (other.start, other.end)):
        return algebra.hull(_decoded(a), _decoded(b)).encode()
    return _join(one, other)


def merge_bytes(a: bytes, b: bytes) -> tuple[bytes, bool]:
    """``culm.ranges.merge`` on bytes, and whether it denotes exactly the union of both.

    Decodes paths, lists, and ranges that differ in whether they want metadata and payloads.
    """
    if b in (a, _EMPTY):
        return a, True
    if a == _EMPTY:
        return b, True
    one, other = view(a), view(b)
    paths = (one.flags & (SPARSE | ONE) == SPARSE) or (other.flags & (SPARSE | ONE) == SPARSE)
    differ = (one.flags ^ other.flags) & (NOMETA | NOPAY) or one.flags & other.flags & ONE
    if paths or differ or one.has_list or other.has_list:
        merged, exact = algebra.merge(_decoded(a), _decoded(b))
        return merged.encode(), exact
    return _join(one, other), _is_exact(one, other)


def _join(a: View, b: View) -> bytes:
    """The join of two ranges without lists that are not both sparse, or have the same span."""
    flags = a.flags & b.flags
    start = min(a.start, b.start)
    end = max(a.end, b.end) if flags & CLOSED else b""
    head = tail = b""
    if flags & CERT and not flags & NOMETA:
        head = min(a.head, b.head)
        tail = _upper(a.tail, b.tail) if flags & CLOSED else b""
        if head == _ZERO and tail in (b"", _ZERO):
            flags &= ~CERT
            head = tail = b""
    least = limit = b""
    if flags & SIZE and not flags & NOPAY:
        if (a.flags | b.flags) & NOPAY:
            one = b if a.flags & NOPAY else a
            least, limit = one.least, one.limit
        else:
            least, limit = min(a.least, b.least), _upper(a.limit, b.limit)
        if least == limit == _ZERO:
            flags &= ~SIZE
            least = limit = b""
    return b"".join((bytes((flags,)), start, b"" if flags & ONE else end, head, tail, least, limit))


def _is_exact(one: View, other: View) -> bool:
    """Whether the merge of two dense ranges, or of one and a single entry, gains nothing. Both want the same kinds."""
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


def _is_within(inner: View, outer: View) -> bool:
    return outer.start <= inner.start and (inner.end or _LAST) <= (outer.end or _LAST)


# -- intersect, trim, extend ----------------------------------------------------------------------------------------


def intersect_bytes(a: bytes, b: bytes) -> tuple[bytes, bool]:
    """``culm.ranges.intersect`` on bytes, and whether the result is exact."""
    found, exact = algebra.intersect(_decoded(a), _decoded(b))
    return found.encode(), exact


def trim_bytes(data: bytes, low: int, high: int | None = None) -> tuple[bytes, bool]:
    """``culm.ranges.trim`` on bytes."""
    found, exact = algebra.trim(_decoded(data), low, high)
    return found.encode(), exact


def extend_bytes(data: bytes, low: int, high: int | None) -> bytes:
    """``culm.ranges.extend`` on bytes."""
    return algebra.extend(_decoded(data), low, high).encode()
