"""The drawings of the docs show what the code does, and fit the light and the dark theme."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

from culm.bamboo import certificate_pool, lipmaa, path

DOCS = Path(__file__).parents[2] / "docs"
DRAWINGS = sorted((DOCS / "drawings").glob("*.svg"))
USES = re.compile(r"!\[([^\]]+)\]\((?:\.\./)*drawings/([\w-]+\.svg)\)")
SVG = "{http://www.w3.org/2000/svg}"


def numbers(name: str, kind: str = "") -> set[int]:
    """The entries of a drawing, as its boxes name them; only those whose box is of a kind, if one is given."""
    parts = list(ET.parse(DOCS / "drawings" / name).getroot())
    pairs = [(box, text) for box, text in pairwise(parts) if box.tag == f"{SVG}rect"]
    return {int(text.text or "") for box, text in pairs if kind in box.get("class", "").split() or not kind}


def test_every_drawing_is_shown_with_words_for_it() -> None:
    """Each drawing stands on a page, with a text for readers who do not see it; no page shows one that is missing."""
    shown = [use for page in DOCS.rglob("*.md") for use in USES.findall(page.read_text())]
    assert DRAWINGS
    assert sorted(name for _, name in shown) == [drawing.name for drawing in DRAWINGS]
    assert all(len(words) > 80 for words, _ in shown)


def test_drawings_take_the_colours_of_the_page() -> None:
    """All have the same style, and no colour outside of it: such a colour would be lost on one of the two themes."""
    styles = set()
    for drawing in DRAWINGS:
        text = drawing.read_text()
        styles.update(re.findall(r"<style>.*?</style>", text, re.DOTALL))
        rest = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
        assert not re.search(r"#[0-9a-f]{3}|(?:fill|stroke|style)=", rest), drawing.name
        assert 'viewBox="0 0 460 ' in text, f"{drawing.name}: wider, its letters would be too small on a phone"
    assert len(styles) == 1


def test_the_links_are_those_of_the_format() -> None:
    """The log has thirteen entries, and the page names exactly the lipmaalinks that they carry."""
    assert numbers("log-links.svg") == set(range(1, 14))
    (words,) = [words for words, name in USES.findall((DOCS / "log.md").read_text()) if name == "log-links.svg"]
    named = {(int(one), int(other)) for one, other in re.findall(r"from\s(\d+)\sto\s(\d+)", words)}
    assert named == {(seq, lipmaa(seq)) for seq in range(2, 14) if lipmaa(seq) != seq - 1}


def test_the_pool_is_that_of_the_code() -> None:
    """The boxes marked around entry 6 are its certificate pool; dashed is the upper half."""
    assert numbers("certificate-pool.svg", "mark") == set(certificate_pool(6))
    assert numbers("certificate-pool.svg", "dashed") == set(certificate_pool(6)) - set(path(6, 1))


def test_the_sparse_path_is_that_of_the_code() -> None:
    """The page on interests names the path from entry 13 down to entry 1."""
    assert "13, 4, 1" in (DOCS / "exchange.md").read_text()
    assert list(path(13, 1)) == [13, 4, 1]
