"""The pass in which pieces meet the entries they denote, in a worker, block by block and thousands at once.

The rows of a block come sorted: first the block's verified entries, then the pieces, by requester. Pieces are laid out
as pairs of a piece and an entry, a bounded number at a time; the pairs of one requester and entry become one item.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from culm.spark.arrays import decimals, fixed_binary, hashes, names
from culm.spark.columns import UNSIGNED, Columns
from culm.spark.fields import DIGEST_BYTES
from culm.spark.findings import Findings
from culm.spark.merge import Outcome
from culm.spark.pack import BLOCK_BITS, Pack
from culm.spark.payload import STATES
from culm.spark.records import Records
from culm.spark.segment import Summary
from culm.spark.select_pieces import OFFSET_BITS, numbers_of
from culm.spark.select_requests import CERTIFICATE, METADATA, PAYLOAD
from culm.spark.verdicts import JudgedSegment
from culm.store.schema import from_sql, to_sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt
    import pyarrow as pa

    from culm.spark.fields import Bytes, Flags, Numbers, Offsets

    Row = tuple[Any, ...]
    Wants = npt.NDArray[np.uint8]

SEGMENT = Columns(author="BINARY", log="BIGINT", block="BIGINT", summary="BINARY", findings="BINARY", outcome="BINARY")
"""A segment with its outcome."""

BLOCKS = Columns(author="BINARY", log="BIGINT", block="BIGINT", newest="BIGINT", ends="BOOLEAN", bits="BINARY")
"""A block with verified entries: the greatest, whether that is the block's last number, and which are there.

``bits`` has a bit for each number of the block; null if up to the greatest none is missing.
"""

HELD = Columns(
    author="BINARY",
    log="BIGINT",
    block="BIGINT",
    shares="BIGINT",
    summary="BINARY",
    packed="BINARY",
    outcome="BINARY",
)
"""A segment with its entries, its outcome, and how many tasks share in the block's pieces."""

TOGETHER = Columns(
    author="BINARY",
    log="BIGINT",
    block="BIGINT",
    share="BIGINT",
    requester="STRING",
    wants="TINYINT",
    least="BIGINT",
    limit="BIGINT",
    first="BIGINT",
    last="BIGINT",
    numbers="BINARY",
)
"""Pieces as in ``PIECES``, and before those of a block its verified entries: no requester, ``numbers`` a ``Held``."""

ITEMS = Columns(
    requester="STRING",
    author="BINARY",
    log_id=UNSIGNED,
    seqnum=UNSIGNED,
    metadata="BOOLEAN",
    payload="BOOLEAN",
    certificate="BOOLEAN",
    entry_hash="BINARY",
    size=UNSIGNED,
    payload_hash="BINARY",
    payload_state="STRING",
    encoded="BINARY",
)
"""The columns of ``culm.spark.select.select``."""

_PAIRS = 1 << 16  # laid out at once; a piece makes at most a block of them
_COUNT_BYTES = 4


# -- what is held of a block -------------------------------------------------------------------------------------


def present(rows: Iterable[Row]) -> Iterator[Row]:
    """``SEGMENT`` to ``BLOCKS``; blocks without verified entries are left out."""
    for author, log, block, summary, findings, outcome in rows:
        found = Findings.decode(findings)
        verified = found.seq[_verified(author, log, found, summary, outcome)]
        if not len(verified):
            continue
        newest = int(verified[-1])
        mask = np.zeros(1 << BLOCK_BITS, np.bool_)
        mask[_offsets(verified)] = True
        first = max(1, block << BLOCK_BITS)
        whole = newest - first + 1 == len(verified)
        ends = newest == ((block + 1) << BLOCK_BITS) - 1
        yield author, log, block, to_sql(newest), ends, None if whole else np.packbits(mask).tobytes()


def held(rows: Iterable[Row]) -> Iterator[Row]:
    """``HELD`` to rows of ``TOGETHER``, one for each share."""
    for author, log, block, shares, summary, packed, outcome in rows:
        records = Records(Pack.decode(packed))
        found = Findings.of(records)
        verified = _verified(author, log, found, summary, outcome)
        if verified.any():
            data = Held.of(records, found, verified).encode()
            for share in range(shares):
                yield author, log, block, share, None, None, None, None, None, None, data


def _verified(author: bytes, log: int, found: Findings, summary: bytes, outcome: bytes) -> Flags:
    judged = JudgedSegment(author, from_sql(log), found, Summary.decode(summary), Outcome.decode(outcome))
    verified: Flags = judged.verdict == 0
    return verified


