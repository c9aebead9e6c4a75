"""What a report asks for, whoever counts it: Spark (``sql``), or this process (``plain``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from culm.spark.report.numbers import AuthorNumbers, ForkNumbers, LogNumbers, ReasonNumbers, RejectNumbers
    from culm.spark.report.strips import Strip
    from culm.types import Log

    Kinds = list[dict[str, Any]]
    CountedLogs = tuple[list[LogNumbers], list[LogNumbers], Kinds]
    CountedEntries = tuple[Kinds, list[ReasonNumbers], list[tuple[Any, ...]]]


class Counting(Protocol):
    """The counts of one report. ``logs`` comes first: authors and forks are made from it.

    Kinds are rows as ``culm.spark.report.tables.kinds_of_logs`` and ``kinds_of_entries`` describe them. The large
    tables are written on the way.
    """

    def logs(self, most: int) -> CountedLogs:
        """The logs with most trouble and the largest, at most ``most`` of each; how many logs are of each kind."""

    def authors(self) -> tuple[list[AuthorNumbers], int]:
        """Those with most entries, and how many there are."""

    def entries(self) -> CountedEntries:
        """Entries by kind; the most frequent reasons; copies: their digits, the first digit, entries."""

    def forks(self) -> tuple[list[ForkNumbers], int]:
        """The first forks, and how many there are."""

    def rejects(self) -> tuple[list[RejectNumbers], int]:
        """The most frequent kinds of rejects, and how many kinds there are."""

    def strips(self, newest: Mapping[Log, int]) -> dict[Log, Strip]:
        """The strips of some logs, whose newest numbers are given."""
