"""Rows of ``format("culm")``: what reading found, with the fields of each entry in columns of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyspark.sql.datasource import InputPartition

from culm.bamboo.entry import SIGNATURE_BYTES
from culm.spark.batches.arrays import decimals, fields_of, fixed_binary, hashes
from culm.spark.batches.fields import DIGEST_BYTES, Bytes, Fields, Flags, Offsets, cut, why_not
from culm.spark.reading.entries import split_batches
from culm.spark.source.options import ENTRIES, Options

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """The mark of streams that can end with what is held when they start, where PySpark has none."""


__all__ = ["DECODED", "Pieces", "SupportsTriggerAvailableNow", "decoded", "entry_batches"]


class Pieces:
    """A reader of pieces: the ``read`` that Spark calls in a task, for the readers of stores, files and folders."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return entry_batches(split_batches(partition.value, self._options.wanted), self._options)


def entry_batches(found: Iterable[pa.RecordBatch], options: Options) -> Iterator[pa.RecordBatch]:
    """Batches with the columns and the rows that the options want, of batches of ``EntryRow``; no batch is empty."""
    return (batch for batch in (_batch(one, options) for one in found) if batch.num_rows)


def _batch(found: pa.RecordBatch, options: Options) -> pa.RecordBatch:
    fields = fields_of(found.column("encoded"))
    found = _judged(found, fields.good)
    chosen = np.zeros(found.num_rows, np.bool_)
    if options.rejects != "only":
        chosen = options.wanted.chosen(fields)
        if options.wanted.frames:
            chosen |= _has(found, "payload_frame")
    if options.rejects != "false":
        chosen |= _has(found, "reason")
    rows = chosen.nonzero()[0]
    fields, found = fields.take(rows), found.take(pa.array(rows))
    columns = [_FIELDS[name](fields) if name in _FIELDS else found.column(name) for name in options.columns]
    return pa.record_batch(columns, names=list(options.columns)) if columns else pa.record_batch([])


_FIELDS: dict[str, Callable[[Fields], pa.Array]] = {
    "author": lambda fields: _some(fixed_binary(fields.authors()), fields.good),
    "log_id": lambda fields: _some(decimals(fields.log_id), fields.good),
    "seqnum": lambda fields: _some(decimals(fields.seq), fields.good),
    "tag": lambda fields: pa.array(fields.is_end.astype(np.int8), mask=~fields.good),
    "lipmaalink": lambda fields: _cut(fields, fields.lipmaalink, DIGEST_BYTES, hashes),
    "backlink": lambda fields: _cut(fields, fields.backlink, DIGEST_BYTES, hashes),
    "size": lambda fields: _some(decimals(fields.size), fields.good),
    "payload_hash": lambda fields: _cut(fields, fields.payload_hash, DIGEST_BYTES, hashes),
    "sig": lambda fields: _cut(fields, fields.end - SIGNATURE_BYTES, SIGNATURE_BYTES, fixed_binary),
}

DECODED = {name: ENTRIES[name] for name in _FIELDS}
"""The fields of an entry, as SQL types."""


def decoded(encoded: pa.Array) -> pa.Array:
    """Entries as structs of their fields (``DECODED``); null where the bytes are not an entry."""
    fields = fields_of(encoded)
    columns = [column(fields) for column in _FIELDS.values()]
    return pa.StructArray.from_arrays(columns, names=list(_FIELDS), mask=pa.array(~fields.good))


def _judged(found: pa.RecordBatch, good: Flags) -> pa.RecordBatch:
    """Rows whose bytes are not an entry become rejects; ``encoded`` keeps the bytes."""
    bad = _has(found, "encoded") & ~good & ~_has(found, "reason")
    if not bad.any():
        return found
    reasons = found.column("reason").to_pylist()
    for row in bad.nonzero()[0].tolist():
        reasons[row] = why_not(found.column("encoded")[row].as_py())
    found = _with_column(found, "payload_state", _some(found.column("payload_state"), ~bad))
    return _with_column(found, "reason", pa.array(reasons, pa.string()))


def _has(found: pa.RecordBatch, name: str) -> Flags:
    flags: Flags = found.column(name).is_valid().to_numpy(zero_copy_only=False)
    return flags


def _with_column(found: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    return found.set_column(found.schema.get_field_index(name), name, values)


def _cut(fields: Fields, at: Offsets, size: int, made: Callable[[Bytes], pa.Array]) -> pa.Array:
    there = fields.good & (at >= 0)
    return _some(made(cut(fields.data, np.where(there, at, 0), size)), there)


def _some(array: pa.Array, rows: Flags) -> pa.Array:
    """The array with null in all rows but these."""
    return compute.if_else(pa.array(rows), array, pa.scalar(None, array.type))
