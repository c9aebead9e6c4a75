"""Negentropy set reconciliation, without I/O.

Two nodes hold almost the same million records and want to know which ones differ, without sending a million ids. They
compare fingerprints of ranges. A range whose fingerprints agree is done; one that differs is split into 16 parts that
are compared in the same way. A range of few records is sent as a list of ids. So the cost grows with the number of
differences, and only by the logarithm of the size of the sets.

Specification: docs/specs/negentropy.md.
"""

from typing import TYPE_CHECKING

from culm.negentropy.codec import MalformedMessage, Mode, Range, read_ranges
from culm.negentropy.reconciler import Negentropy, Split, even, newest_listed, sparing
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
    "sparing",
]


def __getattr__(name: str) -> object:
    """Import ``ArrayStorage`` at its first use, because numpy takes longer to load than everything else here."""
    if name == "ArrayStorage":
        from culm.negentropy.array import ArrayStorage  # noqa: PLC0415

        return ArrayStorage
    raise AttributeError(name)
