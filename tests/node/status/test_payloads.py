"""Payloads for viewers: off unless asked for, never a document, never opened if sealed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from culm.errors import PayloadDamaged
from culm.node.status.guard import POLICY
from culm.node.status.payloads import SHOWN_BYTES, previewed
from culm.node.status.server import StatusServer
from culm.node.status.settings import StatusSettings
from culm.node.status.sources import Sources
from culm.sealing.mark import is_sealed
from culm.store import SQLiteStore
from culm.testing.builders import build_log
from culm.wire.places import log_text
from tests.node.links import run_really
from tests.node.status.serving import Served, served
from tests.store.damage import flip

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from culm.node.status.asked import Plain

SCRIPT = b"<script>document.title = 'owned'</script><img src=x onerror=alert(1)>"
SEALED = b"age-encryption.org/v1\n-> X25519 abc\nsecret"
LARGE = bytes(range(256)) * 4000


def log_with(store: SQLiteStore, *payloads: bytes) -> str:
    """The address of a log with these payloads from entry 2 on."""
    log = build_log(1, seed=60, log_id=6)
    for payload in payloads:
        log.append(payload)
    store.add(log.items())
    return quote(log_text((log.identity.public, 6)), safe="")


def asked(store: SQLiteStore, work: Callable[[Served], Awaitable[None]], **sources: Any) -> None:
    """Do something with a page that shows payloads."""

    async def main() -> None:
        async with served(store.path) as plain:
            settings = StatusSettings("127.0.0.1", 0, payloads=True)
            known = Sources(is_sealed=is_sealed, **sources)
            async with StatusServer(plain.roster, settings, known) as server:
                await work(Served(server, plain.roster, plain.client))

    run_really(main)


def test_off_unless_asked_for(store: SQLiteStore) -> None:
    """A node that was not told to show payloads refuses, whatever is asked for, and its page knows."""
    name = log_with(store, SCRIPT)

    async def main() -> None:
        async with served(store.path) as page:
            for path in ("preview", "payload"):
                status, _, content = await page.get(f"/api/{path}?log={name}&seq=2")
                assert (403, True) == (status, "--http-payloads" in content["error"])
            assert not (await page.get("/api/overview"))[2]["payloads_shown"]

    run_really(main)


def test_a_payload_is_never_a_document(store: SQLiteStore) -> None:
    """A payload that is a page comes as an attachment without a type, under our headers, and as a string in JSON."""
    name = log_with(store, SCRIPT)

    async def work(page: Served) -> None:
        assert (await page.get("/api/overview"))[2]["payloads_shown"]
        status, headers, content = await page.get(f"/api/payload?log={name}&seq=2")
        assert (200, SCRIPT.decode()) == (status, content)
        assert ("application/octet-stream", "nosniff", POLICY) == tuple(
            headers[key] for key in ("Content-Type", "X-Content-Type-Options", "Content-Security-Policy")
        )
        assert headers["Content-Disposition"].startswith('attachment; filename="payload-')
        status, headers, content = await page.get(f"/api/preview?log={name}&seq=2")
        assert (200, "application/json", SCRIPT.decode()) == (
            status,
            headers["Content-Type"].split(";")[0],
            content["text"],
        )

    asked(store, work)


def test_a_sealed_payload_stays_sealed(store: SQLiteStore) -> None:
    """Its preview says that it is sealed and shows nothing of it; the download has the sealed bytes."""
    name = log_with(store, SEALED)

    async def work(page: Served) -> None:
        _, _, content = await page.get(f"/api/preview?log={name}&seq=2")
        assert {"size": str(len(SEALED)), "sealed": True, "text": None, "hex": None} == content
        assert SEALED.decode() == (await page.get(f"/api/payload?log={name}&seq=2"))[2]

    asked(store, work)


def test_a_large_payload_comes_in_pieces(store: SQLiteStore) -> None:
    """A payload of a megabyte arrives whole, and a HEAD request has its size and no bytes."""
    name = log_with(store, LARGE)

    async def work(page: Served) -> None:
        address = page.server.url + f"api/payload?log={name}&seq=2"
        async with page.client.get(address) as answer:
            assert hashlib.sha256(LARGE).digest() == hashlib.sha256(await answer.read()).digest()
        async with page.client.head(address) as answer:
            assert (str(len(LARGE)), b"") == (answer.headers["Content-Length"], await answer.read())

    asked(store, work)


@pytest.mark.parametrize(("query", "status"), [("seq=9", 404), ("seq=0", 400), ("", 200), ("seq=3", 404)])
def test_what_is_not_here(store: SQLiteStore, query: str, status: int) -> None:
    """Only verified entries with their whole payload are shown; what cannot be meant is refused."""
    name = log_with(store, SCRIPT, b"forgotten")
    log = build_log(1, seed=60, log_id=6)
    (*_, last) = store.entries((log.identity.public, 6))
    store.forget(last.entry.place)

    async def work(page: Served) -> None:
        for path in ("preview", "payload"):
            assert status == (await page.get(f"/api/{path}?log={name}&{query}"))[0]

    asked(store, work)


def test_entries_after_a_fork_are_not_shown(store: SQLiteStore) -> None:
    """A payload at or after the position of a fork is not trusted, so it is not shown either."""
    name = quote(log_text((build_log(1, seed=3).identity.public, 3)), safe="")

    async def work(page: Served) -> None:
        assert [200, 404] == [(await page.get(f"/api/preview?log={name}&seq={seq}"))[0] for seq in (7, 9)]

    asked(store, work)


def test_damage_is_found_by_looking(tmp_path: Path) -> None:
    """A payload that turns out to be damaged is not shown, and the node is told of it."""
    told: list[PayloadDamaged] = []

    async def drop(damage: PayloadDamaged) -> None:
        told.append(damage)

    with SQLiteStore(tmp_path / "store.db") as store:
        name = log_with(store, b"sound")
        flip(store.path, 2)

        async def work(page: Served) -> None:
            for path in ("preview", "payload"):
                assert 503 == (await page.get(f"/api/{path}?log={name}&seq=2"))[0]

        asked(store, work, drop=drop)
    assert [2, 2] == [damage.place.seq for damage in told]


@pytest.mark.parametrize(
    ("start", "size", "expected"),
    [
        (b"", 0, {"text": "", "hex": None}),
        ("größer\n".encode(), 9, {"text": "größer\n", "hex": None}),
        ("ü".encode() * 3 + "ü".encode()[:1], 999, {"text": "üüü", "hex": None}),
        ("joined\u200c\u200d\u00a0".encode(), 14, {"text": "joined\u200c\u200d\u00a0", "hex": None}),
        ("ü".encode()[:1], 1, {"text": None, "hex": "c3"}),
        (b"bell\x07", 5, {"text": None, "hex": b"bell\x07".hex()}),
        ("\u202egnp.exe".encode(), 10, {"text": None, "hex": "\u202egnp.exe".encode().hex()}),
        (bytes(SHOWN_BYTES), 10**6, {"text": None, "hex": 256 * "00"}),
    ],
)
def test_what_is_text(start: bytes, size: int, expected: Plain) -> None:
    """Whole characters are text; control characters, and those that turn the direction of writing, make it hex."""
    assert previewed(start, size, is_sealed=False) == {"size": str(size), "sealed": False, **expected}
