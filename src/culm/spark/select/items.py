"""The step in which pieces meet the entries they denote, in a worker, block by block.

The rows of a block come sorted: first its verified entries, then the pieces, by requester. Pieces are laid out as pairs
of a piece and a number, thousands at a time with numpy, but a bounded number, so that memory stays bounded. Numbers
without an entry are gaps. Several pieces of one requester may denote the same entry; since they follow each other,
their pairs are merged into one item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.spark.batches.arrays import decimals, fixed_binary, hashes, names
from culm.spark.batches.fields import Flags, Offsets
from culm.spark.batches.pack import BLOCK_BITS, Pack
from culm.spark.batches.payload import HELD, STATES, rank
from culm.spark.batches.records import Records
from culm.spark.runtime.columns import Batch, Unsigned
from culm.spark.select.places import NOT_HELD, OFFSET_BITS, Gap, batch_of, numbers_of
from culm.spark.select.requests import CERTIFICATE, METADATA, PAYLOAD
from culm.store.schema import from_sql

Key = tuple[bytes, int, int, int]  # author, log, block and share
Wants = npt.NDArray[np.uint8]


class Item(NamedTuple):
    """An entry that a requester gets: a row of ``culm.spark.select.Selection.items``.

    =============  =============  ================================================================================
    requester      STRING
    author         BINARY         32 bytes
    log_id         DECIMAL(20,0)
    seqnum         DECIMAL(20,0)
    metadata       BOOLEAN        the entry itself is wanted
    payload        BOOLEAN        its payload is wanted
    certificate    BOOLEAN        the entry is wanted only to verify others
    entry_hash     BINARY         YAMF-hash, 66 bytes
    size           DECIMAL(20,0)  of the payload, as the entry claims
    payload_hash   BINARY         66 bytes
    payload_state  STRING         what is known of the payload (``batches.payload.STATES``)
    encoded        BINARY         the entry
    =============  =============  ================================================================================

    Each entry is there once for a requester, however many ranges denote it. The newest entry of a log, by which open
    ranges end, is its greatest verified one.
    """

    requester: str
    author: bytes
    log_id: Unsigned
    seqnum: Unsigned
    metadata: bool
    payload: bool
    certificate: bool
    entry_hash: bytes
    size: Unsigned
    payload_hash: bytes
    payload_state: str
    encoded: bytes | None


class ItemCounts(NamedTuple):
    """How many items a batch has, how many of them of some kind."""

    items: int
    certificates: int
    payloads: int
    payloads_held: int


_KEY = ("author", "log", "block", "share")

# Pairs of a piece and an entry that are laid out at once. A single piece may exceed it, but has at most 4,096 pairs.
# More at once would take more memory of the worker; far fewer would lose the speed of whole columns.
_PAIRS = 1 << 16

_NONE = bytes([0, 0, 0, 0, 1])  # an encoded ``Pack`` that has no entries, and digests for all of them


def chosen(batches: Iterable[pa.RecordBatch], *, encoded: bool = True) -> Iterator[Batch | ItemCounts]:
    """Batches of ``Together``, sorted by block, share and requester, to batches of ``Item``, each with its counts.

    Numbers that a piece denotes and that no entry has become batches of ``Gap``. ``encoded``: with the entries' bytes.
    """
    block: _Block | None = None
    key: Key | None = None
    for batch in batches:
        for low, high in _groups(batch):
            here: Key = tuple(batch.column(name)[low].as_py() for name in _KEY)
            at = low
            if here != key:
                if block is not None:
                    yield from block.finish()
                has_entries = not batch.column("requester")[low].is_valid
                entries = Pack.decode(batch.column("numbers")[low].as_py() if has_entries else _NONE)
                key, block = here, _Block(here, Records(entries), encoded=encoded)
                at += has_entries
            if block is not None and at < high:
                yield from block.take(batch.slice(at, high - at))
    if block is not None:
        yield from block.finish()


def _groups(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """The stretches of a batch that are of one block and share: the first row, and the one behind the last."""
    count = len(batch)
    changed = np.zeros(max(count, 1), np.bool_)
    changed[0] = count > 0
    for name in _KEY:
        column = batch.column(name)
        changed[1:] |= np.asarray(compute.not_equal(column[1:], column[:-1]))
    starts = changed.nonzero()[0].tolist()
    yield from zip(starts, [*starts[1:], count], strict=True)


class _Block:
    """One block while its pieces pass by, sorted by requester.

    The items of the last requester wait, because the next batch may have more of its pieces.
    """

    def __init__(self, key: Key, entries: Records, *, encoded: bool) -> None:
        self._author, self._log, block, _ = key
        self._base = np.uint64(block << BLOCK_BITS)
        self._entries = entries
        self._encoded = encoded
        self._row_of = np.full(1 << BLOCK_BITS, -1, np.int32)
        self._row_of[(entries.seq - self._base).astype(np.int64)] = np.arange(len(entries), dtype=np.int32)
        self._waiting: str | None = None
        self._rows = np.zeros(0, np.int64)  # of what waits: ascending, with what is wanted of each
        self._wants = np.zeros(0, np.uint8)
        self._columns: tuple[pa.Array, ...] | None = None

    def take(self, pieces: pa.RecordBatch) -> Iterator[Batch | ItemCounts]:
        """Take more pieces; yields the items of all requesters but the last."""
        count = self._counts(pieces)
        total = np.cumsum(count)
        at = done = 0
        while at < len(count):
            behind = max(at + 1, int(np.searchsorted(total, done + _PAIRS, "right")))
            yield from self._take(pieces.slice(at, behind - at), count[at:behind])
            at, done = behind, int(total[behind - 1])

    def finish(self) -> Iterator[Batch | ItemCounts]:
        """Yield the items of the last requester, when the block has no more pieces."""
        if len(self._rows):
            requesters = pa.array([self._waiting], pa.string())
            yield from self._items(requesters, np.zeros(len(self._rows), np.int64), self._rows, self._wants)
        self._rows, self._wants = self._rows[:0], self._wants[:0]

    def _counts(self, pieces: pa.RecordBatch) -> Offsets:
        """How many numbers each piece denotes, held or not."""
        span = numbers_of(pieces.column("last")) - numbers_of(pieces.column("first")) + np.uint64(1)
        listed = np.asarray(compute.fill_null(compute.binary_length(pieces.column("numbers")), -1))
        counts: Offsets = np.where(listed >= 0, listed // 2, span.astype(np.int64))
        return counts

    def _take(self, pieces: pa.RecordBatch, count: Offsets) -> Iterator[Batch | ItemCounts]:
        piece, offset, wants = _pairs(pieces, count, self._base)
        rows = self._row_of[offset].astype(np.int64)
        lacking = (rows < 0).nonzero()[0]
        if len(lacking):
            yield self._gaps(pieces, piece[lacking], offset[lacking])
        piece, rows, wants = self._wanted(pieces, piece, rows, wants)
        requesters = pieces.column("requester")
        waiting = requesters[:1] if self._waiting is None else pa.array([self._waiting], pa.string())
        named = pa.concat_arrays([waiting, requesters]).dictionary_encode()  # numbers in this order, as they are sorted
        who = np.concatenate((np.zeros(len(self._rows), np.int64), np.asarray(named.indices)[1:][piece]))
        rows, wants = np.concatenate((self._rows, rows)), np.concatenate((self._wants, wants))
        who, rows, wants = _once(who, rows, wants, len(self._entries))
        last = int(np.searchsorted(who, len(named.dictionary) - 1))
        self._waiting, self._rows, self._wants = requesters[-1].as_py(), rows[last:], wants[last:]
        if last:
            yield from self._items(named.dictionary, who[:last], rows[:last], wants[:last])

    def _gaps(self, pieces: pa.RecordBatch, piece: Offsets, offset: Offsets) -> Batch:
        """The pairs of a piece and a number that is not held, as runs of neighbours."""
        begins = np.append(True, (np.diff(piece) != 0) | (np.diff(offset) != 1)).nonzero()[0]
        ends = np.append(begins[1:], len(offset)) - 1
        first, last = (offset[at].astype(np.uint64) + self._base for at in (begins, ends))
        return batch_of(Gap, pieces, piece[begins], reason=[NOT_HELD] * len(begins), first=first, last=last)

    def _wanted(
        self, pieces: pa.RecordBatch, piece: Offsets, rows: Offsets, wants: Wants
    ) -> tuple[Offsets, Offsets, Wants]:
        """The pairs whose entry is held and wanted, at least in part."""
        there = rows >= 0
        piece, rows, wants = piece[there], rows[there], wants[there]
        wants[~self._fits(pieces, piece, rows)] &= np.uint8(255 - PAYLOAD)
        some = wants != 0
        return piece[some], rows[some], wants[some]

    def _fits(self, pieces: pa.RecordBatch, piece: Offsets, rows: Offsets) -> Flags:
        """Whether the entries' payloads are of the sizes that the pieces ask for."""
        least, limit = numbers_of(pieces.column("least")), numbers_of(pieces.column("limit"))
        if not (least.any() or limit.any()):
            return np.ones(len(piece), np.bool_)
        size, most = self._entries.fields.size[rows], limit[piece]
        fits: Flags = (least[piece] <= size) & ((most == 0) | (size < most))
        return fits

    def _items(self, requesters: pa.Array, who: Offsets, rows: Offsets, wants: Wants) -> Iterator[Batch | ItemCounts]:
        """A batch of ``Item``. The entries' columns are made once for a block, and rows taken from them."""
        entries, count = self._entries, len(rows)
        if self._columns is None:
            payload_hash = entries.digests[entries.fields.payload_hash]
            self._columns = hashes(entries.digest), hashes(payload_hash), _encoded(entries.pack)
        at = pa.array(rows)
        entry_hash, payload_hash, records = self._columns
        metadata, payload = (wants & (METADATA | CERTIFICATE)) != 0, (wants & PAYLOAD) != 0
        certificate = metadata & ((wants & METADATA) == 0)
        state = entries.pack.payload[rows]
        data = pa.record_batch(
            [
                requesters.take(pa.array(who)),
                fixed_binary(np.broadcast_to(np.frombuffer(self._author, np.uint8), (count, len(self._author)))),
                decimals(np.full(count, from_sql(self._log), np.uint64)),
                decimals(entries.seq[rows]),
                pa.array(metadata),
                pa.array(payload),
                pa.array(certificate),
                entry_hash.take(at),
                decimals(entries.fields.size[rows]),
                payload_hash.take(at),
                names(STATES, state),
                records.take(at) if self._encoded else pa.nulls(count, pa.binary()),
            ],
            names=list(Item._fields),
        )
        payloads_held = int((payload & (state == rank(HELD))).sum())
        yield Batch(Item, data)
        yield ItemCounts(count, int(certificate.sum()), int(payload.sum()), payloads_held)


