"""Reading a record index: a set far larger than memory, to reconcile (docs/spark-fingerprint.md).

Memory holds the fences, some hundred bytes for every 16,384 records, and the pages and blocks that were used last.
Everything else is read when it is asked for, and checked against the checksum of the level above. The files stay open,
so a set stays what it was when it was opened, even if another index takes the folder's place.
"""

import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from operator import lt
from pathlib import Path
from typing import NamedTuple, Self
from zlib import crc32

import numpy as np

from culm.errors import StoreDamaged
from culm.negentropy.codec import INFINITY
from culm.negentropy.storage import MODULUS_MASK, Storage
from culm.store.recordindex.manifest import (
    ABOVE_ALL,
    BLOCK,
    FENCE,
    KEY_BYTES,
    LONGEST,
    PAGE_BLOCKS,
    IndexFile,
    number_of,
    read_manifest,
)
from culm.store.recordindex.writer import running_sums, sum_at
from culm.store.records.index import key_id, key_timestamp, record_key

_PAGES_KEPT = 64  # of 10 KB each
_RECORDS_KEPT = 16_384  # in blocks: 700 KB, because a session asks for neighbouring records again and again


class _Fence(NamedTuple):
    """Where a page is, and its checksum."""

    file: int
    page: int
    checksum: int


class _Page(NamedTuple):
    """The entries of a page, a column each.

    ``keys`` and ``starts`` have one item more than there are blocks: where the block after the page begins. Starts are
    positions in the whole set.
    """

    file: int
    keys: tuple[bytes, ...]
    starts: tuple[int, ...]
    totals: tuple[int, ...]  # sums of the ids before each block, not yet reduced modulo 2^256
    checksums: tuple[int, ...]


