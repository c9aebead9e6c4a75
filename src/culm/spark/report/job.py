"""The report on a verification, from its folder to another: what ``culm spark report`` runs.

::

    OUTPUT/report.html         one page, without anything from elsewhere
    OUTPUT/numbers/logs/       Parquet: a row for each log (``culm.spark.report.numbers.LogNumbers``)
    OUTPUT/numbers/authors/    a row for each author
    OUTPUT/numbers/forks/      a row for each fork
    OUTPUT/numbers/rejects/    what could not be read, by source and reason
    OUTPUT/numbers/*.parquet   the small tables of the page (``culm.spark.report.numbers.SMALL``)
    OUTPUT/summary.json        the counts

Up to ``SMALL_ENTRIES`` are counted in this process, where that takes a second or two. Spark counts larger inputs. The
queries are written once for both, and read the verdicts once. With Spark, what comes to this process is bounded: some
rows of the large tables, and counts by a few hundred kinds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from culm.bamboo import MAX_U64
from culm.errors import ConfigError
from culm.spark.batches.payload import HELD, STATES
from culm.spark.report import numbers, steps
from culm.spark.report.coverage import CELLS, coverage, logs_of, within
from culm.spark.report.numbers import EntryKind, FoundKind, LogKind, LogNumbers, Totals, write_small
from culm.spark.report.page import page
from culm.spark.report.source import Source, source_of
from culm.spark.report.steps import DescribedLog, by_logs, mapped
from culm.spark.report.stretches import Stretch, magnitude, proofs, stretches
from culm.spark.runtime.engine import Engine
from culm.spark.runtime.output import count_rows, other_version
from culm.spark.runtime.shell import Job, job
from culm.spark.verification.forks import Fork
from culm.spark.verification.verdicts import VERDICTS, VERIFIED

PAGE = "report.html"
DEFAULT_LOGS, MOST_LOGS = 25, 100
"""Logs that a page shows, twice (largest, and most troubled). More than 100 would make a page that nobody reads and
that no longer can be mailed."""

SMALL_ENTRIES = 2_000_000
"""Entries and rejects that are counted without Spark, unless a master is named. At worst each is a stretch of its own
and takes 250 bytes of memory, so this many take half a gigabyte. With a lower value Spark's start, ten seconds, would
take longer than the counting."""

_MOST_KINDS = 100_000  # more than there can be: 3 verdicts, 6 payload states and 181 magnitudes; or 12, 21 and 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Totals):
    """The summary: the counts of the page's headline, the size of the page in bytes, the time in seconds."""

    page_bytes: int


