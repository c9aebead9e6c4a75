"""Bamboo Ranges: which items of a log, as values, as bytes and as text.

Specification: docs/specs/ranges.md.
"""

from culm.ranges.algebra import difference, extend, hull, intersect, limits_from_held, merge, normalise, resolve, trim
from culm.ranges.encoding import decode, decode_prefix, encode
from culm.ranges.features import Feature
from culm.ranges.model import EMPTY, Item, Range
from culm.ranges.onbytes import extend_bytes, hull_bytes, intersect_bytes, merge_bytes, trim_bytes
from culm.ranges.sets import RangeSet, UnreadRanges, window
from culm.ranges.text import inclusive_sizes, read_range, read_size, size_limits, write_range

__all__ = [
    "EMPTY",
    "Feature",
    "Item",
    "Range",
    "RangeSet",
    "UnreadRanges",
    "decode",
    "decode_prefix",
    "difference",
    "encode",
    "extend",
    "extend_bytes",
    "hull",
    "hull_bytes",
    "inclusive_sizes",
    "intersect",
    "intersect_bytes",
    "limits_from_held",
    "merge",
    "merge_bytes",
    "normalise",
    "read_range",
    "read_size",
    "resolve",
    "size_limits",
    "trim",
    "trim_bytes",
    "window",
    "write_range",
]
