"""``culm serve``, ``sync``, ``fetch`` and ``wire decode`` with intervals, as their users call them."""

from __future__ import annotations

import json
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from culm import SQLiteStore
from culm.errors import Place
from culm.testing import build_log
from tests.cli.culm import Culm, start
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LISTEN = "intervals://127.0.0.1:0"


@contextmanager
def serving(home: Path, listen: str = LISTEN, *options: str) -> Iterator[str]:
    """A node in a process of its own: its address."""
    process = start(home, "serve", "--listen", listen, *options)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1]
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def fill(culm: Culm, length: int) -> str:
    """Give a home a log; its name."""
    log = build_log(length, log_id=1)
    with SQLiteStore(culm.home / "store.db") as store:
        store.add(log.items())
    return f"{log.identity.public.hex()}/1"


def test_a_sync_of_named_logs(culm: Culm) -> None:
    """A new home names the log it wants; after that it asks for what it holds."""
    bob = culm.at("bob")
    bob("init")
    log = fill(culm, 30)
    with serving(culm.home) as url:
        refused = bob("sync", url)
        assert (refused.code, "name them" in refused.err) == (2, True)
        summary = bob("sync", url, log, "--json").json
        assert (summary["entries_received"], summary["missing"]) == (30, 30)
        assert bob.held() == culm.held()
        assert "received 0 entries" in bob("sync", url).out
        bob("append", 5, "--text", "from bob")
        assert bob("sync", url, "--json").json["entries_sent"] == 1
    assert culm.held() == bob.held()


def test_stateless_nodes(culm: Culm) -> None:
    """Both sides keep no request open, by the command line and by the configuration; all the same all is exchanged."""
    bob = culm.at("bob")
    bob("init")
    (bob.home / "culm.toml").write_text("stateless = true\n")
    assert bob("config", "--json").json["settings"]["stateless"]["value"] is True
    log = fill(culm, 30)
    with serving(culm.home, LISTEN, "--stateless") as url:
        assert bob("sync", url, log, "--json").json["entries_received"] == 30
        bob("append", 5, "--text", "from bob")
        assert bob("sync", url, "--json", "--stateless").json["entries_sent"] == 1
    assert culm.held() == bob.held()
    other = bob("sync", "proposals://127.0.0.1:1", log, "--stateless")
    assert (other.code, "--stateless works with intervals:// peers only" in other.err) == (2, True)


@pytest.mark.parametrize("listen", [LISTEN, "culm://127.0.0.1:0"])
def test_fetching_single_entries(culm: Culm, listen: str) -> None:
    """Single entries come with the path that verifies them; what the peer lacks is named."""
    bob = culm.at("bob")
    bob("init")
    log = fill(culm, 30)
    with serving(culm.home, listen) as url:
        assert bob("fetch", url, f"{log}/20..22", f"{log}/7").code == 0
        found = json.loads(bob("logs", "--json").out.splitlines()[-1])
        lacking = bob("fetch", url, f"{log}/99")
        assert (lacking.code, "does not have" in lacking.err) == (1, True)
        author = bytes.fromhex(log.partition("/")[0])
        with SQLiteStore(bob.home / "store.db") as store:
            assert [stored.entry.seq for stored in store.entries((author, 1)) if stored.payload_complete] == [
                7,
                20,
                21,
                22,
            ]
            store.forget(Place(author, 1, 21))
        assert bob("fetch", url, f"{log}/21").code == 0
        assert bob("show", f"{log}/21").code == 0
    assert (found["waiting"] if isinstance(found, dict) else found[0]["waiting"]) == 0


def test_staying_connected(culm: Culm) -> None:
    """With --live what is appended at one side shows up at the other, whichever process appends it."""
    bob = culm.at("bob")
    bob("init")
    own = culm("append", 1, "--text", "first").out.strip()
    with serving(culm.home) as url:
        follower = start(bob.home, "sync", url, own.rpartition("/")[0], "--live")
        try:
            culm("append", 1, "--text", "news")
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline and bob("show", own[:-1] + "2").code != 0:
                time.sleep(0.05)
            assert bob("show", own[:-1] + "2").code == 0
            follower.send_signal(signal.SIGINT)
            assert follower.wait(PATIENCE) == 130
        finally:
            follower.kill()
            follower.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    "call",
    [
        ("sync", "bushbaby://127.0.0.1:1", "--clump", "x", "--newest", 3),
        ("sync", "bushbaby://127.0.0.1:1"),
        ("sync", "intervals://127.0.0.1:1", "--anchor", "3:00"),
        ("sync", "intervals://127.0.0.1:1", "--newest", 0),
        ("sync", "intervals://127.0.0.1:1", "--max-payload", "large"),
        ("fetch", "bushbaby://127.0.0.1:1", "x/1/1"),
        ("fetch", "intervals://127.0.0.1:1", "nonsense"),
        ("serve", "--listen", "bushbaby://127.0.0.1:0"),
    ],
)
def test_wrong_calls(culm: Culm, call: tuple[object, ...]) -> None:
    """A wrong call says what is wrong in one line."""
    result = culm(*call)
    assert (result.code, result.err.count("\n")) == (2, 1)


def test_nobody_there(culm: Culm) -> None:
    """A peer that cannot be reached is a matter of the network."""
    log = fill(culm, 1)
    assert culm("sync", "intervals://127.0.0.1:1", log).code == 3


def test_decoding_messages(culm: Culm, tmp_path: Path) -> None:
    """Messages are listed with their fields; malformed ones up to where they break, with the rule."""
    request = "020000" + bytes(32).hex() + "0504ff07ff"
    shown = culm("wire", "decode", "intervals", request + "8003aabbcc" + "ac")
    assert shown.code == 0
    assert [line.split()[1] for line in shown.out.splitlines()[1:]] == ["request", "eager", "end"]
    assert "seq 4, dist 255" in shown.out
    file = tmp_path / "messages"
    file.write_bytes(bytes.fromhex("b00590030000408100" + "11" * 62))
    listed = culm("wire", "decode", "intervals", file, "--json").json
    assert [part["message"] for part in listed["parts"]] == ["request credit", "lazy"]
    broken = culm("wire", "decode", "intervals", "b00581")
    assert (broken.code, "byte 2" in broken.err, "81" in broken.err) == (1, True, True)
    assert "byte 4" in culm("wire", "decode", "intervals", "b0058005aabb").err
