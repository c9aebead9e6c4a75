"""From the few rows that the queries give to the small tables of a report. Plain functions of plain values."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Any

from culm.bamboo import MAX_U64
from culm.spark.payload import HELD, STATES
from culm.spark.report.numbers import (
    WRONG_PAYLOADS,
    CompletenessNumbers,
    CopiesNumbers,
    CostNumbers,
    GrowthNumbers,
    LengthNumbers,
    PayloadNumbers,
    Totals,
)
from culm.spark.report.stretches import magnitude
from culm.spark.verdicts import INVALID, UNVERIFIED, VERDICTS, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Row = Mapping[str, Any]

MOST_STAGES = 40  # of the verification in the page's table of costs; the summary is a file that could name any number


def totals(entries: Iterable[Row], logs: Sequence[Row], authors: int, rejects: int) -> Totals:
    """The totals, from the kinds of entries and of logs."""
    verdicts, wrong = Counter[str](), 0
    for row in entries:
        verdicts[VERDICTS[row["verdict"]]] += row["entries"]
        wrong += row["entries"] if STATES[row["payload"]] in WRONG_PAYLOADS else 0
    return Totals(
        entries=verdicts.total(),
        verified=verdicts[VERIFIED],
        unverified=verdicts[UNVERIFIED],
        invalid=verdicts[INVALID],
        logs=sum(row["logs"] for row in logs),
        authors=authors,
        forked_logs=sum(row["forked"] for row in logs),
        missing=sum(row["missing"] for row in logs),
        wrong_payloads=wrong,
        rejects=rejects,
    )


def payloads(entries: Iterable[Row]) -> list[PayloadNumbers]:
    """Entries by verdict and payload state, in the order of ``VERDICTS`` and ``STATES``."""
    counts, sizes = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for row in entries:
        counts[row["verdict"], row["payload"]] += row["entries"]
        sizes[row["verdict"], row["payload"]] += row["size"]
    return [
        PayloadNumbers(VERDICTS[verdict], STATES[payload], count, sizes[verdict, payload])
        for (verdict, payload), count in sorted(counts.items())
    ]


def growth(entries: Iterable[Row]) -> list[GrowthNumbers]:
    """Sums over all entries up to each sequence number at which the first digit changes."""
    grown: list[GrowthNumbers] = []
    sums = Counter[str]()
    for row in sorted(entries, key=lambda row: row["magnitude"]):
        last = magnitude(row["magnitude"])[1]
        sums["entries"] += row["entries"]
        sums["claimed"] += row["size"]
        sums["verified"] += row["entries"] if VERDICTS[row["verdict"]] == VERIFIED else 0
        sums["held"] += row["size"] if STATES[row["payload"]] == HELD else 0
        if grown and grown[-1].seqnum == last:
            grown.pop()
        grown.append(GrowthNumbers(last, sums["entries"], sums["verified"], sums["claimed"], sums["held"]))
    return grown


def copies(found: Iterable[Row]) -> list[CopiesNumbers]:
    """Entries by how often they were found."""
    return sorted(CopiesNumbers(*magnitude(row["found"]), row["entries"]) for row in found)


def completeness(logs: Sequence[Row]) -> list[CompletenessNumbers]:
    """Logs by tens of percent, also those that no log has; at the end logs without a number, if there are any."""
    counts: Counter[int | None] = Counter()
    for row in logs:
        counts[row["percent"]] += row["logs"]
    rows = [CompletenessNumbers(percent, counts[percent]) for percent in range(0, 101, 10)]
    return [*rows, CompletenessNumbers(None, counts[None])] if counts[None] else rows


def lengths(logs: Sequence[Row]) -> list[LengthNumbers]:
    """Logs by powers of ten, from 1 to the greatest power that any log has."""
    by_entries: Counter[int] = Counter()
    by_newest: Counter[int] = Counter()
    for row in logs:
        by_entries[row["entry_digits"]] += row["logs"]
        by_newest[row["newest_digits"]] += row["logs"]
    most = max((*by_entries, *by_newest), default=0)
    return [
        LengthNumbers(10 ** (digits - 1), min(MAX_U64, 10**digits - 1), by_entries[digits], by_newest[digits])
        for digits in range(1, most + 1)
    ]


_ORIGIN = {
    "version": "version of Culm",
    "signatures": "signatures that were checked",
    "format": "format of the logs",
    "started": "started",
    "ended": "ended",
}
"""What a summary may tell of how the results were made, by its key, and how the page calls it."""

_SIGNATURES = {"all": "every one", "heads": "those of heads only"}


def origin(said: Mapping[str, object]) -> list[tuple[str, str]]:
    """How the results were made, as far as the summary of the verification tells; names and values for people."""
    told = [(name, said[key]) for key, name in _ORIGIN.items() if isinstance(said.get(key), str | int)]
    found = [(name, _SIGNATURES.get(str(value), str(value))) for name, value in told]
    return found or [("not recorded", "an earlier version of Culm made these results")]


def cost(said: Mapping[str, object]) -> list[CostNumbers]:
    """The stages in a verification's summary, at most ``MOST_STAGES``. What does not look like a stage is left out."""
    stages = said.get("stages")
    found = [stage for stage in stages if isinstance(stage, dict)] if isinstance(stages, list) else []
    return [
        CostNumbers(str(stage.get("name", "")), seconds(stage, "seconds"), seconds(stage, "cpu_seconds"))
        for stage in found[:MOST_STAGES]
    ]


def seconds(said: Mapping[str, object], name: str) -> float | None:
    """A number of seconds in a summary or stage; None if it is missing or not a finite number."""
    value = said.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)
