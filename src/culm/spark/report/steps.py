"""The steps of a report: plain functions from columns to columns, and how rows come to them on either engine.

All counts come from the stretches of the verdicts (``culm.spark.report.stretches``). ``culm.spark.report.job`` puts the
steps together.

Rows come in batches of any size. A step gets some ten thousand rows at once, because each call costs some milliseconds;
not all rows, so that memory is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import compute

from culm.spark.batches.fields import Numbers
from culm.spark.report.numbers import PROOF_BYTES, WRONG_PAYLOADS, LogKind, LogNumbers
from culm.spark.report.stretches import Longs, magnitudes
from culm.spark.runtime.columns import Batch, R, combined, names, schema
from culm.spark.runtime.engine import Table
from culm.spark.verification.verdicts import INVALID, UNVERIFIED, VERDICTS, VERIFIED

Step = Callable[[pa.Table], pa.Table]

_STEP_ROWS = 2**16  # that a step gets at once; each row takes some 200 bytes of memory
_FORKED = 2**62  # More trouble than any number of entries, so that forked logs are the first in the order of trouble.
_NUMBER = r"\b(0x[0-9a-f]+|[0-9a-f]*[0-9][0-9a-f]*)\b"


def mapped(table: Table[Any], step: Step, into: type[R], whole: Sequence[str] = ()) -> Table[R]:
    """What a step makes of portions of the rows, in any order.

    ``whole``: rows that are equal in these columns are in one portion. Their rows must fit into memory.
    """

    def made(batches: Iterable[pa.RecordBatch]) -> Iterator[Batch]:
        for portion in _portions(batches, whole):
            found = step(pa.Table.from_batches([portion])).select(names(into)).cast(schema(into))
            yield from (Batch(into, batch) for batch in found.combine_chunks().to_batches())

    return (table.spread(whole) if whole else table).map(made, into, columnar=True)


def _portions(batches: Iterable[pa.RecordBatch], whole: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least ``_STEP_ROWS``, but for the last one.

    If rows are to be together that are equal in some columns, by which all are sorted, the last of them wait for the
    next batch.
    """
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        end = _last_of(batch, whole)
        if rows + end < _STEP_ROWS:
            end = 0
        if end:
            yield pa.concat_batches([*waiting, batch.slice(0, end)])
            waiting, rows = [], 0
        waiting.append(batch.slice(end))
        rows += len(batch) - end
    if rows:
        yield pa.concat_batches(waiting)


def _last_of(rows: pa.RecordBatch, whole: Sequence[str]) -> int:
    """The first of the last rows that are equal in some columns; if there are no such columns, all rows are passed."""
    if not whole or not len(rows):
        return len(rows)
    equal = [np.asarray(compute.equal(rows.column(name), rows.column(name)[-1])) for name in whole]
    return int(np.logical_and.reduce(equal).argmax())


class Trouble(NamedTuple):
    """How many entries of a log are in trouble: not verified, or with a wrong payload; far more if the log is forked.

    None if there is no trouble.
    """

    trouble: int | None


DescribedLog = combined("DescribedLog", __name__, LogNumbers, LogKind, Trouble)


def described(rows: pa.Table) -> pa.Table:
    """``LogNumbers`` to ``DescribedLog``, where each log counts as one. A query takes the columns that it needs."""
    newest, verified, entries = (_unsigned(rows, name) for name in ("newest", "held_verified", "entries"))
    wrong = sum(np.asarray(rows.column(f"payload_{state}")) for state in WRONG_PAYLOADS)
    forked = np.asarray(rows.column("forked_at").is_valid()).astype(np.int64)
    trouble = wrong + np.asarray(rows.column(UNVERIFIED)) + np.asarray(rows.column(INVALID)) + forked * _FORKED
    tens = verified * np.uint64(10) // np.maximum(newest, np.uint64(1))
    return _with(
        rows,
        trouble=pa.array(trouble, mask=trouble == 0),
        percent=pa.array(tens.astype(np.int64) * 10, mask=newest == 0),
        entry_digits=_digits(entries),
        newest_digits=_digits(newest),
        logs=np.ones(len(rows), np.int64),
        forked_logs=forked,
        wrong_payloads=wrong,
    )


def untrusted(rows: pa.Table) -> pa.Table:
    """Stretches to ``ReasonNumbers``, without those that are verified."""
    rows = rows.filter(compute.not_equal(rows.column("verdict"), VERDICTS.index(VERIFIED)))
    verdict = pa.array(VERDICTS).take(rows.column("verdict"))
    return _with(rows, verdict=verdict, reason=rows.column("reason").fill_null("no reason given"))


def shortened(rows: pa.Table) -> pa.Table:
    """``Fork`` with no more of a proof than the page shows."""
    return _with(rows, proof=compute.binary_slice(rows.column("proof"), 0, PROOF_BYTES))


def rejected(rows: pa.Table) -> pa.Table:
    """Rejects to ``RejectNumbers``: a row for each, to be summed. Numbers in reasons become ``#``."""
    reason = compute.replace_substring_regex(rows.column("reason").cast(pa.string()), _NUMBER, "#")
    return _with(rows, reason=reason, rejects=np.ones(len(rows), np.int64), first_offset=rows.column("offset"))


def _with(rows: pa.Table, **columns: Any) -> pa.Table:  # noqa: ANN401 - arrays of either kind
    """The rows with more columns, or others of these names."""
    return pa.table({**dict(zip(rows.column_names, rows.columns, strict=True)), **columns})


def _unsigned(rows: pa.Table, name: str) -> Numbers:
    return np.asarray(rows.column(name).cast(pa.uint64()))


def _digits(numbers: Numbers) -> Longs:
    """How many decimal digits each number has; 0 has none. Nine magnitudes have the same number of digits."""
    return (magnitudes(numbers) + 8) // 9
