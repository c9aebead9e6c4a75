"""The queries of a report, written once for both engines: from verdicts to every number that the page shows.

All counts come from the stretches of the verdicts (``culm.spark.report.stretches``), which are read once. What comes to
this process is bounded: some rows of the large tables, and counts by a few hundred kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from culm.spark.columns import SUM, Columns
from culm.spark.forks import FORKS
from culm.spark.report.coverage import coverage, logs, within
from culm.spark.report.numbers import (
    AUTHORS,
    COVERAGE,
    LOGS,
    MOST_AUTHORS,
    MOST_FORKS,
    MOST_REASONS,
    MOST_REJECTS,
    PROOF_BYTES,
    REJECTED,
    WRONG_PAYLOADS,
    AuthorNumbers,
    CoverageNumbers,
    ForkNumbers,
    LogNumbers,
    ReasonNumbers,
    RejectNumbers,
)
from culm.spark.report.stretches import STRETCHES, magnitudes, proofs, stretches
from culm.spark.report.strips import CELLS
from culm.spark.verdicts import INVALID, UNVERIFIED, VERDICTS, VERIFIED

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from culm.spark.fields import Numbers
    from culm.spark.report.engines import Engine, Table
    from culm.spark.report.stretches import Longs
    from culm.types import Log

    Rows = list[dict[str, Any]]

_MOST_KINDS = 100_000  # more than there can be: 3 verdicts, 6 payload states and 181 magnitudes; or 12, 21 and 21
_RANKED = Columns(**LOGS.types, is_whole="BOOLEAN", trouble="BIGINT")
_KINDS = Columns(
    percent="BIGINT", entry_digits="BIGINT", newest_digits="BIGINT", logs="BIGINT", forked="BIGINT", missing=SUM
)
_REASONS = Columns.of(ReasonNumbers)
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
        self._logs = self._kept(engine.map_logs(found, logs, LOGS), LOGS, "logs")

    def _kept(self, table: Table, columns: Columns, name: str) -> Table:
        return self._engine.keep(table, columns, self._place / name)

    def troubled(self, most: int) -> list[LogNumbers]:
        """The logs with most trouble: forked ones first, then by entries not verified and wrong payloads."""
        ranked = self._engine.map(self._logs, _troubled, _RANKED)
        rows = self._engine.rows(ranked, most, "is_whole", "-trouble", "author", "log_id")
        return [LogNumbers(**{name: row[name] for name in LOGS.names}) for row in rows]

    def largest(self, most: int) -> list[LogNumbers]:
        """The logs with most entries."""
        return [LogNumbers(**row) for row in self._engine.rows(self._logs, most, "-entries", "author", "log_id")]

    def kinds_of_logs(self) -> Rows:
        """Logs by ``percent`` and by the digits of how many entries they have and of their newest number.

        ``percent`` is the share of the numbers that is held and verified, in tens; None if the log has no number.
        """
        sums = dict.fromkeys(("logs", "forked", "missing"), "sum")
        keys = ("percent", "entry_digits", "newest_digits")
        return self._engine.rows(
            self._engine.group(self._engine.map(self._logs, _kinds, _KINDS), keys, **sums), _MOST_KINDS
        )

    def authors(self) -> list[AuthorNumbers]:
        """Write the table of authors. Those with most entries."""
        sums = {name: "sum" for name in AUTHORS.names if name != "author"}
        found = self._engine.group(self._engine.map(self._logs, _authors, AUTHORS), ["author"], **sums)
        rows = self._engine.rows(self._kept(found, AUTHORS, "authors"), MOST_AUTHORS, "-entries", "author")
        return [AuthorNumbers(**row) for row in rows]

    def kinds_of_entries(self) -> Rows:
        """Entries and bytes by verdict, payload state and magnitude of the number."""
        keys = ("verdict", "payload", "magnitude")
        return self._engine.rows(self._engine.group(self._stretches, keys, entries="sum", size="sum"), _MOST_KINDS)

    def copies(self) -> Rows:
        """Entries by ``found``, the magnitude of how often they were found."""
        return self._engine.rows(self._engine.group(self._stretches, ["found"], entries="sum"), _MOST_KINDS)

    def reasons(self) -> list[ReasonNumbers]:
        """The most frequent reasons for which entries are not verified."""
        found = self._engine.map(self._stretches, _untrusted, _REASONS)
        counted = self._engine.group(found, ["verdict", "reason"], entries="sum")
        return [
            ReasonNumbers(**row) for row in self._engine.rows(counted, MOST_REASONS, "-entries", "verdict", "reason")
        ]

    def forks(self) -> list[ForkNumbers]:
        """Write the table of forks: the proofs, or what reasons tell of, if there are no proofs. The first ones."""
        proved = self._engine.read("forks")
        found = self._engine.map(self._logs, _forked, FORKS) if proved is None else proved
        short = self._engine.map(self._kept(found, FORKS, "forks"), _shortened, FORKS)
        return [ForkNumbers(**row) for row in self._engine.rows(short, MOST_FORKS, "author", "log_id", "position")]

    def rejects(self) -> list[RejectNumbers]:
        """Write the table of rejects by source and reason. The most frequent ones."""
        found = self._engine.map(self._engine.read("rejects"), _rejected, REJECTED)
        counted = self._engine.group(found, ["source", "reason"], rejects="sum", first_offset="min")
        rows = self._engine.rows(self._kept(counted, REJECTED, "rejects"), MOST_REJECTS, "-rejects", "source", "reason")
        return [RejectNumbers(**row) for row in rows]

    def coverage(self, wanted: set[Log]) -> list[CoverageNumbers]:
        """The cells of the strips of some logs."""
        found = self._engine.map(self._stretches, within(wanted), STRETCHES)
        cells = self._engine.map_logs(found, coverage(wanted), COVERAGE)
        rows = self._engine.rows(cells, len(wanted) * CELLS, "author", "log_id", "first")
        return [CoverageNumbers(**row) for row in rows]


# -- steps ----------------------------------------------------------------------------------------------------------


def _troubled(rows: pa.Table) -> pa.Table:
    """``LOGS`` to ``_RANKED``, without the logs that have no trouble."""
    from pyarrow import compute

    names = (UNVERIFIED, INVALID, *(f"payload_{state}" for state in WRONG_PAYLOADS))
    trouble = sum(_longs(rows, name) for name in names)
    is_whole = compute.is_null(rows.column("forked_at"))
    ranked = rows.append_column("is_whole", is_whole).append_column("trouble", [trouble])
    return ranked.filter(compute.or_(compute.invert(is_whole), compute.greater(ranked.column("trouble"), 0)))


def _kinds(rows: pa.Table) -> pa.Table:
    """``LOGS`` to ``_KINDS``: a row for each log, to be summed."""
    import pyarrow as pa

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
    import pyarrow as pa

    forked = rows.column("forked_at").is_valid().cast(pa.int64())
    return rows.append_column("logs", [np.ones(len(rows), np.int64)]).append_column("forked_logs", forked)


def _untrusted(rows: pa.Table) -> pa.Table:
    """Stretches to ``_REASONS``, without those that are verified."""
    import pyarrow as pa
    from pyarrow import compute

    rows = rows.filter(compute.not_equal(rows.column("verdict"), VERDICTS.index(VERIFIED)))
    verdict = pa.array(VERDICTS).take(rows.column("verdict"))
    reason = rows.column("reason").fill_null("no reason given")
    return pa.table({"verdict": verdict, "reason": reason, "entries": rows.column("entries")})


def _forked(rows: pa.Table) -> pa.Table:
    """``LOGS`` to ``FORKS``, for the forks that reasons name."""
    import pyarrow as pa

    rows = rows.filter(rows.column("forked_at").is_valid())
    known = {"position": rows.column("forked_at"), "valid_to": rows.column("contiguous")}
    known |= {name: rows.column(name) for name in ("author", "log_id")}
    return pa.table({name: known.get(name, pa.nulls(len(rows), kind)) for name, kind in FORKS.arrow.items()})


def _shortened(rows: pa.Table) -> pa.Table:
    """``FORKS`` with no more of a proof than the page shows."""
    from pyarrow import compute

    at = rows.column_names.index("proof")
    return rows.set_column(at, "proof", compute.binary_slice(rows.column("proof"), 0, PROOF_BYTES))


def _rejected(rows: pa.Table) -> pa.Table:
    """Rejects to ``REJECTED``: a row for each, to be summed. Numbers in reasons become ``#``."""
    import pyarrow as pa
    from pyarrow import compute

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
    import pyarrow as pa

    return np.asarray(rows.column(name).cast(pa.uint64()))


def _digits(numbers: Numbers) -> Longs:
    """How many decimal digits each number has; 0 has none. Nine magnitudes have the same number of digits."""
    return (magnitudes(numbers) + 8) // 9
