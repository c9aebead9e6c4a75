"""The charts of a report's page, each with its numbers as a table below, for readers who cannot see the chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm.charts import Bars, Series, bar_chart, line_chart, number_text
from culm.spark.report.html import Html, bytes_text, chart, details, element, join, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from culm.spark.report.numbers import CompletenessNumbers, CopiesNumbers, GrowthNumbers, LengthNumbers

_WIDE = 960  # pixels: the width of the page's text on a large screen
_LOGARITHMIC_FROM = 1000  # Greatest value from which an axis is logarithmic: below it, a linear axis still shows all.


def completeness(rows: Sequence[CompletenessNumbers]) -> Html:
    """Logs by the share of their numbers that is held and verified."""
    texts = [_percent(row.percent) for row in rows]
    title = "Logs by how much of them is held and verified (percent of the numbers up to the newest)"
    svg = bar_chart(
        title,
        [text.removesuffix(" %").replace(" to ", "–") for text in texts],  # noqa: RUF001 - a dash for a range
        [Bars("logs", [row.logs for row in rows])],
        y_label="logs",
        width=_WIDE,
    )
    numbers = table(
        "Logs by the share of their numbers that is held and verified",
        ("share", "logs"),
        [(text, row.logs) for text, row in zip(texts, rows, strict=True)],
    )
    return _with_numbers(title, svg, numbers)


def _percent(percent: int | None) -> str:
    if percent is None:
        return "none"
    return "100 %" if percent == 100 else f"{percent} to {percent + 10} %"


def lengths(rows: Sequence[LengthNumbers]) -> Html:
    """Logs by length: by how many entries are held, and by the newest number."""
    title = "Logs by length, in powers of ten"
    svg = bar_chart(
        title,
        [_power(row.low) for row in rows],
        [
            Bars("entries held", [row.logs_by_entries for row in rows]),
            Bars("newest number", [row.logs_by_newest for row in rows]),
        ],
        y_label="logs",
        width=_WIDE,
    )
    heads = ("from", "to", "logs with so many entries", "logs with their newest number there")
    return _with_numbers(title, svg, table("Logs by length", heads, rows))


def _power(low: int) -> str:
    return number_text(low) if low < 10**15 else f"1e{len(str(low)) - 1}"


def growth(rows: Sequence[GrowthNumbers]) -> Html:
    """Entries and bytes of all logs up to a sequence number."""
    x_log = rows[-1].seqnum > _LOGARITHMIC_FROM
    note = (
        "The entries of all logs together: how many of them, and how many bytes of payloads, have a sequence number up"
        " to the one on the horizontal axis. Bytes claimed are what entries say; an author can sign any size."
    )
    entries = line_chart(
        "Entries up to a sequence number",
        [
            Series("all", [(row.seqnum, row.entries) for row in rows]),
            Series("verified", [(row.seqnum, row.verified) for row in rows]),
        ],
        x_label="sequence number",
        y_label="entries",
        x_log=x_log,
        y_log=rows[-1].entries > _LOGARITHMIC_FROM,
        width=_WIDE,
    )
    sizes = line_chart(
        "Payload bytes up to a sequence number",
        [
            Series("claimed", [(row.seqnum, row.claimed_bytes) for row in rows]),
            Series("held", [(row.seqnum, row.held_bytes) for row in rows]),
        ],
        x_label="sequence number",
        y_label="bytes",
        x_log=x_log,
        y_log=rows[-1].claimed_bytes > _LOGARITHMIC_FROM,
        width=_WIDE,
    )
    heads = ("up to number", "entries", "verified", "bytes claimed", "bytes held")
    numbers = table(
        "Sums over all logs",
        heads,
        [
            (f"{row.seqnum:,}", row.entries, row.verified, bytes_text(row.claimed_bytes), bytes_text(row.held_bytes))
            for row in rows
        ],
    )
    parts = [element("p", note), chart("Entries up to a sequence number", entries)]
    return join([*parts, _with_numbers("Payload bytes up to a sequence number", sizes, numbers)])


def copies(rows: Sequence[CopiesNumbers]) -> Html:
    """Entries by how many copies of them the inputs have."""
    texts = [f"{row.low:,}" if row.low == row.high else f"{row.low:,} to {row.high:,}" for row in rows]
    title = "Entries by how many times they were found in the inputs"
    svg = bar_chart(
        title,
        [number_text(row.low) + ("" if row.low == row.high else "+") for row in rows],
        [Bars("entries", [row.entries for row in rows])],
        y_label="entries",
        width=_WIDE,
    )
    numbers = table(
        "Entries by copies", ("copies", "entries"), [(text, row.entries) for text, row in zip(texts, rows, strict=True)]
    )
    return _with_numbers(title, svg, numbers)


def _with_numbers(title: str, svg: str, numbers: Html) -> Html:
    return join([chart(title, svg), details("The numbers", numbers)])
