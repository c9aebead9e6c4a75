"""The charts of a report's page. Each has its numbers as a table below it, for readers who cannot see the chart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from culm.charts import Bars, Series, bar_chart, line_chart, number_text
from culm.spark.report.numbers import Completeness, Copies, Growth, Lengths

_LOGARITHMIC_FROM = 1000  # Greatest value from which an axis is logarithmic: below it, a linear axis still shows all.

_bars = partial(bar_chart, width=960, height=300)  # pixels: the width of the page's text on a large screen
_lines = partial(line_chart, width=960, height=300)


def completeness(title: str, rows: Sequence[Completeness]) -> str:
    """Logs by the share of their numbers that is held and verified."""
    names = [percent_text(row.percent).removesuffix(" %").replace(" to ", "\N{EN DASH}") for row in rows]
    return _bars(title, names, [Bars("logs", [row.logs for row in rows])], y_label="logs")


def percent_text(percent: int | None) -> str:
    """Which share of its numbers a log has, in words; None if it has no number."""
    if percent is None:
        return "none"
    return "100 %" if percent == 100 else f"{percent} to {percent + 10} %"


def lengths(title: str, rows: Sequence[Lengths]) -> str:
    """Logs by length: by how many entries are held, and by the newest number."""
    names = [number_text(row.low) if row.low < 10**15 else f"1e{len(str(row.low)) - 1}" for row in rows]
    held = Bars("entries held", [row.logs_by_entries for row in rows])
    newest = Bars("newest number", [row.logs_by_newest for row in rows])
    return _bars(title, names, [held, newest], y_label="logs")


def copies(title: str, rows: Sequence[Copies]) -> str:
    """Entries by how many copies of them the inputs have."""
    names = [number_text(row.low) + ("" if row.low == row.high else "+") for row in rows]
    return _bars(title, names, [Bars("entries", [row.entries for row in rows])], y_label="entries")


def entries(title: str, rows: Sequence[Growth]) -> str:
    """Entries of all logs up to a sequence number."""
    return _grown(title, rows, "entries", all="entries", verified="verified")


def sizes(title: str, rows: Sequence[Growth]) -> str:
    """Bytes of all logs' payloads up to a sequence number."""
    return _grown(title, rows, "bytes", claimed="claimed_bytes", held="held_bytes")


def _grown(title: str, rows: Sequence[Growth], y_label: str, **columns: str) -> str:
    series = [Series(name, [(row.seqnum, getattr(row, column)) for row in rows]) for name, column in columns.items()]
    x_log, y_log = (greatest > _LOGARITHMIC_FROM for greatest in series[0].points[-1])
    return _lines(title, series, x_label="sequence number", y_label=y_label, x_log=x_log, y_log=y_log)
