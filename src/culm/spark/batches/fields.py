"""Many entries at once (docs/specs/bamboo.md, "Entries"): decoded, hashed, and their signatures checked.

Nine tenths of the time of a verification go here. So each of these is one function, from bytes with many entries in
them, and where each begins and ends, to columns: an object for each entry would cost more than the work itself. The
native core decodes and hashes all entries of a batch in one call. Without it numpy decodes them, column by column.

``Entry.decode`` stays the rule. ``Fields.decode`` finds the same records well-formed, with the same fields. Of the
others it only says that they are not entries; ``why_not`` asks ``Entry.decode`` for the reason.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Self, get_args, get_type_hints

import numpy as np
import numpy.typing as npt

from culm import native
from culm.bamboo import YAMF_BYTES, Entry
from culm.bamboo.entry import AUTHOR_BYTES, MAX_ENTRY_BYTES, SIGNATURE_BYTES, TAG_END_OF_LOG
from culm.bamboo.lipmaa import SPINE
from culm.bamboo.verification import are_signed
from culm.bamboo.yamf import YAMF_PREFIX
from culm.errors import EncodingError

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Offsets = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint64]

DIGEST_BYTES = 64  # of a BLAKE2b hash: a YAMF-hash without its two bytes of prefix

_DIRECT = 247  # a VarU64 up to here is one byte; greater first bytes say how many bytes follow
_GREATEST_SPINE = 41  # the index of the last number of SPINE below 2^64, so the last that fits into a uint64


def padded(*parts: bytes | memoryview) -> Bytes:
    """Bytes, one part behind the other, and some zeros behind them, so that ``cut`` stays in the array.

    Where a record that is no entry has too few bytes for a hash, one can be cut out all the same.
    """
    return np.frombuffer(b"".join([*parts, bytes(DIGEST_BYTES)]), np.uint8)


def lipmaa_of(seqs: Numbers) -> Numbers:
    """``culm.bamboo.lipmaa`` of each of many sequence numbers; none may be 0.

    All numbers walk down the scales of the spine together, one scale for each round of the loop. A number that ends a
    copy of the pattern at some scale has found its target there, and takes no part in the rounds that follow.
    """
    within, found, is_open = seqs.copy(), np.zeros(len(seqs), np.uint64), np.ones(len(seqs), np.bool_)
    top = min(bisect_left(SPINE, int(seqs.max(initial=1))), _GREATEST_SPINE)
    for scale in range(top, 0, -1):
        size = SPINE[scale]
        beyond = within > size
        within[beyond] = (within[beyond] - 1) % size + 1
        here = is_open & (within == size)
        found[here] = np.where(seqs[here] == size, SPINE[scale - 1], seqs[here] - size)  # a spine number, or another
        is_open &= ~here
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
    log_id: Numbers
    seq: Numbers
    target: Numbers
    lipmaalink: Offsets
    backlink: Offsets
    size: Numbers
    payload_hash: Offsets
    good: Flags
    is_end: Flags

    @classmethod
    def decode(cls, data: Bytes, start: Offsets, end: Offsets) -> Self:
        """Decode the records from ``start`` to before ``end`` in ``data``. Never raises."""
        if native.core is not None:
            found = native.core.entries_at(data.data, start.tobytes(), end.tobytes())[2:]
            columns = [np.frombuffer(bytearray(one), kind) for one, kind in zip(found, _KINDS.values(), strict=True)]
        else:
            columns = _decoded(np.append(data, np.zeros(MAX_ENTRY_BYTES, np.uint8)), start, end)
        return cls(data, start, end, *columns)

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: Offsets | Flags | slice) -> Self:
        """Some of the records, in the order given; ``data`` is shared, not copied."""
        return replace(self, **{name: getattr(self, name)[rows] for name in ("start", "end", *_KINDS)})

    def authors(self) -> Bytes:
        """The authors: n rows of 32 bytes."""
        return cut(self.data, self.start + 1, AUTHOR_BYTES)


_KINDS = {name: get_args(get_args(kind)[1])[0] for name, kind in [*get_type_hints(Fields).items()][3:]}
"""The columns that are found in a record, in the order of the native core's (``culm.native.Core.entries_at``)."""


