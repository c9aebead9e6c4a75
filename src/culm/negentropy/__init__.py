"""Negentropy set reconciliation, without I/O. Seed 002; docs/protocols/negentropy.md has the decisions."""

from culm.negentropy.codec import MalformedMessage, Mode, Range, read_ranges
from culm.negentropy.reconciler import Negentropy
from culm.negentropy.storage import ArrayStorage, Storage

__all__ = ["ArrayStorage", "MalformedMessage", "Mode", "Negentropy", "Range", "Storage", "read_ranges"]
