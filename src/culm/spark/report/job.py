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

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import Any

from culm.bamboo import MAX_U64
from culm.errors import ConfigError
from culm.spark.batches.payload import HELD, STATES
from culm.spark.report import numbers, steps
from culm.spark.report.numbers import SMALL, EntryKind, LogKind, LogNumbers, Report
from culm.spark.report.page import page
from culm.spark.report.source import Source, source_of
from culm.spark.report.stretches import Stretch, magnitude, proofs, stretches
from culm.spark.runtime.columns import table_of
from culm.spark.runtime.engine import Engine
from culm.spark.runtime.output import count_rows, write_file
from culm.spark.runtime.shell import Job, job, local_input
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

# More than there can be: 3 verdicts, 6 payload states, 181 magnitudes and 172 of copies. Of real logs it is hundreds.
_MOST_KINDS = 1_000_000


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
    with (
        job("report", output, [results], mode={"logs": logs}, overwrite=overwrite, progress=progress) as run,
        local_input(results) as given,
    ):
        source = source_of(given)
        if source.other:
            run.say(source.other)
        with run.engine(master, small=source.entries + source.rejected <= SMALL_ENTRIES) as engine:
            run.say(f"reading {source.entries:,} verdicts")
            found = counted(source, engine, run, logs)
        for name, table in SMALL.items():
            write_file(table_of(table, found.tables[name]), run.folder / "numbers" / f"{name}.parquet")
        size = (run.folder / PAGE).write_bytes(page(found).encode("utf-8", "xmlcharrefreplace"))
        return run.done(replace(found.totals, page_bytes=size))


def counted(source: Source, engine: Engine, run: Job, most: int) -> numbers.Numbers:
    """Everything that the page shows, and the large tables in the folder ``numbers`` of the job.

    ``most``: the largest and the most troubled logs to draw, of each. Forked logs are the most troubled ones; then come
    those with most entries that are not verified or have a wrong payload.
    """
    folder, say = run.folder / "numbers", run.say
    verdicts, proved, rejected = source.tables(engine)
    entries = steps.mapped(verdicts, stretches, Stretch).kept()
    of_logs = entries if proved is None else entries.union(steps.mapped(proved, proofs, Stretch))
    logs = steps.mapped(of_logs, steps.logs_of, LogNumbers, by_log=True).kept(folder / "logs")
    described = steps.mapped(logs, steps.described, numbers.DescribedLog)

    say("counting logs and authors")
    troubled = described.where("trouble").first(LogNumbers, most, "-forked_logs", "-trouble", "author", "log_id")
    largest = logs.first(LogNumbers, most, "-entries", "author", "log_id")
    log_kinds = described.total(LogKind._fields[:3], LogKind).first(LogKind, _MOST_KINDS)
    authors = described.total(("author",), numbers.AuthorNumbers).kept(folder / "authors")

    say("counting verdicts, payloads and reasons")
    entry_kinds = entries.total(EntryKind._fields[:4], EntryKind).first(EntryKind, _MOST_KINDS)
    copies = _tally(entry_kinds, "entries", "found")
    reasons = steps.mapped(entries, steps.untrusted, numbers.Reasons).total(("verdict", "reason"), numbers.Reasons)

    say("counting forks and rejects")
    told_of = logs.where("forked_at").select(Fork, position="forked_at", valid_to="contiguous")
    forks = steps.mapped((told_of if proved is None else proved).kept(folder / "forks"), steps.shortened, Fork)
    kinds = steps.mapped(rejected, steps.rejected, numbers.RejectNumbers)
    rejects = kinds.total(("source", "reason"), numbers.RejectNumbers, least=("first_offset",)).kept(folder / "rejects")

    say("looking at single logs")
    wanted = {log[:2] for log in (*troubled, *largest)}
    drawn = steps.mapped(entries, lambda rows: steps.within(rows, wanted), Stretch)
    cells = steps.mapped(drawn, steps.coverage, numbers.Coverage, by_log=True)
    sums = {name: sum(getattr(row, name) for row in log_kinds) for name in LogKind._fields[3:-1]}
    totals = Report(**sums, authors=count_rows(folder / "authors"), rejects=source.rejected)
    tables: dict[str, Sequence[Any]] = {
        "troubled": troubled,
        "largest": largest,
        "coverage": cells.first(numbers.Coverage, len(wanted) * steps.CELLS, "author", "log_id", "first"),
        "authors": authors.first(numbers.AuthorNumbers, numbers.MOST_AUTHORS, "-entries", "author"),
        "forks": forks.first(Fork, numbers.MOST_FORKS, "author", "log_id", "position"),
        "rejects": rejects.first(numbers.RejectNumbers, numbers.MOST_REJECTS, "-rejects", "source", "reason"),
        "reasons": reasons.first(numbers.Reasons, numbers.MOST_REASONS, "-entries", "verdict", "reason"),
        "payloads": payloads(entry_kinds),
        "copies": [numbers.Copies(*magnitude(found), copies[found]) for found in sorted(copies)],
        "completeness": completeness(log_kinds),
        "lengths": lengths(log_kinds),
        "growth": growth(entry_kinds),
    }
    in_all = {name: count_rows(folder / name) for name in ("forks", "rejects")}
    made, seconds = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), round(time.monotonic() - run.started, 3)
    return numbers.Numbers(source, made, totals, tables, in_all, proved is not None, seconds)


