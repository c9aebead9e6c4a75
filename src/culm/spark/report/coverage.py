"""What a report counts of single logs: steps from whole logs of stretches to the table of logs, and to strips.

A *strip* shows which numbers from 1 to the newest are held, to scale, in at most ``CELLS`` cells. That fails for a log
with the entries 1 to 10 and one entry at 2^64 - 1: to scale, the ten entries are invisible. So a strip is broken where
one stretch of missing numbers would take more than ``WIDEST`` of it, at most ``BREAKS`` times. What is left out is cut
away before the rest is cut into cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.spark.batches.arrays import decimals
from culm.spark.batches.fields import Flags
from culm.spark.batches.payload import HELD, STATES, rank
from culm.spark.report.numbers import CoverageNumbers
from culm.spark.report.stretches import Longs, Runs, begins, encoded, union
from culm.spark.runtime.columns import table_of
from culm.spark.verification.verdicts import BAD_SIGNATURE, VERDICTS
from culm.store.schema import from_sql, to_sql
from culm.types import Log

Span = tuple[int, int]

CELLS = 96  # of a strip: about 10 pixels each on a large screen; more would not be seen, and make the page larger
WIDEST = Fraction(9, 10)  # of a strip that may be one stretch of missing numbers; the rest then still has 9 cells
BREAKS = 4  # in a strip: a log with more such gaps is seen to have gaps


def logs_of(rows: pa.Table) -> pa.Table:
    """Whole logs of stretches, sorted by log, to ``LogNumbers``."""
    starts = _starts(rows)
    of = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
    held, verified = (_runs(rows, of, worst) for worst in (len(VERDICTS) - 1, 0))
    newest, contiguous, numbers, good = np.zeros((4, len(starts)), np.uint64)
    np.maximum.at(newest, held.log, held.high)
    np.add.at(numbers, held.log, held.length)
    np.add.at(good, verified.log, verified.length)
    first = verified.low == 1
    contiguous[verified.log[first]] = verified.high[first]
    entries, verdict, payload, size = *_columns(rows, "entries", "verdict", "payload"), rows.column("size")
    sums = {
        "entries": entries,
        **{name: entries * (verdict == at) for at, name in enumerate(VERDICTS)},
        "bad_signatures": entries * _is_bad(rows),
        **{f"payload_{name}": entries * (payload == at) for at, name in enumerate(STATES)},
        "claimed_bytes": size,
        "held_bytes": compute.if_else(payload == rank(HELD), size, pa.scalar(0, size.type)),
        "copies": rows.column("copies"),
    }
    found = pa.table({"of": of, **sums, "forked_at": rows.column("forked_at")}).group_by("of", use_threads=False)
    found = found.aggregate([*((name, "sum") for name in sums), ("forked_at", "min")])
    columns = {
        **{name: found.column(f"{name}_sum") for name in sums},
        "author": rows.column("author").take(starts),
        "log_id": _decimal(rows.column("log").take(starts)),
        "newest": decimals(newest),
        "held": numbers,
        "held_verified": good,
        "contiguous": decimals(contiguous),
        "missing": decimals(newest - numbers),
        "forked_at": _decimal(found.column("forked_at_min")),
    }
    return pa.table(columns).filter(compute.field("entries") > 0)


def _starts(rows: pa.Table) -> npt.NDArray[np.intp]:
    """Where each log begins."""
    return begins(encoded(rows.column("author"))[0], *_columns(rows, "log"))


def _columns(rows: pa.Table, *names: str) -> list[npt.NDArray[Any]]:
    return [np.asarray(rows.column(name).fill_null(0)) for name in names]


def _is_bad(rows: pa.Table) -> Flags:
    return np.asarray(compute.equal(rows.column("reason"), BAD_SIGNATURE).fill_null(False))


def _runs(rows: pa.Table, of: Longs, worst: int) -> Runs:
    """The numbers whose best verdict is at least as good as this position in ``VERDICTS``, in the logs ``of`` the rows.

    Entries with a bad signature have no part in this: anybody can make them, of any number.
    """
    verdict, entries, low, high = _columns(rows, "verdict", "entries", "low", "high")
    chosen = (verdict <= worst) & (entries > 0) & ~_is_bad(rows)
    return union(of[chosen], low[chosen], high[chosen])


def _decimal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The numbers that are longs 2^63 lower; null stays null."""
    return compute.add(column.cast(pa.decimal128(19, 0)), pa.scalar(Decimal(2**63))).cast(pa.decimal128(20, 0))


