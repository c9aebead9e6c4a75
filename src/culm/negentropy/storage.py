"""Sets to reconcile: records of a timestamp and a 32-byte id, in order, with any range's fingerprint at hand.

A fingerprint is the hash of two numbers: the sum modulo 2^256 of the ids in a range, and their count. The sum of a
range is the difference of two prefix sums, so that a fingerprint costs the same for ten records and for a million. Ids
must be hashes; an attacker who could choose them freely could find other ids with the same sum.

Specification: docs/specs/negentropy.md, "Records", "Fingerprints".
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from struct import Struct
from typing import ClassVar

from culm.negentropy.codec import FINGERPRINT_BYTES, ID_BYTES, INFINITY, encode_varint

MODULUS_MASK = 2**256 - 1
_SMALL_COUNTS = [encode_varint(count) for count in range(1024)]
_FEW_IDS = [Struct(f"{ID_BYTES}s" * count) for count in range(32)]  # quicker than slices


class Storage(ABC):
    """What the reconciler asks of a set. Positions count from 0 in the order of (timestamp, id)."""

    __slots__ = ()

    in_arrays: ClassVar[bool] = False
    """Whether this is an ``ArrayStorage``, in which many ranges are looked at together. It can be asked before numpy is
    loaded."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of records."""

    @abstractmethod
    def position(self, timestamp: int, prefix: bytes, low: int) -> int:
        """The first position from ``low`` on whose record is not below a bound."""

    @abstractmethod
    def timestamp(self, position: int) -> int:
        """The timestamp of a record."""

    @abstractmethod
    def id(self, position: int) -> bytes:
        """The id of a record (32 bytes)."""

    @abstractmethod
    def ids(self, low: int, high: int) -> bytes:
        """The ids of the records from ``low`` to before ``high``, one behind the other."""

    @abstractmethod
    def total_before(self, position: int) -> int:
        """The sum of the ids before a position; it may be reduced modulo 2^256 or not."""

    def bound(self, position: int) -> tuple[int, bytes]:
        """The shortest bound between a record and the one before it: a timestamp and an id prefix.

        Short, because bounds are sent: the prefix is empty unless the two records have the same timestamp.
        """
        timestamp = self.timestamp(position)
        if self.timestamp(position - 1) != timestamp:
            return timestamp, b""
        return timestamp, shortest_prefix(self.id(position - 1), self.id(position))

    def fingerprint(self, low: int, high: int) -> bytes:
        """The fingerprint (16 bytes) of the records from ``low`` to before ``high``."""
        return make_fingerprint(self.total_before(high) - self.total_before(low), high - low)


def shortest_prefix(before: bytes, identity: bytes) -> bytes:
    """The start of an id that tells it from the id before it."""
    shared = 0
    while identity[shared] == before[shared]:
        shared += 1
    return identity[: shared + 1]


def make_fingerprint(total: int, count: int) -> bytes:
    """The fingerprint of ``count`` ids whose sum is ``total``, reduced modulo 2^256 or not."""
    number = _SMALL_COUNTS[count] if count < len(_SMALL_COUNTS) else encode_varint(count)
    return sha256((total & MODULUS_MASK).to_bytes(ID_BYTES, "little") + number).digest()[:FINGERPRINT_BYTES]


def ids_of(data: bytes) -> Sequence[bytes]:
    """The ids that stand one behind the other."""
    count = len(data) // ID_BYTES
    if count < len(_FEW_IDS):
        return _FEW_IDS[count].unpack(data)
    return [data[at : at + ID_BYTES] for at in range(0, len(data), ID_BYTES)]


def alone(ours: bytes, theirs: bytes) -> tuple[Sequence[bytes], Sequence[bytes]]:
    """Of two lists, the ids that stand in ours alone, and those that stand in theirs alone."""
    if ours == theirs:
        return (), ()
    our_ids, their_ids = ids_of(ours), ids_of(theirs)
    our_set, their_set = set(our_ids), set(their_ids)
    # One id can have two timestamps, and the other side may hold only one. A set would hide that difference.
    have = our_set - their_set
    if len(our_set) < len(our_ids):
        have |= (Counter(our_ids) - Counter(their_ids)).keys()
    return (
        [identity for identity in our_ids if identity in have] if have else (),
        () if their_set <= our_set else [identity for identity in their_ids if identity not in our_set],
    )


class SubRange(Storage):
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

    def total_before(self, position: int) -> int:
        """See ``Storage``: the sum of the ids of all records of the set before a position."""
        return self._storage.total_before(position + self._start)
