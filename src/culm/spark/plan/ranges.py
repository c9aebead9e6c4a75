"""What peers hold and want of one log, as runs of sequence numbers: the planner's view of Bamboo Ranges.

An entry has two items, its metadata and its payload; ``content`` says which of them a run is about, as bits. A row of
the planner's inputs has a *range set*: the bytes of ``culm.ranges.RangeSet.encode()``, or text, one range or several
with ``;`` between them. Ranges are read one by one and never merged into a ``RangeSet``. A set that grows too large
merges ranges that do not touch, which denotes more than before; a peer would then be taken to hold what it lacks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from culm.bamboo import MAX_U64, decode_varu64
from culm.errors import EncodingError
from culm.ranges import Range, read_range
from culm.ranges.encoding import decode_prefix
from culm.ranges.runs import Runs, runs_of

METADATA, PAYLOAD = 1, 2
WHOLE = METADATA | PAYLOAD

# Ranges in one row. It bounds what one row can cost a worker; a peer that holds more of a log has several rows.
MAX_RANGES = 65_536

# Bytes of the forbidden numbers of one range. Far more than a peer may send in a message, because a row comes from the
# user's own table and not from a stranger; a bound all the same, so that a damaged row cannot fill the memory.
MAX_FORBIDDEN_BYTES = 1 << 20

Sizes = tuple[int, int]
"""Sizes of payloads in bytes: the least that is wanted, and the first that is too large (0: none is)."""

ANY_SIZE: Sizes = (0, 0)
_RUN = struct.Struct("<QQB")  # first and last number, and the content


class Held(NamedTuple):
    """A run that is held: first and last number, both included, and the items of each."""

    first: int
    last: int
    content: int


class Wanted(NamedTuple):
    """A run that is wanted. ``is_open``: it comes from an open range, so only what somebody holds is wanted."""

    first: int
    last: int
    content: int
    sizes: Sizes
    is_open: bool


# -- reading a row --------------------------------------------------------------------------------------------------


def read_ranges(value: bytes | str) -> list[Range]:
    """The ranges of a row; ``EncodingError`` or ``ConfigError`` if it has none that can be read."""
    if isinstance(value, str):
        return [read_range(part) for part in value.split(";")]
    count, at = decode_varu64(value)
    if count > MAX_RANGES:
        raise EncodingError(f"{count} ranges in one row; accepted: at most {MAX_RANGES}, use several rows", 0)
    ranges = []
    for _ in range(count):
        item, at = decode_prefix(value, at, max_forbidden_bytes=MAX_FORBIDDEN_BYTES)
        ranges.append(item)
    if at != len(value):
        raise EncodingError(f"{len(value) - at} bytes behind the ranges", at)
    return ranges


def held_runs(ranges: Iterable[Range]) -> list[Held]:
    """The runs that a peer holds; ``ValueError`` for ranges that cannot be held.

    Nobody holds an open range, since it has no end. What a range with sizes denotes depends on payloads that the
    planner does not see. Only the items of a range count as held, not its certificates.
    """
    found = []
    for item in ranges:
        if item.is_open:
            raise ValueError("an open range cannot be held: give it an end")
        if item.least_size or item.size_limit:
            raise ValueError("what is held cannot be given by payload sizes: name the entries instead")
        found += [Held(run.first, run.last, run.content) for run in _runs(item, item.last)]
    return found


def wanted_runs(ranges: Iterable[Range], newest: int) -> list[Wanted]:
    """The runs that are wanted, with the certificates for them.

    ``newest`` is the greatest number that anybody holds of the log (0: none); open and sparse ranges end there.
    """
    found: list[Wanted] = []
    for item in ranges:
        found += _runs(item, newest)
        certificates = Runs((seq, seq) for seq in item.certificates(newest))
        found += [Wanted(first, last, METADATA, ANY_SIZE, item.is_open) for first, last in certificates]
    return found


def _runs(item: Range, newest: int) -> Iterator[Wanted]:
    """The items of a range as runs: the metadata, then the payloads without the forbidden ones."""
    if item.is_empty:
        return
    is_open = item.end is None or (item.end == MAX_U64 and not item.sparse)
    path = item.numbers(newest if item.end is None else item.end) if item.sparse else ()
    forbidden = Runs((seq, seq) for seq in item.forbidden)
    for first, last in runs_of(path) if item.sparse else [(item.start, item.last)]:
        if item.metadata:
            yield Wanted(first, last, METADATA, ANY_SIZE, is_open)
        if item.payloads:
            for low, high in forbidden.outside(first, last):
                yield Wanted(low, high, PAYLOAD, (item.least_size, item.size_limit), is_open)


# -- runs between workers -------------------------------------------------------------------------------------------


def pack(runs: Iterable[Held]) -> bytes:
    """Held runs as bytes: both passes read them, and need not check the ranges again."""
    return b"".join(_RUN.pack(*run) for run in runs)


def unpack(data: bytes) -> Iterator[Held]:
    """The runs that ``pack`` packed."""
    return map(Held._make, _RUN.iter_unpack(data))


# -- writing a row --------------------------------------------------------------------------------------------------


def exact_range(first: int, last: int, content: int, sizes: Sizes = ANY_SIZE) -> Range:
    """A closed range that denotes exactly these items and no certificates.

    ``head`` and ``tail`` of the range are set to its ends, which leaves no room for certificates: their numbers are
    wanted, too, but stand in ranges of their own.
    """
    metadata, payloads = bool(content & METADATA), bool(content & PAYLOAD)
    least, limit = sizes if payloads else ANY_SIZE
    head, tail = (first, last) if metadata else (0, 0)
    return Range.trusted(first, last, first == last, metadata, payloads, least, limit, (), head, tail)