# -- small tables: plain functions of plain values ---------------------------------------------------------------------


def payloads(entries: Sequence[EntryKind]) -> list[numbers.Payloads]:
    """Entries by verdict and payload state, in the order of ``VERDICTS`` and ``STATES``."""
    counts, sizes = (_tally(entries, of, "verdict", "payload") for of in ("entries", "size"))
    return [numbers.Payloads(VERDICTS[kind[0]], STATES[kind[1]], counts[kind], sizes[kind]) for kind in sorted(counts)]


def growth(entries: Iterable[EntryKind]) -> list[numbers.Growth]:
    """Sums over all entries up to each sequence number at which the first digit changes."""
    kinds = sorted(entries, key=attrgetter("magnitude"))
    verified = [row.entries * (VERDICTS[row.verdict] == VERIFIED) for row in kinds]
    held = [row.size * (STATES[row.payload] == HELD) for row in kinds]
    columns = [row.entries for row in kinds], verified, [row.size for row in kinds], held
    grown = zip(kinds, *map(accumulate, columns), strict=True)
    found = {row.magnitude: numbers.Growth(magnitude(row.magnitude)[1], *sums) for row, *sums in grown}
    return [*found.values()]  # of each magnitude the sums after its last row


def completeness(logs: Iterable[LogKind]) -> list[numbers.Completeness]:
    """Logs by tens of percent, also those that no log has; at the end logs without a number, if there are any."""
    counts = _tally(logs, "logs", "percent")
    return [numbers.Completeness(percent, counts[percent]) for percent in (*range(0, 101, 10), *counts.keys() & {None})]


def lengths(logs: Sequence[LogKind]) -> list[numbers.Lengths]:
    """Logs by powers of ten, from 1 to the greatest power that any log has."""
    by_entries, by_newest = (_tally(logs, "logs", digits) for digits in ("entry_digits", "newest_digits"))
    return [
        numbers.Lengths(10 ** (digits - 1), min(MAX_U64, 10**digits - 1), by_entries[digits], by_newest[digits])
        for digits in range(1, max((*by_entries, *by_newest), default=0) + 1)
    ]


def _tally(rows: Iterable[Any], of: str, *by: str) -> Counter[Any]:
    """The sums of a column over all rows that are equal in some others."""
    found = Counter[Any]()
    for row in rows:
        found[attrgetter(*by)(row)] += getattr(row, of)
    return found
