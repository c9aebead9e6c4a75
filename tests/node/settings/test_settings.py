"""Addresses, limits and policies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from culm.errors import ConfigError
from culm.node.interests.policy import Policy, PolicyFile
from culm.node.network.urls import PeerUrl
from culm.node.settings.reading import read_limits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("text", ["bushbaby://localhost:7878", "bushbaby://127.0.0.1:1", "bushbaby://[::1]:65535"])
def test_addresses_read_and_print(text: str) -> None:
    """An address prints as it was typed."""
    assert str(PeerUrl.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "localhost:7878", "http://localhost:7878", "bushbaby://localhost", "bushbaby://:7878", "bushbaby://h:0",
     "bushbaby://h:65536", "bushbaby://h:x", "bushbaby://h:1/path", "bushbaby://[::1:7", "bushbaby://u@h:1",
     "bushbaby://h:1#here", "bushbaby://h:1?", "bushbaby://h\n:1", "bushbaby://h :1", "bushbaby://\x00h:1"],
)  # fmt: skip
def test_what_is_no_address_is_refused(text: str) -> None:
    """Anything else is a wrong call."""
    with pytest.raises(ConfigError):
        PeerUrl.parse(text)


def test_limits_are_set_by_name() -> None:
    """Limits of the protocol and of the node are changed by NAME=VALUE."""
    found = read_limits(["max_message=1MiB", "idle_seconds=2.5", "max_wants=7", "max_send_rate=8MB"])
    assert found == {
        "limits.max_message": 1 << 20,
        "limits.idle_seconds": 2.5,
        "limits.max_wants": 7,
        "limits.max_send_rate": 8_000_000,
    }


@pytest.mark.parametrize(
    "text",
    ["", "max_message", "max_message=", "max_message=-1", "max_message=x", "no_such=1", "max_message=inf",
     "max_message=nan", "idle_seconds=nan", "idle_seconds=inf", "max_logs=" + "9" * 400],
)  # fmt: skip
def test_wrong_limits_are_refused(text: str) -> None:
    """A wrong name or value is a wrong call that names the right ones."""
    with pytest.raises(
        ConfigError, match=r"^(limit (max_message|idle_seconds|max_logs): .*expected|there is no limit)"
    ):
        read_limits([text])


def test_policies_are_kept_by_clump(tmp_path: Path) -> None:
    """What was saved for a clump is loaded for it, and for no other."""
    file = PolicyFile(tmp_path / "policy.json")
    policy = Policy(frozenset({b"a" * 32}), frozenset({b"b" * 32}), frozenset(), frozenset({b"c" * 32}))
    policy = replace(policy, unshared=frozenset({(b"d" * 32, 2**64 - 1)}))
    file.save(b"one", policy)
    file.save(b"two", Policy())
    assert file.load(b"one") == policy
    assert file.load(b"two") == file.load(b"three") == Policy()


@pytest.mark.parametrize(
    "text",
    ["", "[]x", "[]", '{"6f6e65": 3}', '{"6f6e65": {"allow_peers": ["xy"]}}', '{"6f6e65": {"unshared": [1]}}',
     "[" * 100_000, '{"6f6e65": {"allow_peers": ["0a"]}}', '{"6f6e65": {"unshared": [["%s", 1e999]]}}' % ("0a" * 32),
     '{"6f6e65": {"unshared": [["%s", -1]]}}' % ("0a" * 32),
     '{"6f6e65": {"interests": [["%s", 2.5, []]]}}' % ("0a" * 32)],
)  # fmt: skip
def test_a_damaged_policy_file_is_an_error(tmp_path: Path, text: str) -> None:
    """A file that cannot be read does not open the node to everyone: it is an error."""
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="policy"):
        PolicyFile(path).load(b"one")


def test_lists_decide() -> None:
    """Block lists win over allow lists; empty allow lists admit everyone."""
    key, other = b"a" * 32, b"b" * 32
    assert Policy().admits_peer(key)
    assert Policy(allow_peers=frozenset({key})).admits_peer(key)
    assert not Policy(allow_peers=frozenset({key})).admits_peer(other)
    assert not Policy(allow_peers=frozenset({key}), block_peers=frozenset({key})).admits_peer(key)
    assert not Policy(block_authors=frozenset({key})).wants((key, 1))
    assert not Policy(block_authors=frozenset({key})).shares((key, 1))
