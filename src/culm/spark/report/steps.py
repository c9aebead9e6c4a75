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
from culm.spark.verification.merge import LOG
from culm.spark.verification.verdicts import INVALID, UNVERIFIED, VERDICTS, VERIFIED

Step = Callable[[pa.Table], pa.Table]

_STEP_ROWS = 2**16  # that a step gets at once; each row takes some 200 bytes of memory
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


def by_logs(table: Table[Any], step: Step, into: type[R]) -> Table[R]:
    """What a step makes of portions that have whole logs."""
    return mapped(table, step, into, LOG)


def _portions(batches: Iterable[pa.RecordBatch], whole: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at least ``_STEP_ROWS``, but for the last one.

    If rows are to be together that are equal in some columns, by which all are sorted, the last of them wait for the
    next batch. They wait for twice as many each time, so that many are not copied again and again.
    """
    waiting: list[pa.RecordBatch] = []
    rows, enough = 0, _STEP_ROWS
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        if rows >= enough:
            found = pa.concat_batches(waiting)
            end = _last_of(found, whole) if whole else rows
            if end:
                yield found.slice(0, end)
            waiting, rows = [found.slice(end)], rows - end
            enough = max(_STEP_ROWS, 2 * rows)
    if rows:
        yield pa.concat_batches(waiting)


def _last_of(rows: pa.RecordBatch, whole: Sequence[str]) -> int:
    """The first of the last rows that are equal in some columns."""
    equal = [np.asarray(compute.equal(rows.column(name), rows.column(name)[-1])) for name in whole]
    return int(np.logical_and.reduce(equal).argmax())


class Trouble(NamedTuple):
    """Whether a log has no fork, and how many of its entries are in trouble: not verified, or with a wrong payload.

    ``trouble`` is None if the log has no fork and no such entries.
    """

    is_whole: bool
    trouble: int | None


DescribedLog = combined("DescribedLog", __name__, LogNumbers, LogKind, Trouble)


def described(rows: pa.Table) -> pa.Table:
    """``LogNumbers`` to ``DescribedLog``, where each log counts as one. A query takes the columns that it needs."""
    newest, verified, entries = (_unsigned(rows, name) for name in ("newest", "held_verified", "entries"))
    wrong = sum(np.asarray(rows.column(f"payload_{state}")) for state in WRONG_PAYLOADS)
    trouble = wrong + np.asarray(rows.column(UNVERIFIED)) + np.asarray(rows.column(INVALID))
    is_whole = np.asarray(rows.column("forked_at").is_null())
    tens = verified * np.uint64(10) // np.maximum(newest, np.uint64(1))
    more = {
        "is_whole": is_whole,
        "trouble": pa.array(trouble, mask=is_whole & (trouble == 0)),
        "percent": pa.array(tens.astype(np.int64) * 10, mask=newest == 0),
        "entry_digits": _digits(entries),
        "newest_digits": _digits(newest),
        "logs": np.ones(len(rows), np.int64),
        "forked_logs": (~is_whole).astype(np.int64),
        "wrong_payloads": wrong,
    }
    return pa.table({**dict(zip(rows.column_names, rows.columns, strict=True)), **more})


def untrusted(rows: pa.Table) -> pa.Table:
    """Stretches to ``ReasonNumbers``, without those that are verified."""
    rows = rows.filter(compute.not_equal(rows.column("verdict"), VERDICTS.index(VERIFIED)))
    verdict = pa.array(VERDICTS).take(rows.column("verdict"))
    reason = rows.column("reason").fill_null("no reason given")
    return pa.table({"verdict": verdict, "reason": reason, "entries": rows.column("entries")})


def shortened(rows: pa.Table) -> pa.Table:
    """``Fork`` with no more of a proof than the page shows."""
    at = rows.column_names.index("proof")
    return rows.set_column(at, "proof", compute.binary_slice(rows.column("proof"), 0, PROOF_BYTES))


def rejected(rows: pa.Table) -> pa.Table:
    """Rejects to ``RejectNumbers``: a row for each, to be summed. Numbers in reasons become ``#``."""
    return pa.table(
        {
            "source": rows.column("source"),
            "reason": compute.replace_substring_regex(rows.column("reason").cast(pa.string()), _NUMBER, "#"),
            "rejects": np.ones(len(rows), np.int64),
            "first_offset": rows.column("offset"),
        }
    )


def _unsigned(rows: pa.Table, name: str) -> Numbers:
    return np.asarray(rows.column(name).cast(pa.uint64()))


def _digits(numbers: Numbers) -> Longs:
    """How many decimal digits each number has; 0 has none. Nine magnitudes have the same number of digits."""
    return (magnitudes(numbers) + 8) // 9
