"""The pieces of a page: text that is safe to set, tables, figures, and small drawings as SVG.

What is ``Html`` is set as it is, everything else is escaped. Text from elsewhere (reasons, names of files) goes through
``foreign``: it is cut, and what a reader would not see in it, as control characters or a change of direction, is shown
as its number.
"""

from __future__ import annotations

from fractions import Fraction
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from culm.bamboo.decimal import size_text
from culm.wire.places import author_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from culm.spark.report.strips import Cell, Strip

_MOST_LETTERS = 300
_WIDTH, _HEIGHT = 9600, 24  # of a strip's drawing, in its own units
_BREAK = 200  # the room of a break
_LEAST = 2  # of these: what there is, is seen
_BAR = 1000


class Html(str):
    """Text that needs no escaping."""

    __slots__ = ()


class Figure(Html):
    """A number in words or with a unit, aligned like one."""

    __slots__ = ()


def safe(value: object) -> Html:
    """A value as it stands on the page: numbers with separators, nothing for None."""
    if isinstance(value, Html):
        return value
    if value is None:
        return Html("–")  # noqa: RUF001 - a dash
    if isinstance(value, int):
        return Html(f"{value:,}")
    return Html(escape(str(value)))


def foreign(text: str | None) -> Html:
    """Text that somebody else wrote."""
    if text is None:
        return safe(None)
    cut = text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "…"
    shown = (letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in cut)
    return Html(f'<span class="id">{escape("".join(shown))}</span>')


def join(parts: Iterable[str], separator: str = "\n") -> Html:
    """Pieces of a page, one after the other."""
    return Html(separator.join(parts))


def element(name: str, content: object, kind: str = "") -> Html:
    """An element, with a class if one is given."""
    attribute = f' class="{kind}"' if kind else ""
    return Html(f"<{name}{attribute}>{safe(content)}</{name}>")


def log_name(author: bytes, log_id: int) -> Html:
    """A log as the command line writes it."""
    return element("code", f"{claimed_author(author)}/{log_id}", "id")


def claimed_author(author: bytes) -> str:
    """What a row names as its author: in base62, or in hex if it is not 32 bytes and so nobody's key."""
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
    """What is shown when it is asked for."""
    return Html(f"<details><summary>{safe(summary)}</summary>\n{content}\n</details>")


def chart(svg: str) -> Html:
    """A drawing of ``culm.spark.charts``, as it can stand in a page, scrolled where it is wide."""
    inside = svg.replace(' xmlns="http://www.w3.org/2000/svg"', "", 1)
    return Html(f'<div class="wide chart">{inside}</div>')


# -- numbers ------------------------------------------------------------------------------------------------------


def share(part: int, whole: int) -> str:
    """A share in percent; 0 % and 100 % only if that is exact."""
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
    """A number of bytes with its unit."""
    return Figure(size_text(size))


def number(value: float | None) -> Html:
    """A number that is not whole."""
    return safe(None) if value is None else Figure(f"{value:,.1f}")


# -- drawings -----------------------------------------------------------------------------------------------------


def bar(title: str, parts: Sequence[tuple[str, int]]) -> Html:
    """One bar of parts, each with its class; what is there at all is seen."""
    drawn, left = [], 0
    for (kind, _), width in zip(parts, portions([count for _, count in parts], _BAR), strict=True):
        if width:
            drawn.append(f'<rect class="{kind}" x="{left}" width="{width}" height="40"/>')
            left += width
    return _stretched("bar", title, f"0 0 {_BAR} 40", join(drawn, ""))


def meter(part: int, whole: int) -> Html:
    """A small bar for one number of several."""
    width = portions([part, max(0, whole - part)], 100)[0]
    return _stretched("meter", share(part, whole), "0 0 100 10", Html(f'<rect class="a" width="{width}" height="10"/>'))


def portions(counts: Sequence[int], room: int, least: int = _LEAST) -> list[int]:
    """Whole units for counts, in proportion; at least ``least`` for each that is not 0, at the cost of the greatest."""
    whole = sum(counts)
    if not whole:
        return [0] * len(counts)
    units = [max(least, room * count // whole) if count else 0 for count in counts]
    greatest = max(range(len(counts)), key=counts.__getitem__)
    units[greatest] += room - sum(units)
    return units


def strip(title: str, drawn: Strip) -> Html:
    """The coverage of a log: from below verified, unverified, invalid; what is missing is left free.

    Neighbouring cells that look the same are one shape. Breaks are a zigzag.
    """
    paths: dict[str, list[str]] = {"v": [], "u": [], "i": [], "z": []}
    breaks = [bool(at or piece[0].first > 1) for at, piece in enumerate(drawn.pieces)]
    cell = (_WIDTH - _BREAK * sum(breaks)) // max(1, len(drawn.cells))
    left = 0
    for piece, breaks_before in zip(drawn.pieces, breaks, strict=True):
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


def _units(cell: Cell) -> list[int]:
    return portions([*cell.counts, cell.missing], _HEIGHT)


def swatch(kind: str) -> Html:
    """The colour of a class, for a legend."""
    square = f'<rect class="{kind}" width="10" height="10"/>'
    return Html(f'<svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">{square}</svg>')


def _stretched(kind: str, title: str, box: str, content: str) -> Html:
    return Html(
        f'<svg class="{kind}" viewBox="{box}" preserveAspectRatio="none" role="img" aria-label="{safe(title)}">'
        f"<title>{safe(title)}</title>{content}</svg>"
    )
