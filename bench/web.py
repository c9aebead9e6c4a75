"""Verifying in a browser: entries a second in Chromium, with WebCrypto and with noble alone.

Needs Debian's ``chromium`` and ``chromium-driver``, and the bundle of ``make web``; without them nothing is measured.
The browser's own clock counts, since its work is spread over several processes.
"""

from __future__ import annotations

import gzip
import struct
import tempfile
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copy
from statistics import median
from threading import Thread
from typing import TYPE_CHECKING

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from bench.harness import Figure, say
from culm.testing.builders import build_log

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
BUNDLE = Path(__file__).parents[1] / "web" / "dist" / "culm.js"
ENTRIES = {"byWebCrypto": 10_000, "byNoble": 1_000}  # Noble takes about ten times as long.
GOAL = 2000  # Entries a second.
MOST_BUNDLE = 60_000  # Bytes, compressed.
_ROUNDS = 5
# What a page does with what it received: decode, hash, judge signatures, links and payloads, in groups as they come.
_VERIFY = """
const [name, count, done] = arguments;
(async () => {
  const culm = await import("/culm.js");
  const check = name === "byNoble" ? culm.byNoble : culm.byWebCrypto(crypto.subtle);
  const data = new Uint8Array(await (await fetch("/log.bin")).arrayBuffer());
  const view = new DataView(data.buffer);
  const pieces = [];
  for (let at = 0; at < data.length && pieces.length < 2 * count; ) {
    const size = view.getUint32(at);
    pieces.push(data.subarray(at + 4, at + 4 + size));
    at += 4 + size;
  }
  const first = culm.decodeEntry(pieces[0]);
  const begin = performance.now();
  const judge = new culm.Judge(first.author, first.logId, check);
  let verified = 0;
  for (let at = 0; at < pieces.length; at += 512) {
    const items = [];
    for (let item = at; item < Math.min(at + 512, pieces.length); item += 2) {
      items.push({ entry: culm.decodeEntry(pieces[item]), payload: pieces[item + 1] });
    }
    for (const { verdict } of await judge.judge(items)) verified += verdict === "verified";
  }
  return [verified, (performance.now() - begin) / 1000];
})().then(done, (error) => done(String(error)));
"""


class _Quiet(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}  # noqa: RUF012 - as there

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


@contextmanager
def _page() -> Iterator[webdriver.Chrome]:
    """A browser at a page with the bundle and a log."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy(BUNDLE, folder)
        (folder / "index.html").write_text("<!doctype html><title>bench</title>")
        items = build_log(max(ENTRIES.values()), payload_size=200).items()
        parts = (part for entry, payload in items for part in (entry.encoded, bytes(payload or b"")))
        (folder / "log.bin").write_bytes(b"".join(struct.pack(">I", len(part)) + part for part in parts))
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=name))
        Thread(target=server.serve_forever, daemon=True).start()
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
            options.add_argument(argument)
        driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        try:
            driver.set_script_timeout(300)
            driver.get(f"http://127.0.0.1:{server.server_port}/")
            yield driver
        finally:
            driver.quit()
            server.shutdown()
            server.server_close()


def _rate(driver: webdriver.Chrome, name: str) -> float:
    found = driver.execute_async_script(_VERIFY, name, ENTRIES[name])
    if not isinstance(found, list) or found[0] != ENTRIES[name]:
        raise SystemExit(f"the page verified {found} of {ENTRIES[name]}")
    return float(found[0] / found[1])


def run() -> list[Figure]:
    """Entries a second, by WebCrypto and by noble in turns, and the size of the bundle."""
    if not (CHROMIUM.exists() and DRIVER.exists() and BUNDLE.exists()):
        say(f"web: not measured; it needs {CHROMIUM}, {DRIVER} and {BUNDLE} (make web)")
        return []
    rates: dict[str, list[float]] = {name: [] for name in ENTRIES}
    with _page() as driver:
        for number in range(_ROUNDS + 1):  # The first round is warming up.
            for name, found in rates.items():
                rate = _rate(driver, name)
                if number:
                    found.append(rate)
    size = len(gzip.compress(BUNDLE.read_bytes(), 9))
    return [
        Figure("verify in Chromium, WebCrypto", median(rates["byWebCrypto"]), "entries/s", goal=GOAL),
        Figure("verify in Chromium, noble alone", median(rates["byNoble"]), "entries/s"),
        Figure("the bundle, compressed", size / 1000, "kB", goal=MOST_BUNDLE / 1000, at_least=False),
    ]
