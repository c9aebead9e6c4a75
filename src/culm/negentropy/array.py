"""A sealed set in memory: sorted once by numpy, with the fingerprint of any range at the same small cost.

A fingerprint needs the sum of the ids in its range. Adding them up anew for every question would read the whole set in
every round. Instead the sums of the first 0, 1, 2, ... ids are stored: the sum of a range is the difference of two of
them. That costs 32 bytes for each record, and it is why the set is sealed: an added record would change all later sums.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from culm.negentropy.codec import FINGERPRINT_BYTES, ID_BYTES, INFINITY
from culm.negentropy.storage import Storage, shortest_prefix

U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.void]  # each item some bytes

# Records after the last bound that are searched first. Most bounds are that near, so that the search takes eight steps
# instead of twenty; a bound beyond costs one comparison more.
_NEAR = 256
_LANES = 4  # of 64 bits, the largest integers of numpy, in a sum of 256 bits


def _quick_sha256() -> Callable[[bytes], Any]:
    """Python's own SHA-256, which takes two thirds of OpenSSL's time for 40 bytes, because it sets up less."""
    for module in ("_sha2", "_sha256"):  # from Python 3.12 on, and before
        with suppress(ImportError):
            own: Callable[[bytes], Any] = import_module(module).sha256
            return own
    return sha256  # another interpreter, or built without it


_sha256 = _quick_sha256()
_digest = type(_sha256(b"")).digest


class ArrayStorage(Storage):
    """A sealed set in memory: 72 bytes a record (timestamp 8, id 32, sum 32)."""

    __slots__ = ("_ids", "_length", "_numbers", "_sums", "_timestamps", "buffers")

    in_arrays: ClassVar[bool] = True

    def __init__(self, timestamps: U64, ids: U8) -> None:
        """``timestamps``: n unsigned 64-bit numbers below 2^64 - 1; ``ids``: n rows of 32 bytes; in any order.

        ``ValueError`` for other shapes, the infinite timestamp, or the same record twice.
        """
        if ids.shape != (len(timestamps), ID_BYTES):
            raise ValueError(f"{len(timestamps)} timestamps and ids of the shape {ids.shape}")
        timestamps = np.ascontiguousarray(timestamps, dtype=np.uint64)
        if len(timestamps) and int(timestamps.max()) == INFINITY:
            raise ValueError("the timestamp 2^64 - 1 is reserved for infinity")
        order = _sorted(timestamps, ids)
        # Bytes are sliced faster than a view, and a single number is read faster from a view than from an array.
        packed, self._ids = _taken(timestamps[:, None].view(np.uint8), order), _taken(np.ascontiguousarray(ids), order)
        self._timestamps, self._numbers = memoryview(packed).cast("Q"), np.frombuffer(packed, np.uint64)
        ids = np.frombuffer(self._ids, np.uint8).reshape(-1, ID_BYTES)
        same = (self._numbers[1:] == self._numbers[:-1]).nonzero()[0]
        if len(same) and bool((ids[same] == ids[same + 1]).all(axis=1).any()):
            raise ValueError("the set has the same record twice")
        self._length = len(timestamps)
        self._sums = _prefix_sums(ids)
        self.buffers = packed, self._ids, self._sums  # as the native core takes them

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
        return self._ids[position * ID_BYTES : (position + 1) * ID_BYTES]

    def ids(self, low: int, high: int) -> bytes:
        """The ids of the records from ``low`` to before ``high``, one behind the other."""
        return self._ids[low * ID_BYTES : high * ID_BYTES]

    def total_before(self, position: int) -> int:
        """The sum modulo 2^256 of the ids before a position."""
        return int.from_bytes(self._sums[position * ID_BYTES : (position + 1) * ID_BYTES], "little")

    # -- many at once ----------------------------------------------------------------------------------------------

    def positions(self, timestamps: U64, prefixes: dict[int, bytes], low: int) -> I64:
        """The positions of ascending bounds from ``low`` on; ``prefixes``: by their place, of those that have one."""
        found = self._numbers.searchsorted(timestamps)
        for place, prefix in prefixes.items():
            found[place] = self.position(int(timestamps[place]), prefix, int(found[place - 1]) if place else low)
        return found

    def bounds(self, positions: I64) -> tuple[U64, dict[int, bytes]]:
        """The shortest bounds before records: timestamps; and by their place the prefixes of those that need one."""
        timestamps = self._numbers[positions]
        tied = (self._numbers[positions - 1] == timestamps).nonzero()[0]
        return timestamps, {
            place: shortest_prefix(self.id(position - 1), self.id(position))
            for place, position in zip(tied.tolist(), positions[tied].tolist(), strict=True)
        }

    def ids_at(self, positions: I64) -> Bytes:
        """The ids of records."""
        found: Bytes = np.frombuffer(self._ids, f"V{ID_BYTES}")[positions]
        return found

    def fingerprints(self, low: I64, high: I64) -> bytes:
        """The fingerprints, in a row, of the records from each of ``low`` to before the same one of ``high``."""
        sums = np.frombuffer(self._sums, "<u8").reshape(-1, _LANES)
        counts = high - low
        hashed = _differences(sums[high], sums[low])
        if len(counts) and int(counts.max()) < 0x80:
            return _hashes(hashed, counts[:, None])
        found = np.empty((len(counts), FINGERPRINT_BYTES), np.uint8)
        for digits in range(1, 10):
            alike = ((counts >> 7 * digits == 0) & ((counts >> 7 * (digits - 1) > 0) | (digits == 1))).nonzero()[0]
            if len(alike):
                number = counts[alike, None] >> np.arange(7 * (digits - 1), -1, -7) & 0x7F
                number[:, :-1] |= 0x80
                hashes = np.frombuffer(_hashes(hashed[alike], number), np.uint8)
                found[alike] = hashes.reshape(-1, FINGERPRINT_BYTES)
        return found.tobytes()


def _differences(numbers: U64, others: U64) -> U64:
    """Of 256-bit numbers, modulo 2^256: n rows of four lanes, the lowest first."""
    result = numbers - others
    borrows = numbers < others
    for lane in range(1, _LANES):
        borrow = borrows[:, lane - 1]
        borrows[:, lane] |= borrow & (result[:, lane] == 0)
        result[:, lane] -= borrow
    return result


def _hashes(sums: U64, counts: I64) -> bytes:
    """The fingerprints, in a row, of n sums with their counts; n rows of digits, equally many for each."""
    table = np.empty((len(sums), ID_BYTES + counts.shape[1]), np.uint8)
    table[:, :ID_BYTES] = sums.view(np.uint8)
    table[:, ID_BYTES:] = counts
    rows = table.view(f"V{table.shape[1]}")[:, 0].tolist()
    hashes = np.frombuffer(b"".join(map(_digest, map(_sha256, rows))), np.uint8)
    return hashes.reshape(-1, sha256().digest_size)[:, :FINGERPRINT_BYTES].tobytes()


def _sorted(timestamps: U64, ids: U8) -> npt.NDArray[np.intp]:
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


def _filled(size: int, fill: Callable[[U8], None]) -> bytes:
    """Bytes that begin as zeros and that numpy writes, without a copy of them."""
    out = BytesIO(bytes(size))
    with out.getbuffer() as view:
        fill(np.frombuffer(view, np.uint8))
    return out.getvalue()


def _taken(rows: U8, order: npt.NDArray[np.intp]) -> bytes:
    """Rows in another order."""

    def fill(out: U8) -> None:
        # ``take`` is several times as fast as indexing; in any mode but "clip" and "wrap" it makes a copy.
        np.take(rows, order, axis=0, out=out.reshape(rows.shape), mode="clip")

    return _filled(rows.size, fill)


def _prefix_sums(ids: U8) -> bytes:
    """The sums modulo 2^256 of the first 0, 1, ... n ids, 32 little-endian bytes each."""
    return _filled((len(ids) + 1) * ID_BYTES, lambda out: _add_up(ids.view("<u8"), out.view("<u8")))


def _add_up(lanes: U64, out: U64) -> None:
    """Write the sums of the first 1, 2, ... numbers behind the first place."""
    sums = out.reshape(-1, _LANES)
    carry: U64 | None = None  # out of the lanes below, up to each sum
    for lane in range(_LANES):
        added = np.ascontiguousarray(lanes[:, lane])
        total = added.cumsum()
        # A sum that is below its last addend has passed 2^64.
        carries = (total < added).cumsum(dtype=np.uint64) if lane < _LANES - 1 else None
        if carry is not None:
            total += carry
            if carries is not None:
                carries += total < carry
        sums[1:, lane] = total
        carry = carries
