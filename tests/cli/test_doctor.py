"""``culm doctor``: a healthy home, and every illness with what to do about it."""

from __future__ import annotations

import shutil
import socket
import time
from typing import TYPE_CHECKING

import pytest

from culm import Identity, SQLiteStore
from culm.bamboo import known
from culm.testing import build_log
from culm.wire.places import author_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.culm import Culm


def problems(culm: Culm, *arguments: object) -> list[str]:
    """The checks that found a problem; each says what to do."""
    result = culm("doctor", "--json", *arguments)
    found = [finding for finding in result.json["findings"] if finding["level"] == "problem"]
    assert all(finding["todo"] for finding in found)
    assert result.code == int(bool(found))
    assert result.json["healthy"] == (not found)
    return [finding["check"] for finding in found]


def test_a_healthy_home(culm: Culm) -> None:
    """Nothing is wrong with a home that was just used: exit code 0, a line for each check."""
    culm("append", 1, "--text", "x")
    culm("follow", "a" * 43, "--clump", "x")
    (culm.home / "peers.json").write_text('{"dialects": {"host:1": {"dialect": "document"}}}')
    assert problems(culm) == []
    shown = culm("doctor")
    assert shown.out.endswith("no problems\n")
    for word in (
        "store: 1 verified",
        "identities: default",
        "configuration:",
        "choices:",
        "peers.json:",
        "disk:",
        "clock:",
        "signatures: libsodium gives all known answers",
    ):
        assert word in shown.out


def _open_identity(home: Path) -> None:
    (home / "identities" / "default").chmod(0o644)


def _no_identity_file(home: Path) -> None:
    (home / "identities" / "default").write_text("{}")


def _open_folder(home: Path) -> None:
    (home / "identities").chmod(0o755)


def _open_home(home: Path) -> None:
    home.chmod(0o777)


def _wrong_settings(home: Path) -> None:
    (home / "culm.toml").write_text("clmp = 3")


def _unknown_identity(home: Path) -> None:
    (home / "culm.toml").write_text('identity = "nobody"')


def _no_clump(home: Path) -> None:
    (home / "culm.toml").write_text('listen = ["bushbaby://127.0.0.1:0"]')


def _no_token(home: Path) -> None:
    (home / "culm.toml").write_text('http_token_file = "/nowhere/token"')


def _no_web_token(home: Path) -> None:
    (home / "culm.toml").write_text('web_token_file = "/nowhere/token"')


def _damaged_choices(home: Path) -> None:
    (home / "policy.json").write_text('{"61": {"allow_peers": ["x"]}}')


def _deep_choices(home: Path) -> None:
    (home / "policy.json").write_text("[" * 100_000)


def _damaged_peers(home: Path) -> None:
    (home / "peers.json").write_text('{"identities": {"6b6b')


def _later_peers(home: Path) -> None:
    (home / "peers.json").write_text('{"version": 2}')


def _peers_of_others(home: Path) -> None:
    (home / "peers.json").mkdir()


def _no_store(home: Path) -> None:
    (home / "store.db").unlink()


def _other_store(home: Path) -> None:
    (home / "store.db").write_bytes(b"not a database, but long enough to be looked at" * 100)


def _torn_store(home: Path) -> None:
    data = bytearray((home / "store.db").read_bytes())
    data[5000:40000] = bytes(35000)
    (home / "store.db").write_bytes(data)


def _payload_gone(home: Path) -> None:
    with SQLiteStore(home / "store.db") as store:
        store.append(Identity(b"m" * 32), 1, [bytes(2_000_000)])
    next((home / "store.db-payloads").iterdir()).unlink()


@pytest.mark.parametrize(
    ("harm", "check"),
    [
        (_open_identity, "identities"), (_no_identity_file, "identities"), (_open_folder, "identities"),
        (_open_home, "home"), (_wrong_settings, "configuration"), (_unknown_identity, "configuration"),
        (_no_clump, "configuration"), (_no_token, "configuration"), (_no_web_token, "configuration"),
        (_damaged_choices, "choices"),
        (_deep_choices, "choices"), (_no_store, "home"),
        (_damaged_peers, "peers.json"), (_later_peers, "peers.json"), (_peers_of_others, "peers.json"),
        (_other_store, "store"), (_torn_store, "store"), (_payload_gone, "payload files"),
    ],
)  # fmt: skip
def test_each_illness(culm: Culm, harm: Callable[[Path], None], check: str) -> None:
    """What is wrong is found, and only that; with what to do about it."""
    culm("append", 1, "--text", "x")
    harm(culm.home)
    assert problems(culm) == [check]
    assert "-> " in culm("doctor").out


def test_forks(culm: Culm) -> None:
    """A forked log of one's own is a problem; one of somebody else's is worth a note."""
    theirs = build_log(3)
    with SQLiteStore(culm.home / "store.db") as store:
        store.add([*theirs.items(), (theirs.make(3, b"other"), b"other")])
    assert problems(culm) == []
    name = f"{author_text(theirs.identity.public)}/0"
    assert f"1 log of other authors forked: {name}\n" in culm("doctor").out
    mine = build_log(1, seed=6)
    secret = mine.identity.seed.hex()
    (culm.home / "secret").write_text(secret)
    culm("identity", "import", "second", culm.home / "secret")
    with SQLiteStore(culm.home / "store.db") as store:
        store.add([*mine.items(), (mine.make(1, b"other"), b"other")])
    assert problems(culm) == ["forks"]


def test_the_clock_and_the_disk(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that was never set or was set back, and a disk without room, are problems; little room is a note."""
    now = time.time()
    for clock, expected in ((1000.0, ["clock"]), (now - 7200, ["clock"]), (now, [])):
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda clock=clock: clock)
            assert expected == problems(culm)
    for free, level in ((10**6, "problem"), (2 * 10**8, "note"), (10**12, "ok")):
        usage = (10**12, 10**12 - free, free)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: _Usage(*usage))
        findings = culm("doctor", "--json").json["findings"]
        assert [level] == [finding["level"] for finding in findings if finding["check"] == "disk"]


class _Usage:
    def __init__(self, total: int, used: int, free: int) -> None:
        self.total, self.used, self.free = total, used, free


def test_peers_are_tried_when_asked(culm: Culm) -> None:
    """``--peers`` tells those that answer from those that do not."""
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        ports = there.getsockname()[1], gone.getsockname()[1]
        gone.close()
        (culm.home / "culm.toml").write_text(
            "".join(
                f'[[peers]]\nurl = "intervals://127.0.0.1:{port}"\nname = "p{at}"\n' for at, port in enumerate(ports)
            )
        )
        assert problems(culm) == []
        assert problems(culm, "--peers") == ["peers"]
        assert "p0 answers" in culm("doctor", "--peers").out


def test_another_libsodium(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A libsodium that judges signatures by another rule is a problem, before it splits a log in two."""
    monkeypatch.setattr(known, "is_signed", lambda *_: True)
    assert problems(culm) == ["signatures"]
