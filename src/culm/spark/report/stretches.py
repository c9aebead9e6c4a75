"""Stretches: a table of verdicts, run-length encoded. Everything that a report counts is counted from them.

A verification writes a row for each entry, and neighbouring rows are mostly alike: the next number of the same log,
with the same verdict, payload state and reason. A stretch is such neighbours as one row. A log of 65,536 entries
without trouble is some 40 stretches, so that all later steps have little to do, on Spark and without.

The rows need not be sorted. Where they are not, or where a number comes twice (a fork), stretches are shorter, and
several of a log may overlap. So a number that is held must be counted by the union of stretches (``union``). A number
that several entries have counts once, with the best of their verdicts. That is a union, too: the numbers with a
verified entry are the union of the verified stretches; the numbers whose best verdict is at most ``unverified`` are
the union of verified and unverified stretches.

A stretch also ends where the *magnitude* of the number, or of the copies, changes. The magnitude is the number of
digits with the first digit: 1, 2, ... 9, 10 to 19, 20 to 29 and so on. Counts by number or by copies could have 2^64
kinds; by magnitude they have fewer than 200.

Log ids and the numbers of entries are signed longs, 2^63 lower, as in ``runtime.columns``.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.bamboo import MAX_U64
from culm.errors import CulmError
from culm.spark.batches.arrays import begins, decimals, signed, unsigned
from culm.spark.batches.fields import Numbers, Offsets
from culm.spark.batches.payload import STATES
from culm.spark.runtime.columns import Sum, Tiny, Unsigned, fitted, names
from culm.spark.verification.verdicts import VERDICTS


class Stretch(NamedTuple):
    """The numbers ``low`` to ``high`` of a log.

    ``verdict`` and ``payload`` are positions in ``VERDICTS`` and ``STATES``, ``magnitude`` and ``found`` (of the copies
    of each entry) in ``magnitudes``, ``forked_at`` is what the reason names. A proof of a fork has no entries.
    """

    author: bytes
    log: int
    low: int
    high: int
    verdict: Tiny
    payload: Tiny
    reason: str | None
    magnitude: int
    found: int
    forked_at: Unsigned | None
    entries: int
    size: Sum
    copies: int


NO_ENTRY = "a row is not an entry: its numbers must be whole, its seqnum 1 to 2^64 - 1"
_FORK = re.compile(r"fork at ([0-9]{1,20})")
_PLACE = re.compile(r" at [0-9]+$")
_MOST_LETTERS = 80  # Of a reason's words. A table can hold anything there; longer texts would break the page's table.
_STEPS: Numbers = np.array([*(digit * 10**power for power in range(19) for digit in range(1, 10)), 10**19], np.uint64)


def magnitude(position: int) -> tuple[int, int]:
    """The least and the greatest number of a magnitude. The first one, at 0, is that of the number 0."""
    low = int(_STEPS[position - 1]) if position else 0
    return low, int(_STEPS[position]) - 1 if position < len(_STEPS) else MAX_U64


def magnitudes(numbers: Numbers) -> Offsets:
    """The positions of the magnitudes of numbers."""
    return np.searchsorted(_STEPS, numbers, "right")


def stretches(rows: pa.Table) -> pa.Table:
    """Verdicts, at least one, to ``Stretch``. ``CulmError`` for a row that is no entry, or whose verdict is unknown."""
    number, log, size = unsigned_of(rows, "seqnum", "log_id", "size")
    if not number.all():
        raise CulmError(NO_ENTRY)
    copies = np.asarray(rows.column("copies").fill_null(0)).astype(np.int64)
    author, _ = encoded(rows.column("author"))
    verdict = _codes(rows.column("verdict"), VERDICTS, "verdict")
    payload = _codes(rows.column("payload"), STATES, "state of a payload")
    at_reason, reasons = encoded(rows.column("reason"))
    told = [_told(reason) for reason in reasons]
    alike = {one: position for position, one in enumerate(told)}
    reason = np.array([alike[one] for one in told], np.int64)[at_reason]
    sizes, found = magnitudes(number), magnitudes(np.maximum(copies, 0).astype(np.uint64))
    follows = number - np.arange(len(number), dtype=np.uint64)  # the same for numbers that follow each other
    starts = begins(follows, author, log, verdict, payload, reason, sizes, found)
    counts = np.diff(starts, append=len(number))
    forked_at = np.array([position for _, position in told], np.uint64)[reason[starts]]
    low, words = signed(number[starts]), pa.array([words for words, _ in told], pa.string())
    place = rows.column("author").take(starts), signed(log[starts]), low, low + counts - 1
    kind = verdict[starts], payload[starts], words.take(reason[starts]), sizes[starts], found[starts]
    sums = counts, _sums(size, starts), np.add.reduceat(copies, starts)
    columns = *place, *kind, pa.array(forked_at, mask=forked_at == 0), *sums
    return pa.table(dict(zip(names(Stretch), columns, strict=True)))


def proofs(rows: pa.Table) -> pa.Table:
    """Proofs of forks as rows of ``Stretch`` without entries, for their logs to find."""
    log, position = unsigned_of(rows, "log_id", "position")
    given = {"log": signed(log), "forked_at": decimals(position), "entries": 0, "size": 0, "copies": 0}
    return fitted(rows, Stretch, given)


class Runs(NamedTuple):
    """Stretches that neither overlap nor touch, ascending: the log (a position), the first number, the last."""

    log: Offsets
    low: Numbers
    high: Numbers


def union(log: Offsets, low: Offsets, high: Offsets) -> Runs:
    """Stretches that overlap or touch become one.

    Each stretch opens before its lowest number and closes after its highest. Going up the numbers of a log, a run
    begins where the first stretch opens, and ends where none is open any more.
    """
    place, step = np.concatenate([low - 1, high]), np.repeat([1, -1], len(low))
    of = np.concatenate([log, log])
    order = np.lexsort((-step, place, of))  # what closes where another one opens, closes after that: they touch
    depth = step[order].cumsum()
    opens, closes = order[(depth == 1) & (step[order] == 1)], order[depth == 0]
    return Runs(of[opens], unsigned(place[opens] + 1), unsigned(place[closes]))


def unsigned_of(rows: pa.Table, *names: str) -> list[Numbers]:
    """The unsigned 64-bit numbers of some columns; ``CulmError`` if there is anything else in them."""
    kinds = pa.schema([pa.field(name, pa.uint64(), nullable=False) for name in names])
    try:
        return [np.asarray(column) for column in rows.select(names).cast(kinds).columns]
    except ValueError:
        raise CulmError(NO_ENTRY) from None


def encoded(column: pa.ChunkedArray) -> tuple[Offsets, list[Any]]:
    """For each row the position of its value in the list of distinct values, in which null is one."""
    whole = column.combine_chunks().dictionary_encode("encode")
    return np.asarray(whole.indices).astype(np.int64), whole.dictionary.to_pylist()


def _codes(column: pa.ChunkedArray, names: Sequence[str], what: str) -> npt.NDArray[np.int8]:
    """The positions of a column's values in ``names``; ``CulmError`` for any other value."""
    found = compute.index_in(column, pa.array(names))
    if found.null_count:
        unknown = min(map(repr, column.filter(found.is_null()).unique().to_pylist()))
        raise CulmError(f"{unknown} is not a {what}; expected {', '.join(names)}")
    return np.asarray(found).astype(np.int8)


def _sums(values: Numbers, starts: npt.NDArray[np.intp]) -> pa.Array:
    """Sums from each start to the next. They may exceed 64 bits, so the halves of the values are summed apart.

    Arrow sums decimals exactly, too, but takes twice as long for the whole step.
    """
    halves = values >> np.uint64(32), values & np.uint64(2**32 - 1)
    high, low = (decimals(np.add.reduceat(half, starts)) for half in halves)
    return compute.add(compute.multiply(high, pa.scalar(2**32, pa.decimal128(10, 0))), low)


def _told(reason: str | None) -> tuple[str | None, int]:
    """A reason without its numbers, so that ``fork at 7`` and ``fork at 9`` count together; and the fork, or 0."""
    if reason is None:
        return None, 0
    found = _FORK.fullmatch(reason)
    position = int(found[1]) if found else 0
    return _PLACE.sub("", reason.split(":")[0])[:_MOST_LETTERS], position if position <= MAX_U64 else 0
