"""Steps of a report, which take and give whole tables of Arrow, on rows that come in batches of any size.

A step gets some ten thousand rows at once, because each call costs some milliseconds; not all rows, so that memory is
bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.spark.runtime.columns import Batch, Row, names, schema
from culm.spark.verification.steps import LOG

Step = Callable[[pa.Table], pa.Table]
Made = Callable[[Iterable[pa.RecordBatch]], Iterator[Batch]]

_STEP_ROWS = 2**16  # that a step gets at once: each call costs some milliseconds, each row some 200 bytes of memory


def by_portions(step: Step, into: type[Row]) -> Made:
    """A columnar step of the engines: ``step`` on portions of the rows, in any order."""
    return lambda batches: _made(step, into, _portions(batches))


def by_logs(step: Step, into: type[Row]) -> Made:
    """The same on portions that have whole logs, of rows that are sorted by log."""
    return lambda batches: _made(step, into, _whole_logs(batches))


def _made(step: Step, into: type[Row], portions: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
    for portion in portions:
        made = step(pa.Table.from_batches([portion])).select(names(into)).cast(schema(into))
        yield from (Batch(into, batch) for batch in made.combine_chunks().to_batches())


def _portions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least ``_STEP_ROWS``, but for the last one."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        if rows >= _STEP_ROWS:
            yield pa.concat_batches(waiting)
            waiting, rows = [], 0
    if rows:
        yield pa.concat_batches(waiting)


def _whole_logs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """``_portions`` of rows that are sorted by log, each with whole logs. One log's rows must fit into memory."""
    waiting: list[pa.RecordBatch] = []
    for batch in _portions(batches):
        is_last = _is_of(batch, batch, len(batch) - 1)
        first_of_last = int(is_last.argmax())
        if waiting and not _is_of(batch.slice(0, 1), waiting[0], 0)[0]:
            yield pa.concat_batches(waiting)
            waiting = []
        if first_of_last:
            yield pa.concat_batches([*waiting, batch.slice(0, first_of_last)])
            waiting = []
        waiting.append(batch.slice(first_of_last))
    if waiting:
        yield pa.concat_batches(waiting)


def _is_of(rows: pa.RecordBatch, other: pa.RecordBatch, at: int) -> npt.NDArray[np.bool_]:
    """Which rows are of the log of a row of another batch."""
    author, log = (compute.equal(rows.column(name), other.column(name)[at]) for name in LOG)
    return np.asarray(compute.and_(author, log))
