"""The report on a verification, from its folder to another: what ``culm spark report`` runs.

::

    OUTPUT/report.html         one page, without anything from elsewhere
    OUTPUT/numbers/logs/       Parquet: a row for each log (``culm.spark.report.numbers.LOGS``)
    OUTPUT/numbers/authors/    a row for each author
    OUTPUT/numbers/forks/      a row for each fork
    OUTPUT/numbers/rejects/    what could not be read, by source and reason
    OUTPUT/numbers/*.parquet   the small tables of the page (``culm.spark.report.numbers.SMALL``)
    OUTPUT/summary.json        the counts

The verdicts are read four times, each time a few of their columns. All that comes to this process is bounded, whatever
the inputs: some rows of the large tables, and counts by a few hundred kinds.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from culm.errors import ConfigError, CulmError
from culm.spark.fingerprint import check_not_inside
from culm.spark.forks import FORKS
from culm.spark.output import SUMMARY, kept, read_table, whole_folder
from culm.spark.report import tables
from culm.spark.report.counts import completeness, copies, cost, growth, lengths, payloads, totals
from culm.spark.report.numbers import (
    AUTHORS,
    LOGS,
    REJECTED,
    AuthorNumbers,
    ForkNumbers,
    LogNumbers,
    Numbers,
    ReasonNumbers,
    RejectNumbers,
    Totals,
    write_small,
)
from culm.spark.report.page import page
from culm.spark.report.strips import counter, strips
from culm.spark.running import running, silent
from culm.spark.steps import VERDICTS
from culm.spark.verify import REJECTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.report.strips import Strip

PAGE = "report.html"
DEFAULT_LOGS, MOST_LOGS = 25, 100
MOST_AUTHORS = 25
MOST_FORKS = 50
MOST_REJECTS = 50
MOST_REASONS = 30
_PROOF_BYTES = 4096  # of one proof; two entries have some 600


@dataclass(frozen=True, slots=True)
class Report(Totals):
    """What was reported on; the counts are those of the page's headline, ``page_bytes`` is its size."""

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
    master: str = "local[*]",
    overwrite: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Report on the folder that a verification wrote, and write the folder ``output``: all of it or, on failure, none.

    ``logs``: of how many logs the page shows the coverage: the largest ones, and as many of those with most trouble.
    ``master``, ``overwrite`` and ``progress`` are those of ``culm.spark.job.run``.

    ``ConfigError``, before Spark is started, if ``results`` is no such folder, ``logs`` is out of range, or the output
    cannot be written; ``ConfigError`` if Spark, Java or the master is not there; ``CulmError`` if Spark fails.
    """
    started = time.monotonic()
    if not 1 <= logs <= MOST_LOGS:
        raise ConfigError(f"{logs} logs: a page shows 1 to {MOST_LOGS}")
    source = _Results(Path(results).absolute())
    output = output.absolute()
    check_not_inside(source.folder, output, overwrite=overwrite)
    with running(master, progress or silent) as spark, whole_folder(output) as folder:
        job = _Job(spark, source, folder, progress or silent)
        numbers = job.numbers(logs, started)
        write_small(numbers, folder / "numbers")
        text = page(numbers).encode("utf-8", "xmlcharrefreplace")
        (folder / PAGE).write_bytes(text)
        counts: dict[str, int] = asdict(numbers.totals)
        made = Report(**counts, page_bytes=len(text), seconds=round(time.monotonic() - started, 3))
        (folder / SUMMARY).write_text(json.dumps(made.as_dict(), indent=2) + "\n", encoding="utf-8")
        rmtree(folder / "work")
        return made


class _Results:
    """The folder of a verification, and what its summary says. ``ConfigError`` if it is none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for needed in ("verdicts", "rejects", SUMMARY):
            if not (folder / needed).exists():
                raise ConfigError(f"{folder}: not the results of culm spark verify: there is no {needed}")
        try:
            said = json.loads((folder / SUMMARY).read_bytes())
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise ConfigError(f"{folder / SUMMARY}: not a summary")
        self.said: Mapping[str, object] = said

    @property
    def has_proofs(self) -> bool:
        """Whether the proofs of forks were written."""
        return (self.folder / "forks").is_dir()


