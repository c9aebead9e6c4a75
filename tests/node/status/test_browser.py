"""The page in a real browser, of a real node: several logs, gaps, a fork, a peer that is connected.

It needs Debian's ``chromium`` and ``chromium-driver``. The pictures that it takes go to pytest's temporary folder, or
to the one that ``CULM_SCREENSHOTS`` names (``make screenshots``).
"""

from __future__ import annotations

import base64
import os
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from culm.bamboo import Identity, certificate_pool, path
from culm.errors import PayloadDamaged
from culm.node.home import Home
from culm.node.interests.missing import EVERYTHING
from culm.node.interests.policy import Policy
from culm.node.names import Name, Names
from culm.ranges import Range, RangeSet
from culm.store import SQLiteStore
from culm.testing.builders import LogBuilder, build_log
from culm.wire.places import author_text
from tests.cli.culm import start
from tests.store.damage import flip
from tests.web.browsing import AXE, BROWSES, CHROMIUM, DRIVER, FAINT, NAMELESS, accessible, shifts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from culm.types import Log

pytestmark = [
    pytest.mark.skipif(not BROWSES, reason="Chromium is not there (Debian: chromium, chromium-driver)"),
    pytest.mark.xdist_group("browser"),
]
WIDE, DOCS, NARROW = 1600, 1100, 360
LOOKS = [(NARROW, True), (WIDE, False)]
if "CULM_SCREENSHOTS" in os.environ:
    LOOKS += [(NARROW, False), (WIDE, True), (DOCS, False), (DOCS, True)]


BEYOND = """
return [...document.querySelectorAll("main .panel, main .tile, main .row > *, main .row .name > *")].filter((one) =>
  one.checkVisibility() && one.getBoundingClientRect().right > one.parentElement.getBoundingClientRect().right + 1
).map((one) => one.outerHTML.slice(0, 120));
"""
"""What is wider than its place."""


class Running(NamedTuple):
    """A node: the address of its page, its store, and that of a peer that talks with it."""

    url: str
    store: SQLiteStore
    peer: SQLiteStore


def hostile(log_id: int) -> LogBuilder:
    """A log whose payload would run in a browser, if any of it became markup."""
    log = build_log(3, seed=40, log_id=log_id)
    log.append(b"<script>document.title = 'owned'</script><img src=x onerror=alert(1)>")
    return log


def fill_with_gaps(store: SQLiteStore) -> None:
    """A log that is followed from entry 31 on, with a gap of each kind; the store has no other log yet."""
    log = build_log(60, seed=50, log_id=6)
    held = {*path(31, 1), *range(31, 39), *range(40, 61)}
    store.add([(entry, None if entry.seq == 45 else payload) for entry, payload in log.items() if entry.seq in held])
    store.forget(log.entries[40].place)
    flip(store.path, 43)
    assert store.drop_damaged(PayloadDamaged("a test", log.entries[42].place, log.entries[42].hash, None))


def follow(home: Home, authors: set[bytes]) -> None:
    """Follow some authors, and one log from entry 31 on."""
    interests: dict[bytes | Log, RangeSet] = dict.fromkeys(authors, EVERYTHING)
    interests[KINDS.identity.public, 6] = RangeSet([Range(31)])
    home.policy_file.save(b"screenshots", Policy(interests=interests))
    home.names_file.save(Names({KINDS.identity.public: Name("buoy-7"), GAPPY.identity.public: Name("ana", True)}))


