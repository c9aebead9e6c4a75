"""``culm join``: one command from an invitation to the first entries, and what it keeps.

Specification: docs/specs/invitation.md, "Taking an invitation".
"""

from __future__ import annotations

import io
import json
import subprocess
import tomllib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from culm.wire.invitation import Invitation
from culm.wire.places import parse_author
from tests.cli.culm import start
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.culm import Culm

DAY = 24 * 60 * 60


@contextmanager
def serving(home: Path) -> Iterator[str]:
    """A node of clump x that listens at ``culm://``, in a process of its own: its address."""
    process = start(home, "serve", "--clump", "x", "--listen", "culm://127.0.0.1:0")
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1]
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


@pytest.fixture
def alice(culm: Culm) -> str:
    """The key of a home with two logs of its own, in clump x, that has given itself a name."""
    for log in (1, 2):
        assert culm("append", log, "--text", f"to log {log}").code == 0
    key = culm("identity", "show").out.strip()
    assert culm("name", key, "alice").code == 0
    return key


def invited(culm: Culm, url: str, *arguments: object) -> str:
    """The URL of an invitation to a node that listens at ``url``."""
    made = culm("invite", "--clump", "x", "--address", url.rpartition("@")[2], *arguments)
    assert made.code == 0, made.err
    return made.out.strip()


def unreachable(culm: Culm, **changes: object) -> str:
    """An invitation of a node that nobody reaches, with something changed."""
    key = parse_author(culm("identity", "show").out.strip())
    said: dict[str, object] = {"key": key, "addresses": (("127.0.0.1", 1),), "clump": b"x"}
    return Invitation(**said | changes).url()  # type: ignore[arg-type]


def test_from_an_invitation_one_command(culm: Culm, alice: str) -> None:
    """Two homes, three processes: nothing but ``culm join URL`` brings a machine without a home to the entries."""
    bob = culm.at("bob")
    with serving(culm.home) as url:
        invitation = invited(culm, url, "--log", "alice/1")
        joining = start(bob.home, "join", invitation)
        out, err = joining.communicate(timeout=PATIENCE)
    assert joining.returncode == 0, err
    author = bob("identity", "show").out.strip()
    assert out.splitlines() == [
        f"made {bob.home}",
        f"author {author}",
        f"following alice/1 ({alice[:8]}, suggested)",
        f"received 1 entry from alice ({alice[:8]}, suggested)",
    ]
    assert err.splitlines() == [
        f"to see it: culm --home {bob.home} logs",
        f"the inviter chose the name alice; to keep it: culm --home {bob.home} name alice alice",
        (
            f"to publish: culm --home {bob.home} append 1 --text hello; a node that follows only some has to follow"
            " your author, too"
        ),
        f"to stay up to date: culm --home {bob.home} serve",
    ]
    assert bob("show", "alice/1/1", "--payload").out == "to log 1"
    assert [(log["author"], log["log_id"]) for log in bob("logs", "--json").json] == [(alice, 1)]


def test_what_is_kept(culm: Culm, alice: str) -> None:
    """The clump and the address are in the configuration, so that later commands need neither; the name is marked."""
    bob = culm.at("bob")
    with serving(culm.home) as url:
        assert bob("join", invited(culm, url)).code == 0
        settings = tomllib.loads((bob.home / "culm.toml").read_text())
        assert settings == {"clump": "x", "peers": [{"name": "alice", "url": url}]}
        assert (bob.home / "culm.toml").stat().st_mode & 0o777 == 0o600
        assert bob("name", "--json").json == [{"name": "alice", "key": alice, "suggested": True}]
        assert bob("following", "--json").json["everything"] is True
        culm("append", 1, "--text", "more")
        assert bob("sync", "alice", "--json").json["entries_received"] == 1
        assert bob.held() == culm.held()


def test_twice(culm: Culm, alice: str) -> None:
    """The same URL can be given again: nothing is there twice, and a name that was given since then stays."""
    bob = culm.at("bob")
    with serving(culm.home) as url:
        invitation = invited(culm, url, "--log", f"{alice}/1")
        assert bob("join", invitation).code == 0
        bob("name", "alice", "mum")
        bob("follow", "mum/1", "--to", 1)
        before = [(bob.home / name).read_text() for name in ("culm.toml", "policy.json", "names.json")]
        again = bob("join", invitation)
    assert (again.code, again.out.splitlines()[1]) == (0, f"following mum/1 ({alice[:8]})")
    assert "the inviter chose" not in again.err
    assert before == [(bob.home / name).read_text() for name in ("culm.toml", "policy.json", "names.json")]


