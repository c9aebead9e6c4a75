"""Negentropy set reconciliation, without I/O.

Specification: docs/specs/negentropy.md.
"""

from typing import TYPE_CHECKING

from culm.negentropy.codec import MalformedMessage, Mode, Range, read_ranges
from culm.negentropy.reconciler import Negentropy, Split, even, newest_listed
from culm.negentropy.storage import Storage, SubRange

if TYPE_CHECKING:
    from culm.negentropy.array import ArrayStorage

__all__ = [
    "ArrayStorage",
    "MalformedMessage",
    "Mode",
    "Negentropy",
    "Range",
    "Split",
    "Storage",
    "SubRange",
    "even",
    "newest_listed",
    "read_ranges",
]


def __getattr__(name: str) -> object:
    """``ArrayStorage`` needs numpy, which takes longer to load than all the rest: only those who use it wait."""
    if name == "ArrayStorage":
        from culm.negentropy.array import ArrayStorage  # noqa: PLC0415

        return ArrayStorage
    raise AttributeError(name)
