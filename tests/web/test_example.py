"""The example pages in a real browser: a log of a real node is verified, a proof is checked, forgeries are refused.

It needs Debian's ``chromium`` and ``chromium-driver``, and the bundle that ``make web`` builds.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from culm.bamboo import Identity
from culm.bamboo.entryproof import EntryProof
from culm.node.home import Home
from culm.store import SQLiteStore
from culm.testing import build_log
from culm.wire.places import author_text
from tests.cli.culm import start
from tests.web.browsing import BROWSES, BUNDLE, FAINT, NAMELESS, chromium, served, waited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium import webdriver

WEB = Path(__file__).parents[2] / "web"
pytestmark = [
    pytest.mark.skipif(
        not (BROWSES and BUNDLE.exists()),
        reason="there is no Chromium, or no bundle (Debian: chromium, chromium-driver; make web)",
    ),
    pytest.mark.xdist_group("browser"),
    pytest.mark.subprocess,
]
ME = Identity(b"a page".ljust(32))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """The origin of a server with the example and the bundle."""
    shutil.copytree(WEB / "example", tmp_path / "web" / "example")
    (tmp_path / "web" / "dist").mkdir()
    shutil.copy(BUNDLE, tmp_path / "web" / "dist")
    with served(tmp_path / "web") as origin:
        yield origin


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A Chromium without a window."""
    yield from chromium(tmp_path_factory.mktemp("chromium"))


class Node(NamedTuple):
    """A home with a log of five entries, and where its node serves pages."""

    home: Path
    url: str

    def append(self, text: str) -> None:
        """Publish one more."""
        with SQLiteStore(self.home / "store.db") as store:
            store.append(ME, 1, [text.encode()], continue_here=True)


@pytest.fixture
def node(tmp_path: Path, site: str) -> Iterator[Node]:
    """A node that serves pages of the site."""
    path = tmp_path / "home"
    home = Home(path)
    home.create()
    home.add_identity("default", ME, None)
    with SQLiteStore(path / "store.db") as store:
        for number in range(1, 6):
            store.append(ME, 1, [f"text {number}".encode()], continue_here=True)
    with start(path, "serve", "--listen", "ws://127.0.0.1:0", "--web-origins", site) as serving:
        assert serving.stdout is not None
        yield Node(path, serving.stdout.readline().removeprefix("listening ").strip())
        serving.terminate()


def rows(browser: webdriver.Chrome) -> list[list[str]]:
    """What the table says, the newest entry first."""
    found: list[list[str]] = browser.execute_script(
        "return [...document.querySelectorAll('#entries tr')].map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return found


def test_a_page_follows_a_log(browser: webdriver.Chrome, site: str, node: Node) -> None:
    """Entries are verified as they come; a reload goes on; a forged entry is refused, and then the right one taken."""
    address = f"{site}/example/#url={node.url}&log={author_text(ME.public)}/1"
    browser.get(address)
    waited(browser, lambda: len(rows(browser)) == 5)
    assert rows(browser) == [[str(n), "✓ verified", f"text {n}"] for n in range(5, 0, -1)]

    node.append("live")
    waited(browser, lambda: len(rows(browser)) == 6)
    assert rows(browser)[0] == ["6", "✓ verified", "live"]

    browser.refresh()
    waited(browser, lambda: "behind entry 6" in browser.find_element("id", "state").text)
    assert rows(browser) == []
    node.append("after the reload")
    waited(browser, lambda: len(rows(browser)) == 1)
    assert rows(browser) == [["7", "✓ verified", "after the reload"]]

    browser.find_element("id", "forge").click()
    node.append("to be forged")
    waited(browser, lambda: len(rows(browser)) == 3)
    right, forged, _ = rows(browser)
    assert forged == ["8", "✗ invalid: the author has not signed it", "to be forged"]
    assert right == ["8", "✓ verified", "to be forged"]


def answer(browser: webdriver.Chrome) -> list[str]:
    """What the page says of a proof: its heading, and each line."""
    found: list[str] = browser.execute_script(
        "return [...document.querySelectorAll('#answer h2, #answer li')].map(one => one.textContent)"
    )
    return found


def drop(browser: webdriver.Chrome, data: bytes) -> None:
    """Drop a file on the page, as a person does with the mouse."""
    browser.execute_script(_DROP, data.hex())


_DROP = """
const transfer = new DataTransfer();
const bytes = Uint8Array.from(arguments[0].match(/../g), (digits) => parseInt(digits, 16));
transfer.items.add(new File([bytes], "door.proof"));
const said = { dataTransfer: transfer, bubbles: true, cancelable: true };
document.getElementById("drop").dispatchEvent(new DragEvent("drop", said));
"""


def test_a_proof(browser: webdriver.Chrome, site: str, tmp_path: Path) -> None:
    """A proof that is dropped on the page, or chosen, is checked there; a changed one, and another author's, is not."""
    log = build_log(5)
    path = (1, 4, 5)
    proof = EntryProof(tuple(log.entries[seq - 1] for seq in path), 4, has_payload=True)
    payload = log.payloads[proof.entry.hash]
    right = proof.encode() + payload
    browser.get(f"{site}/example/proof.html")

    drop(browser, right)
    waited(browser, lambda: answer(browser)[:1] == ["✓ Proved"])
    key = author_text(log.identity.public)
    assert answer(browser)[1:4] == [
        f"{key} signed entry 4 of log 0.",
        "3 signed entries link it into one history, from entry 1 to entry 5.",
        f"Its payload is in the file: {len(payload)} bytes, which begin with: {payload.decode()}",
    ]
    assert "Who this author is" in answer(browser)[5]

    drop(browser, right[:-1] + b"?")
    waited(browser, lambda: answer(browser)[:1] == ["✗ Nothing is proved"])
    assert "the hash differs" in answer(browser)[1]

    (tmp_path / "door.proof").write_bytes(right)
    browser.find_element("id", "file").send_keys(str(tmp_path / "door.proof"))
    waited(browser, lambda: answer(browser)[:1] == ["✓ Proved"])
    browser.find_element("id", "author").send_keys("0" * 43 + "\n")
    waited(browser, lambda: answer(browser)[:1] == ["✗ Nothing is proved"])
    assert answer(browser)[1] == "the proof is of another author than the one asked for"
    browser.find_element("id", "author").clear()
    browser.find_element("id", "author").send_keys(key + "\n")
    waited(browser, lambda: answer(browser)[:1] == ["✓ Proved"])
    assert answer(browser)[5] == "When the entry was written, and whether what it says is true."
    assert browser.execute_script(FAINT) == []
    assert browser.execute_script(NAMELESS) == []


def test_a_page_of_another_site(browser: webdriver.Chrome, site: str, node: Node) -> None:
    """A real browser says where a page is from, and the node does not serve it."""
    other = site.replace("127.0.0.1", "localhost")
    browser.get(f"{other}/example/#url={node.url}&log={ME.public.hex()}/1")
    waited(browser, lambda: "ended the connection" in browser.find_element("id", "state").text)
    assert rows(browser) == []
