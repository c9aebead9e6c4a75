"""The steps of the verification one after the other, in this process and without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.spark import reading
from culm.spark.gather import PackRow, Reject, gather
from culm.spark.here import Here, HereTable, rows_of
from culm.spark.segment import Signatures
from culm.spark.steps import pronounced
from culm.spark.verdicts import Verdict
from culm.spark.verify import Verification

if TYPE_CHECKING:
    from collections.abc import Iterable


Found = tuple[str | None, int | None, bytes | None, str | None, bytes | None, str | None]
"""A row that was read."""


def found_rows(encoded: Iterable[bytes]) -> list[Found]:
    """Entries as rows that were read."""
    return [("here", at, data, None, None, None) for at, data in enumerate(encoded)]


def packed(rows: Iterable[Found]) -> list[PackRow | Reject]:
    """What the first step makes of rows that were read."""
    return list(gather(reading.FOUND.batches(rows)))


def verified(rows: Iterable[Found], signatures: Signatures = Signatures.STRICT, *, keep: bool = False) -> Verification:
    """The verification of rows that were read, in any order."""
    found = Verification(Here(), signatures, keep=keep)
    found.take(HereTable(PackRow, [row for row in packed(rows) if isinstance(row, PackRow)]))
    found.settle()
    return found


def verdicts(rows: Iterable[Found], signatures: Signatures = Signatures.STRICT) -> dict[bytes, Verdict]:
    """All steps together: the verdicts on rows as they were read, by entry hash."""
    found = list(rows_of(verified(rows, signatures).judged().map(pronounced, Verdict)))
    by_hash = {row.entry_hash: row for row in found}
    assert len(by_hash) == len(found)
    return by_hash
