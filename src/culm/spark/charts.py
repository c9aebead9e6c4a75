"""Charts as SVG text: lines, bars, and strips of shaded cells. For files, and for pages that set them inline.

::

    svg = line_chart("Informed nodes", [Series("push", [(0, 0.1), (1, 0.4)])], x_label="round", y_label="share")

A chart is one self-contained SVG for a light background: it needs no scripts, styles or fonts from elsewhere, so it can
be mailed or set into a page. The same data give the same text, so that results can be compared byte by byte. Every
text is escaped, because names come from inputs; numbers that are not finite are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLOURS = ("#0b5fa5", "#d1495b", "#2e8b57", "#b8860b", "#6a4c93", "#00798c", "#8c510a", "#555555")
"""The series take these in turn. They differ in lightness, too, so that a grey print tells them apart."""

DASHES = ("", "6 3", "2 2", "8 3 2 3")
"""Dash patterns: the ninth series has the first colour again, with the second of these, and so on."""

_FONT = "font-family:system-ui,sans-serif;font-size:12px"
_INK, _FAINT, _GRID = "#222222", "#666666", "#e2e2e2"
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 16, 34, 44  # pixels around the plot, for the title, the ticks and the labels
_LEGEND_ROW = 18  # pixels: a line of text of 12 pixels with some air
_LETTER = 7  # Pixels, the mean width of a letter. An SVG cannot measure its text, so room for it is estimated.


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its name in the legend, and its points ``(x, y)`` in the order in which they are joined."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar for each category: the name in the legend, and the values."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Strip:
    """A row of cells: its label, and for each cell a value from 0 (white) to 1 (dark)."""

    label: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis: values from ``low`` to ``high`` lie at the pixels from ``first`` to ``last``."""

    low: float
    high: float
    first: float  # pixels
    last: float
    ticks: tuple[float, ...]
    is_log: bool

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return self.first + (value - low) / (high - low) * (self.last - self.first)


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    y_label: str,
    x_log: bool = False,
    y_log: bool = False,
    y_from_zero: bool = True,
    width: int = 640,
    height: int = 360,
) -> str:
    """Lines over two axes, as SVG. On a logarithmic axis points that are not above 0 are left out.

    ``y_from_zero``: the vertical axis begins at 0, unless it is logarithmic. ``width`` and ``height`` are pixels; the
    legend, if there are several series, comes on top of the height.
    """
    kept = [Series(one.name, [point for point in one.points if _fits(point, x_log, y_log)]) for one in series]
    points = [point for one in kept for point in one.points]
    legend = [one.name for one in kept] if len(kept) > 1 else []
    page = _Page(title, width, height, _legend_rows(legend, width))
    horizontal = _axis([x for x, _ in points], page.left, page.right, is_log=x_log)
    values = [y for _, y in points] + ([0.0] if y_from_zero and not y_log else [])
    vertical = _axis(values, page.bottom, page.top, is_log=y_log)
    page.axes(horizontal, vertical, x_label, y_label)
    for at, one in enumerate(kept):
        page.line([(horizontal.at(x), vertical.at(y)) for x, y in one.points], at, one.name)
    page.legend(legend)
    return page.text()


def bar_chart(
    title: str, categories: Sequence[str], bars: Sequence[Bars], *, y_label: str, width: int = 640, height: int = 360
) -> str:
    """Groups of bars side by side, one group for each category; the vertical axis begins at 0."""
    legend = [one.name for one in bars] if len(bars) > 1 else []
    page = _Page(title, width, height, _legend_rows(legend, width))
    values = [value for one in bars for value in one.values if math.isfinite(value)]
    vertical = _axis([0.0, *values], page.bottom, page.top, is_log=False)
    page.grid(vertical, y_label)
    group = (page.right - page.left) / max(1, len(categories))
    bar = group * 0.8 / max(1, len(bars))
    for at, category in enumerate(categories):
        left = page.left + at * group + group * 0.1
        for of, one in enumerate(bars):
            value = one.values[at]
            if math.isfinite(value):
                ends = sorted((vertical.at(0), vertical.at(value)))
                hint = f"{category}, {one.name}: {number_text(value)}"
                page.box(left + of * bar, ends[0], bar, ends[1] - ends[0], COLOURS[of % len(COLOURS)], hint)
        room = max(3, int(group / _LETTER))
        page.label(left + group * 0.4, page.bottom + 16, _cut(category, room), "middle")
    page.legend(legend)
    return page.text()


