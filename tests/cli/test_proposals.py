"""``culm serve``, ``sync`` and ``wire decode`` with proposals, as their users call them."""

from __future__ import annotations

import json
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from culm import SQLiteStore
from culm.testing import build_log
from tests.cli.culm import Culm, start
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def serving(home: Path, *options: str) -> Iterator[str]:
    """A node in a process of its own: its address."""
    process = start(home, "serve", "--listen", "proposals://127.0.0.1:0", *options)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1]
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def fill(culm: Culm, length: int, payload_size: int = 20) -> str:
    """Give a home a log; its name."""
    log = build_log(length, log_id=1, payload_size=payload_size)
    with SQLiteStore(culm.home / "store.db") as store:
        store.add(log.items())
    return f"{log.identity.public.hex()}/1"


def test_a_sync_of_named_logs(culm: Culm) -> None:
    """A new home names the log it wants, first being told of it only; after that both sides give what they have."""
    bob = culm.at("bob")
    bob("init")
    log = fill(culm, 30)
    with serving(culm.home) as url:
        assert bob("sync", url).code == 2
        told = bob("sync", url, log, "--notify-only")
        assert (told.code, "the peer has 30 entries that this store" in told.out) == (0, True)
        assert bob("logs", "--json").json == []
        summary = bob("sync", url, log, "--json").json
        assert (summary["entries_received"], summary["entries_sent"]) == (30, 0)
        assert bob.held() == culm.held()
        bob("append", 5, "--text", "from bob")
        assert bob("sync", url, "--json").json["entries_sent"] == 1
    assert culm.held() == bob.held()


@pytest.mark.parametrize(
    ("options", "payloads"),
    [
        (("--window", "64KiB"), 12),
        (("--profile", "small"), 12),
        (("--greedy", "--mandatory"), 12),
        (("--max-payload", "100"), 0),
        (("--min-payload", "5000"), 0),
        (("--notify-above", "100"), 0),
    ],
)
def test_options(culm: Culm, options: tuple[str, ...], payloads: int) -> None:
    """Every option reaches the session; the entries come all the same."""
    bob = culm.at("bob")
    bob("init")
    log = fill(culm, 12, payload_size=3000)
    with serving(culm.home, *(("--window", "64KiB") if "--window" in options else ())) as url:
        assert bob("sync", url, log, *options).code == 0
    (summary,) = bob("logs", "--json").json
    assert (summary["entries"], summary["payloads"]) == (12, payloads)


def test_live(culm: Culm) -> None:
    """With --live what is appended at either side arrives at the other."""
    bob = culm.at("bob")
    bob("init")
    culm("append", 1, "--text", "one")
    (mine,) = culm("logs", "--json").json
    bob("append", 1, "--text", "eins")
    (his,) = bob("logs", "--json").json
    names = [f"{log['author']}/1" for log in (mine, his)]
    with serving(culm.home) as url:
        following = start(bob.home, "sync", url, *names, "--live")
        try:
            culm("append", 1, "--text", "two")
            bob("append", 1, "--text", "zwei")
            deadline = time.monotonic() + PATIENCE
            held: list[list[int]] = []
            while time.monotonic() < deadline:
                held = [[log["payloads"] for log in json.loads(side("logs", "--json").out)] for side in (culm, bob)]
                if held == [[2, 2], [2, 2]]:
                    break
            assert held == [[2, 2], [2, 2]]
            following.send_signal(signal.SIGINT)
            assert following.wait(PATIENCE) in {0, 130}
        finally:
            following.kill()
            following.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sync", "proposals://127.0.0.1:1", "--newest", "3"), "--newest works with intervals://"),
        (("sync", "intervals://127.0.0.1:1", "--greedy"), "--greedy works with proposals://"),
        (("sync", "bushbaby://127.0.0.1:1", "--clump", "x", "--live"), "intervals:// and proposals://"),
        (("sync", "proposals://127.0.0.1:1", "--window", "much"), "much"),
    ],
)
def test_what_cannot_be_said(culm: Culm, arguments: tuple[str, ...], said: str) -> None:
    """An option of another protocol is refused, naming those that have it."""
    result = culm(*arguments)
    assert (result.code, said in result.err) == (2, True)


def test_nobody_there(culm: Culm) -> None:
    """A peer that cannot be reached is a matter of the network."""
    log = fill(culm, 1)
    assert culm("sync", "proposals://127.0.0.1:1", log).code == 3


def test_decoding_messages(culm: Culm) -> None:
    """Messages of all four kinds are listed; malformed ones up to where they break, with the rule."""
    decode = ("wire", "decode")
    parts = culm(*decode, "bymux", "010110002000020004200103000" + "0ab", "--json").json["parts"]
    assert [part["message"] for part in parts] == ["credit", "write", "write"]
    assert "stream 1, 4096" in culm(*decode, "bymux", "01011000").out
    assert "c0" in culm(*decode, "bymux", "c0").err or "type 6" in culm(*decode, "bymux", "c0").err
    assert "incomplete" in culm(*decode, "bymux", "2001").err
    assert "13 bytes from 7 back" in culm(*decode, "lzfoo", "0762616d626f6f208d07").out
    assert "byte 1" in culm(*decode, "lzfoo", "0762616d").err
    assert "incomplete" in culm(*decode, "lzfoo", "81").err
    parts = culm(*decode, "proposals-control", "00047000860205", "--json").json["parts"]
    assert [part["message"] for part in parts] == ["grant", "adjust", "cancel"]
    assert "88" in culm(*decode, "proposals-control", "88").err
    assert "data 74776f" in culm(*decode, "proposals-data", "000003050803" + "74776f").out
    assert culm(*decode, "proposals-data", "0803aa").code == 1


def test_wishes_in_the_configuration(culm: Culm) -> None:
    """What a sync takes as options stands in the configuration, too, and a node that serves takes the same options."""
    bob = culm.at("bob")
    bob("init")
    (bob.home / "culm.toml").write_text("[proposals]\nmandatory = true\nnotify_above = '100'\n")
    shown = bob("config", "--notify-only", "--json").json["settings"]
    assert [True, True, 100] == [
        shown[f"proposals.{name}"]["value"] for name in ("mandatory", "notify_only", "notify_above")
    ]
    log = fill(culm, 12, payload_size=3000)
    with serving(culm.home) as url:
        assert bob("sync", url, log).code == 0
    (summary,) = bob("logs", "--json").json
    assert (summary["entries"], summary["payloads"]) == (12, 0)
