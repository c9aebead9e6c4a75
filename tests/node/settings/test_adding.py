"""Adding a clump and peers to ``culm.toml``: nothing that a person has written changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from culm.errors import ConfigError
from culm.node.network.urls import PeerUrl
from culm.node.settings.adding import add_to_config
from culm.node.settings.reading import load

if TYPE_CHECKING:
    from pathlib import Path

KEY = bytes([1]) * 32
NODE, OTHER = PeerUrl("culm", "node.example", 7801, KEY), PeerUrl("culm", "::1", 7801, KEY)


def test_a_new_file(tmp_path: Path) -> None:
    """Without a file one is made that only its owner reads, because the clump is a secret."""
    path = tmp_path / "culm.toml"
    add_to_config(path, b"tutorial", [("alice", NODE)])
    assert path.read_text() == f'clump = "tutorial"\n\n[[peers]]\nname = "alice"\nurl = "{NODE}"\n'
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("clump", [b"tutorial", b'a "b" \\', bytes(range(32)), "zo\u00eb".encode(), b"\x7f", b"a\nb"])
def test_any_clump(tmp_path: Path, clump: bytes) -> None:
    """Whatever bytes a clump has, the file says the same ones."""
    path = tmp_path / "culm.toml"
    add_to_config(path, clump, [])
    assert load(path).clump == clump


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_file_that_is_there(tmp_path: Path, end: str) -> None:
    """Lines and comments of a file stay; the clump goes before all tables, the peer behind them; its mode stays."""
    path = tmp_path / "culm.toml"
    before = f'# mine\ninterval = 7\n\n[[peers]]\nurl = "intervals://a:1"\n\n[limits]\nmax_logs = 9 # few{end}'
    path.write_text(before)
    path.chmod(0o640)
    add_to_config(path, b"x", [("alice", NODE), ("alice", OTHER)])
    assert before in path.read_text()
    settings = load(path)
    assert (settings.clump, settings["interval"], settings["limits.max_logs"]) == (b"x", 7.0, 9)
    assert [(peer.name, str(peer.url)) for peer in settings.peers][1:] == [("alice", str(NODE)), ("alice", str(OTHER))]
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link(tmp_path: Path) -> None:
    """A configuration that is kept elsewhere stays there, and the link to it stays a link."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.toml").write_text("interval = 7\n")
    path = tmp_path / "culm.toml"
    path.symlink_to("elsewhere/mine.toml")
    add_to_config(path, b"x", [])
    assert path.is_symlink()
    assert (tmp_path / "elsewhere" / "mine.toml").read_text() == 'clump = "x"\ninterval = 7\n'


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("peers = []\n", "not TOML"),
        ("not toml", "not TOML"),
        (f'[[peers]]\nurl = "{NODE}"\n', "is listed twice"),
    ],
)
def test_a_file_that_cannot_be_added_to(tmp_path: Path, before: str, why: str) -> None:
    """A file that would not be a configuration any more stays as it is."""
    path = tmp_path / "culm.toml"
    path.write_text(before)
    with pytest.raises(ConfigError, match=why):
        add_to_config(path, None, [("alice", NODE)])
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """What is no text, or no file, is one error."""
    path = tmp_path / "culm.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot read"):
        add_to_config(path, None, [])
    with pytest.raises(ConfigError, match="cannot"):
        add_to_config(tmp_path, None, [])
    with pytest.raises(ConfigError, match="cannot write"):
        add_to_config(tmp_path / "nowhere" / "culm.toml", b"x", [])
