"""Intervals and requests: what one endpoint asks of the other.

An interval is about one log. Its bounds are sequence numbers, or offsets from the least or greatest payload that the
responder holds (``...n`` and ``n...``). Around the entries between the bounds lies the certificate pool: metadata that
leads from the lower bound down to entry 1, and from the next spine number down to the upper one. ``dist`` says how many
steps of it are wanted.

*Expected hashes* are what the requester takes for the hash of an entry: those links need not be sent, and a responder
who knows otherwise can prove a fork. ``own`` is the expected hash of the entry of a bound's number, ``outer`` that of
the bound's side of the pool: below, of the number that the least entry links to; above, of the greatest entry.

Specification: docs/specs/intervals.md, "Requests", "Immediate payloads", "Expected hashes".
"""

from dataclasses import dataclass
from enum import IntEnum

from culm.bamboo import MAX_U64
from culm.bamboo.entry import AUTHOR_BYTES
from culm.bamboo.yamf import YAMF_BYTES

FULL_POOL = 255  # Steps that stand for the whole pool, because no path is longer than 122.


def _check_seq(seq: int) -> None:
    if not 1 <= seq <= MAX_U64:
        raise ValueError(f"{seq} is not a sequence number (1 to 2^64 - 1)")


def _check_dist(dist: int) -> None:
    if not 0 <= dist <= FULL_POOL:
        raise ValueError(f"{dist} is not a distance (0 to {FULL_POOL})")


def _check_u64(number: int | None) -> None:
    if number is not None and not 0 <= number <= MAX_U64:
        raise ValueError(f"{number} is not an unsigned 64-bit integer")


def _check_hashes(*hashes: bytes | None) -> None:
    for value in hashes:
        if value is not None and len(value) != YAMF_BYTES:
            raise ValueError(f"a hash has {YAMF_BYTES} bytes, not {len(value)}")


@dataclass(frozen=True, slots=True)
class At:
    """A bound that is a sequence number, with its side of the pool."""

    seq: int
    dist: int = FULL_POOL
    outer: bytes | None = None
    own: bytes | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_seq(self.seq)
        _check_dist(self.dist)
        _check_hashes(self.outer, self.own)


@dataclass(frozen=True, slots=True)
class _Offset:
    offset: int

    def __post_init__(self) -> None:
        """Check the offset."""
        _check_u64(self.offset)


class FromLeast(_Offset):
    """A bound ``...n``: ``offset`` above the responder's least payload."""


class FromGreatest(_Offset):
    """A bound ``n...``: ``offset`` below the responder's greatest payload."""


Offset = FromLeast | FromGreatest
Bound = At | Offset


@dataclass(frozen=True, slots=True)
class Regular:
    """From ``start`` to ``end``: ascending if the start is less than the end, else descending."""

    start: Bound
    end: Bound


@dataclass(frozen=True, slots=True)
class Single:
    """``(<dist_low>n<dist_high>)``: one entry, ascending."""

    seq: int
    dist_low: int = FULL_POOL
    dist_high: int = FULL_POOL
    low_outer: bytes | None = None
    own: bytes | None = None
    high_outer: bytes | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_seq(self.seq)
        _check_dist(self.dist_low)
        _check_dist(self.dist_high)
        _check_hashes(self.low_outer, self.own, self.high_outer)


@dataclass(frozen=True, slots=True)
class SingleOffset:
    """``(...n)`` or ``(n...)``: one entry, ascending, with both sides of its pool."""

    bound: Offset


@dataclass(frozen=True, slots=True)
class MetadataOnly:
    """The metadata of an entry and ``dist`` steps of its pool: upwards (``(m:n<d>)``), or down (``(m:<d>n)``)."""

    seq: int
    ascending: bool
    dist: int = FULL_POOL
    outer: bytes | None = None
    own: bytes | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_seq(self.seq)
        _check_dist(self.dist)
        _check_hashes(self.outer, self.own)


Interval = Regular | Single | SingleOffset | MetadataOnly


def start_of(interval: Interval) -> Bound:
    """The bound where a response begins."""
    match interval:
        case Regular(start, _):
            return start
        case SingleOffset(bound):
            return bound
        case _:
            return At(interval.seq)


def has_absolute_end(interval: Interval) -> bool:
    """Whether a response ends by itself once its last item was sent."""
    if isinstance(interval, Regular):
        return isinstance(interval.end, At)
    return not isinstance(interval, SingleOffset)


class Forks(IntEnum):
    """Where a fork proof may end a response: anywhere, or only once the response has come to the fork."""

    DEFAULT = 0
    LOCAL = 1


@dataclass(frozen=True, slots=True)
class Request:
    """Everything a request says.

    ``id`` names the request on its connection. ``anchor`` is a sequence number and hash; it makes sense with local
    forks only. ``least_size`` and ``greatest_size`` bound the payloads wanted, both included, in bytes.
    ``payload_offset`` makes it an immediate payload request: no metadata of the start, and its payload from there on.
    ``verified``: only checked items may be sent. ``lazy``: only say how much there is. ``ValueError`` for what a
    request cannot say.
    """

    id: int
    author: bytes
    log_id: int
    interval: Interval
    forks: Forks = Forks.DEFAULT
    anchor: tuple[int, bytes] | None = None
    least_size: int | None = None
    greatest_size: int | None = None
    payload_offset: int | None = None
    verified: bool = True
    lazy: bool = False

    def __post_init__(self) -> None:
        """Check what the types do not say."""
        for number in (self.id, self.log_id, self.least_size, self.greatest_size, self.payload_offset):
            _check_u64(number)
        if len(self.author) != AUTHOR_BYTES:
            raise ValueError(f"an author is {AUTHOR_BYTES} bytes, not {len(self.author)}")
        if self.anchor is not None:
            if self.forks is not Forks.LOCAL:
                raise ValueError("a trust anchor makes sense with local forks only")
            _check_seq(self.anchor[0])
            _check_hashes(self.anchor[1])
        if self.is_immediate and (
            isinstance(self.interval, MetadataOnly) or not isinstance(start_of(self.interval), At)
        ):
            raise ValueError("an immediate payload request needs a start that is a sequence number of a payload")

    @property
    def log(self) -> tuple[bytes, int]:
        """Author and log id."""
        return self.author, self.log_id

    @property
    def is_immediate(self) -> bool:
        """Whether it begins with the start's payload."""
        return self.payload_offset is not None

    def fits(self, size: int) -> bool:
        """Whether payloads of a size are wanted."""
        return (self.least_size is None or size >= self.least_size) and (
            self.greatest_size is None or size <= self.greatest_size
        )

    @property
    def has_filter(self) -> bool:
        """Whether not every payload is wanted."""
        return self.least_size is not None or self.greatest_size is not None
