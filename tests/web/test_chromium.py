"""The vectors of the package in a real browser, whose WebCrypto is another one than node's.

It needs Debian's ``chromium`` and ``chromium-driver``, and the bundle that ``make web`` builds.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from culm.bamboo.known import known_signatures
from tests.web.browsing import BROWSES, BUNDLE, chromium, served
from tests.web.vectors import adversarial, judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver

pytestmark = [
    pytest.mark.skipif(not (BROWSES and BUNDLE.exists()), reason="there is no Chromium, or no bundle (make web)"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.subprocess,
]
_LOGS = 200  # Enough for each attack to occur often; node is asked about all 1,000.
_SIGNATURES = """
const [known, name, done] = arguments;
import("/culm.js").then(async (culm) => {
  const check = name === "noble" ? culm.byNoble : culm.byWebCrypto(crypto.subtle);
  const verdicts = [];
  for (const text of known) {
    const data = culm.unhex(text);
    verdicts.push(await check(data.subarray(-64), data.subarray(0, -64), data.subarray(1, 33)));
  }
  return [verdicts, (await culm.bestCheck()) !== culm.byNoble];
}).then(done, (error) => done(String(error)));
"""
_VERDICTS = """
const [done] = arguments;
import("/culm.js").then(async (culm) => {
  const check = await culm.bestCheck();
  const answers = [];
  for (const log of await (await fetch("/logs.json")).json()) {
    const decoded = log.map(({ entry }) => {
      try {
        return culm.decodeEntry(culm.unhex(entry));
      } catch (error) {
        if (!(error instanceof culm.Malformed)) throw error;
      }
    });
    const signed = await Promise.all(decoded.map((entry) => entry && culm.isAuthentic(entry, check)));
    const logs = new Map();
    for (const entry of decoded.filter((_, at) => signed[at])) {
      const name = `${culm.hex(entry.author)}/${entry.logId}`;
      logs.set(name, [...(logs.get(name) ?? []), entry]);
    }
    const verdicts = new Map([...logs.values()].flatMap((some) => [...culm.audit(some)]));
    answers.push(decoded.map((entry, at) => entry === undefined ? ["malformed", ""]
      : [verdicts.get(culm.hex(entry.encoded)) ?? "forged", culm.checkPayload(entry, culm.unhex(log[at].payload))]));
  }
  return answers;
}).then(done, (error) => done(String(error)));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A Chromium at a page with the bundle and adversarial logs."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copy(BUNDLE, folder)
    (folder / "index.html").write_text("<!doctype html><title>vectors</title>")
    logs = [judged(adversarial(number)) for number in range(_LOGS)]
    (folder / "logs.json").write_text(json.dumps(logs), encoding="ascii")
    with served(folder) as origin:
        for driver in chromium(tmp_path_factory.mktemp("chromium")):
            driver.set_script_timeout(100)
            driver.get(origin)
            yield driver


@pytest.mark.parametrize("name", ["WebCrypto", "noble"])
def test_crafted_signatures(browser: webdriver.Chrome, name: str) -> None:
    """Signatures on which rules differ are judged as libsodium does, and the browser's own Ed25519 is used."""
    known = known_signatures()
    expected = [[each.is_accepted for each in known], True]
    assert browser.execute_async_script(_SIGNATURES, [each.signed.hex() for each in known], name) == expected


def test_adversarial_logs(browser: webdriver.Chrome) -> None:
    """Every entry of an adversarial log has the verdict that it has in Python."""
    expected = [[[row["verdict"], row["with"]] for row in judged(adversarial(number))] for number in range(_LOGS)]
    assert browser.execute_async_script(_VERDICTS) == expected
