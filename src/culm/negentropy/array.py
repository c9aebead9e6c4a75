"""A sealed set in memory: sorted once by numpy, with the fingerprint of any range at the same small cost.

A fingerprint needs the sum of the ids in its range. Adding them up anew for every question would read the whole set in
every round. Instead the sums of the first 0, 1, 2, ... ids are stored: the sum of a range is the difference of two of
them. That costs 32 bytes for each record, and it is why the set is sealed: an added record would change all later sums.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from culm.negentropy.codec import ID_BYTES, INFINITY
from culm.negentropy.storage import Storage

U64 = npt.NDArray[np.uint64]

# Records after the last bound that are searched first. Most bounds are that near, so that the search takes eight steps
# instead of twenty; a bound beyond costs one comparison more.
_NEAR = 256
# Parts of 32 bits that a 256-bit sum is computed in: numpy has no larger integers than 64 bits, and in those 2^32
# numbers of 32 bits add up without an overflow.
_LANES = 8


class ArrayStorage(Storage):
    """A sealed set in memory: 72 bytes a record (timestamp 8, id 32, sum 32)."""

    __slots__ = ("_ids", "_length", "_sums", "_timestamps")

    def __init__(self, timestamps: U64, ids: npt.NDArray[np.uint8]) -> None:
        """``timestamps``: n unsigned 64-bit numbers below 2^64 - 1; ``ids``: n rows of 32 bytes; in any order.

        ``ValueError`` for other shapes, the infinite timestamp, or the same record twice.
        """
        if ids.shape != (len(timestamps), ID_BYTES):
            raise ValueError(f"{len(timestamps)} timestamps and ids of the shape {ids.shape}")
        timestamps = np.ascontiguousarray(timestamps, dtype=np.uint64)
        if len(timestamps) and int(timestamps.max()) == INFINITY:
            raise ValueError("the timestamp 2^64 - 1 is reserved for infinity")
        order = _sorted(timestamps, ids)
        timestamps = timestamps[order]
        ids = np.take(np.ascontiguousarray(ids), order, axis=0)  # several times as fast as indexing
        same = (timestamps[1:] == timestamps[:-1]).nonzero()[0]
        if len(same) and bool((ids[same] == ids[same + 1]).all(axis=1).any()):
            raise ValueError("the set has the same record twice")
        self._length = len(timestamps)
        self._timestamps: memoryview = timestamps.data
        self._ids: memoryview = ids.reshape(-1).data
        self._sums = _prefix_sums(ids).tobytes()  # sliced faster than a view

    @classmethod
    def of(cls, items: Iterable[tuple[int, bytes]]) -> ArrayStorage:
        """A set from pairs of timestamp and id; ``ValueError`` as for ``ArrayStorage``."""
        timestamps, ids = [], bytearray()
        for timestamp, identity in items:
            if len(identity) != ID_BYTES:
                raise ValueError(f"an id has {ID_BYTES} bytes")
            timestamps.append(timestamp)
            ids += identity
        try:
            return cls(np.array(timestamps, np.uint64), np.frombuffer(ids, np.uint8).reshape(-1, ID_BYTES))
        except OverflowError:
            raise ValueError("the timestamp is outside of 0 to 2^64 - 2") from None

    def __len__(self) -> int:
        return self._length

    def position(self, timestamp: int, prefix: bytes, low: int) -> int:
        """The first position from ``low`` on whose record is not below a bound."""
        if timestamp == INFINITY:
            return self._length
        # Bounds come in order, most of them close to the one before.
        near = min(low + _NEAR, self._length)
        if near < self._length and self._timestamps[near] < timestamp:
            near = self._length
        at = bisect_left(self._timestamps, timestamp, low, near)
        if not prefix or at == self._length or self._timestamps[at] != timestamp:
            return at
        high = bisect_right(self._timestamps, timestamp, at)
        # A prefix stands for itself and zeros: an id is below it if and only if its own start is.
        return bisect_left(range(high), prefix, at, key=self.id)

    def timestamp(self, position: int) -> int:
        """The timestamp of a record."""
        return int(self._timestamps[position])

    def id(self, position: int) -> bytes:
        """The id of a record."""
        return bytes(self._ids[position * ID_BYTES : (position + 1) * ID_BYTES])

    def ids(self, low: int, high: int) -> bytes:
        """The ids of the records from ``low`` to before ``high``, one behind the other."""
        return bytes(self._ids[low * ID_BYTES : high * ID_BYTES])

    def total_before(self, position: int) -> int:
        """The sum modulo 2^256 of the ids before a position."""
        return int.from_bytes(self._sums[position * ID_BYTES : (position + 1) * ID_BYTES], "little")


def _sorted(timestamps: U64, ids: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """The order by timestamp, then id.

    Ids are compared only where timestamps are equal, and eight bytes at a time, because sorting rows of 40 bytes is
    several times as slow as sorting numbers.
    """
    columns = [timestamps, *np.ascontiguousarray(ids).view(">u8").astype(np.uint64).T]
    order = np.argsort(timestamps)
    for known in range(1, len(columns)):  # the order is right by the first ``known`` columns
        equal = np.ones(max(len(order) - 1, 0), np.bool_)
        for column in columns[:known]:
            ranked = column[order]
            equal &= ranked[1:] == ranked[:-1]
        tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
        if not len(tied):
            break
        members = order[tied]
        order[tied] = members[np.lexsort([column[members] for column in columns[known::-1]])]
    return order


def _prefix_sums(ids: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The sums modulo 2^256 of the first 0, 1, ... n ids, 32 little-endian bytes each."""
    lanes = ids.view("<u4")
    sums = np.zeros((len(ids) + 1, _LANES), dtype="<u4")
    carry = np.zeros(len(ids), dtype=np.uint64)
    for lane in range(_LANES):
        total = np.cumsum(lanes[:, lane], dtype=np.uint64)
        total += carry
        sums[1:, lane] = total  # keeps the lower half
        np.right_shift(total, 32, out=carry)
    return sums.view(np.uint8).reshape(-1)
