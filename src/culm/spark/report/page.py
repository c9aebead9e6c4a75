"""The page of a report: from ``Numbers`` to HTML, by the templates beside this module.

The page is one file of plain HTML with drawings inside. It has no scripts and loads nothing from elsewhere, so that it
can be mailed, printed and kept. The same numbers give the same page. It shows some rows of large tables, and says how
many rows there are and where all of them are. What is long is folded (``<details>``), which browsers open without a
script.

Names of files and reasons come from inputs that anybody may have made, and a page opened in a browser must not run or
fake anything because of them. Jinja escapes everything that a template prints. Before that, ``shown`` cuts it, and
writes control characters, and those that change the direction of writing, as numbers. Only ``Markup``, which is made
here, goes into the page as it is.
"""

from base64 import b64encode
from bisect import bisect
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from culm.bamboo.decimal import size_text
from culm.charts import Bars, Series, bar_chart, line_chart, number_text
from culm.spark.batches.payload import STATES
from culm.spark.report.numbers import Completeness, Copies, Coverage, Growth, Lengths, LogNumbers, Numbers
from culm.wire.places import author_text

_MOST_LETTERS = 300  # of a foreign text; a longer one would fill the page
_WIDTH, _HEIGHT = 9600, 24  # of a strip, in units of its own drawing: 100 for each of 96 cells, 24 steps of filling
_BREAK = 200  # the width of a break in a strip, in the same units: two cells
_LOGARITHMIC_FROM = 1000  # Greatest value from which an axis is logarithmic: below it, a linear axis still shows all.
_LEAST = 2  # the least width or height of a part that is not 0, in units of its drawing, so that it is seen


