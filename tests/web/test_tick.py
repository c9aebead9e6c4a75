"""The status page's tick in a real browser: an entry is verified there, and a lie of the node is noticed.

It needs Debian's ``chromium`` and ``chromium-driver``, and the bundle that ``make web`` builds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from culm.bamboo import Identity
from culm.node.home import Home
from culm.node.status import server
from culm.store import SQLiteStore
from culm.testing.builders import build_log
from culm.wire.places import author_text
from tests.cli.culm import start
from tests.web.browsing import BROWSES, chromium, waited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver

BUNDLE = Path(server.__file__).parent / "page" / "culm.js"
pytestmark = [
    pytest.mark.skipif(not (BROWSES and BUNDLE.exists()), reason="there is no Chromium, or no bundle (make web)"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.subprocess,
]
LOG = build_log(121, seed=11, log_id=1)
NAME = f"{author_text(LOG.identity.public)}/{LOG.log_id}"
_LIES = """
const honest = window.fetch;
window.fetch = async (...given) => {
  const answer = await honest(...given);
  if (!String(given[0]).includes("evidence")) return answer;
  const found = await answer.json();
  const wrong = (text) => text.slice(0, -2) + (text.endsWith("00") ? "01" : "00");
  found.entries[2] = wrong(found.entries[2]);
  return new Response(JSON.stringify(found));
};
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A Chromium without a window."""
    yield from chromium(tmp_path_factory.mktemp("chromium"))


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    """The address of a node's page about a log."""
    home = Home(tmp_path / "home")
    home.create()
    home.add_identity("default", Identity(bytes([7]) * 32), None)
    with SQLiteStore(tmp_path / "home" / "store.db") as store:
        store.add(LOG.items())
    with start(tmp_path / "home", "serve", "--http", "127.0.0.1:0") as serving:
        assert serving.stdout is not None
        yield f"{serving.stdout.readline().removeprefix('status ').strip()}#/log/{NAME}"
        serving.terminate()


def tick(browser: webdriver.Chrome) -> str:
    """What stands below the chosen entry."""
    text: str = browser.execute_script("return document.querySelector('.tick')?.textContent ?? ''")
    return text


def test_the_browser_agrees(browser: webdriver.Chrome, page: str) -> None:
    """The tick says how many signatures this browser has checked: the entries of the path."""
    browser.get(f"{page}?seq=100")
    waited(browser, lambda: tick(browser) != "")
    # From 100 down to 1: 99, 98, 97, 93, 80, 40, 13, 4, 1.
    assert tick(browser).startswith("✓ Verified in this browser: 10 signatures")


def test_a_node_that_lies(browser: webdriver.Chrome, page: str) -> None:
    """A single wrong byte in what the node shows takes the tick away, and the page says which entry is not signed."""
    browser.get(f"{page}?seq=121")
    waited(browser, lambda: tick(browser) != "")
    assert tick(browser).startswith("✓")
    browser.execute_script(_LIES)
    browser.execute_script("location.hash = arguments[0]", f"#/log/{NAME}?seq=100")
    waited(browser, lambda: "✗" in tick(browser))
    assert "the author has not signed entry 13" in tick(browser)
