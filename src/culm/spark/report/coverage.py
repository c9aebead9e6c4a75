"""What a report counts of single logs: steps from whole logs of stretches to the table of logs, and to strips.

A *strip* shows which numbers from 1 to the newest are held, to scale, in at most ``CELLS`` cells. That fails for a log
with the entries 1 to 10 and one entry at 2^64 - 1: to scale, the ten entries are invisible. So a strip is broken where
one stretch of missing numbers would take more than ``WIDEST`` of it, at most ``BREAKS`` times. What is left out is cut
away before the rest is cut into cells.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.spark.batches.arrays import decimals, unsigned
from culm.spark.batches.fields import Numbers
from culm.spark.batches.payload import HELD, STATES, rank
from culm.spark.report.numbers import CoverageNumbers, LogNumbers
from culm.spark.report.stretches import Longs, Runs, union
from culm.spark.runtime.columns import names, table_of
from culm.spark.verification.verdicts import BAD_SIGNATURE, VERDICTS
from culm.types import Log

Span = tuple[int, int]


CELLS = 96  # of a strip: about 10 pixels each on a large screen; more would not be seen, and make the page larger
WIDEST = Fraction(9, 10)  # of a strip that may be one stretch of missing numbers; the rest then still has 9 cells
BREAKS = 4  # in a strip: a log with more such gaps is seen to have gaps


class _Logs:
    """The stretches of whole logs, sorted by log. ``of`` is the position of each stretch's log, from 0."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        author = np.asarray(rows.column("author").combine_chunks().dictionary_encode().indices)
        log = self.column("log")
        begins = np.ones(len(rows), np.bool_)
        begins[1:] = (author[1:] != author[:-1]) | (log[1:] != log[:-1])
        self.of = begins.cumsum() - 1
        starts = begins.nonzero()[0]
        self.count = len(starts)
        self.authors = rows.column("author").take(starts)
        self.ids = unsigned(log[starts])
        self.verdict = self.column("verdict")
        self.payload = self.column("payload")
        self.entries = self.column("entries")
        self.is_bad = np.asarray(compute.equal(rows.column("reason"), BAD_SIGNATURE).fill_null(False))

    def column(self, name: str) -> npt.NDArray[Any]:
        return np.asarray(self.rows.column(name).fill_null(0))

    def runs(self, worst: int) -> Runs:
        """The numbers whose best verdict is at least as good as this position in ``VERDICTS``.

        Entries with a bad signature have no part in this: anybody can make them, of any number.
        """
        chosen = (self.verdict <= worst) & ~self.is_bad & (self.entries > 0)
        return union(self.of[chosen], self.column("low")[chosen], self.column("high")[chosen])

    def total(self, runs: Runs) -> Numbers:
        """How many numbers of each log are in runs."""
        found = np.zeros(self.count, np.uint64)
        np.add.at(found, runs.log, runs.length)
        return found


def logs(rows: pa.Table) -> pa.Table:
    """Whole logs of stretches to ``LogNumbers``."""
    of = _Logs(rows)
    held, verified = of.runs(len(VERDICTS) - 1), of.runs(0)
    newest, contiguous = np.zeros(of.count, np.uint64), np.zeros(of.count, np.uint64)
    np.maximum.at(newest, held.log, held.high)
    first = verified.low == 1
    contiguous[verified.log[first]] = verified.high[first]
    sums = _sums(of)
    forked_at = compute.coalesce(sums.column("proved_at_min"), sums.column("forked_at_min"))
    columns = {
        **{name.removesuffix("_sum"): sums.column(name) for name in sums.column_names},
        "author": of.authors,
        "log_id": decimals(of.ids),
        "newest": decimals(newest),
        "held": of.total(held).astype(np.int64),
        "held_verified": of.total(verified).astype(np.int64),
        "contiguous": decimals(contiguous),
        "missing": decimals(newest - of.total(held)),
        "forked_at": compute.if_else(
            forked_at.is_valid(), decimals(unsigned(np.asarray(forked_at.fill_null(0)))), pa.scalar(None)
        ),
    }
    made = pa.table({name: columns[name] for name in names(LogNumbers)})
    return made.filter(compute.greater(made.column("entries"), 0))