def page(numbers: Numbers) -> str:
    """The page as HTML, from ``<!DOCTYPE html>`` on."""
    loader = PackageLoader("culm.spark.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, finalize=shown)
    environment.trim_blocks = environment.lstrip_blocks = True
    charts = completeness_chart, copies_chart, entries_chart, lengths_chart, sizes_chart
    called = bar, percent_text, picture, share, *charts
    environment.globals |= {"STATES": STATES, **{one.__name__: one for one in called}}
    environment.filters |= {"author": author_name, "bytes": size_text, "short": short}
    made = environment.get_template("report.html")
    tables = {**numbers.tables, **views(numbers)}
    return made.render(numbers=numbers, said=numbers.source.said, of_all=numbers.totals, tables=tables)


# -- text ----------------------------------------------------------------------------------------------------------


def shown(value: object) -> object:
    """A value as the page prints it: a dash for None, integers with separators, text cut and with nothing invisible."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    cut = text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "…"
    return "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in cut)


def author_name(author: bytes) -> str:
    """The author that a row names, in base62; in hex if it does not have 32 bytes, and so is nobody's key."""
    return author_text(author) if len(author) == 32 else author.hex()


def share(part: int, whole: int) -> str | None:
    """A share in percent. Only exact ones are 0 % and 100 %: one bad entry in a million must not look like none."""
    if not whole:
        return None
    percent = Fraction(100 * part, whole)
    if percent in (0, 100):
        return f"{percent} %"
    if percent < Fraction(1, 100):
        return "under 0.01 %"
    if percent > Fraction(9999, 100):
        return "over 99.99 %"
    return f"{float(percent):.2f} %"


def short(number: int) -> str:
    """A number that may have twenty digits, where there is room for few."""
    return f"{number:,}" if number < 10**12 else number_text(number)


def picture(svg: str) -> Markup:
    """A chart as the address of a picture that is in the page itself."""
    return Markup("data:image/svg+xml;base64,") + b64encode(svg.encode()).decode()


# -- charts: the numbers of each stand in a table below it, for readers who cannot see it -----------------------------

_bars = partial(bar_chart, width=960, height=300)  # pixels: the width of the page's text on a large screen
_lines = partial(line_chart, width=960, height=300)


def completeness_chart(title: str, rows: Sequence[Completeness]) -> str:
    """Logs by the share of their numbers that is held and verified."""
    names = [percent_text(row.percent).removesuffix(" %").replace(" to ", "\N{EN DASH}") for row in rows]
    return _bars(title, names, [Bars("logs", [row.logs for row in rows])], y_label="logs")


def percent_text(percent: int | None) -> str:
    """Which share of its numbers a log has, in words; None if it has no number."""
    if percent is None:
        return "none"
    return "100 %" if percent == 100 else f"{percent} to {percent + 10} %"


def lengths_chart(title: str, rows: Sequence[Lengths]) -> str:
    """Logs by length: by how many entries are held, and by the newest number."""
    names = [number_text(row.low) if row.low < 10**15 else f"1e{len(str(row.low)) - 1}" for row in rows]
    held = Bars("entries held", [row.logs_by_entries for row in rows])
    newest = Bars("newest number", [row.logs_by_newest for row in rows])
    return _bars(title, names, [held, newest], y_label="logs")


def copies_chart(title: str, rows: Sequence[Copies]) -> str:
    """Entries by how many copies of them the inputs have."""
    names = [number_text(row.low) + ("" if row.low == row.high else "+") for row in rows]
    return _bars(title, names, [Bars("entries", [row.entries for row in rows])], y_label="entries")


def entries_chart(title: str, rows: Sequence[Growth]) -> str:
    """Entries of all logs up to a sequence number."""
    return _grown(title, rows, "entries", all="entries", verified="verified")


def sizes_chart(title: str, rows: Sequence[Growth]) -> str:
    """Bytes of all logs' payloads up to a sequence number."""
    return _grown(title, rows, "bytes", claimed="claimed_bytes", held="held_bytes")


def _grown(title: str, rows: Sequence[Growth], y_label: str, **columns: str) -> str:
    series = [Series(name, [(row.seqnum, getattr(row, column)) for row in rows]) for name, column in columns.items()]
    x_log, y_log = (greatest > _LOGARITHMIC_FROM for greatest in series[0].points[-1])
    return _lines(title, series, x_label="sequence number", y_label=y_label, x_log=x_log, y_log=y_log)


# -- drawings -----------------------------------------------------------------------------------------------------


def portions(counts: Sequence[int], room: int) -> list[int]:
    """``room`` units divided in proportion to counts. Each count that is not 0 gets at least ``_LEAST``.

    The greatest count pays for that, so the units add up to ``room``.
    """
    whole = sum(counts)
    if not whole:
        return [0] * len(counts)
    units = [max(_LEAST, room * count // whole) if count else 0 for count in counts]
    units[counts.index(max(counts))] += room - sum(units)
    return units


def bar(counts: dict[str, int], room: int) -> list[tuple[str, str, str]]:
    """The parts of one bar of ``room`` units: class, left end and width of each that is not 0."""
    widths = portions([*counts.values()], room)
    placed = zip(counts, widths, accumulate(widths), strict=True)
    return [(kind, str(end - width), str(width)) for kind, width, end in placed if width]


class LogView(NamedTuple):
    """A log of the page, and its strip as paths, by class, ``width`` units wide. ``gaps`` are left out of the strip."""

    log: LogNumbers
    gaps: list[tuple[int, int]]
    shapes: dict[str, Markup]
    width: str


def view(log: LogNumbers, strip: Sequence[Coverage]) -> LogView:
    """The view of a log with these cells. Where they do not follow each other something is left out.

    Each cell is filled from below, the rest is missing. Neighbouring cells that look the same are one shape, so that a
    page with many strips stays small. A break is a zigzag.
    """
    ends = [0, *(cell.last for cell in strip)]
    gaps = [(end + 1, cell.first - 1) for end, cell in zip(ends, strip, strict=False) if cell.first > end + 1]
    room = (_WIDTH - _BREAK * len(gaps)) // max(1, len(strip))
    paths: dict[str, list[str]] = {"v": [], "u": [], "i": [], "z": []}
    left = breaks = 0
    for (below, units), cells in groupby(strip, lambda one: (bisect(gaps, (one.first,)), portions(one[4:], _HEIGHT))):
        if below > breaks:
            paths["z"].append(f"M{left + _BREAK // 4} 0l100 6l-100 6l100 6l-100 6")
            left, breaks = left + _BREAK, below
        width = room * len(list(cells))
        for kind, height, filled in zip("vui", units, accumulate(units), strict=False):
            if height:
                paths[kind].append(f"M{left} {_HEIGHT - filled}h{width}v{height}h-{width}z")
        left += width
    return LogView(log, gaps, {kind: Markup("").join(path) for kind, path in paths.items() if path}, str(left))


def views(numbers: Numbers) -> dict[str, list[LogView]]:
    """The logs with most trouble, and the largest ones that are not among those."""
    strips = {log: list(cells) for log, cells in groupby(numbers.tables["coverage"], attrgetter("author", "log_id"))}
    troubled, largest = numbers.tables["troubled"], numbers.tables["largest"]
    found = {log[:2]: view(log, strips.get(log[:2], ())) for log in (*troubled, *largest)}
    return {"troubled": [found.pop(log[:2]) for log in troubled], "largest": [*found.values()]}
