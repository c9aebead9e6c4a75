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
queries are the same (``culm.spark.report.queries``), and read the verdicts once. With Spark, what comes to this process
is bounded: some rows of the large tables, and counts by a few hundred kinds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from culm.bamboo import MAX_U64
from culm.errors import ConfigError
from culm.spark.batches.payload import HELD, STATES
from culm.spark.report import numbers
from culm.spark.report.numbers import EntryKind, FoundKind, LogKind, Totals, write_small
from culm.spark.report.page import page
from culm.spark.report.queries import Queries
from culm.spark.report.source import Source, rows_in, source_of
from culm.spark.report.stretches import magnitude
from culm.spark.runtime.engine import Engine
from culm.spark.runtime.provenance import other_version
from culm.spark.runtime.shell import Job, job
from culm.spark.verification.verdicts import INVALID, UNVERIFIED, VERDICTS, VERIFIED

PAGE = "report.html"
DEFAULT_LOGS, MOST_LOGS = 25, 100
"""Logs that a page shows, twice (largest, and most troubled). More than 100 would make a page that nobody reads and
that no longer can be mailed."""

SMALL_ENTRIES = 2_000_000
"""Entries and rejects that are counted without Spark, unless a master is named. At worst each is a stretch of its own
and takes 250 bytes of memory, so this many take half a gigabyte. With a lower value Spark's start, ten seconds, would
take longer than the counting."""


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
        if not source.of_state and (other := other_version(source.said)) is not None:
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

    ``most``: the largest and the most troubled logs to draw, of each.
    """
    folder, say = run.folder / "numbers", run.say
    queries = Queries(source, engine, folder)
    say("counting logs and authors")
    troubled, largest, log_kinds = queries.troubled(most), queries.largest(most), queries.kinds_of_logs()
    authors = queries.authors()
    say("counting verdicts, payloads and reasons")
    entry_kinds, reasons, found_copies = queries.kinds_of_entries(), queries.reasons(), queries.copies()
    say("counting forks and rejects")
    forks, rejects = queries.forks(), queries.rejects()
    say("looking at single logs")
    shown = queries.coverage({log.log for log in (*troubled, *largest)})
    return numbers.Numbers(
        name=source.folder.name,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        totals=totals(entry_kinds, log_kinds, rows_in(folder / "authors"), source.rejected),
        troubled=troubled,
        largest=largest,
        coverage=shown,
        authors=authors,
        forks=forks,
        forks_in_all=rows_in(folder / "forks"),
        proofs=source.has_proofs,
        rejects=rejects,
        rejects_in_all=rows_in(folder / "rejects"),
        reasons=reasons,
        payloads=payloads(entry_kinds),
        copies=copies(found_copies),
        completeness=completeness(log_kinds),
        lengths=lengths(log_kinds),
        growth=growth(entry_kinds),
        origin=origin(source.said),
        said=source.said,
        of_state=source.of_state,
        seconds=round(time.monotonic() - run.started, 3),
    )


# -- small tables: plain functions of plain values ---------------------------------------------------------------------


def totals(entries: Iterable[EntryKind], logs: Sequence[LogKind], authors: int, rejects: int) -> numbers.Totals:
    """The totals, from the kinds of entries and of logs."""
    verdicts, wrong = Counter[str](), 0
    for row in entries:
        verdicts[VERDICTS[row.verdict]] += row.entries
        wrong += row.entries if STATES[row.payload] in numbers.WRONG_PAYLOADS else 0
    return numbers.Totals(
        entries=verdicts.total(),
        verified=verdicts[VERIFIED],
        unverified=verdicts[UNVERIFIED],
        invalid=verdicts[INVALID],
        logs=sum(row.logs for row in logs),
        authors=authors,
        forked_logs=sum(row.forked for row in logs),
        missing=sum(row.missing for row in logs),
        wrong_payloads=wrong,
        rejects=rejects,
    )


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
    grown: list[numbers.GrowthNumbers] = []
    sums = Counter[str]()
    for row in sorted(entries, key=lambda row: row.magnitude):
        last = magnitude(row.magnitude)[1]
        sums["entries"] += row.entries
        sums["claimed"] += row.size
        sums["verified"] += row.entries if VERDICTS[row.verdict] == VERIFIED else 0
        sums["held"] += row.size if STATES[row.payload] == HELD else 0
        if grown and grown[-1].seqnum == last:
            grown.pop()
        grown.append(numbers.GrowthNumbers(last, sums["entries"], sums["verified"], sums["claimed"], sums["held"]))
    return grown


def copies(found: Iterable[FoundKind]) -> list[numbers.CopiesNumbers]:
    """Entries by how often they were found."""
    return sorted(numbers.CopiesNumbers(*magnitude(row.found), row.entries) for row in found)


def completeness(logs: Sequence[LogKind]) -> list[numbers.CompletenessNumbers]:
    """Logs by tens of percent, also those that no log has; at the end logs without a number, if there are any."""
    counts: Counter[int | None] = Counter()
    for row in logs:
        counts[row.percent] += row.logs
    rows = [numbers.CompletenessNumbers(percent, counts[percent]) for percent in range(0, 101, 10)]
    return [*rows, numbers.CompletenessNumbers(None, counts[None])] if counts[None] else rows


def lengths(logs: Sequence[LogKind]) -> list[numbers.LengthNumbers]:
    """Logs by powers of ten, from 1 to the greatest power that any log has."""
    by_entries: Counter[int] = Counter()
    by_newest: Counter[int] = Counter()
    for row in logs:
        by_entries[row.entry_digits] += row.logs
        by_newest[row.newest_digits] += row.logs
    most = max((*by_entries, *by_newest), default=0)
    return [
        numbers.LengthNumbers(10 ** (digits - 1), min(MAX_U64, 10**digits - 1), by_entries[digits], by_newest[digits])
        for digits in range(1, most + 1)
    ]


_ORIGIN = {
    "version": "version of Culm",
    "signatures": "signatures that were checked",
    "format": "format of the logs",
    "started": "started",
    "ended": "ended",
}
"""What a summary may tell of how the results were made, by its key, and how the page calls it."""

_SIGNATURES = {"all": "every one", "heads": "those of heads only"}


def origin(said: Mapping[str, object]) -> list[tuple[str, str]]:
    """How the results were made, as far as the summary of the verification tells; names and values for people."""
    told = [(name, said[key]) for key, name in _ORIGIN.items() if isinstance(said.get(key), str | int)]
    found = [(name, _SIGNATURES.get(str(value), str(value))) for name, value in told]
    return found or [("not recorded", "an earlier version of Culm made these results")]