def strip_chart(
    title: str,
    strips: Sequence[Strip],
    *,
    x_label: str,
    x_ticks: Sequence[tuple[int, str]] = (),
    width: int = 640,
    row_height: int = 18,
) -> str:
    """Rows of shaded cells, for coverage or for a share that changes. ``x_ticks``: pairs of a cell and its label.

    Neighbouring cells of one shade are drawn as one, so a long strip without changes is small.
    """
    label_room = min(220, 12 + _LETTER * max((len(strip.label) for strip in strips), default=0))
    height = _TOP + _BOTTOM + row_height * len(strips)
    page = _Page(title, width, height, 0, left=label_room)
    most = max((len(strip.values) for strip in strips), default=0)
    cell = (page.right - page.left) / max(1, most)
    for row, strip in enumerate(strips):
        top = page.top + row * row_height
        page.label(page.left - 6, top + row_height * 0.7, _cut(strip.label, 30), "end")
        for first, last, shade in _equal_cells(strip.values):
            left = page.left + first * cell
            hint = f"{strip.label}, {first}" + (f" to {last}" if last > first else "") + f": {shade / 255:.0%}"
            page.box(left, top + 1, (last - first + 1) * cell, row_height - 2, _shade(shade), hint)
    for at, text in x_ticks:
        page.label(page.left + (at + 0.5) * cell, page.bottom + 16, text, "middle")
    page.label((page.left + page.right) / 2, page.bottom + 34, x_label, "middle")
    return page.text()


def number_text(value: float) -> str:
    """A number with three digits, thousands as k, M, G or T: 12,345 is ``12.3k``."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{name}" if abs(value) < 1000 * unit else f"{value:.3g}"
    return f"{value:.3g}"


# -- the pieces -----------------------------------------------------------------------------------------------------


def _fits(point: tuple[float, float], x_log: bool, y_log: bool) -> bool:
    x, y = point
    return math.isfinite(x) and math.isfinite(y) and (x > 0 or not x_log) and (y > 0 or not y_log)


def _axis(values: Sequence[float], first: float, last: float, *, is_log: bool) -> _Axis:
    """An axis with room for all values. It begins and ends at a tick, so that the numbers at its ends are round."""
    if is_log:
        least = math.floor(math.log10(min(values, default=1)))
        most = max(least + 1, math.ceil(math.log10(max(values, default=10))))
        powers = range(least, most + 1, max(1, (most - least) // 8))
        return _Axis(10.0**least, 10.0**most, first, last, tuple(10.0**power for power in powers), is_log)
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low == high:
        high = low + (abs(low) or 1.0)
    step = _nice((high - low) / 5)
    begin, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(number * step for number in range(begin, end + 1))
    return _Axis(ticks[0], ticks[-1], first, last, ticks, is_log)


def _nice(step: float) -> float:
    """The least of 1, 2, 5, 10, 20, ... (or 0.1, 0.2, ...) that is not below a step."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step * (1 - 1e-9))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(1, most - 1)] + "…"


def _equal_cells(values: Sequence[float]) -> Iterable[tuple[int, int, int]]:
    """Neighbouring cells of one shade as one: first, last, and the shade from 0 to 255. Others are left out."""
    shades = [round(255 * min(1.0, max(0.0, value))) if math.isfinite(value) else None for value in values]
    first = 0
    for at in range(1, len(shades) + 1):
        if at == len(shades) or shades[at] != shades[first]:
            if (shade := shades[first]) is not None:
                yield first, at - 1, shade
            first = at


