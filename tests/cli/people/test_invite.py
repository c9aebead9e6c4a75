"""``culm invite``: the URL, where its addresses come from, and its code on a terminal."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Self

import pytest

from culm.wire.invitation import Invitation
from culm.wire.places import author_text, parse_author

if TYPE_CHECKING:
    from tests.cli.culm import Culm

DAY = 24 * 60 * 60
ADDRESS = ("--address", "node.example:7801")


@pytest.fixture
def key(culm: Culm) -> bytes:
    """The key of a home that has published something."""
    culm("append", 1, "--text", "hello")
    return parse_author(culm("identity", "show").out.strip())


def test_what_it_says(culm: Culm, key: bytes) -> None:
    """Stdout has the URL alone, for a pipe; what it means is on stderr, without the secret."""
    log = f"{author_text(key)}/1"
    made = culm("invite", "--clump", "x", *ADDRESS, "--log", log, "--as", "reader", "--name", "alice", "--days", 2)
    assert made.out.count("\n") == 1
    invitation = Invitation.parse(made.out.strip())
    assert abs(invitation.expires - time.time() - 2 * DAY) < DAY / 2
    assert invitation == Invitation(
        key, (("node.example", 7801),), b"x", ((key, 1),), "alice", invitation.expires, as_reader=True
    )
    until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(invitation.expires))
    assert made.err == (
        f"invites a reader in clump x to {log}, until {until}; they run: culm join URL\n"
        "keep it secret: the URL holds the clump, and only culm join keeps to the date\n"
    )


def test_what_goes_without_saying(culm: Culm, key: bytes) -> None:
    """By default: the clump of the configuration, a week, everything, a member, the name given to the own key."""
    (culm.home / "culm.toml").write_text('clump = "y"\nlisten = ["culm://node.example:7801", "intervals://a:1"]\n')
    plain = Invitation.parse(culm("invite").out.strip())
    assert (plain.clump, plain.logs, plain.name, plain.as_reader) == (b"y", (), "", False)
    assert plain.addresses == (("node.example", 7801),)
    assert abs(plain.expires - time.time() - 7 * DAY) < DAY / 2
    culm("name", author_text(key), "alice")
    assert Invitation.parse(culm("invite", "--days", 0).out.strip()).name == "alice"
    assert "for ever" in culm("invite", "--days", 0).err


def test_as_json(culm: Culm, key: bytes) -> None:
    """``--json`` has the URL and what it says, but the clump only inside the URL."""
    made = culm("invite", *ADDRESS, "--clump", "tutorial", "--json").json
    invitation = Invitation.parse(made.pop("url"))
    assert made == {
        "key": author_text(key),
        "name": None,
        "addresses": [f"culm://{author_text(key)}@node.example:7801"],
        "logs": [],
        "expires": invitation.expires,
        "as": "member",
    }


class _Route:
    """What the system says of the way to an address that nobody has."""

    def __init__(self, family: int, _: int) -> None:
        import socket

        self._own = {socket.AF_INET: "10.0.0.7", socket.AF_INET6: "2001:db8::7"}[family]  # type: ignore[index]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, _: object) -> None:
        pass

    def getsockname(self) -> tuple[str, int]:
        return self._own, 1


@pytest.mark.parametrize(("listen", "expected"), [("0.0.0.0", ["10.0.0.7"]), ("[::]", ["10.0.0.7", "2001:db8::7"])])
@pytest.mark.usefixtures("key")
def test_a_listener_of_all_addresses(
    culm: Culm, monkeypatch: pytest.MonkeyPatch, listen: str, expected: list[str]
) -> None:
    """A listener at every address of the machine is invited to by those from which the machine calls others."""
    monkeypatch.setattr("socket.socket", _Route)
    (culm.home / "culm.toml").write_text(f'listen = ["culm://{listen}:7801"]\n')
    found = Invitation.parse(culm("invite").out.strip()).addresses
    assert sorted(found) == [(host, 7801) for host in expected]


@pytest.mark.usefixtures("key")
def test_no_address(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an address, with a port that is not known, or without a network: one line that says what to give."""

    class Offline(_Route):
        def connect(self, _: object) -> None:
            raise OSError("Network is unreachable")

    monkeypatch.setattr("socket.socket", Offline)
    for listen in ('"intervals://a:1"', '"culm://127.0.0.1:0"', '"culm://0.0.0.0:7801"', ""):
        (culm.home / "culm.toml").write_text(f"listen = [{listen}]\n")
        made = culm("invite")
        assert (made.code, made.out) == (2, "")
        assert made.err.startswith("culm: no address is known at which this node can be called: give --address")
        assert made.err.count("\n") == 1


