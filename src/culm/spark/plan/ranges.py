"""What peers hold and want of one log, as runs of sequence numbers: the planner's view of Bamboo Ranges.

An entry has two items, its metadata and its payload; ``content`` says which of them a run is about, as bits. A row of
the planner's inputs has a *range set*: the bytes of ``culm.ranges.RangeSet.encode()``, or text, one range or several
with ``;`` between them. Ranges are read one by one and never merged into a ``RangeSet``. A set that grows too large
merges ranges that do not touch, which denotes more than before; a peer would then be taken to hold what it lacks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
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


class Items(NamedTuple):
    """A run of items: first and last number, both included, which item of each, and the sizes that are wanted."""

    first: int
    last: int
    content: int
    sizes: Sizes = ANY_SIZE


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


def held_runs(ranges: Iterable[Range]) -> list[Items]:
    """The runs that a peer holds; ``ValueError`` for ranges that cannot be held.

    Nobody holds an open range, since it has no end. What a range with sizes denotes depends on payloads that the
    planner does not see. Only the items of a range count as held, not its certificates.
    """
    found: list[Items] = []
    for item in ranges:
        if item.is_open:
            raise ValueError("an open range cannot be held: give it an end")
        if item.least_size or item.size_limit:
            raise ValueError("what is held cannot be given by payload sizes: name the entries instead")
        found += _runs(item, item.last)
    return found


def wanted_runs(ranges: Iterable[Range], held: Mapping[int, Runs]) -> Iterator[Items]:
    """The runs that are wanted, with the certificates for them.

    ``held``: the numbers that anybody holds, by content. An open range wants only these, and if it is sparse, it is the
    path from the newest one.
    """
    newest = max((extent[1] for runs in held.values() if (extent := runs.extent)), default=0)
    for item in ranges:
        certificates = Runs((seq, seq) for seq in item.certificates(newest))
        runs = [*_runs(item, newest), *(Items(first, last, METADATA) for first, last in certificates)]
        is_open = item.is_open or (item.end == MAX_U64 and not item.sparse)
        for run in runs:
            parts = [(run.first, run.last)]
            if is_open:
                missing = Runs(held[run.content].outside(run.first, run.last))
                parts = missing.outside(run.first, run.last)
            yield from (run._replace(first=first, last=last) for first, last in parts)


def _runs(item: Range, newest: int) -> Iterator[Items]:
    """The items of a range as runs: the metadata, then the payloads without the forbidden ones."""
    if item.is_empty:
        return
    path = item.numbers(newest if item.end is None else item.end) if item.sparse else ()
    forbidden = Runs((seq, seq) for seq in item.forbidden)
    for first, last in runs_of(path) if item.sparse else [(item.start, item.last)]:
        if item.metadata:
            yield Items(first, last, METADATA)
        if item.payloads:
            for low, high in forbidden.outside(first, last):
                yield Items(low, high, PAYLOAD, (item.least_size, item.size_limit))


# -- runs between workers -------------------------------------------------------------------------------------------


def pack(runs: Iterable[Items]) -> bytes:
    """Held runs as bytes: both passes read them, and need not check the ranges again."""
    return b"".join(_RUN.pack(run.first, run.last, run.content) for run in runs)


def unpack(data: bytes) -> Iterator[Items]:
    """The runs that ``pack`` packed."""
    return (Items(*run) for run in _RUN.iter_unpack(data))


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