class _Job:
    """One report on its way to its folder."""

    def __init__(self, spark: SparkSession, source: _Results, folder: Path, say: Callable[[str], None]) -> None:
        self._spark = spark
        self._source = source
        self._folder = folder
        self._say = say
        (folder / "numbers").mkdir()

    def numbers(self, most: int, started: float) -> Numbers:
        """Everything the page shows. The large tables are written on the way."""
        verdicts = self._read("verdicts", VERDICTS.ddl)
        proofs = self._read("forks", FORKS.ddl) if self._source.has_proofs else None
        entries = rows_in(self._source.folder / "verdicts")
        self._say(f"looking for gaps in the logs ({entries:,} entries)")
        runs = kept(tables.runs(verdicts), self._folder / "work" / "runs", tables.RUNS.ddl)
        self._say("counting log by log")
        logs = kept(tables.logs(verdicts, runs, proofs, entries), self._place("logs"), LOGS.ddl)
        troubled = [LogNumbers(*row) for row in _plain(tables.most_troubled(logs, most))]
        largest = [LogNumbers(*row) for row in _plain(tables.largest(logs, most))]
        log_kinds = _named(tables.kinds_of_logs(logs))
        authors, authors_in_all = self._authors(logs)
        self._say("counting verdicts, payloads and reasons")
        entry_kinds = _named(tables.kinds_of_entries(verdicts))
        reasons = [ReasonNumbers(*row) for row in _plain(tables.reasons(verdicts).limit(MOST_REASONS))]
        found_copies = copies(_plain(tables.copies(verdicts)))
        self._say("counting forks and rejects")
        forks, forks_in_all = self._forks(logs, proofs)
        rejects, rejects_in_all, rejected = self._rejects()
        self._say("looking at single logs")
        drawn = self._strips([*troubled, *largest], runs)
        return Numbers(
            name=self._source.folder.name,
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            totals=totals(entry_kinds, log_kinds, authors_in_all, rejected),
            troubled=troubled,
            largest=largest,
            strips=drawn,
            authors=authors,
            forks=forks,
            forks_in_all=forks_in_all,
            proofs=proofs is not None,
            rejects=rejects,
            rejects_in_all=rejects_in_all,
            reasons=reasons,
            payloads=payloads(entry_kinds),
            copies=found_copies,
            completeness=completeness(log_kinds),
            lengths=lengths(log_kinds),
            growth=growth(entry_kinds),
            cost=cost(self._source.said),
            said=self._source.said,
            seconds=round(time.monotonic() - started, 3),
        )

    def _authors(self, logs: DataFrame) -> tuple[list[AuthorNumbers], int]:
        """Those with most entries, and how many there are."""
        authors = kept(tables.authors(logs), self._place("authors"), AUTHORS.ddl)
        first = authors.orderBy(authors.entries.desc(), "author").limit(MOST_AUTHORS)
        return [AuthorNumbers(*row) for row in _plain(first)], rows_in(self._place("authors"))

    def _rejects(self) -> tuple[list[RejectNumbers], int, int]:
        """The most frequent kinds of rejects, how many kinds there are, and how many rejects."""
        found = tables.rejected(self._read("rejects", REJECTS))
        rejects = kept(found, self._place("rejects"), REJECTED.ddl)
        first = rejects.orderBy(rejects.rejects.desc(), "source", "reason").limit(MOST_REJECTS)
        kinds, in_all = rows_in(self._place("rejects")), rows_in(self._source.folder / "rejects")
        return [RejectNumbers(*row) for row in _plain(first)], kinds, in_all

    def _forks(self, logs: DataFrame, proofs: DataFrame | None) -> tuple[list[ForkNumbers], int]:
        """The first forks, and how many there are."""
        found = tables.forked(logs) if proofs is None else proofs
        forks = kept(found, self._place("forks"), FORKS.ddl)
        shown = forks.selectExpr(
            "author",
            "log_id",
            "position",
            "case",
            "first_seq",
            "second_seq",
            f"left(proof, {_PROOF_BYTES})",
            "valid_to",
        )
        first = shown.orderBy("author", "log_id", "position").limit(MOST_FORKS)
        return [ForkNumbers(*row) for row in _plain(first)], rows_in(self._place("forks"))

    def _strips(self, logs: list[LogNumbers], runs: DataFrame) -> dict[tuple[bytes, int], Strip]:
        newest = {(log.author, log.log_id): log.newest for log in logs}
        return strips(newest, counter(self._spark, runs))

    def _place(self, name: str) -> Path:
        return self._folder / "numbers" / name

    def _read(self, name: str, schema: str) -> DataFrame:
        return read_table(self._spark, self._source.folder / name, schema)


def rows_in(folder: Path) -> int:
    """How many rows there are in a folder of Parquet files, as the ends of the files say."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = 0
    for file in folder.glob("*.parquet"):
        try:
            rows += parquet.read_metadata(file).num_rows
        except (pa.ArrowException, OSError):
            raise CulmError(f"{file}: not a Parquet file that can be read") from None
    return rows


def _plain(table: DataFrame) -> list[tuple[Any, ...]]:
    """The rows, with Python's integers for decimals, and bytes."""
    from decimal import Decimal

    def plain(value: object) -> object:
        if isinstance(value, Decimal):
            return int(value)
        return bytes(value) if isinstance(value, bytearray) else value

    return [tuple(plain(value) for value in row) for row in table.collect()]


def _named(table: DataFrame) -> list[dict[str, Any]]:
    """The rows as dictionaries."""
    return [dict(zip(table.columns, row, strict=True)) for row in _plain(table)]