def test_wrong_calls(culm: Culm, key: bytes) -> None:
    """A log that is not held, a home that is none, a name that is none, another protocol: one line each."""
    author = author_text(key)
    for arguments, code, why in (
        (("--log", f"{author}/2"), 1, f"the store has no entries of {author}/2, so an invitation to it would be empty"),
        (("--name", "a b"), 2, "'a b' cannot be a name in an invitation"),
        (("--address", "intervals://a:1"), 2, "'intervals://a:1': intervals cannot do this"),
        (("--address", "A_\N{SNOWMAN}:1"), 2, "cannot be an address in an invitation"),
        (("--log", "alice/1"), 2, "'alice' is neither an author (43 base62 characters, or 64 hex digits) nor a name"),
    ):
        made = culm("invite", *ADDRESS, *arguments)
        assert (made.code, made.out, made.err.count("\n")) == (code, "", 1)
        assert why in made.err
    assert "is not a Culm home yet" in culm.at("nowhere")("invite", *ADDRESS).err


def test_what_keeps_others_out(culm: Culm, key: bytes) -> None:
    """An address that others cannot reach, and a list of allowed peers, are worth a word: the guest would fail."""
    for address, is_near in (("127.0.0.1:1", True), ("[::1]:1", True), ("localhost:1", True), ("10.0.0.1:1", False)):
        made = culm("invite", "--clump", "x", "--address", address)
        assert ("the address is reached from this machine only" in made.err) == is_near
    assert "only" not in culm("invite", "--address", "127.0.0.1:1", *ADDRESS).err.partition("culm join keeps")[2]
    culm("allow", "peer", author_text(key), "--clump", "x")
    made = culm("invite", "--clump", "x", *ADDRESS)
    assert "in clump x this node talks to listed peers only: allow the new key, too (culm allow peer KEY)\n" in made.err


def test_a_log_that_is_not_shared(culm: Culm, key: bytes) -> None:
    """To invite to a log that this home does not share in the clump is worth a word."""
    log = f"{author_text(key)}/1"
    culm("unshare", log, "--clump", "x")
    made = culm("invite", *ADDRESS, "--clump", "x", "--log", log)
    assert f"in clump x this home does not share {log} (see: culm share)\n" in made.err
    assert Invitation.parse(made.out.strip()).logs == ((key, 1),)
    culm("share", log, "--clump", "y")
    assert "does not share" in culm("invite", *ADDRESS, "--clump", "x", "--log", log).err
    assert "does not share" not in culm("invite", *ADDRESS, "--clump", "y", "--log", log).err


# -- on a terminal ---------------------------------------------------------------------------------------------------


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Have stdout count as a terminal of this width."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", "60")


def modules_of(drawn: list[str]) -> list[list[bool]]:
    """The dark modules of a code that is drawn with half blocks, two rows of modules a line, light on dark."""
    lit = ("\u2580\u2588", "\u2584\u2588")  # upper and lower half
    return [[character not in half for character in line] for line in drawn for half in lit]


@pytest.mark.usefixtures("key")
def test_the_code_is_that_of_the_url(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a QR code stands above the URL: the code of the same text in capital letters."""
    segno = pytest.importorskip("segno")
    at_a_terminal(monkeypatch, 80)
    *drawn, url = culm("invite", *ADDRESS).out.splitlines()
    assert re.fullmatch("culm:[a-z2-7]+", url)
    expected = segno.make_qr(url.upper(), error="l", boost_error=False)
    assert expected.mode == "alphanumeric"
    matrix = [[bool(module) for module in row] for row in expected.matrix_iter(border=2)]
    assert modules_of(drawn)[: len(matrix)] == matrix


@pytest.mark.usefixtures("key")
def test_no_room_for_the_code(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code that is wider than the terminal could not be read, so only the URL is printed."""
    at_a_terminal(monkeypatch, 30)
    made = culm("invite", *ADDRESS)
    assert made.out.count("\n") == 1
    assert "the QR code takes 37 columns, and this terminal has 30" in made.err


@pytest.mark.usefixtures("key")
def test_no_library_for_the_code(culm: Culm, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library the URL is printed alone, with a word on how to get the code."""
    monkeypatch.setitem(sys.modules, "segno", None)  # as Python notes that there is none
    at_a_terminal(monkeypatch, 80)
    made = culm("invite", *ADDRESS)
    assert made.out.count("\n") == 1
    assert "for a QR code here: pip install 'culm[terminal]'\n" in made.err