def _sums(of: _Logs) -> pa.Table:
    """The sums over the entries of each log, and the lowest forks."""
    entries, size = of.entries, of.rows.column("size")

    def where(chosen: npt.NDArray[np.bool_]) -> Longs:
        return np.where(chosen, entries, 0)

    columns = {
        "entries": entries,
        **{name: where(of.verdict == at) for at, name in enumerate(VERDICTS)},
        "bad_signatures": where(of.is_bad),
        **{f"payload_{name}": where(of.payload == rank(name)) for name in STATES},
        "claimed_bytes": size,
        "held_bytes": compute.if_else(pa.array(of.payload == rank(HELD)), size, pa.scalar(0, size.type)),
        "copies": of.rows.column("copies"),
    }
    least = {name: of.rows.column(name) for name in ("forked_at", "proved_at")}
    table = pa.table({"of": of.of, **columns, **least})
    aggregates = [(name, "sum") for name in columns] + [(name, "min") for name in least]
    return table.group_by("of", use_threads=False).aggregate(aggregates)


def coverage(rows: pa.Table, wanted: Collection[Log]) -> pa.Table:
    """Whole logs of stretches to ``CoverageNumbers``: the strips of those logs that are wanted."""
    of = _Logs(rows)
    by_verdict = [of.runs(worst) for worst in range(len(VERDICTS))]
    found: list[CoverageNumbers] = []
    for at, log in enumerate(zip(of.authors.to_pylist(), of.ids.tolist(), strict=True)):
        if log in wanted:
            found += _cells(log, [_of_log(runs, at) for runs in by_verdict])
    return table_of(CoverageNumbers, found)


def _of_log(runs: Runs, log: int) -> Runs:
    chosen = slice(*np.searchsorted(runs.log, [log, log + 1]))
    return Runs(runs.log[chosen], runs.low[chosen], runs.high[chosen])


def _cells(log: Log, by_verdict: list[Runs]) -> list[CoverageNumbers]:
    """The cells of one log's strip; ``by_verdict``: the numbers that are at least as good as each verdict."""
    held = by_verdict[-1]
    ends = cells(spans(held.low.tolist(), held.high.tolist()))
    counts = [covered(runs, ends) for runs in by_verdict]
    rows = []
    for at, (first, last) in enumerate(ends):
        verified, better, all_of_them = (count[at] for count in counts)
        parts = verified, better - verified, all_of_them - better
        rows.append(CoverageNumbers(*log, first, last, *parts, last - first + 1 - all_of_them))
    return rows


def within(rows: pa.Table, wanted: Collection[Log]) -> pa.Table:
    """The stretches of the wanted logs' authors only."""
    authors = pa.array({author for author, _ in wanted}, pa.binary())
    return rows.filter(compute.is_in(rows.column("author"), authors))


# -- strips ---------------------------------------------------------------------------------------------------------


def spans(low: Sequence[int], high: Sequence[int]) -> list[Span]:
    """The parts of a log that its strip shows, from the ends of all runs of numbers held, in ascending order."""
    if not low:
        return []
    before = [0, *high[:-1]]
    gaps = [(last + 1, first - 1) for last, first in zip(before, low, strict=True)]
    drawn, left_out = high[-1], []
    for first, last in sorted(gaps, key=lambda gap: (gap[0] - gap[1], gap[0]))[:BREAKS]:
        missing = last - first + 1
        if drawn <= CELLS or missing <= WIDEST * drawn:
            break
        left_out.append((first, last))
        drawn -= missing
    found, begin = [], 1
    for first, last in [*sorted(left_out), (high[-1] + 1, high[-1] + 1)]:
        if first > begin:
            found.append((begin, first - 1))
        begin = last + 1
    return found


def cells(parts: Sequence[Span]) -> list[Span]:
    """The cells of these parts, at most ``CELLS`` together. All have one width, so that lengths compare."""
    numbers = sum(last - first + 1 for first, last in parts)
    width = max(1, -(-numbers // (CELLS - len(parts) + 1)))
    return [(begin, min(begin + width - 1, last)) for first, last in parts for begin in range(first, last + 1, width)]


def covered(runs: Runs, parts: Sequence[Span]) -> list[int]:
    """How many numbers of each part are in the runs of one log."""
    below = np.concatenate([np.zeros(1, np.uint64), runs.length.cumsum()])

    def up_to(numbers: Sequence[int]) -> Numbers:
        limit = np.array(numbers, np.uint64)
        begun = np.searchsorted(runs.low, limit, "right")
        last = runs.high[begun - 1] if len(runs.high) else limit
        beyond = np.where(begun > 0, np.maximum(last, limit) - limit, np.uint64(0))
        return below[begun] - beyond

    found: list[int] = (up_to([last for _, last in parts]) - up_to([first - 1 for first, _ in parts])).tolist()
    return found