def test_a_reader_keeps_its_logs(culm: Culm, alice: str) -> None:
    """A reader gets what is shared, and nothing that it writes goes into the clump, now or later."""
    carl = culm.at("carl")
    carl("init")
    carl("append", 1, "--text", "a diary")
    with serving(culm.home) as url:
        joined = carl("join", "--json", invited(culm, url, "--as", "reader"))
        assert (joined.json["entries_received"], joined.json["entries_sent"]) == (2, 0)
        carl("append", 1, "--text", "more of it")
        assert carl("sync", "alice", "--json").json["entries_sent"] == 0
        dora = culm.at("dora")
        dora("init")
        dora("append", 1, "--text", "for all")
        assert dora("join", "--json", invited(culm, url)).json["entries_sent"] == 1
    assert {log["author"] for log in culm("logs", "--json").json} == {
        alice,
        dora("identity", "show").out.strip(),
    }


@pytest.mark.usefixtures("alice")
def test_a_home_in_the_clump_keeps_its_choices(culm: Culm) -> None:
    """A home of this clump that asks for everything goes on doing so, and stays no reader."""
    bob = culm.at("bob")
    bob("init")
    (bob.home / "culm.toml").write_text('clump = "x"  # mine\n')
    with serving(culm.home) as url:
        joined = bob("join", invited(culm, url, "--log", "alice/1", "--as", "reader"))
    assert "following everything in clump x" in joined.out
    assert not (bob.home / "policy.json").exists()
    assert (bob.home / "culm.toml").read_text().startswith('clump = "x"  # mine\n')
    assert len(bob("logs", "--json").json) == 2


def test_a_home_that_follows_some(culm: Culm, alice: str) -> None:
    """A home that follows only some in this clump follows the inviter as well, and goes on with the rest."""
    bob = culm.at("bob")
    bob("init")
    other = "0" * 43
    bob("follow", other, "--clump", "x")
    with serving(culm.home) as url:
        bob("join", invited(culm, url))
    assert {row["what"] for row in bob("following", "--json").json["following"]} == {other, alice}


@pytest.mark.usefixtures("alice")
def test_a_home_in_another_clump(culm: Culm) -> None:
    """A configuration with another clump stays as it is; the command says which options do it."""
    bob = culm.at("bob")
    bob("init")
    (bob.home / "culm.toml").write_text('clump = "y"\n')
    with serving(culm.home) as url:
        joined = bob("join", invited(culm, url, "--log", "alice/2"))
    assert (joined.code, (bob.home / "culm.toml").read_text()) == (0, 'clump = "y"\n')
    assert f"to stay up to date: culm --home {bob.home} serve --peer {url} --clump-hex 78\n" in joined.err
    assert [log["clumps"] for log in bob("logs", "--json").json] == [["x"]]


@pytest.mark.usefixtures("alice")
def test_one_of_several_addresses(culm: Culm) -> None:
    """All addresses are tried at once, and the one that answers becomes the peer."""
    bob = culm.at("bob")
    with serving(culm.home) as url:
        joined = bob("join", "--json", invited(culm, "127.0.0.1:1", "--address", url))
    assert joined.json["address"] == url
    assert tomllib.loads((bob.home / "culm.toml").read_text())["peers"] == [{"name": "alice", "url": url}]


@pytest.mark.usefixtures("alice")
def test_another_node_at_the_address(culm: Culm) -> None:
    """A node with another key at the invited address gets nothing, and is told apart from one that is down."""
    mallory = culm.at("mallory")
    mallory("init")
    with serving(mallory.home) as url:
        joined = culm.at("bob")("join", invited(culm, url))
    assert joined.code == 3
    assert "another node answers at" in joined.err
    assert mallory("logs", "--json").json == []


def test_nobody_answers(culm: Culm, alice: str) -> None:
    """If the node cannot be reached, everything else is kept: the same command, or ``culm serve``, does the rest."""
    bob = culm.at("bob")
    joined = bob("join", invited(culm, "127.0.0.1:1", "--address", "[::1]:1"))
    assert joined.code == 3
    assert joined.err.startswith(
        "all that the invitation says is kept; when the node can be reached, run the same command again\n"
        f"culm: cannot reach culm://{alice}@127.0.0.1:1: "
    )
    peers = tomllib.loads((bob.home / "culm.toml").read_text())["peers"]
    assert [peer["url"] for peer in peers] == [f"culm://{alice}@127.0.0.1:1", f"culm://{alice}@[::1]:1"]
    assert bob("doctor").code == 0


@pytest.mark.usefixtures("alice")
@pytest.mark.slow
def test_killed(culm: Culm, alice: str, tmp_path: Path) -> None:
    """Whatever moment ``culm join`` is killed at, the same command completes what it began, and the home is sound."""
    (tmp_path / "lines").write_text("x\n" * 300)
    culm("append", 3, "--lines", tmp_path / "lines")
    with serving(culm.home) as url:
        invitation = invited(culm, url, "--log", "alice/3")
        for kill in range(8):
            bob = culm.at(f"bob{kill}")
            joining = start(bob.home, "join", invitation)
            with suppress(subprocess.TimeoutExpired):
                joining.wait(0.15 + 0.1 * kill)
            joining.kill()
            joining.communicate(timeout=PATIENCE)
            assert bob("join", invitation).code == 0
            assert bob("doctor").code == 0
            assert [(log["author"], log["newest"]) for log in bob("logs", "--json").json] == [(alice, 300)]
            assert tomllib.loads((bob.home / "culm.toml").read_text())["peers"] == [{"name": "alice", "url": url}]
            assert {path.name for path in bob.home.iterdir() if path.is_file()} >= {"names.json", "policy.json"}


