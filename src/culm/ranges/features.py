"""Restricted feature sets: what a range uses beyond a start and an end, and how to do without.

A node may refuse some features of its peers, and avoid some itself. Whether a range uses one is in its flags byte, so
that a receiver refuses it before it reads the rest. A range with a feature that is avoided becomes a wider one without:
a filter is left out, a path becomes all entries between its ends, and an open range ends some entries ahead of those
that are held, until it is told anew. The wider range has all of the first; it only says less exactly what is
wanted.

Specification: docs/specs/ranges.md, "Restricted feature sets".
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from enum import StrEnum

from culm.bamboo import MAX_U64, decode_varu64, encode_varu64
from culm.ranges.encoding import decode_prefix
from culm.ranges.model import CERT, CLOSED, FORB, NOMETA, NOPAY, NOTHING, ONE, SIZE, SPARSE, Range
from culm.ranges.sets import RangeSet, UnreadRanges


class Feature(StrEnum):
    """What a range may use. The value is the word in settings and messages."""

    OPEN = "open"
    SPARSE = "sparse"
    NO_METADATA = "no-metadata"
    NO_PAYLOADS = "no-payloads"
    SIZES = "sizes"
    FORBIDDEN = "forbidden"
    CERTIFICATE_LIMITS = "certificate-limits"


def features_of(flags: int) -> Iterator[Feature]:
    """The features that a range with this flags byte uses. Flags that only follow from others count for nothing."""
    if flags == NOTHING:
        return
    if not flags & CLOSED:
        yield Feature.OPEN
    if flags & SPARSE and not flags & ONE:
        yield Feature.SPARSE
    if flags & NOMETA:
        yield Feature.NO_METADATA
    elif flags & CERT:
        yield Feature.CERTIFICATE_LIMITS
    if flags & NOPAY:
        yield Feature.NO_PAYLOADS
        return
    if flags & SIZE:
        yield Feature.SIZES
    if flags & FORB:
        yield Feature.FORBIDDEN


def first_used(ranges: RangeSet, features: Collection[Feature]) -> Feature | None:
    """One of the ``features`` that a set of a peer uses; None if it uses none. Nothing behind the first use is read.

    ``EncodingError`` if what is read before is malformed.
    """
    data = ranges.encode()
    count, at = decode_varu64(data)
    for _ in range(count):
        for feature in features_of(data[at]) if at < len(data) else ():
            if feature in features:
                return feature
        _, at = decode_prefix(data, at)
    return None


def without(item: Range, features: Collection[Feature], reached: int, ahead: int) -> Range:
    """A range that has all of ``item`` and uses none of the ``features``.

    Instead of being open it ends ``ahead`` entries after the entry ``reached``, or after its start if that is later.
    """
    if item.is_empty:
        return item
    if Feature.OPEN in features and item.is_open:
        # The path from that end need not be the one from the newest entry, so all entries are asked for.
        item = replace(item, end=min(max(reached, item.start - 1) + ahead, MAX_U64), sparse=False)
    if Feature.SPARSE in features:
        item = replace(item, sparse=False)
    if Feature.NO_METADATA in features:
        item = replace(item, metadata=True)
    if Feature.NO_PAYLOADS in features:
        item = replace(item, payloads=True)
    if Feature.SIZES in features:
        item = replace(item, least_size=0, size_limit=0)
    if Feature.FORBIDDEN in features:
        item = replace(item, forbidden=())
    if Feature.CERTIFICATE_LIMITS in features:
        item = replace(item, head_max=0, tail_min=0)
    return item


def set_as_it_is(ranges: Iterable[Range]) -> RangeSet:
    """A set that is sent range by range as given: a ``RangeSet`` would write some of them as open or sparse ones."""
    encoded = dict.fromkeys(item.encode() for item in ranges)
    return UnreadRanges(encode_varu64(len(encoded)) + b"".join(encoded))
