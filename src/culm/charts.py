"""Charts as SVG text, drawn by matplotlib: lines, bars, and strips of shaded cells.

::

    svg = line_chart("Informed nodes", [Series("push", [(0, 0.1), (1, 0.4)])], x_label="round", y_label="share")

A chart is a file of its own: it needs no script and nothing from elsewhere, so it can be mailed, or set into a page as
a picture. The same data give the same text, so that results can be compared byte by byte. Names may come from inputs
that anybody made. They are therefore cut and escaped, and matplotlib does not read formulas in them. Numbers that are
not finite are left out.

A reader may prefer a dark screen. matplotlib writes each colour into the element that has it, as a program that knows
no style sheets needs it. A style sheet in the chart, which browsers obey, replaces each of these few colours by its
dark counterpart (``_DARK``).

Needs matplotlib (``culm[spark]``). A chart takes some 0.1 s of CPU, importing matplotlib half a second.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_INK, _FAINT, _GRID, _PAPER = "#1d2329", "#5b6670", "#d5dbe1", "#ffffff"
COLOURS = ("#0b5fa5", "#d1495b", "#2e8b57", "#b8860b", "#6a4c93", "#00798c", "#8c510a", "#555555")
"""The series take these in turn. They differ in lightness, too, so that a grey print tells them apart."""

_ON_DARK = ("#4d9fe0", "#f0808e", "#56b881", "#e8b33a", "#a98bd4", "#3fb3c4", "#d2955a", "#a8a8a8")
_DARK = {_INK: "#e4e8ec", _FAINT: "#9aa6b2", _GRID: "#39424b", _PAPER: "#14181c"} | dict(
    zip(COLOURS, _ON_DARK, strict=True)
)
"""Each colour of a chart, and the one that takes its place on a dark screen."""

DASHES = ("-", (0, (6, 3)), (0, (2, 2)), (0, (8, 3, 2, 3)))
"""Dash patterns: the ninth series has the first colour again, with the second of these, and so on."""

_RC: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be found, and a screen reader reads it
    "svg.hashsalt": "culm",  # the names of clip paths are otherwise random
    "text.parse_math": False,  # a dollar sign in a name would begin a formula
    "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it: room for text is the same on every machine
    "font.size": 12,
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.grid.axis": "y",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "grid.color": _GRID,
    "xtick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.color": _GRID,
    "ytick.labelcolor": _INK,
    "figure.facecolor": _PAPER,
    "axes.facecolor": _PAPER,
    "legend.frameon": False,
}
_LEGEND_ROW = 20  # pixels: a line of text of 12 pixels with some air
_LETTER = 7  # Pixels, the mean width of a letter: how many names fit beside each other is estimated.
_MOST_LETTERS = 40  # of a name in a legend; a longer one would leave no room for the chart
_MOST = 1e100  # Greater numbers are left out: matplotlib's margins and powers of ten would overflow.
_LEAST = 1e-100  # Smaller ones are left out of a logarithmic axis, which would be nothing but empty decades.
_LIGHTEST = 0.04  # the shade of a cell of value 0: it is seen that there is a cell


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
    """A row of cells: its label, and for each cell a value from 0 (light) to 1 (dark)."""

    label: str
    values: Sequence[float]


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
    with _drawing(title, width, height, [one.name for one in series]) as (figure, axes):
        drawn = [[point for point in one.points if _fits(point, x_log, y_log)] for one in series]
        for at, (one, points) in enumerate(zip(series, drawn, strict=True)):
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=COLOURS[at % len(COLOURS)],
                linestyle=DASHES[at // len(COLOURS) % len(DASHES)],
                linewidth=2,
                marker="o" if len(points) == 1 else "",
                label=_clean(one.name),
            )
        _scale(axes.xaxis, [x for points in drawn for x, _ in points], is_log=x_log)
        _scale(axes.yaxis, [y for points in drawn for _, y in points], is_log=y_log)
        axes.set_xlabel(_clean(x_label))
        axes.set_ylabel(_clean(y_label))
        if y_from_zero and not y_log and not axes.dataLim.ymin < 0:
            axes.set_ylim(bottom=0)
        return _text(figure, axes, title)


def bar_chart(
    title: str, categories: Sequence[str], bars: Sequence[Bars], *, y_label: str, width: int = 640, height: int = 360
) -> str:
    """Groups of bars side by side, one group for each category; each bar has its value above it."""
    with _drawing(title, width, height, [one.name for one in bars]) as (figure, axes):
        each = 0.8 / max(1, len(bars))
        for of, one in enumerate(bars):
            values = [(at, value) for at, value in enumerate(one.values) if abs(value) < _MOST]
            places = [at + (of - (len(bars) - 1) / 2) * each for at, _ in values]
            heights = [value for _, value in values]
            drawn = axes.bar(places, heights, each, color=COLOURS[of % len(COLOURS)], label=_clean(one.name))
            axes.bar_label(drawn, [number_text(value) for value in heights], padding=2, fontsize=10)
        is_whole = all(value == int(value) for one in bars for value in one.values if abs(value) < _MOST)
        _scale(axes.yaxis, (), is_log=False, is_whole=is_whole)
        room = max(3, int(width / max(1, len(categories)) / _LETTER))
        axes.set_xticks(range(len(categories)), [_clean(name, room) for name in categories])
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel(_clean(y_label))
        return _text(figure, axes, title)


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
    with _drawing(title, width, 90 + row_height * len(strips), ()) as (figure, axes):
        for row, strip in enumerate(strips):
            cells = [(first, last - first + 1, shade) for first, last, shade in _equal_cells(strip.values)]
            axes.broken_barh(
                [(first, count) for first, count, _ in cells],
                (row + 0.1, 0.8),
                facecolors=[(COLOURS[0], max(_LIGHTEST, shade)) for *_, shade in cells],
            )
        axes.set_ylim(max(1, len(strips)), 0)
        axes.set_xlim(0, max((len(strip.values) for strip in strips), default=0) or 1)
        axes.set_yticks([row + 0.5 for row in range(len(strips))], [_clean(strip.label, 30) for strip in strips])
        axes.set_xticks([at + 0.5 for at, _ in x_ticks], [_clean(text) for _, text in x_ticks])
        axes.grid(visible=False)
        axes.set_xlabel(_clean(x_label))
        return _text(figure, axes, title)


def number_text(value: float) -> str:
    """A number with three digits, thousands as k, M, G or T: 12,345 is ``12.3k``."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{name}" if abs(value) < 1000 * unit else f"{value:.3g}"
    return f"{value:.3g}"


