"""The pieces of a page: escaped text, tables, numbers, and small drawings as SVG.

Names of files and reasons come from inputs that anybody may have made, and a page opened in a browser must not run or
fake anything because of them. So the type says what is safe: ``Html`` goes into the page as it is, and everything else
is escaped. Foreign text goes through ``foreign``, which also cuts it and shows control characters, and characters that
change the direction of writing, as numbers.
"""

from __future__ import annotations

from base64 import b64encode
from fractions import Fraction
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from culm.bamboo.decimal import size_text
from culm.wire.places import author_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from culm.spark.report.numbers import CoverageNumbers

_MOST_LETTERS = 300  # of a foreign text; a longer one would fill the page
_WIDTH, _HEIGHT = 9600, 24  # of a strip, in units of its own drawing: 100 for each of 96 cells, 24 steps of filling
_BREAK = 200  # the width of a break in a strip, in the same units: two cells
_LEAST = 2  # the least width or height of a part that is not 0, in units of its drawing, so that it is seen
_BAR = 1000  # the width of a bar, in units of its drawing: shares are exact to 0.1 %


class Html(str):
    """Text that goes into the page as it is; make it only of escaped parts."""

    __slots__ = ()


class Figure(Html):
    """A number with a unit or a sign (``3.5 MiB``, ``12 %``); tables align it like a number."""

    __slots__ = ()


def safe(value: object) -> Html:
    """A value as it stands on the page: escaped, integers with separators, a dash for None."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html("–")  # noqa: RUF001 - a dash
    if isinstance(value, int):
        return Html(f"{value:,}")
    return Html(escape(str(value)))


def foreign(text: str | None) -> Html:
    """Text from the inputs: cut, escaped, with numbers for what a reader would not see; a dash for None."""
    if text is None:
        return safe(None)
    cut = text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "…"
    shown = (letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in cut)
    return Html(f'<span class="id">{escape("".join(shown))}</span>')


def join(parts: Iterable[str], separator: str = "\n") -> Html:
    """Pieces of a page, one after the other. They must be safe already: they are not escaped here."""
    return Html(separator.join(parts))


def element(name: str, content: object, kind: str = "") -> Html:
    """An element with escaped content; ``kind`` is its class."""
    attribute = f' class="{kind}"' if kind else ""
    return Html(f"<{name}{attribute}>{safe(content)}</{name}>")


def log_name(author: bytes, log_id: int) -> Html:
    """A log as the command line writes it."""
    return element("code", f"{claimed_author(author)}/{log_id}", "id")


def claimed_author(author: bytes) -> str:
    """The author that a row names, in base62; in hex if it does not have 32 bytes, and so is nobody's key."""
    return author_text(author) if len(author) == 32 else author.hex()