def why_not(encoded: bytes) -> str:
    """Why ``Entry.decode`` refuses bytes that ``Fields.decode`` found not ``good``.

    ``AssertionError`` if it takes them: then the two decoders differ, which is a bug of this module.
    """
    try:
        Entry.decode(encoded)
    except EncodingError as error:
        return f"not an entry: {error}"
    raise AssertionError("Fields.decode refuses an entry that Entry.decode takes")


def digests(data: Bytes, start: Offsets, end: Offsets) -> Bytes:
    """The digests of n records, without the YAMF prefix: n rows of 64 bytes."""
    if native.core is not None:
        found = native.core.digests(data.data, start.tobytes(), end.tobytes())
    else:
        found = b"".join([blake2b(record).digest() for record in _records(data, start, end)])
    return np.frombuffer(found, np.uint8).reshape(len(start), DIGEST_BYTES)


def signed(data: Bytes, start: Offsets, end: Offsets) -> Flags:
    """Whether each of n entries is signed by its author. The entries must be well-formed (``Fields.good``)."""
    return np.array(are_signed(list(map(bytes, _records(data, start, end)))), np.bool_)


def _records(data: Bytes, start: Offsets, end: Offsets) -> Iterator[memoryview]:
    view = data.data
    return (view[low:high] for low, high in zip(start.tolist(), end.tolist(), strict=True))


def cut(data: Bytes, at: Offsets, size: int) -> Bytes:
    """The ``size`` bytes at each offset, a row for each, as a copy."""
    windows = np.lib.stride_tricks.sliding_window_view(data, size)
    return windows[at]


def _decoded(data: Bytes, start: Offsets, end: Offsets) -> list[npt.NDArray[Any]]:
    """The columns of ``_KINDS``.

    Nothing asks after each field whether the record has ended. So a record that is cut short is read beyond its end,
    and ``data`` has as many bytes behind the last one as an entry can have.
    """
    length = end - start
    good = (length > 1 + AUTHOR_BYTES) & (length <= MAX_ENTRY_BYTES)
    base = np.where(good, start, 0)  # a record of a wrong length is decoded somewhere safe, and stays not good
    tag = data[base]
    good &= tag <= TAG_END_OF_LOG
    log_id, at = _varu64(data, base + 1 + AUTHOR_BYTES, good)
    seq, at = _varu64(data, at, good)
    good &= seq > 0
    seq = np.where(good, seq, np.uint64(1))
    target = lipmaa_of(seq)
    lipmaalink, at = _hash(data, at, target + 1 < seq, good)
    backlink, at = _hash(data, at, seq > 1, good)
    size, at = _varu64(data, at, good)
    payload_hash, at = _hash(data, at, np.ones(len(start), np.bool_), good)
    good &= at + SIGNATURE_BYTES == end
    return [log_id, seq, target, lipmaalink, backlink, size, payload_hash, good, tag == TAG_END_OF_LOG]


def _varu64(data: Bytes, at: Offsets, good: Flags) -> tuple[Numbers, Offsets]:
    """The canonical VarU64 at each offset, and the offset behind it; rows without one are no longer ``good``."""
    value, behind = data[at].astype(np.uint64), at + 1
    rows = (value > _DIRECT).nonzero()[0]
    if len(rows):
        extra = value[rows] - _DIRECT  # bytes that follow
        value[rows] = number = cut(data, behind[rows], 8).view(">u8")[:, 0] >> (8 - extra) * 8
        behind[rows] += extra.astype(np.int64)
        good[rows] &= np.where(extra == 1, number > _DIRECT, number >> (extra - 1) * 8 > 0)
    return value, behind


def _hash(data: Bytes, at: Offsets, there: Flags, good: Flags) -> tuple[Offsets, Offsets]:
    """Where the digest of the YAMF-hash at each offset begins, -1 where it is not ``there``, and the offset behind."""
    wrong = (data[at] != YAMF_PREFIX[0]) | (data[at + 1] != YAMF_PREFIX[1])
    good &= ~(wrong & there)
    return np.where(there, at + len(YAMF_PREFIX), -1), np.where(there, at + YAMF_BYTES, at)