def _shade(shade: int) -> str:
    """A shade from 0 to 255 as a colour, from nearly white to the first of ``COLOURS``."""
    light, dark = (0xF3, 0xF6, 0xF9), (0x0B, 0x5F, 0xA5)
    mixed = (a + (b - a) * shade // 255 for a, b in zip(light, dark, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _legend_places(names: Sequence[str], width: int) -> list[tuple[int, int]]:
    """Column in pixels and row of each name in the legend."""
    places, x, row = [], _LEFT, 0
    for name in names:
        room = 30 + _LETTER * len(_cut(name, 40))
        if x > _LEFT and x + room > width - _RIGHT:
            x, row = _LEFT, row + 1
        places.append((x, row))
        x += room
    return places


def _legend_rows(names: Sequence[str], width: int) -> int:
    return 1 + _legend_places(names, width)[-1][1] if names else 0


class _Page:
    """An SVG while it is drawn. Coordinates are pixels from the left and from the top."""

    def __init__(self, title: str, width: int, height: int, legend_rows: int, left: int = _LEFT) -> None:
        self._width = width
        self._height = height + legend_rows * _LEGEND_ROW
        self.left, self.right = float(left), float(width - _RIGHT)
        self.top = float(_TOP + legend_rows * _LEGEND_ROW)
        self.bottom = float(self._height - _BOTTOM)
        self._title = title
        self._parts: list[str] = []
        self.label(_LEFT if left == _LEFT else 8, 20, title, "start", weight="bold")

    def text(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(self._title)}"'
            f' viewBox="0 0 {self._width} {self._height}" width="{self._width}" height="{self._height}"'
            f' style="max-width:100%;height:auto;{_FONT}"><title>{escape(self._title)}</title>'
        )
        background = f'<rect width="{self._width}" height="{self._height}" fill="#ffffff"/>'
        return "\n".join([head, background, *self._parts, "</svg>"]) + "\n"

    def label(self, x: float, y: float, text: str, anchor: str, *, weight: str = "", turned: bool = False) -> None:
        """A line of text; ``anchor``: which part of it is at ``x``."""
        extra = f' font-weight="{weight}"' if weight else ""
        extra += f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{_INK}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'
        )

    def grid(self, vertical: _Axis, label: str) -> None:
        for tick in vertical.ticks:
            y = vertical.at(tick)
            self._rule(self.left, y, self.right, y, _GRID)
            self.label(self.left - 6, y + 4, number_text(tick), "end")
        self._rule(self.left, self.bottom, self.right, self.bottom, _FAINT)
        self.label(16, (self.top + self.bottom) / 2, label, "middle", turned=True)

    def axes(self, horizontal: _Axis, vertical: _Axis, x_label: str, y_label: str) -> None:
        self.grid(vertical, y_label)
        for tick in horizontal.ticks:
            x = horizontal.at(tick)
            self._rule(x, self.bottom, x, self.bottom + 4, _FAINT)
            self.label(x, self.bottom + 17, number_text(tick), "middle")
        self.label((self.left + self.right) / 2, self.bottom + 36, x_label, "middle")

    def _rule(self, x1: float, y1: float, x2: float, y2: float, colour: str) -> None:
        self._parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>')

    def line(self, points: Sequence[tuple[float, float]], at: int, name: str) -> None:
        """Draw series number ``at``; a series of one point is a dot."""
        if not points:
            return
        hint = f"<title>{escape(name)}</title>"
        colour, dash = _style(at)
        if len(points) == 1:
            x, y = points[0]
            self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}">{hint}</circle>')
            return
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}>{hint}</polyline>'
        )

    def box(self, x: float, y: float, width: float, height: float, colour: str, hint: str) -> None:
        """A filled rectangle; browsers show ``hint`` when the pointer is on it."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"'
            ' shape-rendering="crispEdges">'
            f"<title>{escape(hint)}</title></rect>"
        )

    def legend(self, names: Sequence[str]) -> None:
        for at, (name, (x, row)) in enumerate(zip(names, _legend_places(names, self._width), strict=True)):
            y = _TOP + row * _LEGEND_ROW
            colour, dash = _style(at)
            self._parts.append(
                f'<line x1="{x}" y1="{y}" x2="{x + 18}" y2="{y}" stroke="{colour}" stroke-width="3"{dash}/>'
            )
            self.label(x + 23, y + 4, _cut(name, 40), "start")


def _style(at: int) -> tuple[str, str]:
    dash = DASHES[at // len(COLOURS) % len(DASHES)]
    return COLOURS[at % len(COLOURS)], f' stroke-dasharray="{dash}"' if dash else ""
