"""Charts: well-formed SVG that shows the data, and nothing else."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm import charts
from culm.charts import COLOURS, Bars, Series, Strip, bar_chart, line_chart, number_text, strip_chart

pytestmark = pytest.mark.usefixtures("fonts")

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(allow_nan=True, allow_infinity=True)
HOSTILE = "$\\frac{ </text><script>alert(1)</script> & \"'\x1b\u202e\ud800 ￾ 中"


def elements(svg: str, name: str) -> list[Any]:
    """The elements of a name, once the text is parsed."""
    return list(ET.fromstring(svg).iter(f"{SVG}{name}"))


def texts(svg: str) -> dict[str, float]:
    """All texts with the place of each from the left."""
    return {text.text: float(text.get("x")) for text in elements(svg, "text")}


def paths(svg: str, kind: str) -> list[tuple[str, list[tuple[float, float]]]]:
    """The shapes that are drawn or filled (``stroke``, ``fill``) in a colour of the data: their style, and corners."""
    found = []
    for path in elements(svg, "path"):
        style = path.get("style") or ""
        if any(f"{kind}: {colour}" in style for colour in COLOURS) and "clip-path" in path.attrib:
            corners = re.findall(r"([-\d.]+) ([-\d.]+)", path.get("d"))
            found.append((style, [(float(x), float(y)) for x, y in corners]))
    return found


def lines(svg: str) -> list[list[tuple[float, float]]]:
    """The corners of all lines."""
    return [corners for style, corners in paths(svg, "stroke") if "fill: none" in style]


def heights(svg: str, colour: str) -> list[float]:
    """The heights of all boxes in a colour, in their order."""
    found = [corners for style, corners in paths(svg, "fill") if colour in style]
    return [max(y for _, y in corners) - min(y for _, y in corners) for corners in found]


def test_a_line_goes_where_its_points_are() -> None:
    """Equal steps in the data are equal steps on the page; up is more; the ticks stand at their values."""
    svg = line_chart("A title", [Series("one", [(0, 0), (5, 50), (10, 100)])], x_label="x", y_label="y")
    ((a, b, c),) = lines(svg)
    assert b[0] - a[0] == pytest.approx(c[0] - b[0], abs=0.2)
    assert a[1] - b[1] == pytest.approx(b[1] - c[1], abs=0.2)
    assert a[0] < b[0]
    assert a[1] > b[1]
    assert {"A title", "x", "y", "0", "100", "10"} <= texts(svg).keys()
    assert texts(svg)["10"] == pytest.approx(c[0], abs=0.2)


def test_a_logarithmic_axis() -> None:
    """Equal factors are equal steps; what is not above 0 is left out; the ticks are powers of ten."""
    svg = line_chart("t", [Series("s", [(0, 1), (100, 1), (1000, 2), (10000, 3)])], x_label="n", y_label="", x_log=True)
    ((a, b, c),) = lines(svg)
    assert b[0] - a[0] == pytest.approx(c[0] - b[0], abs=0.2)
    assert {"100", "1k", "10k"} <= texts(svg).keys()


@settings(max_examples=6, deadline=None)
@pytest.mark.slow
@given(
    st.lists(st.builds(Series, st.text(max_size=30), st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5)), max_size=12),
    st.booleans(),
    st.booleans(),
    st.text(max_size=30),
)
def test_any_data_make_a_chart(series: list[Series], x_log: bool, y_log: bool, title: str) -> None:
    """Whatever the numbers and names, the text is well-formed, everything is on the page, and it is the same again."""
    svg = line_chart(title, series, x_label="x", y_label="y", x_log=x_log, y_log=y_log)
    assert svg == line_chart(title, series, x_label="x", y_label="y", x_log=x_log, y_log=y_log)
    width, height = (float(size) for size in ET.fromstring(svg).get("viewBox", "").split()[2:])
    for corner in (corner for line in lines(svg) for corner in line):
        assert 0 <= corner[0] <= width
        assert 0 <= corner[1] <= height


@pytest.mark.slow
def test_hostile_names_are_text() -> None:
    """A name is no formula, no element and no control character, wherever it stands; and it is cut."""
    series = [Series(HOSTILE, [(0, 1), (1, 2)]), Series("_" + "x" * 1000, [(0, 1)])]
    for svg in (
        line_chart(HOSTILE, series, x_label=HOSTILE, y_label=HOSTILE),
        bar_chart(HOSTILE, [HOSTILE], [Bars(HOSTILE, [1]), Bars("b", [2])], y_label=HOSTILE),
        strip_chart(HOSTILE, [Strip(HOSTILE, [1])], x_label=HOSTILE, x_ticks=[(0, HOSTILE)]),
    ):
        assert not elements(svg, "script")
        assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\ufffe]", svg)
        assert any(text.startswith("$\\frac{ </text><script>") for text in texts(svg))
        assert max(map(len, texts(svg))) <= 100


def test_nothing_from_elsewhere() -> None:
    """A chart refers to nothing outside, and does not tell when or by which program it was made."""
    svg = line_chart("t", [Series("s", [(0, 1), (1, 2)])], x_label="x", y_label="y")
    assert {"xmlns", "xmlns:xlink"} == {name for name, _ in re.findall(r'([\w:]+)="(https?:[^"]*)"', svg)}
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"|url\(([^)]*)\)', svg)[0] if target)
    assert not re.search(r"<!DOCTYPE|<metadata|<image|@import", svg)


@pytest.mark.slow
def test_a_dark_screen() -> None:
    """The style sheet in the chart has a dark counterpart of each colour that the chart uses."""
    svg = bar_chart("t", list("abc"), [Bars(str(at), [1, 2, 3]) for at in range(10)], y_label="y")
    dark = svg.partition("prefers-color-scheme:dark")[2].partition("</style>")[0]
    used = set(re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", svg.partition("</style>")[2]))
    assert len(used) > len(COLOURS)
    assert {colour for colour in used if f'[style*="{colour}"]' not in dark} == set()


@pytest.mark.slow
def test_the_users_settings_have_no_part() -> None:
    """What a program sets for its own plots changes no chart, and drawing a chart changes no setting."""
    import matplotlib as mpl

    before = line_chart("t", [Series("s", [(0, 1), (1, 2)])], x_label="x", y_label="y")
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert before == line_chart("t", [Series("s", [(0, 1), (1, 2)])], x_label="x", y_label="y")
        assert mpl.rcParams["font.size"] == 30


def test_matplotlib_is_imported_by_the_first_chart_only() -> None:
    """Commands that draw nothing do not wait for it."""
    code = f"import sys, {charts.__name__}; print('matplotlib' in sys.modules)"
    assert "False\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_legends() -> None:
    """Several series have a legend, one has none; colours differ, and when they are used up the dashes do."""
    many = [Series(f"series {at}", [(0, at), (1, at)]) for at in range(10)]
    svg = line_chart("t", many, x_label="x", y_label="y")
    assert {one.name for one in many} <= texts(svg).keys()
    assert len(many) == len({style for style, corners in paths(svg, "stroke") if len(corners) == 2})
    assert "series 0" not in texts(line_chart("t", many[:1], x_label="x", y_label="y"))


def test_bars() -> None:
    """Bars are as high as their values, which stand above them; a value that is no number has none."""
    svg = bar_chart("t", ["a", "b"], [Bars("one", [1, 2]), Bars("two", [4, math.nan])], y_label="y")
    one, two = heights(svg, COLOURS[0]), heights(svg, COLOURS[1])
    assert one == pytest.approx([one[0], 2 * one[0]], abs=0.2)
    assert two == pytest.approx([4 * one[0]], abs=0.4)
    assert {"a", "b", "1", "2", "4", "one", "two"} <= texts(svg).keys()


@pytest.mark.slow
def test_the_axis_of_whole_numbers_has_whole_ticks() -> None:
    """There are no 0.6 logs: bars of whole numbers have an axis of such; shares have what they need."""
    whole = texts(bar_chart("t", ["a", "b"], [Bars("one", [3, 1])], y_label="y"))
    assert {"0", "1", "2", "3"} <= whole.keys()
    assert not [text for text in whole if "." in text]
    assert [text for text in texts(bar_chart("t", ["a"], [Bars("one", [0.7])], y_label="y")) if "." in text]


def test_strips() -> None:
    """Neighbouring cells of one value are one box; darker is more."""
    svg = strip_chart("t", [Strip("peer <1>", [0, 0, 1, 0.5])], x_label="x", x_ticks=[(0, "first")])
    boxes = paths(svg, "fill")
    widths = [max(x for x, _ in corners) - min(x for x, _ in corners) for _, corners in boxes]
    assert widths == pytest.approx([2 * widths[1], widths[1], widths[1]], abs=0.2)
    shades = [float((re.findall(r"opacity: ([\d.]+)", style) or ["1"])[0]) for style, _ in boxes]
    assert [0.04, 1, 0.5] == shades
    assert {"first", "peer <1>"} <= texts(svg).keys()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (999, "999"),
        (1000, "1k"),
        (12_345, "12.3k"),
        (5e6, "5M"),
        (2e13, "20T"),
        (1e16, "1e+16"),
    ],
)
def test_numbers_for_people(value: float, text: str) -> None:
    """Three digits and a letter."""
    assert text == number_text(value)


@pytest.mark.slow
def test_empty_charts() -> None:
    """Nothing to show is a chart with nothing in it."""
    for svg in (
        line_chart("t", [], x_label="x", y_label="y"),
        bar_chart("t", [], [], y_label="y"),
        strip_chart("t", [], x_label="x"),
        strip_chart("t", [Strip("none", [])], x_label="x"),
    ):
        assert "t" in texts(svg)
        assert not lines(svg)
