"""The change feed: a row for each verdict that is new or has changed, with what was said before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyspark.sql import DataFrame, functions

from culm.spark.batches.arrays import names
from culm.spark.batches.fields import Bytes
from culm.spark.batches.payload import STATES
from culm.spark.runtime.columns import Batch, combined
from culm.spark.verification.lakehouse import KEY
from culm.spark.verification.steps import CountsRow, JudgedRow
from culm.spark.verification.verdicts import CERTIFIED, PAYLOAD, VERDICT, VERDICTS, Verdict

NEW, REASON = "new", "reason"
KINDS = (REASON, "payload", "certified", "verdict", NEW)
"""What may have changed, the most important last: a row names the last of these that has."""


class Before(NamedTuple):
    """What has changed (``KINDS``), and what was said before; null for a new entry."""

    change: str
    verdict_before: str | None
    certified_before: bool | None
    payload_before: str | None


Change = combined("Change", __name__, Verdict, Before)
"""The columns of ``Verdict``, then those of ``Before``.

``reason``: the entry is not verified, as before, and the reason is perhaps another one. A state remembers verdicts, but
not their reasons (``verification.verdicts``).
"""


def changed(rows: Iterable[JudgedRow], *, everything: bool = False) -> Iterator[Batch | CountsRow]:
    """``steps.pronounced`` with the columns of ``Change``. ``everything``: all entries, as if they were new."""
    for row in rows:
        segment, before = row.compared()
        before = np.zeros_like(before) if everything else before
        where = segment.changed(before)
        yield Batch(Change, _with_before(segment.table(where), segment.said[where], before[where]))
        yield CountsRow(row.author, row.log, row.low, *segment.counts())


def _with_before(verdicts: pa.RecordBatch, said: Bytes, before: Bytes) -> pa.RecordBatch:
    new = before == 0
    now, was = (codes.astype(np.int16) - 1 for codes in (said, np.maximum(before, 1)))
    differs = now ^ was
    kind = np.select([new, *(differs & bits != 0 for bits in (VERDICT, CERTIFIED, PAYLOAD))], [4, 3, 2, 1], 0)
    columns = (
        names(KINDS, kind.astype(np.int8)),
        _unless(new, names(VERDICTS, ((was & VERDICT) >> 3).astype(np.int8))),
        _unless(new, pa.array((was & CERTIFIED) != 0)),
        _unless(new, names(STATES, (was & PAYLOAD).astype(np.int8))),
    )
    for name, column in zip(Before._fields, columns, strict=True):
        verdicts = verdicts.append_column(name, column)
    return verdicts


def _unless(rows: Bytes, column: pa.Array) -> pa.Array:
    """The column, null in some rows."""
    return compute.if_else(pa.array(rows), pa.scalar(None, column.type), column)


def replayed(changes: DataFrame) -> DataFrame:
    """The table of verdicts that a change feed leads to: of each entry the verdict of its last ``batch``."""
    rest = [name for name in Verdict._fields if name not in KEY]
    last = functions.max_by(functions.struct(*rest), "batch").alias("last")
    return changes.groupBy(*KEY).agg(last).select(*KEY, "last.*")
