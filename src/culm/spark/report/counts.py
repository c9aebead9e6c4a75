"""From the few rows that either engine counted to the small tables of a report. Plain functions of plain values.

Counts by sequence number or by copies can have 2^64 kinds. They are taken together by *magnitude*, the number of digits
and the first digit: 1, 2, ... 9, 10 to 19, 20 to 29 and so on. That is fewer than 200 kinds for any inputs.
"""

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
from culm.spark.verdicts import INVALID, UNVERIFIED, VERDICTS, VERIFIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Row = Mapping[str, Any]

MOST_STAGES = 40  # of the verification in the page's table of costs; the summary is a file that could name any number


def totals(entries: Sequence[Row], logs: Sequence[Row], authors: int, rejects: int) -> Totals:
    """The totals, from rows of ``kinds_of_entries`` and ``kinds_of_logs``."""
    verdicts: Counter[str] = Counter()
    for row in entries:
        verdicts[row["verdict"]] += row["entries"]
    return Totals(
        entries=verdicts.total(),
        verified=verdicts[VERIFIED],
        unverified=verdicts[UNVERIFIED],
        invalid=verdicts[INVALID],
        logs=sum(row["logs"] for row in logs),
        authors=authors,
        forked_logs=sum(row["forked"] for row in logs),
        missing=sum(int(row["missing"]) for row in logs),
        wrong_payloads=sum(row["entries"] for row in entries if row["payload"] in WRONG_PAYLOADS),
        rejects=rejects,
    )


def payloads(entries: Iterable[Row]) -> list[PayloadNumbers]:
    """Entries by verdict and payload state, in the order of ``VERDICTS`` and ``STATES``; none without entries."""
    counts: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for row in entries:
        kind = row["verdict"], row["payload"]
        counts[kind] += row["entries"]
        sizes[kind] += int(row["bytes"])
    kinds = [(verdict, state) for verdict in VERDICTS for state in STATES if counts[verdict, state]]
    return [PayloadNumbers(*kind, counts[kind], sizes[kind]) for kind in kinds]


def magnitude(digits: int, digit: int) -> tuple[int, int]:
    """The least and the greatest unsigned 64-bit number with this many digits and this first digit."""
    return digit * 10 ** (digits - 1), min(MAX_U64, (digit + 1) * 10 ** (digits - 1) - 1)


def growth(entries: Iterable[Row]) -> list[GrowthNumbers]:
    """Sums over all entries up to each sequence number at which the first digit changes."""
    steps: dict[tuple[int, int], Counter[str]] = {}
    for row in entries:
        step = steps.setdefault((row["digits"], row["digit"]), Counter())
        step["entries"] += row["entries"]
        step["claimed"] += int(row["bytes"])
        if row["verdict"] == VERIFIED:
            step["verified"] += row["entries"]
        if row["payload"] == HELD:
            step["held"] += int(row["bytes"])
    grown: list[GrowthNumbers] = []
    sums: Counter[str] = Counter()
    for (digits, digit), step in sorted(steps.items()):
        sums.update(step)
        last = magnitude(digits, digit)[1]
        grown.append(GrowthNumbers(last, sums["entries"], sums["verified"], sums["claimed"], sums["held"]))
    return grown


def copies(counted: Iterable[tuple[Any, ...]]) -> list[CopiesNumbers]:
    """Entries by how often they were found; ``counted`` has rows of digits, first digit and entries."""
    return [CopiesNumbers(*magnitude(digits, digit), count) for digits, digit, count in sorted(counted)]


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
