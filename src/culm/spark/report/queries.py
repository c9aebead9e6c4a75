"""The queries of a report, written once for both engines: from verdicts to every number that the page shows.

All counts come from the stretches of the verdicts (``culm.spark.report.stretches``), which are read once. What comes to
this process is bounded: some rows of the large tables, and counts by a few hundred kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from culm.spark.batches.fields import Numbers
from culm.spark.report import numbers
from culm.spark.report.coverage import CELLS, coverage, logs, within
from culm.spark.report.numbers import (
    AuthorNumbers,
    CoverageNumbers,
    EntryKind,
    ForkNumbers,
    FoundKind,
    LogKind,
    LogNumbers,
    ReasonNumbers,
    RejectNumbers,
)
from culm.spark.report.source import Source
from culm.spark.report.stretches import Longs, Stretch, magnitudes, proofs, stretches
from culm.spark.runtime.columns import Batch, R, Row, combined, names, schema
from culm.spark.runtime.engine import Engine, Table
from culm.spark.verification.forks import Fork
from culm.spark.verification.steps import LOG
from culm.spark.verification.verdicts import INVALID, UNVERIFIED, VERDICTS, VERIFIED
from culm.types import Log

Step = Callable[[pa.Table], pa.Table]

_STEP_ROWS = 2**16  # that a step gets at once; each row takes some 200 bytes of memory
_MOST_KINDS = 100_000  # more than there can be: 3 verdicts, 6 payload states and 181 magnitudes; or 12, 21 and 21
_NUMBER = r"\b(0x[0-9a-f]+|[0-9a-f]*[0-9][0-9a-f]*)\b"


class Trouble(NamedTuple):
    """Whether a log has no fork, and how many of its entries are in trouble."""

    is_whole: bool
    trouble: int


Ranked = combined("Ranked", __name__, LogNumbers, Trouble)


class Queries:
    """The queries of one report. ``place`` is the folder for its large tables."""

    def __init__(self, source: Source, engine: Engine, place: Path) -> None:
        self._place = place
        verdicts, self._proved, self._rejects = source.tables(engine)
        self._stretches = _mapped(verdicts, stretches, Stretch).kept()
        found = self._stretches
        if self._proved is not None:
            found = found.union(_mapped(self._proved, proofs, Stretch))
        self._logs = _by_logs(found, logs, LogNumbers).kept(place / "logs")

    def troubled(self, most: int) -> list[LogNumbers]:
        """The logs with most trouble: forked ones first, then by entries not verified and wrong payloads."""
        ranked = _mapped(self._logs, _troubled, Ranked)
        return ranked.first(LogNumbers, most, "is_whole", "-trouble", "author", "log_id")

    def largest(self, most: int) -> list[LogNumbers]:
        """The logs with most entries."""
        return self._logs.first(LogNumbers, most, "-entries", "author", "log_id")

    def kinds_of_logs(self) -> list[LogKind]:
        """How many logs there are of each kind."""
        keys = ("percent", "entry_digits", "newest_digits")
        return _mapped(self._logs, _kinds, LogKind).total(keys, LogKind).first(LogKind, _MOST_KINDS)

    def authors(self) -> list[AuthorNumbers]:
        """Write the table of authors. Those with most entries."""
        found = _mapped(self._logs, _authors, AuthorNumbers).total(("author",), AuthorNumbers)
        kept = found.kept(self._place / "authors")
        return kept.first(AuthorNumbers, numbers.MOST_AUTHORS, "-entries", "author")

    def kinds_of_entries(self) -> list[EntryKind]:
        """Entries and the bytes that they claim, of each kind."""
        return self._stretches.total(("verdict", "payload", "magnitude"), EntryKind).first(EntryKind, _MOST_KINDS)

    def copies(self) -> list[FoundKind]:
        """Entries by how often they were found."""
        return self._stretches.total(("found",), FoundKind).first(FoundKind, _MOST_KINDS)

    def reasons(self) -> list[ReasonNumbers]:
        """The most frequent reasons for which entries are not verified."""
        found = _mapped(self._stretches, _untrusted, ReasonNumbers).total(("verdict", "reason"), ReasonNumbers)
        return found.first(ReasonNumbers, numbers.MOST_REASONS, "-entries", "verdict", "reason")

    def forks(self) -> list[ForkNumbers]:
        """Write the table of forks: the proofs, or what reasons tell of, if there are no proofs. The first ones."""
        found = _mapped(self._logs, _forked, Fork) if self._proved is None else self._proved
        short = _mapped(found.kept(self._place / "forks"), _shortened, Fork)
        return short.first(ForkNumbers, numbers.MOST_FORKS, "author", "log_id", "position")

    def rejects(self) -> list[RejectNumbers]:
        """Write the table of rejects by source and reason. The most frequent ones."""
        found = _mapped(self._rejects, _rejected, RejectNumbers)
        counted = found.total(("source", "reason"), RejectNumbers, least=("first_offset",))
        kept = counted.kept(self._place / "rejects")
        return kept.first(RejectNumbers, numbers.MOST_REJECTS, "-rejects", "source", "reason")

    def coverage(self, wanted: set[Log]) -> list[CoverageNumbers]:
        """The cells of the strips of some logs."""
        found = _mapped(self._stretches, partial(within, wanted=wanted), Stretch)
        cells = _by_logs(found, partial(coverage, wanted=wanted), CoverageNumbers)
        return cells.first(CoverageNumbers, len(wanted) * CELLS, "author", "log_id", "first")


# -- portions -------------------------------------------------------------------------------------------------------
#
# Rows come in batches of any size. A step gets some ten thousand rows at once, because each call costs some
# milliseconds; not all rows, so that memory is bounded.


def _mapped(table: Table[Any], step: Step, into: type[R]) -> Table[R]:
    """What a step makes of portions of the rows, in any order."""
    return table.map(lambda batches: _made(step, into, _portions(batches)), into, columnar=True)


def _by_logs(table: Table[Any], step: Step, into: type[R]) -> Table[R]:
    """The same of portions that have whole logs."""
    return table.spread(LOG).map(lambda batches: _made(step, into, _whole_logs(batches)), into, columnar=True)


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


# -- steps ----------------------------------------------------------------------------------------------------------


def _troubled(rows: pa.Table) -> pa.Table:
    """``LogNumbers`` to ``Ranked``, without the logs that have no trouble."""
    names = (UNVERIFIED, INVALID, *(f"payload_{state}" for state in numbers.WRONG_PAYLOADS))
    trouble = sum(_longs(rows, name) for name in names)
    is_whole = compute.is_null(rows.column("forked_at"))
    ranked = rows.append_column("is_whole", is_whole).append_column("trouble", [trouble])
    return ranked.filter(compute.or_(compute.invert(is_whole), compute.greater(ranked.column("trouble"), 0)))


def _kinds(rows: pa.Table) -> pa.Table:
    """``LogNumbers`` to ``LogKind``: a row for each log, to be summed."""
    newest, verified = _unsigned(rows, "newest"), _unsigned(rows, "held_verified")
    tens = verified * np.uint64(10) // np.maximum(newest, np.uint64(1))
    return pa.table(
        {
            "percent": pa.array(tens.astype(np.int64) * 10, mask=newest == 0),
            "entry_digits": _digits(_unsigned(rows, "entries")),
            "newest_digits": _digits(newest),
            "logs": np.ones(len(rows), np.int64),
            "forked": rows.column("forked_at").is_valid().cast(pa.int64()),
            "missing": rows.column("missing"),
        }
    )


def _authors(rows: pa.Table) -> pa.Table:
    """``LogNumbers`` to ``AuthorNumbers``: a row for each log, to be summed."""
    forked = rows.column("forked_at").is_valid().cast(pa.int64())
    return rows.append_column("logs", [np.ones(len(rows), np.int64)]).append_column("forked_logs", forked)


def _untrusted(rows: pa.Table) -> pa.Table:
    """Stretches to ``ReasonNumbers``, without those that are verified."""
    rows = rows.filter(compute.not_equal(rows.column("verdict"), VERDICTS.index(VERIFIED)))
    verdict = pa.array(VERDICTS).take(rows.column("verdict"))
    reason = rows.column("reason").fill_null("no reason given")
    return pa.table({"verdict": verdict, "reason": reason, "entries": rows.column("entries")})


def _forked(rows: pa.Table) -> pa.Table:
    """``LogNumbers`` to ``Fork``, for the forks that reasons name."""
    rows = rows.filter(rows.column("forked_at").is_valid())
    known = {"position": rows.column("forked_at"), "valid_to": rows.column("contiguous")}
    known |= {name: rows.column(name) for name in ("author", "log_id")}
    return pa.table({one.name: known.get(one.name, pa.nulls(len(rows), one.type)) for one in schema(Fork)})


def _shortened(rows: pa.Table) -> pa.Table:
    """``Fork`` with no more of a proof than the page shows."""
    at = rows.column_names.index("proof")
    return rows.set_column(at, "proof", compute.binary_slice(rows.column("proof"), 0, numbers.PROOF_BYTES))


def _rejected(rows: pa.Table) -> pa.Table:
    """Rejects to ``RejectNumbers``: a row for each, to be summed. Numbers in reasons become ``#``."""
    return pa.table(
        {
            "source": rows.column("source"),
            "reason": compute.replace_substring_regex(rows.column("reason").cast(pa.string()), _NUMBER, "#"),
            "rejects": np.ones(len(rows), np.int64),
            "first_offset": rows.column("offset"),
        }
    )


def _longs(rows: pa.Table, name: str) -> Longs:
    return np.asarray(rows.column(name))


def _unsigned(rows: pa.Table, name: str) -> Numbers:
    return np.asarray(rows.column(name).cast(pa.uint64()))


def _digits(numbers: Numbers) -> Longs:
    """How many decimal digits each number has; 0 has none. Nine magnitudes have the same number of digits."""
    return (magnitudes(numbers) + 8) // 9
