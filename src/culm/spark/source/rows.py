"""Rows of ``format("culm")``: what ``reading.scan`` found, with the fields of each entry in columns of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyspark.sql.datasource import InputPartition

from culm.bamboo.entry import SIGNATURE_BYTES
from culm.spark.batches.arrays import decimals, fields_of, fixed_binary, hashes
from culm.spark.batches.fields import DIGEST_BYTES, Fields, Flags, Offsets, cut, why_not
from culm.spark.reading.entries import table_rows
from culm.spark.reading.found import Found
from culm.spark.reading.inputs import Part, Piece
from culm.spark.reading.scan import scan
from culm.spark.reading.wanted import EVERYTHING, Wanted
from culm.spark.runtime.columns import arrow
from culm.spark.source.entries import ENTRIES
from culm.spark.source.options import Options

_Column = Callable[[Fields, Sequence[Found], Wanted], pa.Array]

_ROWS = 4000  # Rows in one Arrow batch, about as many as a session's batches. With payloads a row may have megabytes.


def found_in(piece: Piece, wanted: Wanted) -> Iterator[Found]:
    """The rows of a piece, with payloads if they are wanted."""
    return table_rows(piece) if piece.part is Part.TABLE else scan(piece, wanted)


class Pieces:
    """A reader of pieces, and of rows that a task has with it: the ``read`` that Spark calls in a task."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        parts: Iterable[Piece | Found] = partition.value
        wanted = self._options.wanted
        found = chain.from_iterable([one] if isinstance(one, Found) else found_in(one, wanted) for one in parts)
        return entry_batches(found, self._options)


def entry_batches(found: Iterable[Found], options: Options) -> Iterator[pa.RecordBatch]:
    """Batches with the columns and the rows that the options want; no batch is empty."""
    rows = iter(found)
    while page := list(islice(rows, _ROWS)):
        batch = _batch(page, options)
        if batch.num_rows:
            yield batch


def _batch(page: Sequence[Found], options: Options) -> pa.RecordBatch:
    fields = fields_of(pa.array([row.encoded for row in page], pa.large_binary()))
    page = [_judged(row, good=bool(good)) for row, good in zip(page, fields.good, strict=True)]
    if options.rejects == "only":
        chosen = np.zeros(len(page), np.bool_)
    else:
        chosen = options.wanted.chosen(fields)
        if options.wanted.frames:
            chosen |= np.array([row.payload_frame is not None for row in page], np.bool_)
    if options.rejects != "false":
        chosen |= np.array([row.reason is not None for row in page], np.bool_)
    rows = chosen.nonzero()[0]
    fields, page = fields.take(rows), [page[row] for row in rows]
    columns = [_COLUMNS[name](fields, page, options.wanted) for name in options.columns]
    return pa.record_batch(columns, names=list(options.columns)) if columns else pa.record_batch([])


def _given(name: str) -> _Column:
    """A column that is a field of ``Found``."""
    return lambda _, page, __: _array([getattr(row, name) for row in page], arrow(ENTRIES[name]))


def _payload(fields: Fields, page: Sequence[Found], wanted: Wanted) -> pa.Array:
    """The payloads that are wanted: a range may leave some out by their numbers and sizes."""
    numbers = zip(fields.seq.tolist(), fields.size.tolist(), strict=True)
    values = [row.payload if wanted.has_payload(*at) else None for row, at in zip(page, numbers, strict=True)]
    return _array(values, arrow(ENTRIES["payload"]))


_COLUMNS: dict[str, _Column] = {
    "author": lambda fields, *_: _some(fixed_binary(fields.authors()), fields.good),
    "log_id": lambda fields, *_: _some(decimals(fields.log_id), fields.good),
    "seqnum": lambda fields, *_: _some(decimals(fields.seq), fields.good),
    "tag": lambda fields, *_: _array(fields.is_end.astype(np.int8), mask=~fields.good),
    "lipmaalink": lambda fields, *_: _digests(fields, fields.lipmaalink),
    "backlink": lambda fields, *_: _digests(fields, fields.backlink),
    "size": lambda fields, *_: _some(decimals(fields.size), fields.good),
    "payload_hash": lambda fields, *_: _digests(fields, fields.payload_hash),
    "sig": lambda fields, *_: _some(
        fixed_binary(cut(fields.data, np.where(fields.good, fields.end - SIGNATURE_BYTES, 0), SIGNATURE_BYTES)),
        fields.good,
    ),
    "payload": _payload,
    **{name: _given(name) for name in ("source", "offset", "encoded", "payload_state", "payload_frame", "reason")},
}


DECODED = {
    name: ENTRIES[name]
    for name in ("author", "log_id", "seqnum", "tag", "lipmaalink", "backlink", "size", "payload_hash", "sig")
}
"""The fields of an entry, as SQL types."""


def decoded(encoded: pa.Array) -> pa.Array:
    """Entries as structs of their fields (``DECODED``); null where the bytes are not an entry."""
    fields = fields_of(encoded)
    columns = [_COLUMNS[name](fields, (), EVERYTHING) for name in DECODED]
    return pa.StructArray.from_arrays(columns, names=list(DECODED), mask=pa.array(~fields.good))


def _judged(row: Found, *, good: bool) -> Found:
    """A row whose bytes are not an entry becomes a reject; ``encoded`` keeps the bytes."""
    if row.encoded is None or good or row.reason is not None:
        return row
    return row._replace(reason=why_not(row.encoded), payload_state=None)


def _digests(fields: Fields, at: Offsets) -> pa.Array:
    there = fields.good & (at >= 0)
    return _some(hashes(cut(fields.data, np.where(there, at, 0), DIGEST_BYTES)), there)


def _array(values: Any, *given: Any, **more: Any) -> pa.Array:  # noqa: ANN401 - whatever Arrow takes
    return pa.array(values, *given, **more)


def _some(array: pa.Array, rows: Flags) -> pa.Array:
    """The array with null in all rows but these."""
    return compute.if_else(pa.array(rows), array, pa.scalar(None, array.type))
