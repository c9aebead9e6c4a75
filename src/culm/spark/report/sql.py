"""Counting on Spark: Spark writes the large tables, and some of their rows come to this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from culm.spark.forks import FORKS
from culm.spark.output import kept
from culm.spark.report import tables
from culm.spark.report.numbers import (
    AUTHORS,
    LOGS,
    MOST_AUTHORS,
    MOST_FORKS,
    MOST_REASONS,
    MOST_REJECTS,
    PROOF_BYTES,
    REJECTED,
    AuthorNumbers,
    ForkNumbers,
    LogNumbers,
    ReasonNumbers,
    RejectNumbers,
)
from culm.spark.report.source import rows_in
from culm.spark.report.strips import strips
from culm.spark.report.tables import counter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from culm.spark.report.counting import CountedEntries, CountedLogs
    from culm.spark.report.source import Source
    from culm.spark.report.strips import Strip
    from culm.types import Log


class SqlCounts:
    """``culm.spark.report.counting.Counting`` on Spark.

    ``place`` is the folder for the tables of the report, ``work`` one for tables between the steps. The runs of all
    logs are computed at once and kept, because logs and strips both need them.
    """

    def __init__(self, spark: SparkSession, source: Source, place: Path, work: Path) -> None:
        self._spark = spark
        self._source = source
        self._place = place
        self._work = work
        self._verdicts = source.verdicts(spark, work)
        self._proofs = source.proofs(spark, work)
        self._runs = kept(tables.runs(self._verdicts), work / "runs", tables.RUNS.ddl)

    def logs(self, most: int) -> CountedLogs:
        """Write the table of logs; see ``Counting``."""
        found = tables.logs(self._verdicts, self._runs, self._proofs, self._source.entries())
        self._logs = kept(found, self._place / "logs", LOGS.ddl)
        troubled = [LogNumbers(*row) for row in _plain(tables.most_troubled(self._logs, most))]
        largest = [LogNumbers(*row) for row in _plain(tables.largest(self._logs, most))]
        return troubled, largest, _named(tables.kinds_of_logs(self._logs))

    def authors(self) -> tuple[list[AuthorNumbers], int]:
        """Write the table of authors; see ``Counting``."""
        authors = kept(tables.authors(self._logs), self._place / "authors", AUTHORS.ddl)
        first = authors.orderBy(authors.entries.desc(), "author").limit(MOST_AUTHORS)
        return [AuthorNumbers(*row) for row in _plain(first)], rows_in(self._place / "authors")

    def entries(self) -> CountedEntries:
        """Count entries, reasons and copies; see ``Counting``."""
        kinds = _named(tables.kinds_of_entries(self._verdicts))
        reasons = [ReasonNumbers(*row) for row in _plain(tables.reasons(self._verdicts).limit(MOST_REASONS))]
        return kinds, reasons, _plain(tables.copies(self._verdicts))

    def forks(self) -> tuple[list[ForkNumbers], int]:
        """Write the table of forks; see ``Counting``."""
        found = tables.forked(self._logs) if self._proofs is None else self._proofs
        forks = kept(found, self._place / "forks", FORKS.ddl)
        names = [name if name != "proof" else f"left(proof, {PROOF_BYTES})" for name in FORKS.names]
        first = forks.selectExpr(*names).orderBy("author", "log_id", "position").limit(MOST_FORKS)
        return [ForkNumbers(*row) for row in _plain(first)], rows_in(self._place / "forks")

    def rejects(self) -> tuple[list[RejectNumbers], int]:
        """Write the table of rejects by kind; see ``Counting``."""
        found = tables.rejected(self._source.rejects(self._spark))
        rejects = kept(found, self._place / "rejects", REJECTED.ddl)
        first = rejects.orderBy(rejects.rejects.desc(), "source", "reason").limit(MOST_REJECTS)
        return [RejectNumbers(*row) for row in _plain(first)], rows_in(self._place / "rejects")

    def strips(self, newest: Mapping[Log, int]) -> dict[Log, Strip]:
        """Count the cells of strips; see ``Counting``."""
        return strips(newest, counter(self._spark, self._runs))


def _plain(table: DataFrame) -> list[tuple[Any, ...]]:
    """The rows with ``int`` for decimals and ``bytes`` for bytearrays, as the other engine gives them."""
    from decimal import Decimal

    def plain(value: object) -> object:
        if isinstance(value, Decimal):
            return int(value)
        return bytes(value) if isinstance(value, bytearray) else value

    return [tuple(plain(value) for value in row) for row in table.collect()]


def _named(table: DataFrame) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in _plain(table)]