def _encoded(pack: Pack) -> pa.Array:
    """The entries' bytes as a binary array, one value for each entry; they follow each other in the pack."""
    bounds = np.append(pack.start, pack.end[-1:]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(pack), [None, pa.py_buffer(bounds), pa.py_buffer(pack.data)])


def _pairs(pieces: pa.RecordBatch, count: Offsets, base: np.uint64) -> tuple[Offsets, Offsets, Wants]:
    """All pairs of a piece and a number that it denotes: the piece, the number above ``base``, what is wanted."""
    piece = np.repeat(np.arange(len(count)), count)
    begin = np.cumsum(count) - count
    listed = np.asarray(pieces.column("numbers").is_valid())
    first = (numbers_of(pieces.column("first")) - base).astype(np.int64)
    offset = np.arange(len(piece)) - np.repeat(begin - np.where(listed, 0, first), count)
    wants = np.asarray(pieces.column("wants").fill_null(0)).astype(np.uint8)[piece]
    if listed.any():
        values = _listed(pieces.column("numbers"))
        of_list = listed[piece]
        offset[of_list] = values & ((1 << OFFSET_BITS) - 1)
        wants[of_list] = values >> OFFSET_BITS
    return piece, offset, wants


def _listed(numbers: pa.Array) -> npt.NDArray[np.int64]:
    """The u16s of all values, one behind the other."""
    _, offsets, data = numbers.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(numbers) + 1, numbers.offset * 4)
    return np.frombuffer(data, "<u2", (int(bounds[-1]) - int(bounds[0])) // 2, int(bounds[0])).astype(np.int64)


def _once(who: Offsets, rows: Offsets, wants: Wants, count: int) -> tuple[Offsets, Offsets, Wants]:
    """The pairs of requester and entry, ascending, each once with all that is wanted of it.

    ``count`` is the number of entries of the block; it makes one number of a pair, which sorts faster than two.
    """
    key = who * count + rows
    order = np.argsort(key, kind="stable")
    key = key[order]
    if not len(key):
        return who, rows, wants
    firsts = np.append(True, key[1:] != key[:-1]).nonzero()[0]
    return who[order][firsts], rows[order][firsts], np.bitwise_or.reduceat(wants[order], firsts)
