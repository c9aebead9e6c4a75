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

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from culm.errors import ConfigError
from culm.spark.report.counts import counted
from culm.spark.report.numbers import Totals, write_small
from culm.spark.report.page import page
from culm.spark.report.source import source_of
from culm.spark.runtime.provenance import other_version
from culm.spark.runtime.shell import job

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
        entries = source.entries()
        with run.engine(master, small=entries + source.rejected() <= SMALL_ENTRIES) as engine:
            run.say(f"reading {entries:,} verdicts")
            numbers = counted(source, engine, run, logs)
        write_small(numbers, run.folder / "numbers")
        text = page(numbers).encode("utf-8", "xmlcharrefreplace")
        (run.folder / PAGE).write_bytes(text)
        return run.done(Report(**asdict(numbers.totals), page_bytes=len(text)))
