"""A Chromium for the tests of pages."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
BROWSES = CHROMIUM.exists() and DRIVER.exists()
_WEB = Path(__file__).parents[2] / "web"
BUNDLE = _WEB / "dist" / "culm.js"
AXE = _WEB / "node_modules" / "axe-core" / "axe.min.js"
SECONDS = 60
FAINT = """
const light = (text) => {
  const parts = text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = parts.slice(0, 3).map((v) => linear(v / 255));
  return { value: 0.2126 * r + 0.7152 * g + 0.0722 * b, clear: parts[3] === 0 };
};
const behind = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const found = light(getComputedStyle(one).backgroundColor);
    if (!found.clear) return found.value;
  }
  return 1;
};
const found = new Set();
for (const element of document.querySelectorAll("body *:not(svg *):not(noscript):not(option), svg.drawing text")) {
  if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
  if (!element.checkVisibility() || element.matches(".skip")) continue;
  const style = getComputedStyle(element);
  const one = light(element.matches("svg *") ? style.fill : style.color).value, other = behind(element);
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  if (contrast < 4.5) found.add(`${element.tagName}.${element.className} ${contrast.toFixed(2)}`);
}
return [...found];
"""
NAMELESS = """
const labels = (one) => [one.closest("label"), ...(one.labels ?? [])].map((label) => label?.textContent);
const texts = (one) => [one.getAttribute("aria-label"), one.textContent, ...labels(one)];
const name = (one) => texts(one).some((text) => text?.trim());
return [...document.querySelectorAll("a, button, input:not([type=hidden]), select, summary, [role=button], [role=img]")]
  .filter((one) => !name(one)).map((one) => one.outerHTML.slice(0, 80));
"""
"""Texts whose contrast to their background is under 4.5, with the contrast; controls without a name."""
_SHIFTS = """
if (!window.shifts) {
  window.shifts = [];
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) {
      const moved = one.sources.map(({ node }) => node?.outerHTML?.slice(0, 120) ?? node?.data);
      window.shifts.push([one.value, moved]);
    }
  }).observe({ type: "layout-shift", buffered: true });
}
"""


def chromium(folder: Path) -> Iterator[webdriver.Chrome]:
    """A browser without a window, with its files in a folder."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={folder}")
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


def accessible(driver: webdriver.Chrome, within: str = "html") -> list[str]:
    """What axe-core finds on the page as it is shown: rules of WCAG and axe's own that it breaks, and where."""
    # By the debugger, so that the page's Content-Security-Policy does not refuse the script.
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    violations = driver.execute_script("return axe.run(arguments[0]).then((result) => result.violations)", within)
    return [f"{one['id']}: {item['html'][:200]}" for one in violations for item in one["nodes"]]


def shifts(driver: webdriver.Chrome, seconds: float = 0.3) -> list[tuple[float, list[str]]]:
    """How far things moved by themselves since the page began to load, and which, once it was quiet for some time.

    The sum of the numbers is the score by which browsers judge this ("cumulative layout shift"). A good page has less
    than 0.1.
    """
    driver.execute_script(_SHIFTS)
    driver.execute_async_script("setTimeout(arguments[1], arguments[0] * 1000)", seconds)
    return [(value, moved) for value, moved in driver.execute_script("return window.shifts")]


class _Quiet(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}  # noqa: RUF012 - as there

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The origin of a server with the files of a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def waited(browser: webdriver.Chrome, condition: Callable[[], bool]) -> None:
    """Wait for what the page shows; the error has the page's text."""
    try:
        WebDriverWait(browser, SECONDS, poll_frequency=0.05).until(lambda _: condition())
    except Exception as error:
        text = browser.execute_script("return document.body.innerText")
        raise AssertionError(text) from error
