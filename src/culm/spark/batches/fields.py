"""Many entries decoded at once (docs/specs/bamboo.md, "Entries"): arrays of fields instead of an object for each.

``Entry.decode`` looks at one entry at a time, so Python's overhead is paid for every field of every entry. Here all
entries of a batch are decoded together, column by column with numpy, or in one call of the native core: a thousand
entries cost here what ten cost there.

``Entry.decode`` stays the rule. ``Fields.decode`` finds the same records well-formed, with the same fields. Of the
others it only says that they are not entries; ``why_not`` asks ``Entry.decode`` for the reason.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from culm import native
from culm.bamboo import YAMF_BYTES, Entry
from culm.bamboo.entry import AUTHOR_BYTES, MAX_ENTRY_BYTES, SIGNATURE_BYTES, TAG_END_OF_LOG
from culm.bamboo.lipmaa import SPINE
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import EncodingError

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint64]

DIGEST_BYTES = 64  # of a BLAKE2b hash: a YAMF-hash without its two bytes of prefix

# Bytes behind the last record. Records are decoded without asking after each field whether the record has ended, so a
# record that is cut short is read beyond its end. An entry has fewer bytes than this, so reading stays in the array.
PADDING = 512

_LOG_AT = 1 + AUTHOR_BYTES  # where the log id begins, behind the tag and the author
_DIRECT = 247  # a VarU64 up to here is one byte; greater first bytes say how many bytes follow
_GREATEST_SPINE = 41  # the index of the last number of SPINE below 2^64, so the last that fits into a uint64


def padded(*parts: bytes | memoryview) -> Bytes:
    """Bytes, one part behind the other, and then ``PADDING`` zeros: the array that ``Fields.decode`` takes."""
    return np.frombuffer(b"".join([*parts, bytes(PADDING)]), np.uint8)


def lipmaa_of(seqs: Numbers) -> Numbers:
    """``culm.bamboo.lipmaa`` of each of many sequence numbers; none may be 0.

    All numbers walk down the scales of the spine together, one scale for each round of the loop. A number that ends a
    copy of the pattern at some scale has found its target there, and takes no part in the rounds that follow.
    """
    within = seqs.copy()
    found = np.zeros(len(seqs), np.uint64)
    if not len(seqs):
        return found
    open_ = np.ones(len(seqs), np.bool_)
    top = min(bisect_left(SPINE, int(seqs.max())), _GREATEST_SPINE)
    one = np.uint64(1)
    for scale in range(top, 0, -1):
        size = np.uint64(SPINE[scale])
        beyond = within > size
        if beyond.any():
            within[beyond] = (within[beyond] - one) % size + one
        here = open_ & (within == size)
        if here.any():
            whole = seqs[here] == size  # a spine number links to the spine number before
            found[here] = np.where(whole, np.uint64(SPINE[scale - 1]), seqs[here] - size)
            open_ &= ~here
    return found


@dataclass(slots=True, eq=False)
class Fields:
    """The fields of n records that stand in one array of bytes: columns of length n.

    ``start`` and ``end`` are where a record stands, ``lipmaalink``, ``backlink`` and ``payload_hash`` where the digest
    (64 bytes) of that field begins, -1 if the entry has none. ``target`` is the number that the lipmaalink goes to,
    also where it is left out. Of records that are not ``good`` only ``start`` and ``end`` mean anything.
    """

    data: Bytes
    start: Offsets
    end: Offsets
    good: Flags
    is_end: Flags
    log_id: Numbers
    seq: Numbers
    target: Numbers
    lipmaalink: Offsets
    backlink: Offsets
    size: Numbers
    payload_hash: Offsets

    @classmethod
    def decode(cls, data: Bytes, start: Offsets, end: Offsets) -> Fields:
        """Decode the records from ``start`` to before ``end`` in ``data``, which must be ``padded``. Never raises."""
        if native.core is not None:
            return cls._decoded_by(native.core, data, start, end)
        length = end - start
        good = (length > _LOG_AT) & (length <= MAX_ENTRY_BYTES)
        base = np.where(good, start, 0)  # a record of a wrong length is decoded somewhere safe, and stays not good
        tag = data[base]
        good &= tag <= TAG_END_OF_LOG
        log_id, at = _varu64(data, base + _LOG_AT, good)
        seq, at = _varu64(data, at, good)
        good &= seq > 0
        numbers = np.where(good, seq, np.uint64(1))
        target = lipmaa_of(numbers)
        has_backlink = numbers > 1
        lipmaalink, at = _hash(data, at, has_backlink & (target + np.uint64(1) < numbers), good)
        backlink, at = _hash(data, at, has_backlink, good)
        size, at = _varu64(data, at, good)
        payload_hash, at = _hash(data, at, np.ones(len(start), np.bool_), good)
        good &= at + SIGNATURE_BYTES == end
        return cls(
            data,
            start,
            end,
            good,
            tag == TAG_END_OF_LOG,
            log_id,
            numbers,
            target,
            lipmaalink,
            backlink,
            size,
            payload_hash,
        )

    @classmethod
    def _decoded_by(cls, core: native.Core, data: Bytes, start: Offsets, end: Offsets) -> Fields:
        """The same by the native core, which does not read beyond the end of a record."""
        columns = core.entries_at(data.data, start.tobytes(), end.tobytes())
        _, _, log_id, seq, target, lipmaalink, backlink, size, payload_hash, good, is_end = columns
        return cls(
            data,
            start,
            end,
            np.frombuffer(bytearray(good), np.bool_),
            np.frombuffer(is_end, np.bool_),
            np.frombuffer(log_id, np.uint64),
            np.frombuffer(bytearray(seq), np.uint64),  # the caller gives payload frames their numbers
            np.frombuffer(target, np.uint64),
            np.frombuffer(lipmaalink, np.int64),
            np.frombuffer(backlink, np.int64),
            np.frombuffer(size, np.uint64),
            np.frombuffer(payload_hash, np.int64),
        )

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Offsets | Flags | slice) -> Fields:
        """Some of the records, in the order given; ``data`` is shared, not copied."""
        return replace(self, **{name: getattr(self, name)[rows] for name in self._columns()})

    @classmethod
    def _columns(cls) -> list[str]:
        return [field.name for field in fields(cls) if field.name != "data"]

    def moved(self, data: Bytes, start: Offsets) -> Fields:
        """The same records where they begin at ``start`` in other bytes."""
        by = start - self.start
        return replace(
            self,
            data=data,
            start=start,
            end=self.end + by,
            lipmaalink=np.where(self.lipmaalink < 0, -1, self.lipmaalink + by),
            backlink=np.where(self.backlink < 0, -1, self.backlink + by),
            payload_hash=self.payload_hash + by,
        )

    @classmethod
    def joined(cls, parts: Sequence[Fields], data: Bytes, start: Offsets) -> Fields:
        """The fields of several parts, one behind the other; their records begin at ``start`` in ``data``."""
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in cls._columns()}
        return cls(data=data, **columns).moved(data, start)

    def authors(self) -> Bytes:
        """The authors: n rows of 32 bytes."""
        return cut(self.data, self.start + 1, AUTHOR_BYTES)


def why_not(encoded: bytes) -> str:
    """Why ``Entry.decode`` refuses bytes that ``Fields.decode`` found not ``good``.

    ``AssertionError`` if it takes them: then the two decoders differ, which is a bug of this module.
    """
    try:
        Entry.decode(encoded)
    except EncodingError as error:
        return f"not an entry: {error}"
    raise AssertionError("Fields.decode refuses an entry that Entry.decode takes")


def cut(data: Bytes, at: Offsets, size: int) -> Bytes:
    """The ``size`` bytes at each offset, a row for each, as a copy."""
    windows = np.lib.stride_tricks.sliding_window_view(data, size)
    return windows[at]


def _varu64(data: Bytes, at: Offsets, good: Flags) -> tuple[Numbers, Offsets]:
    """The canonical VarU64 at each offset, and the offset behind it; rows without one are no longer ``good``."""
    first = data[at]
    more = first > _DIRECT
    value = first.astype(np.uint64)
    behind = at + 1
    if more.any():
        rows = more.nonzero()[0]
        extra = first[rows].astype(np.int64) - _DIRECT
        following = cut(data, at[rows] + 1, 8).astype(np.uint64)
        weights = np.left_shift(np.uint64(1), np.arange(56, -8, -8, dtype=np.uint64))
        number = (following * weights).sum(axis=1, dtype=np.uint64) >> ((8 - extra) * 8).astype(np.uint64)
        value[rows] = number
        behind[rows] += extra
        shift = ((extra - 1) * 8).astype(np.uint64)
        good[rows] &= np.where(extra == 1, number > _DIRECT, number >> shift > 0)
    return value, behind


def _hash(data: Bytes, at: Offsets, there: Flags, good: Flags) -> tuple[Offsets, Offsets]:
    """Where the digest of the YAMF-hash at each offset begins, -1 where it is not ``there``, and the offset behind."""
    wrong = (data[at] != YAMF_PREFIX[0]) | (data[at + 1] != YAMF_PREFIX[1])
    good &= ~(wrong & there)
    return np.where(there, at + len(YAMF_PREFIX), -1), np.where(there, at + YAMF_BYTES, at)