def run(
    results: str,
    output: Path,
    *,
    logs: int = DEFAULT_LOGS,
    master: str | None = None,
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Report on the results of a verification, or on a state, and write the folder ``output``: all of it, or none.

    ``logs``: the page shows the coverage of so many of the largest logs, and of as many with most trouble, 1 to 100.
    ``master`` is Spark's; a session that is active already is used instead. Without either, up to ``SMALL_ENTRIES``
    are counted without Spark, more on ``local[*]``. ``overwrite``, ``progress``: as in ``culm.spark.run``.

    ``ConfigError``, before Spark is started, if ``results`` is no such folder, ``logs`` is out of range, or the output
    cannot be written. ``ConfigError`` if Spark, Java or the master is missing. ``CulmError`` if Spark fails, or a table
    cannot be read.
    """
    if not 1 <= logs <= MOST_LOGS:
        raise ConfigError(f"{logs} logs; accepted: 1 to {MOST_LOGS}, since a page must stay small")
    source = source_of(Path(results).absolute())
    mode = {"logs": logs}
    with job("report", output, [source.folder], mode=mode, overwrite=overwrite, progress=progress) as run:
        if source.state is None and (other := other_version(source.said)) is not None:
            run.say(other)
        (run.folder / "numbers").mkdir()
        with run.engine(master, small=source.entries + source.rejected <= SMALL_ENTRIES) as engine:
            run.say(f"reading {source.entries:,} verdicts")
            found = counted(source, engine, run, logs)
        write_small(found, run.folder / "numbers")
        text = page(found).encode("utf-8", "xmlcharrefreplace")
        (run.folder / PAGE).write_bytes(text)
        return run.done(Report(**asdict(found.totals), page_bytes=len(text)))


def counted(source: Source, engine: Engine, run: Job, most: int) -> numbers.Numbers:
    """Everything that the page shows, and the large tables in the folder ``numbers`` of the job.

    ``most``: the largest and the most troubled logs to draw, of each. Forked logs are the most troubled ones; then come
    those with most entries that are not verified or have a wrong payload.
    """
    folder, say = run.folder / "numbers", run.say
    verdicts, proved, rejected = source.tables(engine)
    entries = mapped(verdicts, stretches, Stretch).kept()
    of_logs = entries if proved is None else entries.union(mapped(proved, proofs, Stretch))
    logs = by_logs(of_logs, logs_of, LogNumbers).kept(folder / "logs")
    described = mapped(logs, steps.described, DescribedLog)

    say("counting logs and authors")
    troubled = described.where("trouble").first(LogNumbers, most, "is_whole", "-trouble", "author", "log_id")
    largest = logs.first(LogNumbers, most, "-entries", "author", "log_id")
    kinds_by = ("percent", "entry_digits", "newest_digits")
    log_kinds = described.total(kinds_by, LogKind).first(LogKind, _MOST_KINDS)
    authors = described.total(("author",), numbers.AuthorNumbers).kept(folder / "authors")

    say("counting verdicts, payloads and reasons")
    entry_kinds = entries.total(("verdict", "payload", "magnitude"), EntryKind).first(EntryKind, _MOST_KINDS)
    copies = entries.total(("found",), FoundKind).first(FoundKind, _MOST_KINDS)
    untrusted = mapped(entries, steps.untrusted, numbers.ReasonNumbers)
    reasons = untrusted.total(("verdict", "reason"), numbers.ReasonNumbers)

    say("counting forks and rejects")
    told_of = logs.where("forked_at").select(Fork, position="forked_at", valid_to="contiguous")
    forks = mapped((told_of if proved is None else proved).kept(folder / "forks"), steps.shortened, Fork)
    kinds = mapped(rejected, steps.rejected, numbers.RejectNumbers)
    rejects = kinds.total(("source", "reason"), numbers.RejectNumbers, least=("first_offset",)).kept(folder / "rejects")

    say("looking at single logs")
    wanted = {log.log for log in (*troubled, *largest)}
    drawn = mapped(entries, partial(within, wanted=wanted), Stretch)
    cells = by_logs(drawn, coverage, numbers.CoverageNumbers)
    sums = {name: sum(getattr(row, name) for row in log_kinds) for name in LogKind._fields[len(kinds_by) :]}
    return numbers.Numbers(
        name=source.folder.name,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        totals=Totals(**sums, authors=count_rows(folder / "authors"), rejects=source.rejected),
        troubled=troubled,
        largest=largest,
        coverage=cells.first(numbers.CoverageNumbers, len(wanted) * CELLS, "author", "log_id", "first"),
        authors=authors.first(numbers.AuthorNumbers, numbers.MOST_AUTHORS, "-entries", "author"),
        forks=forks.first(numbers.ForkNumbers, numbers.MOST_FORKS, "author", "log_id", "position"),
        forks_in_all=count_rows(folder / "forks"),
        proofs=proved is not None,
        rejects=rejects.first(numbers.RejectNumbers, numbers.MOST_REJECTS, "-rejects", "source", "reason"),
        rejects_in_all=count_rows(folder / "rejects"),
        reasons=reasons.first(numbers.ReasonNumbers, numbers.MOST_REASONS, "-entries", "verdict", "reason"),
        payloads=payloads(entry_kinds),
        copies=sorted(numbers.CopiesNumbers(*magnitude(row.found), row.entries) for row in copies),
        completeness=completeness(log_kinds),
        lengths=lengths(log_kinds),
        growth=growth(entry_kinds),
        said=source.said,
        of_state=source.state is not None,
        seconds=round(time.monotonic() - run.started, 3),
    )


# -- small tables: plain functions of plain values ---------------------------------------------------------------------


def payloads(entries: Iterable[EntryKind]) -> list[numbers.PayloadNumbers]:
    """Entries by verdict and payload state, in the order of ``VERDICTS`` and ``STATES``."""
    counts, sizes = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for row in entries:
        counts[row.verdict, row.payload] += row.entries
        sizes[row.verdict, row.payload] += row.size
    return [
        numbers.PayloadNumbers(VERDICTS[verdict], STATES[payload], count, sizes[verdict, payload])
        for (verdict, payload), count in sorted(counts.items())
    ]


def growth(entries: Iterable[EntryKind]) -> list[numbers.GrowthNumbers]:
    """Sums over all entries up to each sequence number at which the first digit changes."""
    kinds = sorted(entries, key=lambda row: row.magnitude)
    verified = [row.entries * (VERDICTS[row.verdict] == VERIFIED) for row in kinds]
    held = [row.size * (STATES[row.payload] == HELD) for row in kinds]
    columns = [row.entries for row in kinds], verified, [row.size for row in kinds], held
    grown = zip(kinds, *(np.cumsum(np.array(column, object)) for column in columns), strict=True)
    found = {row.magnitude: numbers.GrowthNumbers(magnitude(row.magnitude)[1], *sums) for row, *sums in grown}
    return [*found.values()]  # of each magnitude the sums after its last row


def completeness(logs: Iterable[LogKind]) -> list[numbers.CompletenessNumbers]:
    """Logs by tens of percent, also those that no log has; at the end logs without a number, if there are any."""
    counts = _tally(logs, "percent")
    return [
        numbers.CompletenessNumbers(percent, counts[percent])
        for percent in (*range(0, 101, 10), None)
        if percent is not None or counts[percent]
    ]


def lengths(logs: Sequence[LogKind]) -> list[numbers.LengthNumbers]:
    """Logs by powers of ten, from 1 to the greatest power that any log has."""
    by_entries, by_newest = _tally(logs, "entry_digits"), _tally(logs, "newest_digits")
    return [
        numbers.LengthNumbers(10 ** (digits - 1), min(MAX_U64, 10**digits - 1), by_entries[digits], by_newest[digits])
        for digits in range(1, max((*by_entries, *by_newest), default=0) + 1)
    ]


def _tally(logs: Iterable[LogKind], column: str) -> Counter[Any]:
    """How many logs have each value in a column."""
    found = Counter[Any]()
    for row in logs:
        found[getattr(row, column)] += row.logs
    return found
