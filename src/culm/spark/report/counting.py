"""The interface of the two engines that count for a report: Spark (``sql``), and this process (``plain``)."""

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
    """The counts of one report. Call ``logs`` first, because authors and forks are counted from its table.

    ``logs``, ``authors``, ``forks`` and ``rejects`` also write their large tables. Kinds are rows as
    ``culm.spark.report.tables.kinds_of_logs`` and ``kinds_of_entries`` describe them.
    """

    def logs(self, most: int) -> CountedLogs:
        """The logs with most trouble and the largest logs, at most ``most`` of each; how many logs each kind has."""

    def authors(self) -> tuple[list[AuthorNumbers], int]:
        """The authors with most entries, and how many authors there are."""

    def entries(self) -> CountedEntries:
        """Entries by kind; the most frequent reasons; entries by copies: rows of digits, first digit and entries."""

    def forks(self) -> tuple[list[ForkNumbers], int]:
        """The first forks, and how many there are."""

    def rejects(self) -> tuple[list[RejectNumbers], int]:
        """The most frequent kinds of rejects, and how many kinds there are."""

    def strips(self, newest: Mapping[Log, int]) -> dict[Log, Strip]:
        """The strips of the logs that ``newest`` has, with their newest numbers (0: none)."""
