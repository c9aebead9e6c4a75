"""Rows of ``format("culm")``: what ``culm.spark.scan`` found, with the fields of each entry in columns of their own."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from culm.bamboo.entry import SIGNATURE_BYTES
from culm.spark.arrays import decimals, fixed_binary, hashes
from culm.spark.columns import UNSIGNED, Columns
from culm.spark.fields import DIGEST_BYTES, Fields, cut, padded, why_not

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from culm.spark.fields import Flags, Offsets
    from culm.spark.scan import Found
    from culm.spark.source.options import Options

ENTRIES = Columns(
    source="STRING",
    offset="BIGINT",
    author="BINARY",
    log_id=UNSIGNED,
    seqnum=UNSIGNED,
    tag="TINYINT",
    lipmaalink="BINARY",
    backlink="BINARY",
    size=UNSIGNED,
    payload_hash="BINARY",
    sig="BINARY",
    encoded="BINARY",
    payload_state="STRING",
    payload="BINARY",
    payload_frame="BINARY",
    reason="STRING",
)
"""The fields of an entry (docs/specs/bamboo.md, "Entries"), null where it has none. Of a reject only place and reason.

``source`` and ``offset``: where it was found. ``encoded``: all its bytes. ``payload_state``: what is known of the
payload there (``culm.spark.payload.STATES``). ``payload_frame``: a payload that stands apart from any entry; such rows
have no other fields.
"""

_ROWS = 4000  # Rows in one Arrow batch, about as many as a session's batches. With payloads a row may have megabytes.


def entry_batches(found: Iterable[Found], options: Options) -> Iterator[pa.RecordBatch]:
    """Batches of ``ENTRIES`` with those of the rows that the options want; no batch is empty."""
    rows = iter(found)
    while page := list(islice(rows, _ROWS)):
        batch = _batch(page, options)
        if batch.num_rows:
            yield batch


def _batch(page: Sequence[Found], options: Options) -> pa.RecordBatch:
    import pyarrow as pa

    fields = _fields([row.encoded or b"" for row in page])
    page = [_judged(row, good=bool(good)) for row, good in zip(page, fields.good, strict=True)]
    if options.rejects == "only":
        wanted = np.zeros(len(page), np.bool_)
    else:
        wanted = options.chosen(fields)
        wanted |= np.array([row.payload_frame is not None for row in page], np.bool_)
    if options.rejects != "false":
        wanted |= np.array([row.reason is not None for row in page], np.bool_)
    rows = wanted.nonzero()[0]
    fields, page = fields.take(rows), [page[row] for row in rows]
    good = fields.good
    columns = {
        "source": pa.array([row.source for row in page], pa.string()),
        "offset": pa.array([row.offset for row in page], pa.int64()),
        "author": _some(fixed_binary(fields.authors()), good),
        "log_id": _some(decimals(fields.log_id), good),
        "seqnum": _some(decimals(fields.seq), good),
        "tag": pa.array(fields.is_end.astype(np.int8), mask=~good),
        "lipmaalink": _digests(fields, fields.lipmaalink, good),
        "backlink": _digests(fields, fields.backlink, good),
        "size": _some(decimals(fields.size), good),
        "payload_hash": _digests(fields, fields.payload_hash, good),
        "sig": _some(fixed_binary(cut(fields.data, np.where(good, fields.end - SIGNATURE_BYTES, 0), 64)), good),
        "encoded": pa.array([row.encoded for row in page], pa.binary()),
        "payload_state": pa.array([row.payload_state for row in page], pa.string()),
        "payload": pa.array([row.payload for row in page], pa.binary()),
        "payload_frame": pa.array([row.payload_frame for row in page], pa.binary()),
        "reason": pa.array([row.reason for row in page], pa.string()),
    }
    return pa.record_batch([columns[name] for name in ENTRIES.names], names=ENTRIES.names)


def _judged(row: Found, *, good: bool) -> Found:
    """A row whose bytes are not an entry becomes a reject; ``encoded`` keeps the bytes."""
    if row.encoded is None or good or row.reason is not None:
        return row
    return row._replace(reason=why_not(row.encoded), payload_state=None)


def _fields(records: Sequence[bytes]) -> Fields:
    end = np.cumsum([len(record) for record in records], dtype=np.int64)
    start = end - np.array([len(record) for record in records], np.int64)
    return Fields.decode(padded(b"".join(records)), start, end)


def _digests(fields: Fields, at: Offsets, good: Flags) -> pa.Array:
    there = good & (at >= 0)
    return _some(hashes(cut(fields.data, np.where(there, at, 0), DIGEST_BYTES)), there)


def _some(array: pa.Array, rows: Flags) -> pa.Array:
    """The array with null in all rows but these."""
    import pyarrow as pa
    from pyarrow import compute

    return compute.if_else(pa.array(rows), array, pa.scalar(None, array.type))