# -- the pieces -----------------------------------------------------------------------------------------------------


@contextmanager
def _drawing(title: str, width: int, height: int, legend: Sequence[str]) -> Iterator[tuple[Figure, Axes]]:
    """A figure with one pair of axes; the block draws them. Settings of the user's own matplotlib have no part in it.

    matplotlib warns of letters that its own font lacks. The reader's browser has other fonts, so that is not a fault.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with warnings.catch_warnings(), mpl.rc_context({**mpl.rcParamsDefault, **_RC}):
        warnings.simplefilter("ignore")
        rows = -(-len(legend) // _columns(legend, width)) if len(legend) > 1 else 0
        # An SVG of matplotlib has 72 units an inch; so a unit is a pixel.
        figure = Figure(figsize=(width / 72, (height + rows * _LEGEND_ROW) / 72), layout="constrained")
        axes = figure.subplots()
        axes.set_title(_clean(title, 100))
        yield figure, axes
        figure.clear()


def _text(figure: Figure, axes: Axes, title: str) -> str:
    """The figure as SVG, with a legend if there are several names."""
    handles, names = axes.get_legend_handles_labels()
    if len(names) > 1:
        columns = _columns(names, figure.get_figwidth() * 72)
        figure.legend(handles, names, loc="outside lower left", ncols=columns, fontsize=11)
    made = io.StringIO()
    figure.savefig(made, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    _, _, svg = made.getvalue().partition("<svg ")
    named = escape(_clean(title, 100))
    head = f'<svg role="img" aria-label="{named}" style="max-width:100%;height:auto" '
    svg = head + re.sub(r'(width|height)="([0-9.]+)pt"', r'\1="\2"', svg, count=2)
    return svg.replace(">", f">\n <title>{named}</title>\n <style>{_STYLE}</style>", 1)


def _columns(names: Sequence[str], width: float) -> int:
    return max(1, int(width / (60 + _LETTER * min(_MOST_LETTERS, max(map(len, names), default=0)))))


_STYLE = (
    "text{font-family:system-ui,sans-serif!important}@media screen and (prefers-color-scheme:dark){"
    + "".join(
        f'[style*="{name}: {light}"]{{{name}:{dark}!important}}'
        for light, dark in _DARK.items()
        for name in ("fill", "stroke")
    )
    + "}"
)


def _scale(axis: Axis, values: Sequence[float], *, is_log: bool, is_whole: bool = False) -> None:
    """Ticks for people: at round numbers, or at powers of ten; the first and the last end the axis.

    ``is_whole``: at whole numbers only, because there is no such thing as 0.6 of what is counted.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    if is_log:
        least = math.floor(math.log10(min(values, default=1)))
        most = max(least + 1, math.ceil(math.log10(max(values, default=10))))
        is_x = axis is axis.axes.xaxis
        (axis.axes.set_xscale if is_x else axis.axes.set_yscale)("log")
        (axis.axes.set_xlim if is_x else axis.axes.set_ylim)(10.0**least, 10.0**most)
        axis.set_ticks([10.0**power for power in range(least, most + 1, max(1, (most - least) // 8))])
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(6, integer=is_whole))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))


def _fits(point: tuple[float, float], x_log: bool, y_log: bool) -> bool:
    x, y = point
    return abs(x) < _MOST and abs(y) < _MOST and (x > _LEAST or not x_log) and (y > _LEAST or not y_log)


def _clean(text: str, most: int = _MOST_LETTERS) -> str:
    """A text without what cannot be seen, and not too long. matplotlib would keep a leading underscore for itself."""
    seen = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    seen = seen if len(seen) <= most else seen[: max(1, most - 1)] + "…"
    return f"\N{ZERO WIDTH SPACE}{seen}" if seen.startswith("_") else seen


def _equal_cells(values: Sequence[float]) -> Iterator[tuple[int, int, float]]:
    """Neighbouring cells of one shade as one: first, last, and the shade from 0 to 1. Others are left out."""
    shades = [round(min(1.0, max(0.0, value)), 2) if math.isfinite(value) else None for value in values]
    for shade, cells in groupby(range(len(shades)), shades.__getitem__):
        if shade is not None:
            first, *rest = cells
            yield first, rest[-1] if rest else first, shade