def test_interrupted(culm: Culm, alice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person who interrupts a long first exchange has the peer in the configuration, too."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("culm.cli.people.join.sync", interrupt)
    bob = culm.at("bob")
    assert bob("join", unreachable(culm)).code == 130
    settings = tomllib.loads((bob.home / "culm.toml").read_text())
    assert [peer["url"] for peer in settings["peers"]] == [f"culm://{alice}@127.0.0.1:1"]


def test_a_configuration_that_is_yours(culm: Culm, alice: str) -> None:
    """If the configuration could not be added to, the command says which options do the same."""
    bob, config = culm.at("bob"), culm.home.parent / "mine.toml"
    config.write_text("")
    with serving(culm.home) as url:
        joined = bob("join", invited(culm, url), "--config", config)
    assert joined.err.endswith(f"to stay up to date: culm --home {bob.home} serve --peer {url} --clump-hex 78\n")
    assert alice in url


def test_expired(culm: Culm) -> None:
    """An invitation whose time is over is refused, and no home is made."""
    bob = culm.at("bob")
    joined = bob("join", unreachable(culm, expires=DAY))
    assert (joined.code, joined.err) == (
        2,
        "culm: the invitation was good until 1970-01-02 00:00:00 UTC; ask for a new one\n",
    )
    assert not bob.home.exists()


@pytest.mark.usefixtures("alice")
def test_refused(culm: Culm) -> None:
    """A text that is no invitation, one's own, and a clump that is not safe are one line each; no home is made."""
    bob = culm.at("bob")
    unsafe = unreachable(culm, clump=b"\x00" + bytes(100))
    for url, why in (
        ("culm:abc", "culm: the invitation is cut off, or has a character that none has"),
        ("x" * 100_000, "culm: this is not an invitation: it is longer than 2000 characters"),
        ("\x1b[2Jx", r"culm: '\x1b[2Jx' is not an invitation: one begins with culm:"),
        (unsafe, "culm: the clump of 101 bytes that begins with 00000000 is not safe"),
    ):
        joined = bob("join", url)
        assert (joined.code, joined.out) == (2, "")
        assert joined.err.startswith(why)
        assert joined.err.count("\n") == 1
    assert not bob.home.exists()
    assert culm("join", unreachable(culm)).err == ("culm: this is your own invitation: give the URL to somebody else\n")


@pytest.mark.usefixtures("alice")
def test_a_name_that_is_taken(culm: Culm) -> None:
    """A suggested name that another key has is not kept, so that nobody takes the name of somebody else."""
    bob = culm.at("bob")
    bob("init")
    other = "0" * 43
    bob("name", other, "alice")
    joined = bob("join", unreachable(culm, name="Alice"))
    assert f"the inviter's name is not kept: Alice is the name of {other} already" in joined.err
    assert bob("name", "--json").json == [{"name": "alice", "key": other, "suggested": False}]


@pytest.mark.usefixtures("alice")
def test_from_stdin(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The URL can come from stdin, also broken into lines, so that no other user of the machine sees it."""
    url = unreachable(culm)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"  {url[:40]}\n{url[40:]}\n"))
    bob = culm.at("bob")
    assert bob("join", "-").code == 3
    monkeypatch.setattr("sys.stdin", io.StringIO("culm:" + "a" * 100_000))
    assert "longer than 2000 characters" in bob("join", "-").err


@pytest.mark.usefixtures("alice")
def test_a_configuration_elsewhere(culm: Culm) -> None:
    """A file named with ``--config`` is not written to, and the command says so."""
    bob, config = culm.at("bob"), culm.home.parent / "mine.toml"
    config.write_text("")
    joined = bob("join", unreachable(culm), "--config", config)
    assert f"the peer is not added to {config}" in joined.err
    assert config.read_text() == ""
    assert not (bob.home / "culm.toml").exists()


@pytest.mark.usefixtures("alice")
def test_a_configuration_that_cannot_be_added_to(culm: Culm) -> None:
    """If the peer cannot be added to the configuration, the rest is done, and the command says why."""
    bob = culm.at("bob")
    bob("init")
    (bob.home / "culm.toml").write_text("peers = []\n")
    joined = bob("join", unreachable(culm))
    assert "the peer is not added to the configuration, so add it yourself: " in joined.err
    assert (bob.home / "culm.toml").read_text() == "peers = []\n"
    assert json.loads((bob.home / "names.json").read_text() if (bob.home / "names.json").exists() else "{}") == {}
