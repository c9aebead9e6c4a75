"""The first step, in a worker: rows as they were read become packs (``batches.pack``), and rejects.

Entries are decoded here for the first time. Rows that are not entries become rejects, with the reason. Rows are
collected up to some megabytes, and those of one block go into one pack. Inputs that keep a log together need no
sorting; rows in any other order are sorted first, because many small packs would cost as much as many rows.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.errors import ConfigError, EncodingError
from culm.spark.batches.arrays import begins, fields_of
from culm.spark.batches.fields import Fields, why_not
from culm.spark.batches.pack import BLOCK_BITS, Pack
from culm.spark.batches.payload import ABSENT, STATES, PayloadFrame, rank
from culm.spark.batches.slices import Shelf
from culm.spark.reading.found import EntryRow
from culm.spark.reading.inputs import packed
from culm.spark.runtime.columns import rows
from culm.store.schema import to_sql


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


Note = Callable[[pa.RecordBatch], Iterable[Any]]

# Rows are collected up to this many bytes before they are packed. Less makes more and smaller packs, more takes memory
# of each worker: several times as much, since rows, sorted copies and packs are there at once.
_COLLECTED_BYTES = 16 * 1024 * 1024

# Rows are sorted if fewer than this many of one block follow each other on average: below that, the packs of
# unsorted rows would hold so few entries that moving packs costs what moving entries does.
_SHORT_RUNS = 16


def gather(
    batches: Iterable[pa.RecordBatch], folder: Path | None = None, note: Note = lambda _: ()
) -> Iterator[PackRow | Reject]:
    """Batches with the columns of ``reading.found.EntryRow`` to packs, and rejects.

    Never fails because of the bytes of an entry; those become rejects. ``ConfigError`` for an unknown payload state.
    With a ``folder`` the packs are written there, and the rows say where (``batches.slices``). Rows that ``note`` makes
    of each batch come among the others.
    """
    with Shelf(folder) as shelf:
        for together in packed(batches, _COLLECTED_BYTES, attrgetter("nbytes")):
            for batch in together:
                yield from note(batch)
            yield from _gathered(pa.Table.from_batches(together), shelf)


def _gathered(table: pa.Table, shelf: Shelf) -> Iterator[PackRow | Reject]:
    payload = _ranks(table.column("payload_state"))
    encoded = table.column("encoded")
    fields, order = fields_of(encoded), np.arange(len(table))
    if len(begins(*_keys(fields))) * _SHORT_RUNS > len(fields) >= _SHORT_RUNS:
        order = np.lexsort((fields.seq, *reversed(_keys(fields))))
        fields = fields_of(encoded.take(pa.array(order)))
    authors, starts = fields.authors(), begins(*_keys(fields))
    packs: dict[tuple[bytes, int, int], list[tuple[int, int, Pack]]] = defaultdict(list)  # with lowest, highest number
    for low, high in zip(starts.tolist(), [*starts[1:].tolist(), len(fields)], strict=True):
        if not fields.good[low]:
            continue
        seq = fields.seq[low:high]
        key = authors[low].tobytes(), int(fields.log_id[low]), int(seq[0]) >> BLOCK_BITS
        pack = Pack.of_new(fields.data, fields.start[low:high], fields.end[low:high], payload[order[low:high]])
        packs[key].append((int(seq.min()), int(seq.max()), pack))
    bad = order[~fields.good]
    for row in rows(EntryRow, table.take(pa.array(bad)).to_batches()) if len(bad) else ():
        if isinstance(found := _frame_of(row), str):
            yield Reject(row.source, row.offset, found)
        else:
            key = (found.author, found.log_id, found.seq >> BLOCK_BITS)
            packs[key].append((found.seq, found.seq, Pack.of_record(found.encode(), rank(ABSENT))))
    for (author, log_id, block), parts in packs.items():
        lows, highs, of_block = zip(*parts, strict=True)
        cell = shelf.put(Pack.joined(of_block).parts())
        yield PackRow(author, to_sql(log_id), block, to_sql(min(lows)), to_sql(max(highs)), cell)


def _frame_of(row: EntryRow) -> PayloadFrame | str:
    """The payload frame in a row that is not an entry, or the reason why the row is a reject."""
    reason = why_not(row.encoded) if row.reason is None and row.encoded is not None else row.reason
    if reason is None and row.payload_frame is not None:
        try:
            return PayloadFrame.decode(row.payload_frame)
        except EncodingError as error:
            reason = f"not an entry: {error}"
    return reason or "a row without an entry"


def _keys(fields: Fields) -> tuple[npt.NDArray[Any], ...]:
    """Whether a row is no entry, its author, log id and block, as columns: equal for the entries of one block."""
    return (~fields.good, *fields.authors().view(np.uint64).T, fields.log_id, fields.seq >> np.uint64(BLOCK_BITS))


def _ranks(states: pa.ChunkedArray) -> npt.NDArray[np.int8]:
    """The ranks of payload states; ``ConfigError`` for an unknown one, since the caller's table is then wrong."""
    known = compute.fill_null(states, ABSENT)
    ranks = compute.index_in(known, pa.array(STATES))
    if ranks.null_count:
        wrong = known.filter(compute.is_null(ranks))[0].as_py()
        raise ConfigError(f"the column payload_state has {wrong!r}; the states are {', '.join(STATES)}")
    return np.asarray(ranks.combine_chunks()).astype(np.int8)
