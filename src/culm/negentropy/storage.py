"""Sets to reconcile: records of a timestamp and a 32-byte id, in order, with any range's fingerprint at hand.

A fingerprint is the hash of two numbers: the sum modulo 2^256 of the ids in a range, and their count. The sum of a
range is the difference of two prefix sums, so that a fingerprint costs the same for ten records and for a million. Ids
must be hashes; an attacker who could choose them freely could find other ids with the same sum.

Specification: docs/specs/negentropy.md, "Records", "Fingerprints".
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol

from culm.negentropy.codec import FINGERPRINT_BYTES, ID_BYTES, INFINITY, encode_varint

MODULUS_MASK = 2**256 - 1
_SMALL_COUNTS = [encode_varint(count) for count in range(1024)]


class Storage(Protocol):
    """What the reconciler asks of a set. Positions count from 0 in the order of (timestamp, id)."""

    def __len__(self) -> int:
        """The number of records."""

    def position(self, timestamp: int, prefix: bytes, low: int) -> int:
        """The first position from ``low`` on whose record is not below a bound."""

    def timestamp(self, position: int) -> int:
        """The timestamp of a record."""

    def id(self, position: int) -> bytes:
        """The id of a record (32 bytes)."""

    def ids(self, low: int, high: int) -> bytes:
        """The ids of the records from ``low`` to before ``high``, one behind the other."""

    def bound(self, position: int) -> tuple[int, bytes]:
        """The shortest bound between a record and the one before it: a timestamp and an id prefix.

        Short, because bounds are sent: the prefix is empty unless the two records have the same timestamp.
        """

    def fingerprint(self, low: int, high: int) -> bytes:
        """The fingerprint (16 bytes) of the records from ``low`` to before ``high``."""

    def fingerprints(self, positions: Sequence[int]) -> list[bytes]:
        """The fingerprints of the ranges between each position and the next."""


def make_fingerprint(total: int, count: int) -> bytes:
    """The fingerprint of ``count`` ids whose sum modulo 2^256 is ``total``."""
    number = _SMALL_COUNTS[count] if count < len(_SMALL_COUNTS) else encode_varint(count)
    return sha256(total.to_bytes(ID_BYTES, "little") + number).digest()[:FINGERPRINT_BYTES]


def shortest_prefix(before: bytes, identity: bytes) -> bytes:
    """The shortest start of ``identity`` that is greater than ``before``, which is a smaller id."""
    shared = 0
    while identity[shared] == before[shared]:
        shared += 1
    return identity[: shared + 1]


class SubRange:
    """The records of a set with timestamps from ``low`` to before ``high``, as a set of its own without a copy."""

    __slots__ = ("_end", "_start", "_storage")

    def __init__(self, storage: Storage, low: int = 0, high: int = INFINITY) -> None:
        self._storage = storage
        self._start = storage.position(low, b"", 0)
        self._end = max(self._start, storage.position(high, b"", self._start))

    def __len__(self) -> int:
        return self._end - self._start

    def position(self, timestamp: int, prefix: bytes, low: int) -> int:
        """The first position from ``low`` on whose record is not below a bound."""
        at = self._storage.position(timestamp, prefix, low + self._start)
        return min(at, self._end) - self._start

    def timestamp(self, position: int) -> int:
        """The timestamp of a record."""
        return self._storage.timestamp(position + self._start)

    def id(self, position: int) -> bytes:
        """The id of a record."""
        return self._storage.id(position + self._start)

    def ids(self, low: int, high: int) -> bytes:
        """The ids of the records from ``low`` to before ``high``, one behind the other."""
        return self._storage.ids(low + self._start, high + self._start)

    def bound(self, position: int) -> tuple[int, bytes]:
        """The shortest bound between a record and the one before it: a timestamp and an id prefix."""
        return self._storage.bound(position + self._start)

    def fingerprint(self, low: int, high: int) -> bytes:
        """The fingerprint of the records from ``low`` to before ``high``."""
        return self._storage.fingerprint(low + self._start, high + self._start)

    def fingerprints(self, positions: Sequence[int]) -> list[bytes]:
        """The fingerprints of the ranges between each position and the next."""
        return self._storage.fingerprints([position + self._start for position in positions])
