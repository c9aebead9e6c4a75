"""The site in a real browser, opened from files: readable on a phone, nothing in the console, a search that finds.

It needs Debian's ``chromium`` and ``chromium-driver``. The pages that take Sphinx longest are left out.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.web.browsing import AXE, BROWSES, FAINT, NAMELESS, accessible, chromium, served, shifts, waited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

pytestmark = [
    pytest.mark.skipif(not BROWSES, reason="Chromium is not there (Debian: chromium, chromium-driver)"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.long,
]
DOCS = Path(__file__).parents[2] / "docs"
LEFT_OUT = "commands.md,conformance.md,specs/[!i]*,spark-*.md,performance.md,decisions/*,security.md"
KINDS = {"index": "html", "specs/intervals": "html", "log": "html", "architecture": "html", "api": "#by-task"}
"""A page of each kind (the home, a long one with tables, drawings, a picture of characters, the API), and the part that
axe looks at: for all of the API it takes a minute."""
LOOKS = [(width, theme) for width in (400, 1280) for theme in ("light", "dark")]
CUT_OFF = """
return [...document.querySelectorAll("pre:not(.picture)")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent.slice(0, 80));
"""
LEVELS = """
return [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter((one) => one.checkVisibility())
  .map((one) => Number(one.tagName[1]));
"""
LETTERS = """
return [...document.querySelectorAll("svg.drawing")].map((one) =>
  Math.min(...[...one.querySelectorAll("text")].map((text) => parseFloat(getComputedStyle(text).fontSize))) *
  one.getScreenCTM().a);
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the site."""
    folder = tmp_path_factory.mktemp("site")
    call = [sys.executable, "-m", "sphinx", "--quiet", "-b", "html", "-D", f"exclude_patterns={LEFT_OUT}"]
    subprocess.run([*call, str(DOCS), str(folder)], cwd=DOCS.parent, stderr=subprocess.DEVNULL, check=True)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """One browser for all tests."""
    yield from chromium(tmp_path_factory.mktemp("chromium"))


@pytest.fixture(autouse=True)
def no_complaints(browser: Chrome) -> Iterator[None]:
    """Whatever a test does, the browser has nothing to complain about."""
    yield
    assert [] == complaints(browser)


def complaints(browser: Chrome) -> list[str]:
    """What stands in the browser's console since this was asked last."""
    return [entry["message"] for entry in browser.get_log("browser")]  # type: ignore[no-untyped-call]


def look(browser: Chrome, page: Path | str, width: int, theme: str = "light") -> None:
    """Open a page, from its file or by its address, in a window of so many pixels; the system has a theme."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(page if isinstance(page, str) else page.as_uri())


def run(browser: Chrome, code: str) -> Any:
    """What a piece of JavaScript gives."""
    return browser.execute_script(code)


def test_the_home_page(site: Path, browser: Chrome) -> None:
    """It has a language, a title, and three doors; its links lead somewhere, and are no list of all pages."""
    look(browser, site / "index.html", 1280)
    assert run(browser, "return [document.documentElement.lang, document.title]") == ["en", "Culm"]
    assert run(browser, "return document.querySelector('meta[name=description]').content.length") in range(50, 160)
    doors = browser.find_elements(By.CSS_SELECTOR, ".door > p:first-child a")
    assert [door.text for door in doors] == ["Embed it", "Run a node", "Analyse at scale"]
    links = run(browser, "return [...document.querySelectorAll('article a[href]')].map((one) => one.href)")
    missing = {Path(link).name for link in links if not Path(link.removeprefix("file://").partition("#")[0]).exists()}
    assert missing <= {"api.html", "security.html", "performance.html", "spark-tables.html", "spark-stream.html"}
    assert len(links) < 40
    assert (site / "library.html").as_uri() in links


def test_a_server_has_all_that_the_home_page_loads(site: Path, browser: Chrome) -> None:
    """Over HTTP, too, the console stays empty: the browser also asks for the icon there, which it does not of files."""
    with served(site) as origin:
        browser.get(f"{origin}/index.html")
        loaded = run(browser, "return performance.getEntriesByType('resource').map((one) => one.responseStatus)")
        assert len(loaded) > 5
        assert set(loaded) == {200}


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_who_can_read_it(site: Path, browser: Chrome, width: int, theme: str) -> None:
    """Text stands out, controls have names, no level of headings is skipped, nothing is too wide or too small."""
    for name in ("index", "log", "exchange"):
        look(browser, site / f"{name}.html", width, theme)
        assert [] == run(browser, FAINT), name
        assert [] == run(browser, NAMELESS), name
        levels = run(browser, LEVELS)
        assert levels[0] == 1, name
        assert all(after <= before + 1 for before, after in pairwise(levels)), (name, levels)
        assert run(browser, "return document.documentElement.scrollWidth <= innerWidth"), name
        letters = run(browser, LETTERS)
        assert letters, name
        assert min(letters) >= 10, (name, letters)


@pytest.mark.skipif(not AXE.exists(), reason=f"{AXE} is not there: npm ci in web/ (make web)")
@pytest.mark.parametrize(("width", "theme"), [(400, "dark"), (1280, "light")])
def test_axe_finds_nothing(site: Path, browser: Chrome, width: int, theme: str) -> None:
    """The rules of WCAG that axe-core can check, and its own, hold on a page of each kind."""
    found = []
    with served(site) as origin:  # Axe also reads the style sheets, which a page in a file may not.
        for name, within in KINDS.items():
            look(browser, f"{origin}/{name}.html", width, theme)
            found += [f"{name}: {one}" for one in accessible(browser, within)]
    assert "" == "\n".join(found)


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_moves_while_a_page_loads(site: Path, browser: Chrome, width: int) -> None:
    """Over HTTP, where style sheets and scripts come one by one, no text jumps under the reader's eyes."""
    with served(site) as origin:
        for name in KINDS:
            browser.get("about:blank")
            look(browser, f"{origin}/{name}.html", width)
            found = shifts(browser)
            assert sum(value for value, _ in found) < 0.1, (name, found)


def test_drawings_follow_the_switch_of_the_theme(site: Path, browser: Chrome) -> None:
    """A reader who chooses the other theme than the system's sees the letters of drawings, too."""
    look(browser, site / "log.html", 1280)
    browser.find_element(By.CSS_SELECTOR, ".content-icon-container .theme-toggle").click()
    theme = run(browser, "return document.body.dataset.theme")
    while theme != "dark":
        browser.find_element(By.CSS_SELECTOR, ".content-icon-container .theme-toggle").click()
        theme = run(browser, "return document.body.dataset.theme")
    assert [] == run(browser, FAINT)
    run(browser, "localStorage.clear()")


@pytest.mark.parametrize("width", [400, 1280])
def test_no_page_complains_or_cuts_off_code(site: Path, browser: Chrome, width: int) -> None:
    """On no page a line of code is cut off, and the browser's console stays empty."""
    pages = [page for page in site.rglob("*.html") if "_static" not in page.parts]
    assert len(pages) > 40
    for page in pages:
        look(browser, page, width)
        assert [] == run(browser, CUT_OFF), page.name
        assert run(browser, "return document.documentElement.scrollWidth <= innerWidth"), page.name
        assert [] == complaints(browser), page.name


def test_a_block_is_copied_whole(site: Path, browser: Chrome) -> None:
    """The button at a block of code puts it into the clipboard as it stands; output has no button."""
    look(browser, site / "tutorial.html", 400)
    block = browser.find_element(By.CSS_SELECTOR, ".highlight-sh")
    button = block.find_element(By.CSS_SELECTOR, "button.copy")
    button.click()
    waited(browser, lambda: button.text == "Copied")
    run(browser, "document.body.append(Object.assign(document.createElement('textarea'), { id: 'paste' }))")
    area = browser.find_element(By.ID, "paste")
    area.send_keys(Keys.CONTROL, "v")
    assert area.get_property("value") == "culm --home alice init\nculm --home bob init\n"
    assert [] == browser.find_elements(By.CSS_SELECTOR, ".highlight-text button.copy")
    look(browser, site / "specs" / "intervals.html", 1280)
    assert browser.find_elements(By.CSS_SELECTOR, ".highlight-none")  # a form, which nobody types
    assert [] == browser.find_elements(By.CSS_SELECTOR, ".highlight-none button.copy")


def test_no_line_is_broken_inside_an_option(site: Path, browser: Chrome) -> None:
    """On a phone, too, an option such as --clump stands on one line; browsers would break it behind its dashes."""
    look(browser, site / "tutorial.html", 400)
    lines = "return [...document.querySelectorAll('pre .option')].map((one) => one.getClientRects().length)"
    assert {1} == set(run(browser, lines))


def test_the_search_works_from_files(site: Path, browser: Chrome) -> None:
    """A search finds pages without a server, and its first results lead to pages with the word."""
    browser.get(f"{(site / 'search.html').as_uri()}?q=lipmaalink")
    waited(browser, lambda: bool(browser.find_elements(By.CSS_SELECTOR, "#search-results li a")))
    waited(browser, lambda: "Search finished" in browser.find_element(By.ID, "search-results").text)
    browser.find_element(By.CSS_SELECTOR, "#search-results li a").click()
    waited(browser, lambda: "search.html" not in browser.current_url)
    assert "lipmaalink" in run(browser, "return document.querySelector('article').innerText").lower()
