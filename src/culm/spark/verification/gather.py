"""The first step, in a worker: rows as they were read become packs (``batches.pack``), and rejects.

Entries are decoded here for the first time. Rows that are not entries become rejects, with the reason. Rows are
collected up to some megabytes, and those of one block go into one pack. Inputs that keep a log together need no
sorting; rows in any other order are sorted first, because many small packs would cost as much as many rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.errors import ConfigError, EncodingError
from culm.spark.batches.arrays import fields_of
from culm.spark.batches.fields import Fields, Offsets, why_not
from culm.spark.batches.pack import BLOCK_BITS, Pack, block_of
from culm.spark.batches.payload import ABSENT, STATES, PayloadFrame, rank
from culm.spark.batches.slices import Shelf
from culm.store.schema import to_sql

Key = tuple[bytes, int, int]  # author, log id, block
Unread = tuple[str | None, int | None, bytes | None, bytes | None, str | None]  # of ``_rows``


class PackRow(NamedTuple):
    """A pack: its log and block, its lowest and highest number, its bytes or a slip for them.

    ``log``, ``low`` and ``high`` are signed longs (``to_sql``).
    """

    author: bytes
    log: int
    block: int
    low: int
    high: int
    packed: bytes


class Reject(NamedTuple):
    """What could not be read: where it stands, and why."""

    source: str | None
    offset: int | None
    reason: str


# Rows are collected up to this many bytes before they are packed. Less makes more and smaller packs, more takes memory
# of each worker: several times as much, since rows, sorted copies and packs are there at once.
_COLLECTED_BYTES = 16 * 1024 * 1024

# Rows are sorted if fewer than this many of one block follow each other on average: below that, the packs of
# unsorted rows would hold so few entries that moving packs costs what moving entries does.
_SHORT_RUNS = 16


def gather(batches: Iterable[pa.RecordBatch], folder: Path | None = None) -> Iterator[PackRow | Reject]:
    """Batches with the columns of ``reading.found.EntryRow`` to packs, and rejects.

    Never fails because of the bytes of an entry; those become rejects. ``ConfigError`` for an unknown payload state.
    With a ``folder`` the packs are written there, and the rows say where (``batches.slices``).
    """
    waiting: list[pa.RecordBatch] = []
    size = 0
    with Shelf(folder) as shelf:
        for batch in batches:
            waiting.append(batch)
            size += batch.nbytes
            if size >= _COLLECTED_BYTES:
                yield from _gathered(pa.Table.from_batches(waiting), shelf)
                waiting, size = [], 0
        if waiting:
            yield from _gathered(pa.Table.from_batches(waiting), shelf)


def _gathered(table: pa.Table, shelf: Shelf) -> Iterator[PackRow | Reject]:
    payload = _ranks(table.column("payload_state"))
    records = _Records.of(table.column("encoded"))
    packs: dict[Key, list[Pack]] = {}
    spans: dict[Key, list[int]] = {}
    for low, high in records.runs():
        packs.setdefault(records.key(low), []).append(records.pack(low, high, payload))
        seq = records.fields.seq[low:high]
        spans.setdefault(records.key(low), []).extend((int(seq.min()), int(seq.max())))
    bad = records.bad()
    if len(bad):
        for source, offset, data, frame, reason in _rows(table, bad):
            try:
                found = _frame_of(data, frame, reason)
            except EncodingError as error:
                yield Reject(source, offset, str(error))
                continue
            record = found.encode()
            key = (found.author, found.log_id, block_of(found.seq))
            packs.setdefault(key, []).append(Pack.of_record(record, rank(ABSENT)))
            spans.setdefault(key, []).append(found.seq)
    for (author, log_id, block), parts in packs.items():
        span = spans[author, log_id, block]
        cell = shelf.put(Pack.joined(parts).parts())
        yield PackRow(author, to_sql(log_id), block, to_sql(min(span)), to_sql(max(span)), cell)


def _frame_of(data: bytes | None, frame: bytes | None, reason: str | None) -> PayloadFrame:
    """The payload frame in a row that is not an entry; ``EncodingError`` with the reason if the row is a reject."""
    if reason is None and data is not None:
        reason = why_not(data)
    if reason is None and frame is not None:
        try:
            return PayloadFrame.decode(frame)
        except EncodingError as error:
            reason = f"not an entry: {error}"
    raise EncodingError(reason or "a row without an entry")


class _Records:
    """The entries among some rows, ordered so that those of one block follow each other.

    ``order`` is the permutation that was applied to the rows, None if they stand as they were given.
    """

    def __init__(self, fields: Fields, order: Offsets | None) -> None:
        self.fields = fields
        self._order = order
        self._authors = fields.authors()
        self._blocks = fields.seq >> np.uint64(BLOCK_BITS)

    @classmethod
    def of(cls, encoded: pa.ChunkedArray) -> _Records:
        records = cls(fields_of(encoded), None)
        good = records.fields.good
        starts = records._starts()
        if len(starts) * _SHORT_RUNS <= len(good) or len(good) < _SHORT_RUNS:
            return records
        order = np.lexsort((records.fields.seq, *reversed(records._key_columns()), ~good))
        return cls(fields_of(encoded.take(pa.array(order))), order)

    def _key_columns(self) -> tuple[npt.NDArray[np.uint64], ...]:
        authors = self._authors.view(np.uint64)
        return (*authors.T, self.fields.log_id, self._blocks)

    def _starts(self) -> Offsets:
        """The rows that are not of the same block as the row before."""
        changed = np.zeros(len(self.fields), np.bool_)
        changed[:1] = True
        for column in self._key_columns():
            changed[1:] |= column[1:] != column[:-1]
        good = self.fields.good
        changed[1:] |= good[1:] != good[:-1]
        return changed.nonzero()[0]

    def runs(self) -> Iterator[tuple[int, int]]:
        """The stretches of entries of one block: the first row, and the one behind the last."""
        starts = self._starts().tolist()
        good = self.fields.good
        for low, high in zip(starts, [*starts[1:], len(good)], strict=True):
            if good[low]:
                yield low, high

    def bad(self) -> Offsets:
        """The rows, as they were given, that are no entries."""
        rows = (~self.fields.good).nonzero()[0]
        return rows if self._order is None else self._order[rows]

    def key(self, row: int) -> Key:
        return self._authors[row].tobytes(), int(self.fields.log_id[row]), int(self._blocks[row])

    def pack(self, low: int, high: int, payload: npt.NDArray[np.int8]) -> Pack:
        of_rows = payload[low:high] if self._order is None else payload[self._order[low:high]]
        return Pack.of_entries(self.fields.take(slice(low, high)), of_rows)


def _ranks(states: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    """The ranks of payload states; ``ConfigError`` for an unknown one, since the caller's table is then wrong."""
    known = compute.fill_null(states, ABSENT)
    ranks = compute.index_in(known, pa.array(STATES))
    if ranks.null_count:
        wrong = known.filter(compute.is_null(ranks))[0].as_py()
        raise ConfigError(f"the column payload_state has {wrong!r}; the states are {', '.join(STATES)}")
    return np.asarray(ranks.combine_chunks()).astype(np.int8)


def _rows(table: pa.Table, rows: Offsets) -> Iterator[Unread]:
    names = ("source", "offset", "encoded", "payload_frame", "reason")
    some = table.select(names).take(pa.array(rows))
    yield from zip(*(some.column(name).to_pylist() for name in names), strict=True)
