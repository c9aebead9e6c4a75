"""A record index, a set of records as a folder: the format of its files, and writing them (docs/spark-fingerprint.md).

A pipeline over billions of entries ends in a set that no store holds and no memory can take. To reconcile it with a
peer, one must add up any range of it and find any record, with a few reads of a file, and the set must be writable by
many machines at once. An index is therefore a tree on disk, made of files that do not refer to each other::

    INDEX/index.json            the manifest: which files, how many records, their sum
    INDEX/records-…             one file for each range of keys: records, table of blocks, fences

A record is its *key*: the timestamp (8 bytes, big-endian) and the id (32 bytes). The tree of a file has three levels,
as a dictionary has pages, columns and words. The records stand in blocks. The table has an entry for each block, with
the sum of the ids before it. 128 entries of the table are a page, and a fence leads to each page. Each level holds the
checksums of the level below, and the manifest holds those of the fences and its own, so nothing is read unchecked.

Whether a record begins a new block depends on its id alone, and not on the number of records before it. Equal stretches
of two sets therefore have equal blocks, even if one set has a record more somewhere before. Two indexes can so be
compared block by block, and machines can write files of one set without knowing each other's records.
"""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

import numpy as np
import numpy.typing as npt

from culm.negentropy.codec import ID_BYTES
from culm.negentropy.storage import MODULUS_MASK
from culm.store.recordindex.manifest import (
    ABOVE_ALL,
    BLOCK,
    BLOCK_RECORDS,
    FENCE,
    KEY_BYTES,
    LONGEST,
    PAGE_BYTES,
    IndexFile,
    checked_block_records,
    hex_of,
)

Keys = npt.NDArray[np.uint8]


class FileWriter:
    """Writes a file of an index, from keys in ascending order. Memory: a batch, a block, and the table.

    The file's name is random, so that a task that is run twice, as Spark does, does not overwrite its own result.
    """

    def __init__(self, folder: Path, label: str = "records", block_records: int = BLOCK_RECORDS) -> None:
        self._block_records = checked_block_records(block_records)
        self._path = folder / f"{label}-{secrets.token_hex(8)}"
        self._temporary = self._path.with_name(f".{self._path.name}.part")
        self._stream: BinaryIO | None = None
        self._pending: Keys = np.empty((0, KEY_BYTES), np.uint8)  # the last block, to which more records may belong
        self._table = bytearray()
        self._records = 0
        self._total = 0
        self._last = b""

    def add(self, keys: Keys) -> None:
        """Take more records: n rows of 40 bytes, ascending. A record that was taken before is left out.

        ``ValueError`` if they do not ascend, or if a timestamp is 2^64 - 1, which stands for infinity.
        """
        keys = self._new(keys)
        if not len(keys):
            return
        pending = np.concatenate((self._pending, keys))
        starts = _starts(pending, self._block_records)
        self._write(pending, starts)
        self._pending = pending[starts[-1] :].copy()

    def finish(self) -> IndexFile | None:
        """Complete the file and give it its name. Without records there is no file, and the result is None."""
        if len(self._pending):
            self._write(self._pending, [0, len(self._pending)])
        if self._stream is None:
            return None
        table, fences = bytes(self._table), bytearray()
        for at in range(0, len(table), PAGE_BYTES):
            page = table[at : at + PAGE_BYTES]
            first, start, _, _ = BLOCK.unpack_from(page)
            fences += FENCE.pack(first, start, crc32(page))
        self._stream.write(table + fences)
        self._stream.close()
        self._temporary.rename(self._path)
        return IndexFile(
            self._path.name,
            self._records,
            len(table) // BLOCK.size,
            hex_of(self._total),
            table[:KEY_BYTES].hex(),
            self._last.hex(),
            blake2b(fences, digest_size=32).hexdigest(),
        )

    def discard(self) -> None:
        """Remove the file if it is not finished. A finished file stays."""
        if self._stream is not None:
            self._stream.close()
            self._temporary.unlink(missing_ok=True)

    def _new(self, keys: Keys) -> Keys:
        """The keys that were not taken before; ``keys`` ascend."""
        if not len(keys):
            return keys
        whole = np.ascontiguousarray(keys).view(f"S{KEY_BYTES}").reshape(-1)  # compares as bytes do
        if bool((whole[1:] < whole[:-1]).any()) or keys[0].tobytes() < self._last:
            raise ValueError("the records of an index have to ascend")
        fresh = np.ones(len(keys), np.bool_)
        fresh[1:] = whole[1:] != whole[:-1]
        fresh[0] = keys[0].tobytes() != self._last
        self._last = keys[-1].tobytes()
        if self._last >= ABOVE_ALL:
            raise ValueError("the timestamp 2^64 - 1 stands for infinity: no record can have it")
        return keys[fresh]

    def _write(self, keys: Keys, starts: Sequence[int]) -> None:
        """Write the blocks that begin at each of these places and end before the next."""
        if len(starts) < 2:
            return
        if self._stream is None:
            self._stream = self._temporary.open("wb")
        data = keys[: starts[-1]].tobytes()
        for total, (begin, end) in zip(_sums(keys[: starts[-1]], starts[:-1]), pairwise(starts), strict=True):
            block = data[begin * KEY_BYTES : end * KEY_BYTES]
            before = self._total.to_bytes(ID_BYTES, "little")
            self._table += BLOCK.pack(block[:KEY_BYTES], self._records, before, crc32(block))
            self._records += end - begin
            self._total = (self._total + total) & MODULUS_MASK
        self._stream.write(data)


def _starts(keys: Keys, block_records: int) -> list[int]:
    """Where blocks begin: at the first key, at keys whose last two bytes say so, and where a block would be too long.

    The last block may go on with later keys.
    """
    ends = keys[1:, -2].astype(np.uint16) << 8 | keys[1:, -1]
    marked = (np.flatnonzero(ends & (block_records - 1) == 0) + 1).tolist()
    longest = LONGEST * block_records
    return [at for begin, end in pairwise([0, *marked, len(keys)]) for at in range(begin, end, longest)]


_SUM_BYTES = 64  # of a packed sum: eight 64-bit numbers, see ``_lanes``


def running_sums(keys: Keys) -> bytes:
    """The sums of the first 1, 2, ... n ids, packed for ``sum_at``."""
    return np.cumsum(_lanes(keys), axis=0, dtype=np.uint64).tobytes()


def sum_at(sums: bytes, at: int) -> int:
    """The sum of the first ``at`` + 1 ids."""
    at *= _SUM_BYTES
    even, odd = sums[at : at + ID_BYTES], sums[at + ID_BYTES : at + _SUM_BYTES]
    return int.from_bytes(even, "little") + (int.from_bytes(odd, "little") << 32)


def _lanes(keys: Keys) -> npt.NDArray[np.uint32]:
    """The ids as columns of 32-bit numbers: the even ones of each id first, then the odd ones.

    numpy adds 64-bit numbers, but an id has 256 bits. 32-bit columns add up without overflow for 2^32 ids. Four even
    sums side by side are the bytes of one large number, because they lie 64 bits apart; so are the four odd sums.
    """
    return np.ascontiguousarray(keys[:, 8:]).view("<u4")[:, [0, 2, 4, 6, 1, 3, 5, 7]]


def _sums(keys: Keys, starts: Sequence[int]) -> list[int]:
    """The sums of the ids from each start to before the next one."""
    sums = np.add.reduceat(_lanes(keys), starts, axis=0, dtype=np.uint64).tobytes()
    return [sum_at(sums, at) for at in range(len(starts))]
