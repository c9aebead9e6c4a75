"""The steps of the verification one after the other, in this process and without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from culm.spark.reading.found import EntryRow
from culm.spark.runtime.columns import R, batch_of, batches, names, rows
from culm.spark.runtime.engine import Engine, Table
from culm.spark.verification.authentic import Signatures
from culm.spark.verification.gather import PackRow, Reject, gather
from culm.spark.verification.verdicts import Verdict, pronounced
from culm.spark.verification.verify import Verification

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def table_of(kind: type[R], made: Iterable[Any]) -> Table[R]:
    """The rows of one class among what a step makes, as a table in this process."""
    return Table(kind, list(batches(kind, made)).copy)


def rows_of(table: Table[R]) -> Iterator[R]:
    """The rows that a table in this process has."""
    return rows(table.table, table.batches(*names(table.table)))


def found_rows(encoded: Iterable[bytes]) -> list[EntryRow]:
    """Entries as rows that were read."""
    return [EntryRow("here", at, data, None, None, None) for at, data in enumerate(encoded)]


def packed(rows: Sequence[EntryRow]) -> list[PackRow | Reject]:
    """What the first step makes of rows that were read."""
    return list(gather([batch_of(EntryRow, rows)] if rows else []))


def verified(
    found: Sequence[EntryRow], signatures: Signatures = Signatures.STRICT, *, keep: bool = False
) -> Verification:
    """The verification of rows that were read, in any order."""
    verification = Verification(Engine(), signatures, keep=keep)
    verification.take(table_of(PackRow, packed(found)))
    return verification


def verdicts(read: Sequence[EntryRow], signatures: Signatures = Signatures.STRICT) -> dict[bytes, Verdict]:
    """All steps together: the verdicts on rows as they were read, by entry hash."""
    found = list(rows_of(verified(read, signatures).judged().map(pronounced, Verdict)))
    by_hash = {row.entry_hash: row for row in found}
    assert len(by_hash) == len(found)
    return by_hash