def within(rows: pa.Table, wanted: Collection[Log]) -> pa.Table:
    """The stretches of the wanted logs only."""
    keys = {"author": [author for author, _ in wanted], "log": [to_sql(log_id) for _, log_id in wanted]}
    logs = pa.table(keys, pa.schema([("author", pa.binary()), ("log", pa.int64())]))
    return rows.join(logs, [*keys], join_type="left semi")


def coverage(rows: pa.Table) -> pa.Table:
    """Whole logs of stretches, sorted by log, to ``CoverageNumbers``: their strips."""
    logs = (rows.slice(low, high - low) for low, high in pairwise([*_starts(rows).tolist(), len(rows)]))
    return table_of(CoverageNumbers, chain.from_iterable(map(_cells, logs)))


def _cells(rows: pa.Table) -> Iterator[CoverageNumbers]:
    """The cells of one log's strip."""
    by_verdict = [_runs(rows, np.zeros(len(rows), np.int64), worst) for worst in range(len(VERDICTS))]
    ends = cells(spans(by_verdict[-1].low.tolist(), by_verdict[-1].high.tolist()))
    log = rows.column("author")[0].as_py(), from_sql(rows.column("log")[0].as_py())
    counts = (covered(runs, ends) for runs in by_verdict)
    for (first, last), verified, better, every in zip(ends, *counts, strict=True):
        parts = verified, better - verified, every - better, last - first + 1 - every
        yield CoverageNumbers(*log, first, last, *parts)


# -- strips ---------------------------------------------------------------------------------------------------------


def spans(low: Sequence[int], high: Sequence[int]) -> list[Span]:
    """The parts of a log that its strip shows, from the ends of all runs of numbers held, in ascending order."""
    if not low:
        return []
    gaps = [(last + 1, first - 1) for last, first in zip([0, *high[:-1]], low, strict=True)]
    drawn, left_out = high[-1], []
    for first, last in sorted(gaps, key=lambda gap: (gap[0] - gap[1], gap[0]))[:BREAKS]:
        missing = last - first + 1
        if drawn <= CELLS or missing <= WIDEST * drawn:
            break
        left_out.append((first, last))
        drawn -= missing
    left_out.sort()
    begun = [1, *(last + 1 for _, last in left_out)]
    ended = [*(first - 1 for first, _ in left_out), high[-1]]
    return [(first, last) for first, last in zip(begun, ended, strict=True) if first <= last]


def cells(parts: Sequence[Span]) -> list[Span]:
    """The cells of these parts, at most ``CELLS`` together. All have one width, so that lengths compare."""
    numbers = sum(last - first + 1 for first, last in parts)
    width = max(1, -(-numbers // (CELLS - len(parts) + 1)))
    return [(begin, min(begin + width - 1, last)) for first, last in parts for begin in range(first, last + 1, width)]


def covered(runs: Runs, parts: Sequence[Span]) -> list[int]:
    """How many numbers of each part are in the runs of one log."""
    ends = np.array(parts, np.uint64).reshape(-1, 2) - np.array([1, 0], np.uint64)
    begun = np.searchsorted(runs.low, ends, "right")  # how many runs begin up to there: all are within but the last one
    columns = runs.length.cumsum(), runs.high
    below, high = (np.concatenate([np.zeros(1, np.uint64), column])[begun] for column in columns)
    up_to = below - (np.maximum(high, ends) - ends)
    found: list[int] = (up_to[:, 1] - up_to[:, 0]).tolist()
    return found