def _offsets(seq: Numbers) -> npt.NDArray[np.int64]:
    return (seq & np.uint64((1 << BLOCK_BITS) - 1)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The verified entries of a block: columns of length n, ascending by number, and their bytes.

    ``offset`` counts from the block's first number, digests are n rows of 64 bytes, ``state`` has ranks of
    ``culm.spark.payload.STATES``.
    """

    offset: npt.NDArray[np.uint16]
    size: Numbers
    digest: Bytes
    payload_hash: Bytes
    state: npt.NDArray[np.int8]
    length: npt.NDArray[np.uint16]
    data: bytes

    @classmethod
    def of(cls, records: Records, found: Findings, verified: Flags) -> Held:
        """Some of the entries among records, of which the findings are known."""
        rows = records.is_entry.nonzero()[0][verified]
        pack = records.pack.take(rows)
        length = pack.end - pack.start
        return cls(
            _offsets(found.seq[verified]).astype(np.uint16),
            found.size[verified],
            found.digest[verified],
            found.payload_hash[verified],
            found.payload[verified].astype(np.int8),
            length.astype(np.uint16),
            pack.data[: int(length.sum())].tobytes(),
        )

    def encode(self) -> bytes:
        """The entries as bytes: a count (u32), then the columns, little-endian."""
        columns = [np.ascontiguousarray(getattr(self, name)).tobytes() for name in _KINDS]
        return len(self.offset).to_bytes(_COUNT_BYTES, "little") + b"".join(columns) + self.data

    @classmethod
    def decode(cls, data: bytes) -> Held:
        """Read what ``encode`` wrote."""
        count, at = int.from_bytes(data[:_COUNT_BYTES], "little"), _COUNT_BYTES
        columns: list[Any] = []
        for kind, width in _KINDS.values():
            column = np.frombuffer(data, kind, count * width, at)
            at += column.nbytes
            columns.append(column.reshape(count, width) if width > 1 else column)
        columns.append(data[at:])
        return cls(*columns)

    def records(self) -> pa.Array:
        """The entries' bytes, one value each."""
        import pyarrow as pa

        bounds = np.append(0, np.cumsum(self.length, dtype=np.int32)).astype(np.int32)
        return pa.Array.from_buffers(
            pa.binary(), len(self.length), [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        )


_KINDS: dict[str, tuple[str, int]] = dict(
    zip(
        (field.name for field in fields(Held)),
        [("<u2", 1), ("<u8", 1), ("u1", DIGEST_BYTES), ("u1", DIGEST_BYTES), ("i1", 1), ("<u2", 1)],
        strict=False,  # the bytes themselves are no column
    )
)


# -- pieces and entries ---------------------------------------------------------------------------------------------


def chosen(*, encoded: bool = True) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """``TOGETHER``, sorted by block, share and requester, entries first, to ``ITEMS``, with their bytes if wanted."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        block: _Block | None = None
        key: Row | None = None
        for batch in batches:
            for low, high in _groups(batch):
                here = tuple(batch.column(name)[low].as_py() for name in ("author", "log", "block", "share"))
                at = low
                if here != key:
                    if block is not None:
                        yield from block.finish()
                    key, block = here, None
                    if not batch.column("requester")[low].is_valid:
                        block = _Block(here, Held.decode(batch.column("numbers")[low].as_py()), encoded=encoded)
                        at += 1
                if block is not None and at < high:
                    yield from block.take(batch.slice(at, high - at))
        if block is not None:
            yield from block.finish()

    return run


def _groups(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """The rows of a batch that are of one block and share: the first, and the one behind the last."""
    from pyarrow import compute

    count = len(batch)
    changed = np.zeros(max(count, 1), np.bool_)
    changed[0] = count > 0
    for name in ("author", "log", "block", "share"):
        column = batch.column(name)
        changed[1:] |= np.asarray(compute.not_equal(column[1:], column[:-1]))
    starts = changed.nonzero()[0].tolist()
    yield from zip(starts, [*starts[1:], count], strict=True)


class _Block:
    """One block as its pieces pass by, sorted by requester.

    The last requester's items wait: more of its pieces may come.
    """

    def __init__(self, key: Row, entries: Held, *, encoded: bool) -> None:
        self._author, self._log, block, _ = key
        self._base = np.uint64(block << BLOCK_BITS)
        self._entries = entries
        self._encoded = encoded
        self._row_of = np.full(1 << BLOCK_BITS, -1, np.int32)
        self._row_of[entries.offset] = np.arange(len(entries.offset), dtype=np.int32)
        self._waiting: str | None = None
        self._rows = np.zeros(0, np.int64)  # of what waits: ascending, with what is wanted of each
        self._wants = np.zeros(0, np.uint8)
        self._columns: tuple[pa.Array, ...] | None = None

    def take(self, pieces: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """More pieces; the items that are complete."""
        count = self._counts(pieces)
        total = np.cumsum(count)
        at = done = 0
        while at < len(count):
            behind = max(at + 1, int(np.searchsorted(total, done + _PAIRS, "right")))
            yield from self._take(pieces.slice(at, behind - at), count[at:behind])
            at, done = behind, int(total[behind - 1])

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The items of the last requester."""
        import pyarrow as pa

        if len(self._rows):
            requesters = pa.array([self._waiting], pa.string())
            yield self._batch(requesters, np.zeros(len(self._rows), np.int64), self._rows, self._wants)
        self._rows, self._wants = self._rows[:0], self._wants[:0]

    def _counts(self, pieces: pa.RecordBatch) -> Offsets:
        """How many numbers each piece has."""
        from pyarrow import compute

        span = numbers_of(pieces.column("last")) - numbers_of(pieces.column("first")) + np.uint64(1)
        listed = np.asarray(compute.fill_null(compute.binary_length(pieces.column("numbers")), -1))
        counts: Offsets = np.where(listed >= 0, listed // 2, span.astype(np.int64))
        return counts

    def _take(self, pieces: pa.RecordBatch, count: Offsets) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        piece, rows, wants = self._pairs(pieces, count)
        run, requesters = _runs(pieces.column("requester"))
        shift = 1
        if len(self._rows) and requesters[0].as_py() == self._waiting:
            shift = 0
        names_ = pa.array([self._waiting], pa.string()) if shift else requesters[:0]
        names_ = pa.concat_arrays([names_, requesters])
        who = np.concatenate((np.zeros(len(self._rows), np.int64), run[piece] + shift))
        rows, wants = np.concatenate((self._rows, rows)), np.concatenate((self._wants, wants))
        who, rows, wants = _once(who, rows, wants, len(self._entries.offset))
        last = int(np.searchsorted(who, len(names_) - 1))
        self._waiting, self._rows, self._wants = names_[-1].as_py(), rows[last:], wants[last:]
        if last:
            yield self._batch(names_, who[:last], rows[:last], wants[:last])

    def _pairs(self, pieces: pa.RecordBatch, count: Offsets) -> tuple[Offsets, Offsets, Wants]:
        """Each piece with each entry that it denotes: the piece, the entry's row, what is wanted of it."""
        piece = np.repeat(np.arange(len(count)), count)
        begin = np.cumsum(count) - count
        listed = np.asarray(pieces.column("numbers").is_valid())
        first = (numbers_of(pieces.column("first")) - self._base).astype(np.int64)
        offset = np.arange(len(piece)) - np.repeat(begin - np.where(listed, 0, first), count)
        wants = np.asarray(pieces.column("wants").fill_null(0)).astype(np.uint8)[piece]
        if listed.any():
            values = _listed(pieces.column("numbers"))
            of_list = listed[piece]
            offset[of_list] = values & ((1 << OFFSET_BITS) - 1)
            wants[of_list] = values >> OFFSET_BITS
        rows = self._row_of[offset].astype(np.int64)
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
        size, most = self._entries.size[rows], limit[piece]
        fits: Flags = (least[piece] <= size) & ((most == 0) | (size < most))
        return fits

    def _batch(self, requesters: pa.Array, who: Offsets, rows: Offsets, wants: Wants) -> pa.RecordBatch:
        """Items as ``ITEMS``."""
        import pyarrow as pa

        entries, count = self._entries, len(rows)
        if self._columns is None:
            self._columns = (hashes(entries.digest), hashes(entries.payload_hash), entries.records())
        at = pa.array(rows)
        entry_hash, payload_hash, records = self._columns
        metadata = (wants & (METADATA | CERTIFICATE)) != 0
        return pa.record_batch(
            [
                requesters.take(pa.array(who)),
                fixed_binary(np.broadcast_to(np.frombuffer(self._author, np.uint8), (count, len(self._author)))),
                decimals(np.full(count, from_sql(self._log), np.uint64)),
                decimals(entries.offset[rows].astype(np.uint64) + self._base),
                pa.array(metadata),
                pa.array((wants & PAYLOAD) != 0),
                pa.array(metadata & ((wants & METADATA) == 0)),
                entry_hash.take(at),
                decimals(entries.size[rows]),
                payload_hash.take(at),
                names(STATES, entries.state[rows]),
                records.take(at) if self._encoded else pa.nulls(count, pa.binary()),
            ],
            names=list(ITEMS.names),
        )


def _runs(requesters: pa.Array) -> tuple[Offsets, pa.Array]:
    """Which run of equal neighbours each value is in, and the runs' values."""
    import pyarrow as pa
    from pyarrow import compute

    changed = np.zeros(len(requesters), np.bool_)
    changed[1:] = np.asarray(compute.not_equal(requesters[1:], requesters[:-1]))
    run: Offsets = np.cumsum(changed, dtype=np.int64)
    changed[0] = True
    return run, requesters.take(pa.array(changed.nonzero()[0]))


def _listed(numbers: pa.Array) -> npt.NDArray[np.int64]:
    """The u16s of all values, one behind the other."""
    _, offsets, data = numbers.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(numbers) + 1, numbers.offset * 4)
    return np.frombuffer(data, "<u2", (int(bounds[-1]) - int(bounds[0])) // 2, int(bounds[0])).astype(np.int64)


def _once(who: Offsets, rows: Offsets, wants: Wants, count: int) -> tuple[Offsets, Offsets, Wants]:
    """Pairs of requester and entry, ascending, each once with all that is wanted; ``count`` is that of the entries."""
    key = who * count + rows
    order = np.argsort(key, kind="stable")
    key = key[order]
    if not len(key):
        return who, rows, wants
    firsts = np.append(True, key[1:] != key[:-1]).nonzero()[0]
    return who[order][firsts], rows[order][firsts], np.bitwise_or.reduceat(wants[order], firsts)
