"""What peers hold and want of one log, as runs of sequence numbers: the planner's view of Bamboo Ranges.

An entry has two items, its metadata and its payload; ``content`` says which of them a run is about, as bits. A row of
the planner's inputs has a *range set*: the bytes of ``culm.ranges.RangeSet.encode()``, or text, one range or several
with ``;`` between them. Ranges are read one by one and never merged: a merge beyond the bound on a set's size would
make a peer hold what it does not.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from culm.bamboo import MAX_U64, decode_varu64
from culm.errors import EncodingError
from culm.ranges import Range, read_range
from culm.ranges.encoding import decode_prefix
from culm.ranges.runs import Runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

METADATA, PAYLOAD = 1, 2
WHOLE = METADATA | PAYLOAD
MAX_RANGES = 65_536  # in one row; a peer that holds more of a log has several rows
MAX_FORBIDDEN_BYTES = 1 << 20  # of one range; a row is a table's, not a stranger's message

Sizes = tuple[int, int]
"""The payloads that are wanted: the least size, and the first size that is too large (0: none is)."""

ANY_SIZE: Sizes = (0, 0)
_RUN = struct.Struct("<QQB")


class Held(NamedTuple):
    """A run that is held: first and last number, and of what."""

    first: int
    last: int
    content: int


class Wanted(NamedTuple):
    """A run that is wanted. ``is_open``: of an open range, of which only what somebody has counts."""

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
        raise EncodingError(f"{count} ranges in one row; at most {MAX_RANGES} are taken", 0)
    ranges = []
    for _ in range(count):
        item, at = decode_prefix(value, at, max_forbidden_bytes=MAX_FORBIDDEN_BYTES)
        ranges.append(item)
    if at != len(value):
        raise EncodingError(f"{len(value) - at} bytes behind the ranges", at)
    return ranges


def held_runs(ranges: Iterable[Range]) -> list[Held]:
    """What a peer holds; ``ValueError`` for ranges that do not say what that is.

    What is held is a fact: an open range has no end that could be held, and with sizes it depends on payloads that the
    planner does not see. Certificates count only as far as a range names them as items.
    """
    found = []
    for item in ranges:
        if item.is_open:
            raise ValueError("an open range cannot be held: give it an end")
        if item.least_size or item.size_limit:
            raise ValueError("payloads held by their size: give the entries instead")
        found += [Held(run.first, run.last, run.content) for run in _runs(item, item.last)]
    return found


def wanted_runs(ranges: Iterable[Range], newest: int) -> list[Wanted]:
    """What is wanted in a log whose newest known entry is ``newest`` (0: none): items, and certificates for them."""
    found: list[Wanted] = []
    for item in ranges:
        found += _runs(item, newest)
        for first, last in Runs((seq, seq) for seq in item.certificates(newest)):
            found.append(Wanted(first, last, METADATA, ANY_SIZE, item.is_open))
    return found


def _runs(item: Range, newest: int) -> Iterator[Wanted]:
    """The items of a range as runs: those with both contents, then what lacks a payload or metadata."""
    if item.is_empty:
        return
    is_open = item.end is None or (item.end == MAX_U64 and not item.sparse)
    sizes = (item.least_size, item.size_limit)
    for first, last in _span(item, newest):
        if item.metadata:
            yield Wanted(first, last, METADATA, ANY_SIZE, is_open)
        if item.payloads:
            for low, high in _without(first, last, item.forbidden):
                yield Wanted(low, high, PAYLOAD, sizes, is_open)


def _span(item: Range, newest: int) -> Iterator[tuple[int, int]]:
    if not item.sparse:
        yield item.start, item.last
    else:
        yield from Runs((seq, seq) for seq in item.numbers(newest if item.end is None else item.end))


def _without(first: int, last: int, forbidden: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The parts of a run between forbidden numbers, which are in ascending order."""
    for seq in forbidden:
        if first <= seq <= last:
            if first < seq:
                yield first, seq - 1
            first = seq + 1
    if first <= last:
        yield first, last


# -- runs between workers -------------------------------------------------------------------------------------------


def pack(runs: Iterable[Held]) -> bytes:
    """Held runs as bytes, to be read again several times."""
    return b"".join(_RUN.pack(*run) for run in runs)


def unpack(data: bytes) -> Iterator[Held]:
    """The runs that ``pack`` packed."""
    return map(Held._make, _RUN.iter_unpack(data))


# -- writing a row --------------------------------------------------------------------------------------------------


def exact_range(first: int, last: int, content: int, sizes: Sizes = ANY_SIZE) -> Range:
    """A closed range that denotes just these items, and asks for no certificates."""
    metadata, payloads = bool(content & METADATA), bool(content & PAYLOAD)
    least, limit = sizes if payloads else ANY_SIZE
    head, tail = (first, last) if metadata else (0, 0)
    return Range.trusted(first, last, first == last, metadata, payloads, least, limit, (), head, tail)