class IndexStorage(Storage):
    """The records of an index as a ``culm.negentropy.Storage``. It may be used by several threads at once.

    ``view`` says which records it has. ``bytes_read`` and ``blocks_read`` count what was read of the files so far.

    ``StoreMissing`` if the folder is no index. ``StoreDamaged`` if its manifest or fences are damaged, and later as
    soon as a damaged part is read.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder)
        self.manifest = read_manifest(self.path)
        self.view = self.manifest.view
        self.block_records = self.manifest.block_records
        self.bytes_read = 0
        self.blocks_read = 0
        self._length = self.manifest.records
        self._total_of_all = self.manifest.total
        self._open_files = ExitStack()
        self._handles: list[int] = []
        self._before: list[tuple[int, int]] = []  # the number of records before each file, and the sum of their ids
        self._fences: list[_Fence] = []
        self._keys: list[bytes] = []  # the first key of each page, and one above all keys
        self._starts: list[int] = []  # the positions of these keys; the last is the number of records
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        self._page = lru_cache(_PAGES_KEPT)(self._read_page)
        blocks = max(4, _RECORDS_KEPT // self.block_records)
        self._block = lru_cache(blocks)(self._read_block)
        self._sums = lru_cache(blocks)(self._make_sums)

    def close(self) -> None:
        """Close the files."""
        self._open_files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- as a set to reconcile -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._length

    def position(self, timestamp: int, prefix: bytes, low: int) -> int:
        """The first position from ``low`` on whose record is not below a bound."""
        # A bound's prefix stands for the prefix followed by zeros, so the shorter byte string can be compared as it is.
        return self._length if timestamp == INFINITY else max(low, self.find(record_key(timestamp, prefix)))

    def timestamp(self, position: int) -> int:
        """The timestamp of a record."""
        return key_timestamp(self.key(position))

    def id(self, position: int) -> bytes:
        """The id of a record."""
        return key_id(self.key(position))

    def ids(self, low: int, high: int) -> bytes:
        """The ids of the records from ``low`` to before ``high``, joined."""
        return b"".join(
            np.frombuffer(keys, np.uint8).reshape(-1, KEY_BYTES)[:, 8:].tobytes() for keys in self._runs(low, high)
        )

    def total_before(self, position: int) -> int:
        """The sum of the ids before a position, not yet reduced modulo 2^256."""
        if position == self._length:
            return self._total_of_all
        number, slot, offset = self._locate(position)
        total = self._page(number).totals[slot]
        return total + sum_at(self._sums(number, slot), offset - 1) if offset else total

    # -- by keys and blocks ----------------------------------------------------------------------------------------

    def total(self, low: int, high: int) -> int:
        """The sum modulo 2^256 of the ids from ``low`` to before ``high``. Reads at most two blocks of records."""
        return (self.total_before(high) - self.total_before(low)) & MODULUS_MASK

    def find(self, key: bytes) -> int:
        """The first position whose key is not below ``key``, which may be a prefix. Reads at most one block."""
        number = bisect_right(self._keys, key) - 1
        if number < 0:
            return 0
        page = self._page(number)
        slot = bisect_right(page.keys, key, 0, len(page.totals)) - 1
        start = page.starts[slot]
        if page.keys[slot] == key:
            return start
        block = self._block(number, slot)
        places = range(0, len(block), KEY_BYTES)
        return start + bisect_left(places, key, key=lambda at: block[at : at + KEY_BYTES])

    def key(self, position: int) -> bytes:
        """The key of a record."""
        number, slot, offset = self._locate(position)
        if not offset:
            return self._page(number).keys[slot]
        return self._block(number, slot)[offset * KEY_BYTES : (offset + 1) * KEY_BYTES]

    def keys(self, low: int, high: int) -> Iterator[bytes]:
        """The keys from ``low`` to before ``high``."""
        for keys in self._runs(low, high):
            for at in range(0, len(keys), KEY_BYTES):
                yield keys[at : at + KEY_BYTES]

    def middle(self, low: int, high: int) -> int | None:
        """A position near the middle of ``low`` and ``high`` where a block begins; None if none begins between them."""
        middle = (low + high) // 2
        number, slot, _ = self._locate(middle)
        starts = self._page(number).starts
        inside = [start for start in starts[slot : slot + 2] if low < start < high]
        return min(inside, key=lambda start: abs(start - middle), default=None)

    def _locate(self, position: int) -> tuple[int, int, int]:
        """The page of a record, the block in the page, the place in the block."""
        number = bisect_right(self._starts, position) - 1
        starts = self._page(number).starts
        slot = bisect_right(starts, position) - 1
        return number, slot, position - starts[slot]

    def _runs(self, low: int, high: int) -> Iterator[bytes]:
        """The keys from ``low`` to before ``high``, joined for each block."""
        while low < high:
            number, slot, offset = self._locate(low)
            keys = self._block(number, slot)[offset * KEY_BYTES : (offset + high - low) * KEY_BYTES]
            yield keys
            low += len(keys) // KEY_BYTES

    # -- reading ---------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        start = total = 0
        for number, file in enumerate(self.manifest.files):
            self._handles.append(self._handle(file))
            self._before.append((start, total))
            self._read_fences(number, file)
            start += file.records
            total += number_of(file.total)
        self._keys.append(ABOVE_ALL)
        self._starts.append(start)
        if not (_ascend(self._keys) and _ascend(self._starts)):
            raise StoreDamaged(f"{self.path}: the index is damaged: the keys of its files overlap")

    def _handle(self, file: IndexFile) -> int:
        path = self.path / file.name
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size != file.size:
                raise StoreDamaged(f"{path}: the file has {status.st_size} bytes, but the manifest says {file.size}")
            handle = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise StoreDamaged(f"{path}: cannot be read: {error.strerror}") from None
        self._open_files.callback(os.close, handle)
        return handle

    def _read_fences(self, number: int, file: IndexFile) -> None:
        data = self._read(number, file.fences_at, file.pages * FENCE.size)
        if blake2b(data, digest_size=32).hexdigest() != file.checksum:
            raise self._damaged(number)
        for page, (key, before, checksum) in enumerate(FENCE.iter_unpack(data)):
            self._keys.append(key)
            self._starts.append(self._before[number][0] + before)
            self._fences.append(_Fence(number, page, checksum))

    def _read_page(self, number: int) -> _Page:
        fence = self._fences[number]
        file = self.manifest.files[fence.file]
        at = fence.page * PAGE_BLOCKS
        count = min(PAGE_BLOCKS, file.blocks - at)
        data = self._read(fence.file, file.table_at + at * BLOCK.size, count * BLOCK.size)
        keys, starts, totals, checksums = zip(*BLOCK.iter_unpack(data), strict=True)
        before, total_before = self._before[fence.file]
        page = _Page(
            fence.file,
            (*keys, self._keys[number + 1]),
            (*(before + start for start in starts), self._starts[number + 1]),
            tuple(total_before + int.from_bytes(total, "little") for total in totals),
            checksums,
        )
        firsts = page.keys[0], page.starts[0]
        longest = max(end - start for start, end in pairwise(page.starts))
        if (
            crc32(data) != fence.checksum
            or firsts != (self._keys[number], self._starts[number])
            or not (_ascend(page.keys) and _ascend(page.starts))
            or longest > LONGEST * self.block_records
        ):
            raise self._damaged(fence.file)
        return page

    def _read_block(self, number: int, slot: int) -> bytes:
        page = self._page(number)
        start, end = page.starts[slot : slot + 2]
        data = self._read(page.file, (start - self._before[page.file][0]) * KEY_BYTES, (end - start) * KEY_BYTES)
        self.blocks_read += 1
        keys = np.frombuffer(data, f"S{KEY_BYTES}")  # compares as bytes do
        ascend = data[-KEY_BYTES:] < page.keys[slot + 1] and bool((keys[:-1] < keys[1:]).all())
        if crc32(data) != page.checksums[slot] or data[:KEY_BYTES] != page.keys[slot] or not ascend:
            raise self._damaged(page.file)
        return data

    def _make_sums(self, number: int, slot: int) -> bytes:
        return running_sums(np.frombuffer(self._block(number, slot), np.uint8).reshape(-1, KEY_BYTES))

    def _read(self, file: int, offset: int, size: int) -> bytes:
        try:
            data = os.pread(self._handles[file], size, offset)
        except OSError as error:
            raise StoreDamaged(f"{self.path / self.manifest.files[file].name}: {error.strerror}") from None
        if len(data) != size:
            raise self._damaged(file)
        self.bytes_read += size
        return data

    def _damaged(self, file: int) -> StoreDamaged:
        return StoreDamaged(f"{self.path / self.manifest.files[file].name}: the file is damaged")


def _ascend(values: Sequence[bytes] | Sequence[int]) -> bool:
    return all(map(lt, values, values[1:]))