def table(caption: object, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table with its heads; numbers are aligned right. The first cell of each row is the row's head."""
    rows = list(rows)
    kinds = [_kind(value) for value in rows[0]] if rows else [""] * len(heads)
    cells = join((f'<th scope="col"{kind}>{safe(head)}</th>' for head, kind in zip(heads, kinds, strict=True)), "")
    body = join(f"<tr>{_row(row)}</tr>" for row in rows)
    return Html(
        f'<div class="wide"><table><caption>{safe(caption)}</caption>\n<thead><tr>{cells}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _row(row: Sequence[object]) -> str:
    first, *rest = row
    cells = "".join(f"<td{_kind(value)}>{safe(value)}</td>" for value in rest)
    return f'<th scope="row"{_kind(first)}>{safe(first)}</th>{cells}'


def _kind(value: object) -> str:
    return ' class="n"' if isinstance(value, int | Figure) else ""


def details(summary: object, content: Html) -> Html:
    """Content that a reader opens by its summary."""
    return Html(f"<details><summary>{safe(summary)}</summary>\n{content}\n</details>")


def chart(title: str, svg: str) -> Html:
    """A chart of ``culm.charts``, set into the page as a picture; narrow screens scroll it."""
    data = b64encode(svg.encode()).decode()
    return Html(f'<div class="wide chart"><img alt="{safe(title)}" src="data:image/svg+xml;base64,{data}"></div>')


# -- numbers ------------------------------------------------------------------------------------------------------


def share(part: int, whole: int) -> str:
    """A share in percent. Only exact ones are 0 % and 100 %: one bad entry in a million must not look like none."""
    if not whole:
        return "–"  # noqa: RUF001 - a dash
    percent = Fraction(100 * part, whole)
    if percent.denominator == 1 and percent in (0, 100):
        return f"{percent} %"
    if percent < Fraction(1, 100):
        return "under 0.01 %"
    if percent > Fraction(9999, 100):
        return "over 99.99 %"
    return f"{float(percent):.2f} %"


def bytes_text(size: int) -> Figure:
    """A number of bytes with its unit: B, KiB and so on."""
    return Figure(size_text(size))


def number(value: float | None) -> Html:
    """A number with one decimal, a dash for None."""
    return safe(None) if value is None else Figure(f"{value:,.1f}")


# -- drawings -----------------------------------------------------------------------------------------------------


def bar(title: str, parts: Sequence[tuple[str, int]]) -> Html:
    """One bar of parts, each with its class and count. A part that is not 0 has at least a visible width."""
    drawn, left = [], 0
    for (kind, _), width in zip(parts, portions([count for _, count in parts], _BAR), strict=True):
        if width:
            drawn.append(f'<rect class="{kind}" x="{left}" width="{width}" height="40"/>')
            left += width
    return _stretched("bar", title, f"0 0 {_BAR} 40", join(drawn, ""))


def meter(part: int, whole: int) -> Html:
    """A small bar: how much of a whole one part is."""
    width = portions([part, max(0, whole - part)], 100)[0]
    return _stretched("meter", share(part, whole), "0 0 100 10", Html(f'<rect class="a" width="{width}" height="10"/>'))


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


def strip(title: str, drawn: Sequence[Sequence[CoverageNumbers]]) -> Html:
    """The coverage of a log as SVG. Each cell is filled from below: verified, unverified, invalid; the rest is missing.

    Neighbouring cells that look the same are one shape, so that a page with many strips stays small. A break is a
    zigzag.
    """
    paths: dict[str, list[str]] = {"v": [], "u": [], "i": [], "z": []}
    breaks = [bool(at or piece[0].first > 1) for at, piece in enumerate(drawn)]
    cell = (_WIDTH - _BREAK * sum(breaks)) // max(1, sum(map(len, drawn)))
    left = 0
    for piece, breaks_before in zip(drawn, breaks, strict=True):
        if breaks_before:
            paths["z"].append(f"M{left + _BREAK // 4} 0l100 6l-100 6l100 6l-100 6")
            left += _BREAK
        for units, cells in groupby(piece, _units):
            width = cell * sum(1 for _ in cells)
            top = _HEIGHT
            for kind, height in zip("vui", units, strict=False):
                if height:
                    top -= height
                    paths[kind].append(f"M{left} {top}h{width}v{height}h-{width}z")
            left += width
    shapes = join((f'<path class="{kind}" d="{"".join(path)}"/>' for kind, path in paths.items() if path), "")
    return _stretched("strip", title, f"0 0 {left} {_HEIGHT}", shapes)


def _units(cell: CoverageNumbers) -> list[int]:
    return portions([cell.verified, cell.unverified, cell.invalid, cell.missing], _HEIGHT)


def swatch(kind: str) -> Html:
    """A square in the colour of a class, for a legend."""
    square = f'<rect class="{kind}" width="10" height="10"/>'
    return Html(f'<svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">{square}</svg>')


def _stretched(kind: str, title: str, box: str, content: str) -> Html:
    return Html(
        f'<svg class="{kind}" viewBox="{box}" preserveAspectRatio="none" role="img" aria-label="{safe(title)}">'
        f"<title>{safe(title)}</title>{content}</svg>"
    )
