"""Charts: well-formed SVG that shows the data, and nothing else."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm.spark.charts import Bars, Series, Strip, bar_chart, line_chart, number_text, strip_chart

SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)
NAMES = st.text(max_size=30).filter(
    lambda text: all(
        ord(char) >= 32 and not 0xD7FF < ord(char) < 0xE000 and ord(char) not in (0xFFFE, 0xFFFF) for char in text
    )
)


def elements(svg: str, name: str) -> list[Any]:
    """The elements of a name, once the text is parsed."""
    return list(ET.fromstring(svg).iter(f"{SVG}{name}"))


def points(svg: str) -> list[list[tuple[float, float]]]:
    """The corners of all lines."""
    return [
        [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.get("points").split())]
        for line in elements(svg, "polyline")
    ]


def test_a_line_goes_where_its_points_are() -> None:
    """Equal steps in the data are equal steps on the page; up is more; the ticks stand at their values."""
    svg = line_chart("A title", [Series("one", [(0, 0), (5, 50), (10, 100)])], x_label="x", y_label="y")
    ((a, b, c),) = points(svg)
    assert b[0] - a[0] == pytest.approx(c[0] - b[0], abs=0.2)
    assert a[1] - b[1] == pytest.approx(b[1] - c[1], abs=0.2)
    assert a[0] < b[0]
    assert a[1] > b[1]
    texts = {text.text: text for text in elements(svg, "text")}
    assert {"A title", "x", "y", "0", "100", "10"} <= texts.keys()
    assert float(texts["10"].get("x")) == pytest.approx(c[0], abs=0.2)


def test_a_logarithmic_axis() -> None:
    """Equal factors are equal steps; what is not above 0 is left out; the ticks are powers of ten."""
    svg = line_chart("t", [Series("s", [(0, 1), (100, 1), (1000, 2), (10000, 3)])], x_label="n", y_label="", x_log=True)
    ((a, b, c),) = points(svg)
    assert b[0] - a[0] == pytest.approx(c[0] - b[0], abs=0.2)
    assert {"100", "1k", "10k"} <= {text.text for text in elements(svg, "text")}


@settings(max_examples=50, deadline=None)
@pytest.mark.slow
@given(
    st.lists(st.builds(Series, NAMES, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5)), max_size=12),
    st.booleans(),
    st.booleans(),
    NAMES,
)
def test_any_data_make_a_chart(series: list[Series], x_log: bool, y_log: bool, title: str) -> None:
    """Whatever the numbers and names, the text is well-formed, everything is on the page, and it is the same again."""
    svg = line_chart(title, series, x_label="x", y_label="y", x_log=x_log, y_log=y_log)
    assert svg == line_chart(title, series, x_label="x", y_label="y", x_log=x_log, y_log=y_log)
    width, height = (float(size) for size in ET.fromstring(svg).get("viewBox", "").split()[2:])
    for corner in (corner for line in points(svg) for corner in line):
        assert 0 <= corner[0] <= width
        assert 0 <= corner[1] <= height


def test_legends() -> None:
    """Several series have a legend, one has none; colours differ, and when they are used up the dashes do."""
    many = [Series(f"series {at}", [(0, at), (1, at)]) for at in range(10)]
    svg = line_chart("t", many, x_label="x", y_label="y")
    assert {one.name for one in many} <= {text.text for text in elements(svg, "text")}
    styles = {(line.get("stroke"), line.get("stroke-dasharray")) for line in elements(svg, "polyline")}
    assert len(many) == len(styles)
    alone = line_chart("t", many[:1], x_label="x", y_label="y")
    assert "series 0" not in {text.text for text in elements(alone, "text")}


def test_bars() -> None:
    """Bars are as high as their values; a value that is no number has none."""
    svg = bar_chart("t", ["a", "b"], [Bars("one", [1, 2]), Bars("two", [4, math.nan])], y_label="y")
    bars = {box.find(f"{SVG}title").text: float(box.get("height")) for box in elements(svg, "rect")[1:]}
    assert {"a, one: 1", "a, two: 4", "b, one: 2"} == bars.keys()
    assert bars["b, one: 2"] == pytest.approx(2 * bars["a, one: 1"], abs=0.2)
    assert bars["a, two: 4"] == pytest.approx(4 * bars["a, one: 1"], abs=0.4)


def test_strips() -> None:
    """Neighbouring cells of one value are one box; darker is more."""
    svg = strip_chart("t", [Strip("peer <1>", [0, 0, 1, 0.5])], x_label="x", x_ticks=[(0, "first")])
    boxes = elements(svg, "rect")[1:]
    assert ["peer <1>, 0 to 1: 0%", "peer <1>, 2: 100%", "peer <1>, 3: 50%"] == [
        box.find(f"{SVG}title").text for box in boxes
    ]
    nothing, everything, half = (int(box.get("fill")[1:3], 16) for box in boxes)
    assert everything < half < nothing
    assert "first" in {text.text for text in elements(svg, "text")}


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


def test_empty_charts() -> None:
    """Nothing to show is a chart with nothing in it."""
    for svg in (
        line_chart("t", [], x_label="x", y_label="y"),
        bar_chart("t", [], [], y_label="y"),
        strip_chart("t", [], x_label="x"),
        strip_chart("t", [Strip("none", [])], x_label="x"),
    ):
        assert elements(svg, "text")
        assert not elements(svg, "polyline")
