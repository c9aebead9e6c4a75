"""The steps of the verification one after the other, in this process and without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.spark.reading.found import EntryRow
from culm.spark.runtime.columns import batch_of
from culm.spark.runtime.here import Here, HereTable, rows_of
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.gather import PackRow, Reject, gather
from culm.spark.verification.verdicts import Verdict, pronounced
from culm.spark.verification.verify import Verification

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def found_rows(encoded: Iterable[bytes]) -> list[EntryRow]:
    """Entries as rows that were read."""
    return [EntryRow("here", at, data, None, None, None) for at, data in enumerate(encoded)]


def packed(rows: Sequence[EntryRow]) -> list[PackRow | Reject]:
    """What the first step makes of rows that were read."""
    return list(gather([batch_of(EntryRow, rows)] if rows else []))


def verified(
    rows: Sequence[EntryRow], signatures: Signatures = Signatures.STRICT, *, keep: bool = False
) -> Verification:
    """The verification of rows that were read, in any order."""
    found = Verification(Here(), signatures, keep=keep)
    found.take(HereTable(PackRow, [row for row in packed(rows) if isinstance(row, PackRow)]))
    found.settle()
    return found


def verdicts(rows: Sequence[EntryRow], signatures: Signatures = Signatures.STRICT) -> dict[bytes, Verdict]:
    """All steps together: the verdicts on rows as they were read, by entry hash."""
    found = list(rows_of(verified(rows, signatures).judged().map(pronounced, Verdict)))
    by_hash = {row.entry_hash: row for row in found}
    assert len(by_hash) == len(found)
    return by_hash
