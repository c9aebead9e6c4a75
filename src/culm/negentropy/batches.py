"""Many ranges of a message at once, for sets whose records lie in arrays.

Reading a range, finding its records, hashing its fingerprint and writing the answer cost some ten microseconds when it
is done range by range, and a message has up to a hundred thousand of them. The native core does it for many in a call.
Without it, one pattern cuts the message into ranges, and numpy does each step for all of them. Then only the ranges
that differ, most often one in ten, are looked at one by one.

Both read what nearly every sender writes nearly always. They stop in front of any other range: one up to infinity, a
long list, a malformed one. The reconciler reads some ranges from there on one by one, and that reader is strict. So
each rule about what is refused stands in one place, ``culm.negentropy.codec``.

A batch is 128 KiB of a message or some thousand ranges, whichever ends first, and two thousand fingerprints or ids of
an answer. So memory is bounded, and so is the work in vain beyond a frame limit. Ranges count and not bytes alone,
because each takes a number in every column: a hostile message has five times as many in the same bytes as an honest
one.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from culm import native
from culm.negentropy.array import I64, U8, U64, ArrayStorage, Bytes
from culm.negentropy.codec import FINGERPRINT_BYTES, ID_BYTES, INFINITY, Mode
from culm.negentropy.storage import Storage, alone, ids_of

Bools = npt.NDArray[np.bool_]
Bound = tuple[int, bytes]

_LEAST_RANGES = 32  # Of a batch: fewer are quicker one by one, because each step of numpy takes microseconds to begin.
_BATCH_BYTES, _PIECE_BYTES, _MOST_RANGES = 128 * 1024, 16 * 1024, 3_000  # The pattern goes over a piece at a time.
_DIGITS = np.array([1 << 7 * digits for digits in range(1, 10)], np.uint64)  # the least numbers of 2, 3, ... digits
# Fingerprints and ids of an answer that are written at once: a millisecond of work in vain where a frame limit cuts.
_MOST_WRITTEN = 2048
_LONGEST_LIST = 127  # ids: the number of ids is written in one byte


def _lists() -> bytes:
    return b"|".join(re.escape(bytes((count,))) + b".{%d}" % (ID_BYTES * count) for count in range(32))


def _prefixes() -> bytes:
    return b"|".join(re.escape(bytes((size,))) + b".{%d}" % size for size in range(ID_BYTES + 1))


# A number from 1 to 2^56 - 1 in its shortest form (0 is infinity); a prefix; a fingerprint, a Skip or a short list.
_RANGE = re.compile(
    rb"(?:[\x81-\xff][\x80-\xff]{0,6}[\x00-\x7f]|[\x01-\x7f])"
    rb"(?:" + _prefixes() + rb")"
    rb"(?:\x01.{16}|\x00|\x02(?:" + _lists() + rb"))"
    rb"|.+",  # the rest, where the pattern does not match
    re.DOTALL,
)


class Answers(NamedTuple):
    """What is written for some ranges, all in a row."""

    written: bytes
    """Empty if it is a single list that is too long to be written in one go."""
    ends: I64
    """Where in it each range ends."""
    rows: I64
    modes: U8
    """What the other side has sent of each range."""
    skips: Bools
    """Whether a Skip goes in front."""
    low: I64
    high: I64

    def each(self) -> Iterator[tuple[bytes, int, int, bool, int, int]]:
        """For each range: what is written, its number, and the other columns."""
        parts = [self.written[begin:end] for begin, end in pairwise([0, *self.ends.tolist()])]
        return zip(parts, *(column.tolist() for column in self[2:]), strict=True)


class Batch(ABC):
    """Ranges of a message, a column each. ``low`` to before ``high`` are the positions of our records in a range."""

    end: int
    """The offset in the message behind the ranges."""
    modes: U8
    unequal: Bools
    """The ranges with a list, and those whose fingerprint differs from ours."""
    low: I64
    high: I64

    @staticmethod
    def read(storage: Storage, message: bytes, at: int, before: Bound, low: int) -> Batch | None:
        """The ranges at an offset of a message, as far as they are usual; None if that is not far.

        ``before`` is the bound in front of them, ``low`` its position.
        """
        if not isinstance(storage, ArrayStorage):
            return None
        if native.core is None:
            return _InPython.parsed(storage, message, at, before, low)
        limits = at, at + _BATCH_BYTES, _MOST_RANGES
        ranges = native.core.Ranges(storage.buffers, message, limits, before, low)
        return None if len(ranges) < _LEAST_RANGES else _InCore(ranges)

    @property
    def listed(self) -> Bools:
        """The ranges with a list."""
        listed: Bools = self.modes == Mode.ID_LIST
        return listed

    @abstractmethod
    def bound(self, row: int) -> Bound:
        """The bound of a range; of the one in front of the batch for -1."""

    @abstractmethod
    def alone(self) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """The ids in the lists that stand in ours alone, and in theirs alone; of some lists at a time."""

    def answers(self, unequal: Bools, parts_of: Callable[[int], int], *, skipped: bool, last: int) -> Iterator[Answers]:
        """The answers to the unequal ranges, some at a time. ``last``: the timestamp of the last bound written.

        ``parts_of`` tells into how many parts of equal size so many records are divided, 0 for a list. ``skipped``: a
        Skip goes in front of the first range of the batch, if that is unequal.
        """
        rows = unequal.nonzero()[0]
        low, high, modes = self.low[rows], self.high[rows], self.modes[rows]
        skips = np.append(skipped, ~unequal)[rows]
        counts = high - low
        parts = np.zeros(len(rows), np.int64)
        asked = modes == Mode.FINGERPRINT
        sizes, places = np.unique(counts[asked], return_inverse=True)
        parts[asked] = np.array(list(map(parts_of, sizes.tolist())), np.int64)[places]
        # A long list stands alone, because the frame limit may allow little of it.
        long = (parts == 0) & (counts > _LONGEST_LIST)
        totals = np.where(long, _MOST_WRITTEN + 1, np.maximum(counts * (parts == 0), parts) + 1).cumsum()
        begin = 0
        while begin < len(rows):
            most = _MOST_WRITTEN + (int(totals[begin - 1]) if begin else 0)
            end = max(begin + 1, int(totals.searchsorted(most, "right")))
            some = slice(begin, end)
            written, ends = b"", np.zeros(1, np.int64)
            if not long[begin]:
                written, ends = self._written(rows[some], parts[some], skips[some], last)
            yield Answers(written, ends, rows[some], modes[some], skips[some], low[some], high[some])
            last, begin = self.bound(int(rows[end - 1]))[0], end

    @abstractmethod
    def _written(self, rows: I64, parts: I64, skips: Bools, last: int) -> tuple[bytes, I64]:
        """What is written for the rows, and where in it each ends."""


class _InCore(Batch):
    """A batch that the native core reads and writes."""

    def __init__(self, ranges: native.Ranges) -> None:
        self._ranges, self.end = ranges, ranges.end()
        modes, unequal, low, high = ranges.columns()
        self.modes, self.unequal = np.frombuffer(modes, np.uint8), np.frombuffer(unequal, np.bool_)
        self.low, self.high = np.frombuffer(low, np.int64), np.frombuffer(high, np.int64)

    def bound(self, row: int) -> Bound:
        """The bound of a range; of the one in front of the batch for -1."""
        return self._ranges.bound(row)

    def alone(self) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """The ids in the lists that stand in ours alone, and in theirs alone; of all lists at once."""
        have, need = self._ranges.alone()
        yield ids_of(have), ids_of(need)

    def _written(self, rows: I64, parts: I64, skips: Bools, last: int) -> tuple[bytes, I64]:
        written, ends = self._ranges.answers(rows.tobytes(), parts.tobytes(), skips.tobytes(), last)
        return written, np.frombuffer(ends, np.int64)


@dataclass
class _InPython(Batch):
    """A batch that numpy reads and writes."""

    storage: ArrayStorage
    message: bytes
    end: int
    before: Bound
    """The bound in front of the ranges."""
    timestamps: U64
    prefixes: dict[int, bytes]
    """The id prefixes of the bounds that have one."""
    modes: U8
    bodies: I64
    """Where in the message the fingerprint of a range begins, or the number of ids in its list."""
    ends: I64
    """Where in the message a range ends."""
    low: I64
    high: I64

    @classmethod
    def parsed(cls, storage: ArrayStorage, message: bytes, at: int, before: Bound, low: int) -> Self | None:
        """As ``Batch.read``."""
        lengths = _lengths(message, at)
        if len(lengths) < _LEAST_RANGES:
            return None
        ends = lengths.cumsum()
        ends += at
        starts = ends - lengths
        raw = np.frombuffer(message, np.uint8)
        differences, places = _numbers(raw, starts)
        timestamps = (differences - np.uint64(1)).cumsum(dtype=np.uint64)
        timestamps += np.uint64(before[0])
        sizes = raw[places]
        prefixed = sizes.nonzero()[0]
        prefixes = {
            row: message[place + 1 : place + 1 + size]
            for row, place, size in zip(
                prefixed.tolist(), places[prefixed].tolist(), sizes[prefixed].tolist(), strict=True
            )
        }
        if not _ascend(timestamps, differences == 1, prefixes, before):
            return None
        places += sizes
        places += 1
        high = storage.positions(timestamps, prefixes, low)
        lows = np.empty_like(high)
        lows[0], lows[1:] = low, high[:-1]
        end = int(ends[-1])
        return cls(storage, message, end, before, timestamps, prefixes, raw[places], places + 1, ends, lows, high)

    def __post_init__(self) -> None:
        """Compare the fingerprints."""
        self.unequal = self.listed
        asked = (self.modes == Mode.FINGERPRINT).nonzero()[0]
        if len(asked):
            ours = np.frombuffer(self.storage.fingerprints(self.low[asked], self.high[asked]), np.uint64)
            theirs = _windows(self.message, FINGERPRINT_BYTES)[self.bodies[asked]].view(np.uint64)
            self.unequal[asked] = (ours != theirs).reshape(-1, 2).any(axis=1)

    def bound(self, row: int) -> Bound:
        """The bound of a range; of the one in front of the batch for -1."""
        return self.before if row < 0 else (int(self.timestamps[row]), self.prefixes.get(row, b""))

    def alone(self) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """The ids in the lists that stand in ours alone, and in theirs alone; of a list at a time."""
        rows = self.listed.nonzero()[0]
        columns = self.bodies[rows] + 1, self.ends[rows], self.low[rows], self.high[rows]
        for begin, end, low, high in zip(*(column.tolist() for column in columns), strict=True):
            ours, theirs = self.storage.ids(low, high), self.message[begin:end]
            if ours != theirs:
                yield alone(ours, theirs)

    def _written(self, rows: I64, parts: I64, skips: Bools, last: int) -> tuple[bytes, I64]:
        """What is written for the rows, and where in it each ends."""
        counts = np.maximum(parts, 1) + skips  # of the ranges that are written
        ends = counts.cumsum()
        starts = ends - counts
        number = np.arange(ends[-1]) - (starts + skips).repeat(counts)  # of the part, -1 for a Skip
        modes = np.where(parts, np.uint8(Mode.FINGERPRINT), np.uint8(Mode.ID_LIST)).repeat(counts)
        modes[starts[skips]] = Mode.SKIP
        size, larger = np.divmod(self.high[rows] - self.low[rows], np.maximum(parts, 1))
        size, larger = size.repeat(counts), larger.repeat(counts)
        begin = self.low[rows].repeat(counts) + size * number + np.minimum(number, larger)
        end = begin + size + (number < larger)
        timestamps = np.empty(len(end), np.uint64)
        timestamps[ends - 1] = self.timestamps[rows]
        timestamps[starts[skips]] = np.append(self.timestamps, np.uint64(self.before[0]))[rows[skips] - 1]
        inner = modes != Mode.SKIP
        inner[ends - 1] = False
        places = inner.nonzero()[0]
        timestamps[places], found = self.storage.bounds(end[places])
        prefixes = {int(places[place]): prefix for place, prefix in found.items()}
        if self.prefixes or self.before[1]:
            own = zip((ends - 1).tolist(), rows.tolist(), strict=True)
            skipped = zip(starts[skips].tolist(), (rows[skips] - 1).tolist(), strict=True)
            bounds = (
                (place, self.bound(row)[1]) for place, row in chain(own, skipped) if row in self.prefixes or row < 0
            )
            prefixes.update(bounds)
        differences = np.diff(timestamps, prepend=np.uint64(last))
        asked = (modes == Mode.FINGERPRINT).nonzero()[0]
        listed = (modes == Mode.ID_LIST).nonzero()[0]
        lists = size[listed]
        ids = self.storage.ids_at(begin[listed].repeat(lists) + _within(lists))
        fingerprints = self.storage.fingerprints(begin[asked], end[asked])
        written, stops = _ranges(differences, prefixes, modes, fingerprints, lists, ids)
        return written, stops[ends - 1]


_RANGE_ALONE = re.compile(_RANGE.pattern.removesuffix(rb"|.+"), re.DOTALL)


def _lengths(message: bytes, at: int) -> I64:
    """The bytes of each range of a batch that begins at an offset, as far as the pattern goes."""
    lengths: list[int] = []
    stop = at + _BATCH_BYTES
    while at < stop and len(lengths) < _MOST_RANGES:
        found = _RANGE.findall(message, at, at + _PIECE_BYTES)
        if found and not _RANGE_ALONE.fullmatch(found[-1]):
            found.pop()
        if not found:
            break
        lengths += map(len, found)
        at += sum(lengths[-len(found) :])
    return np.array(lengths, np.int64)


def _numbers(raw: U8, at: I64) -> tuple[U64, I64]:
    """The numbers at these offsets, and the offsets behind them."""
    digits = raw[at]
    numbers = (digits & 0x7F).astype(np.uint64)
    at = at + 1
    more = (digits & 0x80).nonzero()[0]
    while len(more):
        digits = raw[at[more]]
        numbers[more] = numbers[more] << np.uint64(7) | (digits & 0x7F)
        at[more] += 1
        more = more[digits >= 0x80]
    return numbers, at


def _ascend(timestamps: U64, same: Bools, prefixes: dict[int, bytes], before: Bound) -> bool:
    """Whether bounds ascend, and stay below infinity. ``same``: where a timestamp is that of the bound before."""
    if int(timestamps[0]) < before[0] or int(timestamps.max()) == INFINITY or (timestamps[1:] < timestamps[:-1]).any():
        return False  # a sum of more than 64 bits
    for row in same.nonzero()[0].tolist():
        one = prefixes.get(row - 1, b"") if row else before[1]
        other = prefixes.get(row, b"")
        if other < one and other.ljust(ID_BYTES, b"\0") < one.ljust(ID_BYTES, b"\0"):
            return False
    return True


def _within(counts: I64) -> I64:
    """0, 1, ... up to before each count, one after the other."""
    return np.arange(int(counts.sum())) - (counts.cumsum() - counts).repeat(counts)


def _ranges(
    differences: U64, prefixes: dict[int, bytes], modes: U8, fingerprints: bytes, lists: I64, ids: Bytes
) -> tuple[bytes, I64]:
    """Ranges as bytes in a row, and where each ends. ``lists``: how many of the ids are in each list.

    Each byte goes where it belongs: the same byte of all ranges at once.
    """
    numbers = differences + np.uint64(1)
    digits = _DIGITS.searchsorted(numbers, "right") + 1
    prefixed = np.fromiter(prefixes, np.int64, len(prefixes))
    sizes = np.fromiter(map(len, prefixes.values()), np.int64, len(prefixes))
    hashed, listed = ((modes == mode).nonzero()[0] for mode in (Mode.FINGERPRINT, Mode.ID_LIST))
    bodies = digits + 2  # their lengths, for now without the body
    bodies[prefixed] += sizes
    lengths = bodies.copy()
    lengths[hashed] += FINGERPRINT_BYTES
    lengths[listed] += 1 + lists * ID_BYTES
    ends = lengths.cumsum()
    starts = ends - lengths
    bodies += starts
    out = np.zeros(int(ends[-1]), np.uint8)
    places = starts + digits  # of the lengths of prefixes
    out[places - 1] = numbers & np.uint64(0x7F)
    for digit in range(1, int(digits.max())):
        some = (digits > digit).nonzero()[0]
        out[places[some] - 1 - digit] = numbers[some] >> np.uint64(7 * digit) & np.uint64(0x7F) | np.uint64(0x80)
    places = places[prefixed]
    out[places] = sizes
    out[(places + 1).repeat(sizes) + _within(sizes)] = np.frombuffer(b"".join(prefixes.values()), np.uint8)
    out[bodies - 1] = modes
    if len(hashed):
        _windows(out, FINGERPRINT_BYTES)[bodies[hashed]] = np.frombuffer(fingerprints, f"V{FINGERPRINT_BYTES}")
    out[bodies[listed]] = lists
    if len(ids):
        _windows(out, ID_BYTES)[(bodies[listed] + 1).repeat(lists) + _within(lists) * ID_BYTES] = ids
    return out.tobytes(), ends


def _windows(data: U8 | bytes, size: int) -> Bytes:
    """Any ``size`` bytes in a row, as a view, because fingerprints and ids lie anywhere."""
    return np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
