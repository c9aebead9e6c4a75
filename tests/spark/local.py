"""The steps of the verification one after the other, in this process and without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from culm.spark import gather, reading, steps
from culm.spark.segment import Signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from culm.spark.columns import Columns

Row = tuple[Any, ...]


def stepped(rows: Iterable[Row], given: Columns, function: Callable[..., Any], result: Columns) -> list[Row]:
    """A step as Spark takes it, from batches to batches."""
    return list(result.rows(function(given.batches(rows))))


def found_rows(encoded: Iterable[bytes]) -> list[Row]:
    """Entries as rows that were read."""
    return [("here", at, data, None, None, None) for at, data in enumerate(encoded)]


def packed(rows: Iterable[Row]) -> list[Row]:
    """``FOUND`` to ``PACKS``."""
    return stepped(rows, reading.FOUND, gather.gather, gather.PACKS)


def segments(packs: Iterable[Row], signatures: Signatures = Signatures.STRICT, *, keep: bool = False) -> list[Row]:
    """``PACKS``, in any order, to ``SEGMENTS``; without the rejects."""
    rows = sorted((row for row in packs if row[3] is not None), key=lambda row: row[3:6])
    found = stepped(rows, gather.PACKS, steps.segmented(signatures, keep=keep), steps.SEGMENTS)
    found.sort(key=lambda row: (*row[3:5], -row[6]))
    return stepped(found, steps.SEGMENTS, steps.vouched(), steps.SEGMENTS)


def outcomes(segments: Iterable[Row]) -> list[Row]:
    """``SEGMENTS`` to ``OUTCOMES``."""
    rows = sorted((row[3], row[4], row[6], row[8]) for row in segments)
    return stepped(rows, steps.SUMMARIES, steps.merged(), steps.OUTCOMES)


def judged(segments: list[Row], outcomes: Iterable[Row]) -> list[dict[str, Any]]:
    """The verdicts, as dictionaries."""
    of = {row[:3]: row[3] for row in outcomes}
    rows = [(row[3], row[4], row[6], row[8], row[9], of[row[3], row[4], row[6]], None) for row in segments]
    batches = steps.pronounced(steps.JUDGED.batches(rows))
    return [row for batch in batches for row in batch.to_pylist()]


def verdicts(rows: Iterable[Row], signatures: Signatures = Signatures.STRICT) -> dict[bytes, dict[str, Any]]:
    """All steps together: the verdicts on rows as they were read, by entry hash."""
    found = segments(packed(rows), signatures)
    table = judged(found, outcomes(found))
    by_hash = {row["entry_hash"]: row for row in table}
    assert len(by_hash) == len(table)
    return by_hash
