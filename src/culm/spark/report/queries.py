"""The queries of a report, written once for both engines: from verdicts to every number that the page shows.

All counts come from the stretches of the verdicts (``culm.spark.report.stretches``), which are read once. What comes to
this process is bounded: some rows of the large tables, and counts by a few hundred kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import compute

from culm.spark.columns import Columns
from culm.spark.forks import FORKS
from culm.spark.report import numbers
from culm.spark.report.coverage import CELLS, coverage, logs, within
from culm.spark.report.numbers import EntryKind, FoundKind, LogKind
from culm.spark.report.stretches import STRETCHES, magnitudes, proofs, stretches
from culm.spark.verdicts import INVALID, UNVERIFIED, VERDICTS, VERIFIED

if TYPE_CHECKING:
    from pathlib import Path

    from culm.spark.fields import Numbers
    from culm.spark.report.engines import Engine, Row, Table
    from culm.spark.report.stretches import Longs
    from culm.types import Log

_MOST_KINDS = 100_000  # more than there can be: 3 verdicts, 6 payload states and 181 magnitudes; or 12, 21 and 21
_RANKED = Columns(**numbers.LOGS.types, is_whole="BOOLEAN", trouble="BIGINT")
_NUMBER = r"\b(0x[0-9a-f]+|[0-9a-f]*[0-9][0-9a-f]*)\b"


class Queries:
    """The queries of one report. ``place`` is the folder for its large tables."""

    def __init__(self, engine: Engine, place: Path) -> None:
        self._engine = engine
        self._place = place
        self._stretches = engine.held(engine.map(engine.read("verdicts"), stretches, STRETCHES), STRETCHES)
        found, proved = self._stretches, engine.read("forks")
        if proved is not None:
            found = engine.union(found, engine.map(proved, proofs, STRETCHES))
        self._logs = self._kept(engine.map_logs(found, logs, numbers.LOGS), numbers.LOGS, "logs")

    def _kept(self, table: Table, columns: Columns, name: str) -> Table:
        return self._engine.keep(table, columns, self._place / name)

    def _first(self, table: Table, of: type[Row], most: int, *order: str) -> list[Row]:
        return self._engine.rows(table, of, most, *order)

    def _kinds(self, table: Table, of: type[Row], *keys: str) -> list[Row]:
        """The combinations of keys, which are few, with the sums of all other columns."""
        return self._first(self._engine.group(table, Columns.of(of), *keys), of, _MOST_KINDS)

    def troubled(self, most: int) -> list[numbers.LogNumbers]:
        """The logs with most trouble: forked ones first, then by entries not verified and wrong payloads."""
        ranked = self._engine.map(self._logs, _troubled, _RANKED)
        return self._first(ranked, numbers.LogNumbers, most, "is_whole", "-trouble", "author", "log_id")

    def largest(self, most: int) -> list[numbers.LogNumbers]:
        """The logs with most entries."""
        return self._first(self._logs, numbers.LogNumbers, most, "-entries", "author", "log_id")

    def kinds_of_logs(self) -> list[LogKind]:
        """How many logs there are of each kind."""
        kinds = self._engine.map(self._logs, _kinds, Columns.of(LogKind))
        return self._kinds(kinds, LogKind, "percent", "entry_digits", "newest_digits")

    def authors(self) -> list[numbers.AuthorNumbers]:
        """Write the table of authors. Those with most entries."""
        columns = numbers.AUTHORS
        found = self._engine.group(self._engine.map(self._logs, _authors, columns), columns, "author")
        kept = self._kept(found, columns, "authors")
        return self._first(kept, numbers.AuthorNumbers, numbers.MOST_AUTHORS, "-entries", "author")

    def kinds_of_entries(self) -> list[EntryKind]:
        """Entries and the bytes that they claim, of each kind."""
        return self._kinds(self._stretches, EntryKind, "verdict", "payload", "magnitude")

    def copies(self) -> list[FoundKind]:
        """Entries by how often they were found."""
        return self._kinds(self._stretches, FoundKind, "found")

    def reasons(self) -> list[numbers.ReasonNumbers]:
        """The most frequent reasons for which entries are not verified."""
        columns = Columns.of(numbers.ReasonNumbers)
        found = self._engine.group(self._engine.map(self._stretches, _untrusted, columns), columns, "verdict", "reason")
        return self._first(found, numbers.ReasonNumbers, numbers.MOST_REASONS, "-entries", "verdict", "reason")

    def forks(self) -> list[numbers.ForkNumbers]:
        """Write the table of forks: the proofs, or what reasons tell of, if there are no proofs. The first ones."""
        proved = self._engine.read("forks")
        found = self._engine.map(self._logs, _forked, FORKS) if proved is None else proved
        short = self._engine.map(self._kept(found, FORKS, "forks"), _shortened, FORKS)
        return self._first(short, numbers.ForkNumbers, numbers.MOST_FORKS, "author", "log_id", "position")

    def rejects(self) -> list[numbers.RejectNumbers]:
        """Write the table of rejects by source and reason. The most frequent ones."""
        columns = numbers.REJECTED
        found = self._engine.map(self._engine.read("rejects"), _rejected, columns)
        counted = self._engine.group(found, columns, "source", "reason", least=("first_offset",))
        kept = self._kept(counted, columns, "rejects")
        return self._first(kept, numbers.RejectNumbers, numbers.MOST_REJECTS, "-rejects", "source", "reason")

    def coverage(self, wanted: set[Log]) -> list[numbers.CoverageNumbers]:
        """The cells of the strips of some logs."""
        found = self._engine.map(self._stretches, within(wanted), STRETCHES)
        cells = self._engine.map_logs(found, coverage(wanted), numbers.COVERAGE)
        return self._first(cells, numbers.CoverageNumbers, len(wanted) * CELLS, "author", "log_id", "first")


# -- steps ----------------------------------------------------------------------------------------------------------


def _troubled(rows: pa.Table) -> pa.Table:
    """``LOGS`` to ``_RANKED``, without the logs that have no trouble."""
    names = (UNVERIFIED, INVALID, *(f"payload_{state}" for state in numbers.WRONG_PAYLOADS))
    trouble = sum(_longs(rows, name) for name in names)
    is_whole = compute.is_null(rows.column("forked_at"))
    ranked = rows.append_column("is_whole", is_whole).append_column("trouble", [trouble])
    return ranked.filter(compute.or_(compute.invert(is_whole), compute.greater(ranked.column("trouble"), 0)))


def _kinds(rows: pa.Table) -> pa.Table:
    """``LOGS`` to ``LogKind``: a row for each log, to be summed."""
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
    """``LOGS`` to ``AUTHORS``: a row for each log, to be summed."""
    forked = rows.column("forked_at").is_valid().cast(pa.int64())
    return rows.append_column("logs", [np.ones(len(rows), np.int64)]).append_column("forked_logs", forked)


def _untrusted(rows: pa.Table) -> pa.Table:
    """Stretches to ``ReasonNumbers``, without those that are verified."""
    rows = rows.filter(compute.not_equal(rows.column("verdict"), VERDICTS.index(VERIFIED)))
    verdict = pa.array(VERDICTS).take(rows.column("verdict"))
    reason = rows.column("reason").fill_null("no reason given")
    return pa.table({"verdict": verdict, "reason": reason, "entries": rows.column("entries")})


def _forked(rows: pa.Table) -> pa.Table:
    """``LOGS`` to ``FORKS``, for the forks that reasons name."""
    rows = rows.filter(rows.column("forked_at").is_valid())
    known = {"position": rows.column("forked_at"), "valid_to": rows.column("contiguous")}
    known |= {name: rows.column(name) for name in ("author", "log_id")}
    return pa.table({name: known.get(name, pa.nulls(len(rows), kind)) for name, kind in FORKS.arrow.items()})


def _shortened(rows: pa.Table) -> pa.Table:
    """``FORKS`` with no more of a proof than the page shows."""
    at = rows.column_names.index("proof")
    return rows.set_column(at, "proof", compute.binary_slice(rows.column("proof"), 0, numbers.PROOF_BYTES))


def _rejected(rows: pa.Table) -> pa.Table:
    """Rejects to ``REJECTED``: a row for each, to be summed. Numbers in reasons become ``#``."""
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
