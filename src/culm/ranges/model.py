"""A Bamboo range: its parameters, and what it denotes.

A range selects *items* of a log, metadata and payloads, for instance "entries 100 to 200, payloads up to 1 MB". It also
says which *certificates* are wanted: metadata of further entries that the receiver needs to verify the selected ones.

A ``Range`` is always *reduced*. Several parameters can say the same, as "payloads from 10 to below 10 bytes" and "no
payloads" do; the constructor brings all of them into one form. So equal ranges compare equal and have one encoding.

Specification: docs/specs/ranges.md, "Parameters", "Reduced form", "What is denoted", "Certificates", "Corner cases".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from heapq import merge
from typing import NamedTuple

from culm.bamboo import MAX_U64, encode_varu64
from culm.ranges.paths import on_path, path, spine

# The flags byte of an encoded range (docs/specs/ranges.md, "Encoding"). Every flag is a restriction.
CLOSED, ONE, SPARSE, NOMETA, CERT, NOPAY, SIZE, FORB = (1 << bit for bit in range(7, -1, -1))
NOTHING = 0xFF


class Item(NamedTuple):
    """What a range selects of one entry, at least one of metadata and payload."""

    seq: int
    metadata: bool
    payload: bool


@dataclass(frozen=True, slots=True)
class Range:
    """A selection of items of a log: an immutable value.

    ``start`` and ``end`` (None: open) are sequence numbers, both included. ``sparse``: only the entries on the shortest
    path of links between them (open: from the newest entry). ``metadata``, ``payloads``: whether those are wanted.
    Payloads are wanted of the sizes from ``least_size`` to below ``size_limit``, in bytes (0: no limit), and not of the
    entries in ``forbidden``. Certificates at or below ``head_max`` and at or above ``tail_min`` are not wanted, because
    the requester has them already (0: all are wanted).

    ``ValueError`` if a number is not a sequence number or the end is before the start. All parameters of the empty
    range are zero.
    """

    start: int
    end: int | None = None
    sparse: bool = False
    metadata: bool = True
    payloads: bool = True
    least_size: int = 0
    size_limit: int = 0
    forbidden: tuple[int, ...] = ()
    head_max: int = 0
    tail_min: int = 0

    def __post_init__(self) -> None:
        """Bring the parameters into their one reduced form."""
        last = self.last
        if self.metadata or self.payloads:
            if not 1 <= self.start <= last <= MAX_U64:
                raise ValueError(f"{self.start} to {self.end} is not a range of sequence numbers")
            if min(self.least_size, self.size_limit) < 0 or self.size_limit > MAX_U64:
                raise ValueError("a size limit is outside of 0 to 2^64 - 1")
        forbidden = tuple(sorted({seq for seq in self.forbidden if self.start <= seq <= last}))
        single = self.end == self.start
        none_fits = self.least_size > MAX_U64 or 0 < self.size_limit <= self.least_size
        if none_fits or (single and forbidden) or not self.payloads:
            self._set(payloads=False, least_size=0, size_limit=0)
            forbidden = ()
        if not (self.metadata or self.payloads):
            self._set(start=0, end=0, sparse=False, forbidden=(), head_max=0, tail_min=0)
            return
        self._set(forbidden=forbidden, sparse=self.sparse or single)
        if not self.metadata:
            self._set(head_max=0, tail_min=0)
        if self.head_max and not on_path(self.head_max, self.start, 1):
            self._set(head_max=0)
        if self.tail_min and (self.end is None or not on_path(self.tail_min, spine(self.end), self.end)):
            self._set(tail_min=0)

    @classmethod
    def trusted(cls, *values: object) -> Range:
        """A range of parameters in the order of the fields, unchecked, for callers that know them to be reduced."""
        item = object.__new__(cls)
        for name, value in zip(_FIELDS, values, strict=True):
            _set_attribute(item, name, value)
        return item

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether this is the empty range."""
        return self.start == 0

    @property
    def is_open(self) -> bool:
        """Whether it has no end, and so includes entries that are yet to be written."""
        return self.end is None

    @property
    def is_single(self) -> bool:
        """Whether start and end are the same entry."""
        return self.start == self.end != 0

    @property
    def last(self) -> int:
        """The end; of an open range the greatest sequence number there is."""
        return MAX_U64 if self.end is None else self.end

    # -- what it denotes ---------------------------------------------------------------------------------------

    def numbers(self, newest: int) -> Iterator[int]:
        """The sequence numbers of its span in a log of ``newest`` entries, ascending."""
        if self.is_empty or newest < self.start:
            return
        if not self.sparse:
            yield from range(self.start, min(self.last, newest) + 1)
            return
        for seq in reversed(path(newest if self.end is None else self.end, self.start)):
            if seq > newest:
                return
            yield seq

    def covers(self, seq: int, newest: int | None = None) -> bool:
        """Whether a number is in its span. An open sparse range needs the log's ``newest``; ``ValueError`` without."""
        if self.is_empty or not self.start <= seq <= self.last or (newest is not None and seq > newest):
            return False
        if not self.sparse:
            return True
        end = newest if self.end is None else self.end
        if end is None:
            raise ValueError("an open sparse range depends on the newest entry of the log, which is not given")
        return on_path(seq, end, self.start)

    def forbids(self, seq: int) -> bool:
        """Whether the payload of an entry is excluded by number."""
        at = bisect_left(self.forbidden, seq)
        return at < len(self.forbidden) and self.forbidden[at] == seq

    def fits(self, size: int) -> bool:
        """Whether payloads of ``size`` bytes are wanted."""
        return self.payloads and self.least_size <= size and (not self.size_limit or size < self.size_limit)

    def contains_metadata(self, seq: int, newest: int | None = None) -> bool:
        """Whether the metadata of an entry is an item of the range."""
        return self.metadata and self.covers(seq, newest)

    def contains_payload(self, seq: int, size: int, newest: int | None = None) -> bool:
        """Whether the payload of an entry is an item of the range."""
        return self.fits(size) and not self.forbids(seq) and self.covers(seq, newest)

    def items(self, newest: int, sizes: Callable[[int], int]) -> Iterator[Item]:
        """The items in a log of ``newest`` entries with payloads of these sizes, entry by entry, ascending."""
        for seq in self.numbers(newest):
            payload = self.payloads and not self.forbids(seq) and self.fits(sizes(seq))
            if self.metadata or payload:
                yield Item(seq, self.metadata, payload)

    def certificates(self, newest: int) -> list[int]:
        """The entries whose metadata is wanted only to verify others, ascending; none of them is in the span."""
        if not self.metadata or newest < self.start:
            return []
        found = {seq for seq in path(self.start, 1) if seq > self.head_max}
        if self.end is not None:
            tail = path(spine(self.end), self.end)
            found.update(seq for seq in tail if not self.tail_min or seq < self.tail_min)
        return sorted(seq for seq in found if seq <= newest and not self.covers(seq, newest))

    def wanted(self, newest: int, sizes: Callable[[int], int]) -> Iterator[Item]:
        """Everything to send for the range: items and certificates, merged in ascending order."""
        certificates = (Item(seq, metadata=True, payload=False) for seq in self.certificates(newest))
        return merge(certificates, self.items(newest, sizes))

    # -- as bytes ----------------------------------------------------------------------------------------------

    @property
    def flags(self) -> int:
        """The flags byte of a range."""
        if self.is_empty:
            return NOTHING
        flags = 0 if self.is_open else CLOSED
        flags |= ONE if self.is_single else 0
        flags |= SPARSE if self.sparse else 0
        if not self.metadata:
            flags |= NOMETA | CERT
        elif self.head_max or self.tail_min:
            flags |= CERT
        if not self.payloads:
            return flags | NOPAY | SIZE | FORB
        return flags | (SIZE if self.least_size or self.size_limit else 0) | (FORB if self.forbidden else 0)

    def encode(self) -> bytes:
        """The bytes of a range."""
        flags = self.flags
        if flags == NOTHING:
            return b"\xff"
        numbers = [self.start]
        if self.end is not None and not flags & ONE:
            numbers.append(self.end)
        if flags & CERT and not flags & NOMETA:
            numbers.append(self.head_max)
            if flags & CLOSED:
                numbers.append(self.tail_min)
        if flags & SIZE and not flags & NOPAY:
            numbers += (self.least_size, self.size_limit)
        data = bytes((flags,)) + b"".join(map(encode_varu64, numbers))
        if flags & FORB and not flags & NOPAY:
            forbidden = b"".join(map(encode_varu64, self.forbidden))
            data += encode_varu64(len(forbidden)) + forbidden
        return data


_FIELDS = tuple(field.name for field in fields(Range))
_set_attribute = object.__setattr__
EMPTY = Range(0, 0, metadata=False, payloads=False)
