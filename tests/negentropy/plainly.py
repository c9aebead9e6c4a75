"""Answering a message the plain way: over a sorted list, range by range, as docs/specs/negentropy.md says it."""

from __future__ import annotations

from bisect import bisect_left
from hashlib import sha256
from typing import TYPE_CHECKING

from culm.negentropy import read_ranges
from culm.negentropy.codec import INFINITY, encode_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    Item = tuple[int, bytes]

REST = (INFINITY, b"")


def fingerprint(items: list[Item]) -> bytes:
    """The fingerprint of some records."""
    total = sum(int.from_bytes(identity, "little") for _, identity in items) % 2**256
    return sha256(total.to_bytes(32, "little") + encode_varint(len(items))).digest()[:16]


def bound_before(items: list[Item], at: int) -> Item:
    """The shortest bound before a record."""
    (earlier, before), (timestamp, identity) = items[at - 1 : at + 1]
    shared = next(place for place in range(32) if identity[place] != before[place]) if earlier == timestamp else -1
    return timestamp, identity[: shared + 1]


def answer(  # noqa: C901 - one piece, to be read beside the specification
    items: list[Item], message: bytes, limit: int, parts_of: Callable[[int], int], *, begins: bool
) -> bytes:
    """The answer over sorted records; ``parts_of`` says how many parts so many records become, 0 for a list."""
    out, last, written, skip_to = b"\x61", 0, 0, None
    low, before = 0, (0, b"")

    def bound(upto: Item, behind: int) -> bytes:
        return b"\0\0" if upto == REST else encode_varint(upto[0] - behind + 1) + bytes([len(upto[1])]) + upto[1]

    def listed(begin: int, end: int) -> bytes:
        return b"\2" + encode_varint(end - begin) + b"".join(identity for _, identity in items[begin:end])

    for timestamp, prefix, mode, payload, *_ in read_ranges(message):
        upto = timestamp, prefix
        high = len(items) if upto == REST else max(low, bisect_left(items, (timestamp, prefix)))
        if mode == 0 or (mode == 1 and payload == fingerprint(items[low:high])) or (mode == 2 and begins):
            skip_to = upto
        else:
            part = b"" if skip_to is None else bound(skip_to, last) + b"\0"
            parts = parts_of(high - low) if mode == 1 else 0
            if parts:
                begin, size, larger = low, *divmod(high - low, parts)
                behind = before
                for part_number in range(parts):
                    end = begin + size + (part_number < larger)
                    own = upto if end == high else bound_before(items, end)
                    part += bound(own, behind[0]) + b"\1" + fingerprint(items[begin:end])
                    begin, behind = end, own
            elif mode == 1:
                part += bound(upto, before[0]) + listed(low, high)
            else:
                room = (limit - 200 - len(out)) // 32 + 1
                if limit and room < high - low:
                    high = low + room
                    upto = items[high]
                part += bound(upto, before[0]) + listed(low, high)
            fits = mode == 2 or not limit or len(out) + len(part) <= limit - 200
            if fits:
                out, written, last, skip_to = out + part, high, upto[0], None
            if limit and (not fits or len(out) > limit - 200):
                return out + b"\0\0\1" + fingerprint(items[written:])
        low, before = high, upto
    return out
