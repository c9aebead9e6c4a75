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

from __future__ import annotations

from base64 import b64encode
from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from culm.bamboo.decimal import size_text
from culm.charts import number_text
from culm.spark.batches.payload import STATES
from culm.spark.report import charts
from culm.spark.report.numbers import Coverage, LogNumbers, Numbers
from culm.types import Log
from culm.wire.places import author_text

_MOST_LETTERS = 300  # of a foreign text; a longer one would fill the page
_WIDTH, _HEIGHT = 9600, 24  # of a strip, in units of its own drawing: 100 for each of 96 cells, 24 steps of filling
_BREAK = 200  # the width of a break in a strip, in the same units: two cells
_LEAST = 2  # the least width or height of a part that is not 0, in units of its drawing, so that it is seen


def page(numbers: Numbers) -> str:
    """The page as HTML, from ``<!DOCTYPE html>`` on."""
    troubled, largest = views(numbers)
    loader = PackageLoader("culm.spark.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, finalize=shown)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.globals |= {"STATES": STATES, "bar": bar, "charts": charts, "picture": picture, "share": share}
    environment.filters |= {"author": author_name, "bytes": size_text, "hex": in_hex, "short": short}
    made = environment.get_template("report.html")
    of_all, tables = numbers.totals, {**numbers.tables, "troubled": troubled, "largest": largest}
    return made.render(numbers=numbers, said=numbers.source.said, of_all=of_all, tables=tables)


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
    if percent.denominator == 1 and percent in (0, 100):
        return f"{percent} %"
    if percent < Fraction(1, 100):
        return "under 0.01 %"
    if percent > Fraction(9999, 100):
        return "over 99.99 %"
    return f"{float(percent):.2f} %"


def short(number: int) -> str:
    """A number that may have twenty digits, where there is room for few."""
    return f"{number:,}" if number < 10**12 else number_text(number)


def in_hex(data: bytes) -> Markup:
    """All the bytes in hex, however many."""
    return Markup(data.hex())  # noqa: S704 - digits only


def picture(svg: str) -> Markup:
    """A chart as the address of a picture that is in the page itself."""
    return Markup("data:image/svg+xml;base64,") + b64encode(svg.encode()).decode()


# -- drawings -----------------------------------------------------------------------------------------------------


def portions(counts: Sequence[int], room: int, least: int = _LEAST) -> list[int]:
    """``room`` units divided in proportion to counts. Each count that is not 0 gets at least ``least``.

    The greatest count pays for that, so the units add up to ``room``.
    """
    whole = sum(counts)
    if not whole:
        return [0] * len(counts)
    units = [max(least, room * count // whole) if count else 0 for count in counts]
    greatest = max(range(len(counts)), key=counts.__getitem__)
    units[greatest] += room - sum(units)
    return units


def bar(counts: dict[str, int], room: int) -> list[tuple[str, str, str]]:
    """The parts of one bar of ``room`` units: class, left end and width of each that is not 0."""
    found, left = [], 0
    for kind, width in zip(counts, portions([*counts.values()], room), strict=True):
        if width:
            found.append((kind, str(left), str(width)))
            left += width
    return found


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
    for (below, units), cells in groupby(strip, lambda cell: (bisect(gaps, (cell.first,)), _units(cell))):
        if below > breaks:
            paths["z"].append(f"M{left + _BREAK // 4} 0l100 6l-100 6l100 6l-100 6")
            left, breaks = left + _BREAK, below
        width, top = room * len(list(cells)), _HEIGHT
        for kind, height in zip("vui", units, strict=False):
            if height:
                top -= height
                paths[kind].append(f"M{left} {top}h{width}v{height}h-{width}z")
        left += width
    return LogView(log, gaps, {kind: Markup("").join(path) for kind, path in paths.items() if path}, str(left))


def _units(cell: Coverage) -> list[int]:
    return portions([cell.verified, cell.unverified, cell.invalid, cell.missing], _HEIGHT)


def views(numbers: Numbers) -> tuple[list[LogView], list[LogView]]:
    """The logs with most trouble, and the largest ones that are not among those."""
    strips: defaultdict[Log, list[Coverage]] = defaultdict(list)
    for cell in numbers.tables["coverage"]:
        strips[cell.author, cell.log_id].append(cell)
    troubled, largest = numbers.tables["troubled"], numbers.tables["largest"]
    found = {log.log: view(log, strips[log.log]) for log in (*troubled, *largest)}
    troubled = [found.pop(log.log) for log in troubled]
    return troubled, [*found.values()]
