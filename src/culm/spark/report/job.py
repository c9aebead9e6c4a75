"""The report on a verification, from its folder to another: what ``culm spark report`` runs.

::

    OUTPUT/report.html         one page, without anything from elsewhere
    OUTPUT/numbers/logs/       Parquet: a row for each log (``culm.spark.report.numbers.LOGS``)
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

import json
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.spark.failures import check_installed
from culm.spark.folders import SUMMARY, check_not_inside, whole_folder
from culm.spark.provenance import other_version
from culm.spark.report.numbers import Totals, write_small
from culm.spark.running import is_running, running, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from culm.spark.report.engines import Engine
    from culm.spark.report.source import Source

PAGE = "report.html"
DEFAULT_LOGS, MOST_LOGS = 25, 100
"""Logs that a page shows, twice (largest, and most troubled). More than 100 would make a page that nobody reads and
that no longer can be mailed."""

SMALL_ENTRIES = 2_000_000
"""Entries and rejects that are counted without Spark, unless a master is named. At worst each is a stretch of its own
and takes 250 bytes of memory, so this many take half a gigabyte. With a lower value Spark's start, ten seconds, would
take longer than the counting."""


@dataclass(frozen=True, slots=True)
class Report(Totals):
    """The summary: the counts of the page's headline, the size of the page in bytes, the time in seconds."""

    page_bytes: int
    seconds: float

    def as_dict(self) -> dict[str, int | float]:
        """The numbers by name."""
        return asdict(self)


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
    are counted without Spark, more on ``local[*]``. ``overwrite`` and ``progress`` are those of ``culm.spark.job.run``.

    ``ConfigError``, before Spark is started, if ``results`` is no such folder, ``logs`` is out of range, or the output
    cannot be written. ``ConfigError`` if Spark, Java or the master is missing. ``CulmError`` if Spark fails, or a table
    cannot be read.
    """
    started = time.monotonic()
    if not 1 <= logs <= MOST_LOGS:
        raise ConfigError(f"{logs} logs; accepted: 1 to {MOST_LOGS}, since a page must stay small")
    check_installed()
    from culm.spark.report.counts import counted
    from culm.spark.report.page import page
    from culm.spark.report.source import source_of

    source = source_of(Path(results).absolute())
    output = output.absolute()
    check_not_inside(source.folder, output, overwrite=overwrite)
    say = progress or silent
    if not source.of_state and (other := other_version(source.said)) is not None:
        say(other)
    with whole_folder(output) as folder:
        (folder / "numbers").mkdir()
        with _engine(source, folder / "work", master, say) as engine:
            numbers = counted(source, engine, folder / "numbers", logs, started, say)
        write_small(numbers, folder / "numbers")
        text = page(numbers).encode("utf-8", "xmlcharrefreplace")
        (folder / PAGE).write_bytes(text)
        summed: dict[str, int] = asdict(numbers.totals)
        made = Report(**summed, page_bytes=len(text), seconds=round(time.monotonic() - started, 3))
        (folder / SUMMARY).write_text(json.dumps(made.as_dict(), indent=2) + "\n", encoding="utf-8")
    return made


@contextmanager
def _engine(source: Source, work: Path, master: str | None, say: Callable[[str], None]) -> Iterator[Engine]:
    """The engine that counts: this process, or Spark. ``work`` is a folder for what it keeps until the end."""
    from culm.spark.report.engines import in_process, on_spark

    entries = source.entries()
    reading = f"reading {entries:,} verdicts"
    if master is None and entries + source.rejected() <= SMALL_ENTRIES and not is_running():
        say(f"{reading}, without Spark")
        yield in_process(source)
        return
    with running(master or "local[*]", say) as spark:
        say(reading)
        yield on_spark(spark, source, work)
    rmtree(work)
