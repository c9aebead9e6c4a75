"""Connections that are no TCP: commands, stdin and stdout, Unix sockets.

Specification: docs/specs/proposals.md, "Over pipes".
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from culm import Identity, Node
from culm.errors import ConfigError, NetworkError
from culm.node.network import pipes
from culm.node.network.pipes import own_streams
from culm.node.network.transport import connect, listen_at
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from tests.node.links import run_really

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 65536


@pytest.mark.parametrize(
    ("text", "scheme", "via", "rest"),
    [
        ("exec:ssh host culm serve --stdio", "intervals", "exec", "ssh host culm serve --stdio"),
        ("stdio:culm serve --stdio", "intervals", "exec", "culm serve --stdio"),
        ("proposals+exec:a 'b c'", "proposals", "exec", "a 'b c'"),
        ("bushbaby+unix:/run/a:b", "bushbaby", "unix", "/run/a:b"),
        ("unix:./socket", "intervals", "unix", "./socket"),
    ],
)
def test_addresses_without_a_host(text: str, scheme: str, via: str, rest: str) -> None:
    """A command or a path behind a colon, and in front of it the protocol, or none, which means intervals."""
    url = PeerUrl.parse(text)
    assert (url.scheme, url.via, url.host, url.port) == (scheme, via, rest, 0)
    assert PeerUrl.parse(str(url)) == url


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exec:", "expected a command"),
        ("exec:a 'b", "expected a command"),
        ("unix:", "expected a path"),
        ("unix:a\0b", "expected a path"),
        ("culm+exec:a", "not with culm"),
        ("http+unix:a", "not with http"),
        ("tcp:a", "is not an address"),
        ("exec", "is not an address"),
    ],
)
def test_what_is_no_such_address(text: str, reason: str) -> None:
    """Nothing behind the colon, or a protocol that needs TLS or does not exist: a wrong call."""
    with pytest.raises(ConfigError, match=reason):
        PeerUrl.parse(text)


def test_a_command_is_no_place_to_listen() -> None:
    """A node can call a command, and listen at a Unix socket."""
    with pytest.raises(ConfigError, match="at which no node can listen"):
        PeerUrl.parse("exec:cat", schemes=LISTENER_SCHEMES, may_be_zero=True)


# -- commands -------------------------------------------------------------------------------------------------------


@pytest.mark.subprocess
def test_a_command_is_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    """What is written is its stdin, what it prints can be read, and its end is EOF. Its exit code is told if not 0."""

    async def call() -> list[bytes]:
        reader, writer = await connect(PeerUrl.parse("exec:cat"))
        writer.write(b"there and back")
        found = [await reader.readexactly(14)]
        writer.close()
        reader, writer = await connect(PeerUrl.parse("exec:sh -c 'printf last; exit 3'"))
        found.append(await reader.read())
        writer.close()
        return found

    assert run_really(call) == [b"there and back", b"last"]
    (line,) = caplog.records
    assert line.getMessage().startswith("a command ended with exit code 3")


@pytest.mark.subprocess
def test_a_command_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that does not end with its connection is killed after a while, also when the program ends before."""
    monkeypatch.setattr(pipes, "ENDING_SECONDS", 0.05)

    async def call() -> int:
        reader, _ = await connect(PeerUrl.parse("exec:sh -c 'echo $$; exec sleep 1000'"))
        return int(await reader.readline())

    number = run_really(call)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


@pytest.mark.subprocess
def test_a_command_that_does_not_exist() -> None:
    """It is told as a peer that cannot be reached."""
    with pytest.raises(NetworkError, match="No such file"):
        run_really(lambda: connect(PeerUrl.parse("exec:no-such-command here")))


# -- stdin and stdout -----------------------------------------------------------------------------------------------


def test_two_pipes_are_a_connection() -> None:
    """Bytes go both ways; closing closes both pipes, and EOF at one end is EOF at the other."""

    async def call() -> tuple[bytes, bytes]:
        their_read, our_write = os.pipe()
        our_read, their_write = os.pipe()
        reader, writer = await own_streams(LIMIT, our_read, our_write)
        os.close(our_read)
        os.close(our_write)
        os.write(their_write, b"in")
        writer.write(b"out")
        await writer.drain()
        found = await reader.readexactly(2), os.read(their_read, 10)
        os.close(their_write)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert os.read(their_read, 1) == b""
        os.close(their_read)
        return found

    assert run_really(call) == (b"in", b"out")


def test_one_socket_is_a_connection() -> None:
    """One socket may be both stdin and stdout, as sshd does it."""

    async def call() -> bytes:
        ours, theirs = socket.socketpair()
        with theirs, ours:
            reader, writer = await own_streams(LIMIT, ours.fileno(), ours.fileno())
            theirs.send(b"question")
            writer.write(await reader.readexactly(8) + b", answer")
            await writer.drain()
            writer.close()
            return theirs.recv(100)

    assert run_really(call) == b"question, answer"


def test_a_file_is_no_connection(tmp_path: Path) -> None:
    """A terminal, a file or /dev/null cannot be talked over, and the message says what to do instead."""

    async def call() -> None:
        with (tmp_path / "file").open("wb") as file:
            await own_streams(LIMIT, file.fileno(), file.fileno())

    with pytest.raises(ConfigError, match="let another program run this command"):
        run_really(call)


# -- Unix sockets ---------------------------------------------------------------------------------------------------


def test_a_unix_socket(tmp_path: Path) -> None:
    """Only its owner can open it. One that a killed node left is replaced, one at which a node answers is not."""
    url = PeerUrl.parse(f"unix:{tmp_path}/socket")

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            writer.write(b"hello")

    async def call() -> bytes:
        server, place = await listen_at(url, greet)
        assert place == url
        assert stat.S_IMODE((tmp_path / "socket").stat().st_mode) == 0o600
        with pytest.raises(ConfigError, match=r"cannot listen .*: another program listens there, .* stop it"):
            await listen_at(url, greet)
        server.close()
        await server.wait_closed()
        server, _ = await listen_at(url, greet)
        reader, writer = await connect(url)
        found = await reader.read()
        writer.close()
        server.close()
        return found

    assert run_really(call) == b"hello"
    with pytest.raises(NetworkError, match="cannot reach"):
        run_really(lambda: connect(url))


def test_a_file_is_not_replaced_by_a_socket(tmp_path: Path) -> None:
    """What is no socket stays."""
    (tmp_path / "precious").write_text("data")
    with pytest.raises(ConfigError, match="cannot listen"):
        run_really(lambda: listen_at(PeerUrl.parse(f"unix:{tmp_path}/precious"), lambda *_: asyncio.sleep(0)))
    assert (tmp_path / "precious").read_text() == "data"


@pytest.mark.slow
def test_nodes_meet_at_a_unix_socket(tmp_path: Path) -> None:
    """A program's node listens there, and another one syncs."""

    async def call() -> tuple[int, int]:
        alice, bob = (Node.open(store=tmp_path / name, identity=Identity.create()) for name in ("a", "b"))
        async with alice, bob:
            await alice.append(1, "from alice")
            url = await alice.listen(f"proposals+unix:{tmp_path}/socket")
            summary = await bob.sync(url, [(alice.author, 1)])
            return summary.entries_received, len(await bob.logs())

    assert run_really(call) == (1, 1)
