"""``culm`` without a command says where one is, and what one could do next."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from culm.cli.command import main
from culm.node.home import Home
from culm.store import SQLiteStore
from culm.testing import build_log

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a home would be."""
    monkeypatch.setenv("CULM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the call prints."""
    capsys.readouterr()
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_before_there_is_a_home(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody new is told where the home would be, and the two ways to make one; nothing is made."""
    out = said(capsys)
    assert out.startswith(f"home    {place} (not made yet)\n\nnext:\n  culm init ")
    assert "culm join URL" in out
    assert not place.exists()
    assert json.loads(said(capsys, "--json")) == {"home": str(place), "exists": False}


def test_a_home_as_it_fills(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It tells author, logs, clump, peers and what is wrong, and proposes what was not done yet."""
    main(["init"])
    key = Home(place).identity_public("default")
    out = said(capsys)
    assert "(default)" in out
    assert "logs    0 of yours, 0 of others: 0 entries, 0 payloads\n" in out
    assert "culm append 1" in out
    main(["append", "1", "--text", "first light"])
    forked = [build_log(5, seed=3), build_log(5, seed=3, payload_size=9)]
    with SQLiteStore(place / "store.db") as store:
        for log in forked:
            store.add(log.items())
    (place / "culm.toml").write_text(
        'clump = "garden"\n[[peers]]\nname = "bob"\nurl = "bushbaby://192.0.2.1:7001"\n', encoding="utf-8"
    )
    out = said(capsys)
    assert "logs    1 of yours, 1 of others: " in out
    assert "1 forked log: culm logs says which\n" in out
    assert "clump   garden, following everything\npeers   bob\n" in out
    assert "culm append 1" not in out
    assert "culm serve  " in out
    found = json.loads(said(capsys, "--json"))
    assert (found["own_logs"], found["logs"], found["forked"], found["peers"]) == (1, 2, 1, ["bob"])
    assert len(found["identities"]["default"]) == len(key) + 11


def test_a_node_that_is_configured(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the configuration has an address to listen at, no other one is proposed, but to invite somebody."""
    main(["init"])
    (place / "culm.toml").write_text('clump = "garden"\nlisten = ["culm://0.0.0.0:8483"]\n', encoding="utf-8")
    main(["follow", "A" * 43])
    out = said(capsys)
    assert "clump   garden, following 1 author or log\n" in out
    assert "  culm serve " in out
    assert "  culm invite " in out
    assert "--listen" not in out


def test_a_home_that_is_named_stays_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands that are proposed are for the home that was asked about."""
    other = f"{place} of another"
    assert f"culm --home '{other}' init" in said(capsys, "--home", other)


def test_identities_without_a_store(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lost store is an error here as everywhere, with the advice."""
    main(["init"])
    (place / "store.db").unlink()
    assert main([]) == 2
    assert "--keep-identities" in capsys.readouterr().err