def fill(store: SQLiteStore) -> None:
    """What the pictures show."""
    fill_with_gaps(store)
    store.add(build_log(121, seed=11, log_id=1).items())
    long = build_log(1200, seed=12, log_id=7)
    store.add(
        [
            (entry, payload if entry.seq < 400 or entry.seq % 3 else None)
            for entry, payload in long.items()
            if not 700 < entry.seq < 820 and not (820 <= entry.seq < 1000 and entry.seq % 4 and entry.seq != 841)
        ]
    )
    store.add([item for item in build_log(40, seed=13, log_id=2).items() if item[0].seq in (*range(1, 14), 30, 31, 40)])
    forked = build_log(30, seed=14, log_id=9)
    store.add([*forked.items(), (forked.make(22, b"another story"), b"another story")])
    ended = build_log(12, seed=15, log_id=3)
    ended.append(b"the end", is_end=True)
    store.add(ended.items())
    store.add(hostile(5).items())
    for number in range(4):
        store.add(build_log(20 + 9 * number, seed=20 + number, log_id=number).items())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A node with a peer, each a process of its own."""
    folder = tmp_path_factory.mktemp("browser")
    for name in ("node", "peer"):
        home = Home(folder / name)
        home.create()
        home.add_identity("default", Identity(name.encode().ljust(32)), None)
    with SQLiteStore(folder / "node" / "store.db") as store, SQLiteStore(folder / "peer" / "store.db") as peer:
        fill(store)
        peer.add(build_log(40, seed=30, log_id=4).items())
        follow(Home(folder / "node"), {line.author for kept in (store, peer) for line in kept.logs()})
        nobody = ("--peer", "intervals://127.0.0.1:1")
        listen = ("--clump", "screenshots", "--listen", "bushbaby://127.0.0.1:0", "--listen", "intervals://127.0.0.1:0")
        with start(folder / "node", "serve", "--http", "127.0.0.1:0", "--http-payloads", *listen, *nobody) as serving:
            try:
                assert serving.stdout is not None
                url = serving.stdout.readline().removeprefix("status ").strip()
                bushbaby = serving.stdout.readline().removeprefix("listening ").strip()
                assert (url.startswith("http://"), bushbaby.startswith("bushbaby://")) == (True, True)
                with start(folder / "peer", "serve", "--clump", "screenshots", "--peer", bushbaby) as calling:
                    try:
                        yield Running(url, store, peer)
                    finally:
                        calling.terminate()
            finally:
                serving.terminate()


class Browser:
    """Chromium without a window."""

    PASSING = (StaleElementReferenceException, IndexError)  # elements are made anew as news come in

    def __init__(self, folder: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
        for argument in ("--headless=new", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", *sandbox):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self._folder = folder
        self.driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))

    def open(self, node: Running, place: str = "") -> None:
        """Go to a place of the page, loaded afresh."""
        self.driver.get("about:blank")
        self.driver.get(node.url + place)

    def looks(self, width: int, *, dark: bool = False) -> None:
        """The width of the window in pixels, and what the user likes."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})

    def run(self, code: str) -> Any:
        """What a piece of JavaScript gives."""
        return self.driver.execute_script(code)

    def all(self, selector: str) -> list[Any]:
        """The elements that a selector finds."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """The texts of what a selector finds, as they are shown, of one moment: elements are made anew any time."""
        return list(self.run(f"return [...document.querySelectorAll({selector!r})].map((one) => one.innerText)"))

    def labels(self, selector: str) -> list[str]:
        """What a screen reader is told of what a selector finds."""
        return list(self.run(f"return [...document.querySelectorAll({selector!r})].map((one) => one.ariaLabel)"))

    def text(self, selector: str = "main") -> str:
        """The text of what a selector finds, as it is shown."""
        return " ".join(self.texts(selector))

    def until(self, condition: Callable[[], Any]) -> Any:
        """Wait for what is still to come."""
        return WebDriverWait(self.driver, 60, 0.05, self.PASSING).until(lambda _: condition())

    def shows(self, text: str, selector: str = "main") -> None:
        """Wait for a text."""
        self.until(lambda: text in self.text(selector))

    def keys(self, *keys: str) -> None:
        """Press keys."""

        def pressed(key: str) -> bool:
            self.driver.switch_to.active_element.send_keys(key)
            return True

        for key in keys:
            self.until(partial(pressed, key))

    def click(self, selector: str, index: int = 0) -> None:
        """Click on one of what a selector finds, as soon as it is there."""

        def clicked() -> bool:
            self.all(selector)[index].click()
            return True

        self.until(clicked)

    def picture(self, name: str) -> None:
        """Save the whole page as a picture."""
        height = min(2600, self.run("return document.documentElement.scrollHeight"))
        width = self.run("return innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        (self._folder / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))

    def complaints(self) -> list[str]:
        """What stands in the browser's console since this was asked last."""
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    folder = Path(os.environ.get("CULM_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    opened = Browser(folder)
    yield opened
    opened.driver.quit()


@pytest.fixture(autouse=True)
def no_complaints(browser: Browser) -> Iterator[None]:
    """Whatever a test does, the browser has nothing to complain about."""
    browser.looks(WIDE)
    yield
    assert [] == browser.complaints()


def place_of(log: LogBuilder, seq: int | None = None) -> str:
    """The address of a log's view."""
    return f"#/log/{author_text(log.identity.public)}/{log.log_id}" + (f"?seq={seq}" if seq else "")


COPIED = {"Copied", "Copying failed"}
RECORD = """
const told = window.told = new Set();
const look = () => document.querySelectorAll(".panel button").forEach((one) => told.add(one.innerText));
new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
"""
"""Keep all that buttons say from now on: they say it for a moment only, and a busy machine looks too late."""
LONG, GAPPY, FORKED = build_log(1, seed=12, log_id=7), build_log(1, seed=13, log_id=2), build_log(1, seed=14, log_id=9)
KINDS = build_log(1, seed=50, log_id=6)


def test_the_first_look(node: Running, browser: Browser) -> None:
    """The page says what a log is, what is held in all, and shows each log with its picture and its state."""
    browser.open(node)
    browser.shows("complete")
    assert "numbered list of entries" in browser.text(".intro")
    assert browser.text("#live") == "live"
    tiles = browser.text(".tiles")
    assert re.search(r"\b1\s+forked log\b", tiles)
    assert re.search(r"\b1[1234]\s+logs", tiles), "eleven, and perhaps what came while others looked"
    rows = browser.text(".rows")
    for words in ("forked at 22", "24 entries missing", "2 waiting", "ended"):
        assert words in rows
    assert len(browser.all(".strip")) == len(browser.all(".rows .row:not(.head)"))
    assert "forked" not in browser.all(".strip")[0].get_attribute("aria-label")


def test_search_sort_and_filter(node: Running, browser: Browser) -> None:
    """The list can be narrowed and sorted, and what does not fit anything says so."""
    browser.open(node, "#/logs?order=entries")
    browser.until(lambda: browser.all(".row:not(.head)"))
    assert author_text(LONG.identity.public)[:10] in browser.all(".row:not(.head)")[0].text
    (search,) = browser.all("input[type=search]")
    search.send_keys(author_text(FORKED.identity.public)[:6])
    browser.until(lambda: len(browser.all(".row:not(.head)")) == 1)
    assert "forked at 22" in browser.text(".rows")
    search.clear()
    search.send_keys("zzzz")
    browser.shows("No log fits")
    search.clear()
    search.send_keys("/2")
    browser.shows("24 entries missing")
    browser.open(node)
    browser.until(lambda: browser.all(".row:not(.head)"))
    browser.click(".choices button", 2)
    browser.until(lambda: len(browser.all(".row:not(.head)")) == 1)


def test_a_log_its_coverage_and_its_links(node: Running, browser: Browser) -> None:
    """The cells are those of the log, a click on one chooses its entry, and the entry's certificate pool is marked."""
    browser.open(node, place_of(GAPPY))
    browser.until(lambda: len(browser.all(".field .cell")) == 40)
    letters = {"k-full": "f", "k-none": "n", "k-waiting": "w"}
    kinds = "".join(letters[cell.get_attribute("class").split()[1]] for cell in browser.all(".field .cell"))
    assert 13 * "f" + 16 * "n" + "ww" + 8 * "n" + "f" == kinds
    browser.click(".field .cell", 29)
    browser.shows("Entry 30")
    pool = [node.get_attribute("data-seq") for node in browser.all(".node.pool")]
    shown = {node.get_attribute("data-seq") for node in browser.all(".node")}
    assert {str(seq) for seq in certificate_pool(30, 40)} & shown == set(pool)
    assert ["30"] == [node.get_attribute("data-seq") for node in browser.all(".node.chosen")]
    assert "is not complete" in browser.text(".facts")
    assert browser.all(".link.pool")
    browser.shows("13", ".chips")


def test_four_kinds_of_gaps(node: Running, browser: Browser) -> None:
    """Missing, not asked for, forgotten and damaged are four things: in words, in cells, and in the log's badges."""
    browser.open(node, place_of(KINDS, 39))
    browser.shows("Missing: it is asked for and has not come yet")
    labels = browser.labels(".field .cell")
    for seq, words in {
        2: "not asked for",
        39: "missing: asked for, but not here",
        41: "payload forgotten: deleted here on purpose",
        43: "payload damaged on this disk: asked for again",
        45: "missing: asked for, but not here",
    }.items():
        assert labels[seq - 1].endswith(words), labels[seq - 1]
    badges = browser.text(".badges")
    for words in (
        "1 payload damaged",
        "1 entry missing",
        "1 payload missing",
        "entries not asked for",
        "1 payload forgotten",
    ):
        assert words in badges
    assert "31.., because this log is followed" in browser.text(".rule")


def test_cells_are_drawn_as_their_legend_says(node: Running, browser: Browser) -> None:
    """What stands in the strip of a fork, or of a gap, has the shapes that the legend shows for it."""
    browser.open(node, "#/logs")
    browser.until(lambda: browser.all(".row:not(.head)"))
    shapes = "return Object.fromEntries([...document.querySelectorAll('.legend li')].map((item) =>"
    shapes += " [item.dataset.letter, [...item.querySelectorAll('svg > *')].map((one) => one.getAttribute('class'))]))"
    legend = browser.run(shapes)
    assert ["k-invalid", "cross"] == legend["x"]
    assert len(legend) == len({tuple(found) for found in legend.values()}), "no two look the same"
    for log, letters in ((FORKED, "fx"), (KINDS, "fmugd")):
        row = f".row[href^='{place_of(log)}'] .strip"
        drawn = set(
            browser.run(f"return [...document.querySelectorAll(\"{row} > *\")].map((one) => one.getAttribute('class'))")
        )
        for letter in letters:
            assert set(legend[letter]) <= drawn, letter


def test_what_carries_meaning_has_contrast(node: Running, browser: Browser) -> None:
    """Text has a contrast of 4.5 to its background, light and dark, in every view; each control has a name."""
    for dark in (False, True):
        browser.looks(WIDE, dark=dark)
        for place in ("", place_of(KINDS, 43), place_of(FORKED, 21), "#/peers", "#/forks", "#/problems"):
            browser.open(node, place)
            browser.shows("live", "#live")
            browser.until(lambda: browser.all(".panel"))
            browser.until(lambda: browser.run("return document.readyState") == "complete")
            assert [] == browser.run(FAINT), (place, dark)
            assert [] == browser.run(NAMELESS), place


@pytest.mark.skipif(not AXE.exists(), reason=f"{AXE} is not there: npm ci in web/ (make web)")
@pytest.mark.parametrize(("width", "dark"), [(NARROW, True), (WIDE, False)])
def test_axe_finds_nothing(node: Running, browser: Browser, width: int, *, dark: bool) -> None:
    """The rules of WCAG that axe-core can check, and its own, hold in every view."""
    browser.looks(width, dark=dark)
    views = ("", place_of(KINDS, 43), place_of(FORKED, 21), "#/peers", "#/forks", "#/problems")
    found = []
    for place in views:
        browser.open(node, place)
        browser.shows("live", "#live")
        browser.until(lambda: browser.all(".panel"))
        found += [f"{place} {one}" for one in accessible(browser.driver)]
    assert "" == "\n".join(found)


def test_nothing_moves_while_the_page_fills_itself(node: Running, browser: Browser) -> None:
    """What comes later has its room from the start."""
    for width in (WIDE, NARROW):
        browser.looks(width)
        for place, shown in (("", ".row:not(.head)"), ("#/peers", ".session"), (place_of(KINDS, 43), ".node.chosen")):
            browser.open(node, place)
            browser.shows("live", "#live")
            browser.until(partial(browser.all, shown))
            found = shifts(browser.driver)
            assert sum(value for value, _ in found) < 0.1, (width, place, found)


def test_nothing_moves_when_news_come_in(node: Running, browser: Browser) -> None:
    """While a log grows, its row, its cells and the figures change in their places; so do the rates of sessions."""
    grows = build_log(12, seed=32, log_id=78)
    node.store.add(grows.items(grows.entries[:4]))
    held = 4
    for width in (WIDE, NARROW):
        browser.looks(width)
        for place, figure in (
            (f"#/logs?search={author_text(grows.identity.public)}", ".row:not(.head) .figures"),
            (place_of(grows, 2), ".tile:nth-child(2) dd"),
        ):
            browser.open(node, place)
            browser.shows("live", "#live")
            browser.shows(str(held), figure)
            before = shifts(browser.driver)
            node.store.add(grows.items(grows.entries[held : held + 2]))
            held += 2
            browser.shows(str(held), figure)
            found = shifts(browser.driver)[len(before) :]
            assert sum(value for value, _ in found) < 0.1, (width, place, found)
        browser.open(node, "#/peers")
        browser.until(lambda: browser.all(".session"))
        assert sum(value for value, _ in shifts(browser.driver, 2.5)) < 0.1  # Rates come once a second.


def test_the_keyboard_is_enough(node: Running, browser: Browser) -> None:
    """Cells and entries are reached with Tab and arrows, and chosen with Enter."""
    browser.open(node, place_of(GAPPY, 13))
    browser.shows("Entry 13")
    browser.run("document.querySelector('.node.chosen').focus()")
    browser.keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ENTER)
    browser.shows("Entry 11")
    browser.until(lambda: browser.run("return document.activeElement.dataset.seq") == "11")
    assert "seq=11" in browser.driver.current_url
    browser.run("document.querySelector('.cell[tabindex=\"0\"]').focus()")
    browser.keys(Keys.HOME, Keys.ARROW_RIGHT, Keys.ENTER)
    browser.shows("Entry 2")
    browser.open(node)
    browser.until(lambda: browser.all(".row:not(.head)"))
    browser.keys(Keys.TAB)
    assert "Skip" in browser.driver.switch_to.active_element.text


def test_a_long_log_is_seen_piece_by_piece(node: Running, browser: Browser) -> None:
    """A log of 1,200 entries has 240 cells; one that stands for several can be looked into, and out of again."""
    browser.open(node, place_of(LONG))
    browser.until(lambda: len(browser.all(".field .cell")) == 240)
    browser.click(".field .cell")
    browser.until(lambda: len(browser.all(".field .cell")) == 5)
    browser.shows("Entries 1\u20135")
    browser.click("button[data-key=out]")
    browser.until(lambda: len(browser.all(".field .cell")) == 240)
    browser.click("button[aria-label='Earlier entries']")
    browser.until(lambda: not browser.all(".node.chosen"))


def test_forks_and_proofs(node: Running, browser: Browser) -> None:
    """A fork shows both entries and gives the proof as a file that tells anybody who imports it."""
    browser.open(node, "#/forks")
    browser.shows("two different entries have this number")
    assert 2 == len(browser.all(".signed"))
    link = browser.all("a[download]")[0].get_attribute("href")
    start_of_file = browser.run(f"const r = await fetch('{link}'); return (await r.text()).slice(0, 11)")
    assert "CULMBUNDLE1" == start_of_file


def test_news_arrive_by_themselves(node: Running, browser: Browser) -> None:
    """The peer's session, what it brings, and what is appended here show without anybody asking for it."""
    browser.open(node, "#/peers")
    browser.shows("bushbaby", ".session")
    browser.shows("not connected")
    assert "Connection refused" in browser.text()
    brought = build_log(41, seed=30, log_id=4)
    browser.until(lambda: node.store.logs_by(brought.identity.public))  # a log that is not there yet is an error 404
    browser.open(node, place_of(brought))
    browser.until(lambda: len(browser.all(".field .cell")) == 40)
    node.peer.add(brought.items(brought.entries[-1:]))
    browser.until(lambda: len(browser.all(".field .cell")) == 41)
    browser.open(node)
    browser.until(lambda: browser.all(".row:not(.head)"))
    count = browser.text(".tile:nth-child(2) dd")
    node.store.add(build_log(6, seed=31, log_id=77).items())
    browser.shows("/ 77", ".rows")
    browser.until(lambda: browser.text(".tile:nth-child(2) dd") != count)


def test_peers_say_when_they_are_called_again(node: Running, browser: Browser) -> None:
    """A peer that cannot be reached counts down to the next call, and keys and addresses can be copied."""
    browser.open(node, "#/peers")
    browser.shows("retry in", ".plain")
    assert re.search(r"retry in \d+ (s|min)", browser.text(".plain"))
    expected = {"Copy the address intervals://127.0.0.1:1", "Copy the peer's key"}
    browser.until(lambda: expected <= set(browser.labels(".panel button")))  # The key is known once a peer is called.
    browser.run(RECORD)
    browser.click(".panel button")
    browser.until(lambda: COPIED & set(browser.run("return [...window.told]")))


def test_a_button_made_anew_says_what_the_one_before_said(browser: Browser, node: Running) -> None:
    """News make the view anew each second; that the text was copied, or not, is still told for as long as it should."""
    browser.open(node, "#/peers")
    said = browser.driver.execute_async_script("""
        const done = arguments[0];
        import("/dom.js").then(({copyButton}) => {
          const made = () => copyButton("Copy", "a text", "Copy a text");
          const first = made();
          document.body.append(first);
          first.click();
          const watch = setInterval(() => {
            if (first.innerText === "Copy") return;
            clearInterval(watch);
            first.remove();
            const second = made();
            document.body.append(second);
            const told = second.innerText;
            setInterval(() => second.innerText === "Copy" && done([told, second.innerText]), 10);
          }, 10);
        });""")
    assert said[0] in COPIED
    assert said[1] == "Copy", "and then it is over"


def test_a_press_is_a_click_whatever_comes_meanwhile(browser: Browser, node: Running) -> None:
    """News that come while a button is pressed wait until it is let go: a button made anew would get no click."""
    browser.open(node, "#/peers")
    browser.shows("retry in", ".plain")
    actions = ActionChains(browser.driver)

    def held() -> bool:
        actions.reset_actions()
        actions.click_and_hold(browser.all(".plain button")[0]).perform()
        return bool(browser.run("return window.pressed = document.querySelector('.plain button:active')"))

    browser.until(held)
    browser.run("let seen = 0; new EventSource('/events').addEventListener('overview', () => window.seen = ++seen);")
    browser.until(lambda: (browser.run("return window.seen") or 0) > 1)
    assert browser.run("return window.pressed.isConnected")
    browser.run(RECORD)
    actions.reset_actions()
    actions.release().perform()
    browser.until(lambda: COPIED & set(browser.run("return [...window.told]")))
    browser.until(lambda: browser.run("return !window.pressed.isConnected"))


def test_problems_say_what_to_do(node: Running, browser: Browser) -> None:
    """A damaged payload, and a peer out of reach, stand there with what to do; the tab counts them."""
    browser.open(node, "#/problems")
    browser.shows("not connected")
    assert "buoy-7" in browser.text(".problems")
    todo = browser.texts(".problem .todo")
    assert any("sync with a peer that has it" in text for text in todo)
    assert any("check that the peer is running" in text for text in todo)
    assert int(browser.text("nav a[data-key=problems] .count")) >= 2


def test_the_theme_is_kept(node: Running, browser: Browser) -> None:
    """Dark is dark whatever the system has, also after a reload, until the system is followed again."""
    paper = "return getComputedStyle(document.body).backgroundColor"
    browser.open(node)
    light = browser.run(paper)
    for option, expected in ((2, "dark"), (0, None)):
        browser.click("#theme option", option)
        browser.open(node)
        assert expected == browser.run("return document.documentElement.dataset.theme ?? null")
        assert (light == browser.run(paper)) == (expected is None)


def test_what_is_followed_and_the_last_hour(node: Running, browser: Browser) -> None:
    """The page says what the node asks for, by name, and draws a curve for each rate; the space is told."""
    browser.open(node)
    browser.until(lambda: len(browser.all(".curve svg")) == 4)
    browser.shows("are free", ".space")
    browser.click("details.intro summary", 1)
    browser.shows("asks for that and for its own logs only", "details.intro")
    browser.shows("buoy-7", "details.intro")
    assert "31.." in browser.text("details.intro")


def test_nothing_that_others_wrote_becomes_markup(node: Running, browser: Browser) -> None:
    """Searches and addresses made to be markup stay text, and so does what authors write."""
    for place in ("#/logs?search=%3Cimg%20src%3Dx%3E", "#/log/%3Cscript%3E/1", "#/log/x/<b>", "#/logs?order=%22%3E"):
        browser.open(node, place)
        browser.shows("This cannot be shown")
        assert not browser.all("main script, main img, main b > b")
        assert [True] == list({"400" in line for line in browser.complaints()})  # the browser notes the refusal
    browser.open(node, place_of(hostile(5), 4))
    browser.shows("Entry 4")
    browser.click("details.payload summary")
    browser.shows("<script>document.title = 'owned'</script>", ".preview")
    assert not browser.all("main script, main img")
    assert browser.driver.title == "Log · Culm node"


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_pictures(node: Running, browser: Browser, width: int, *, dark: bool) -> None:
    """Every view fits the width of the window, light and dark."""
    browser.looks(width, dark=dark)
    views = {
        "logs": ("", ".row:not(.head)"),
        "log": (place_of(LONG, 850), ".node.chosen"),
        "gaps": (place_of(GAPPY, 31), ".node.chosen"),
        "kinds": (place_of(KINDS, 43), ".node.chosen"),
        "fork": (place_of(FORKED, 21), ".node.chosen"),
        "forks": ("#/forks", ".signed"),
        "peers": ("#/peers", ".session"),
        "problems": ("#/problems", ".problem"),
    }
    for name, (place, shown) in views.items():
        browser.open(node, place)
        browser.shows("live", "#live")
        browser.until(partial(browser.all, shown))
        assert browser.run("return document.documentElement.scrollWidth") <= width, name
        assert [] == browser.run(BEYOND), name
        browser.picture(f"{name}-{width}-{'dark' if dark else 'light'}")
