"""Bamboo Ranges: which items of a log, as values, as bytes and as text. Seed 004; the specification: docs/ranges.md."""

from culm.ranges.algebra import difference, extend, hull, intersect, limits_from_held, merge, normalise, resolve, trim
from culm.ranges.encoding import decode, decode_prefix, encode
from culm.ranges.model import EMPTY, Item, Range
from culm.ranges.onbytes import extend_bytes, hull_bytes, intersect_bytes, merge_bytes, trim_bytes

__all__ = [
    "EMPTY",
    "Item",
    "Range",
    "decode",
    "decode_prefix",
    "difference",
    "encode",
    "extend",
    "extend_bytes",
    "hull",
    "hull_bytes",
    "intersect",
    "intersect_bytes",
    "limits_from_held",
    "merge",
    "merge_bytes",
    "normalise",
    "resolve",
    "trim",
    "trim_bytes",
]
