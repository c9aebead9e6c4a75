"""A node that calls at ``ws://`` and ``wss://``: docs/specs/intervals.md, "Over a WebSocket"."""

from __future__ import annotations

import asyncio
import os
import sys
from base64 import b64encode
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import ConfigError, NetworkError
from culm.node.config import PeerSettings
from culm.node.network.transport import connect
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from culm.node.network.webaccess import WebAccess
from culm.node.sessions.session import Purpose
from culm.node.sessions.stats import PeerRefused
from culm.node.sync import sync
from tests.certificates import certified
from tests.node.links import CONFIG, HERE, Party, run, run_really
from tests.node.network.test_websocket import ACCEPT, PAGE, TOKEN, asking, head_of, listening
from tests.node.peers import until
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path

    from culm.node.config import NodeConfig
    from culm.node.sync import SyncSummary
    from culm.types import Log

PROGRAMS = WebAccess(exchange=True)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Party, Party]]:
    """Alice, who has a log of three entries, and Bob, who has one, too."""
    alice, bob = Party(tmp_path, 1), Party(tmp_path, 2)
    for party in (alice, bob):
        party.store.append_each([draft(party)])
    yield alice, bob
    alice.close()
    bob.close()


def draft(party: Party) -> Any:
    """Three entries of log 5."""
    from culm.store import Draft

    return Draft(party.identity, 5, [b"one", b"two", b"three"], is_end=False, continue_here=False)


def log_of(party: Party) -> Log:
    """A party's log."""
    return party.identity.public, 5


async def exchanged(caller: Party, url: PeerUrl, *logs: Log, config: NodeConfig | None = None) -> SyncSummary:
    """A one-time sync."""
    purpose = Purpose(is_live=False, mirrors=False, logs=logs)
    return await sync(None, config or replace(CONFIG, clump=b""), caller.store, url, purpose)


def test_a_node_reads(pair: tuple[Party, Party]) -> None:
    """A node gets the logs that it asks for, and brings nothing: the listener asks for nothing and takes nothing."""
    alice, bob = pair

    async def main() -> None:
        async with listening(alice, WebAccess()) as (_, url):
            summary = await exchanged(bob, url, log_of(alice), log_of(bob))
            assert (summary.entries_received, summary.entries_sent) == (3, 0)

    run(main)
    assert bob.holds()[log_of(alice)] == [1, 2, 3]
    assert log_of(bob) not in alice.holds()


def test_a_node_exchanges(pair: tuple[Party, Party]) -> None:
    """Where the listener takes entries of programs, a node that calls brings those of logs that it names."""
    alice, bob = pair

    async def main() -> None:
        async with listening(alice, PROGRAMS) as (_, url):
            summary = await exchanged(bob, url, log_of(alice), log_of(bob))
            assert (summary.entries_received, summary.entries_sent) == (3, 3)
            await until(lambda: alice.holds().get(log_of(bob)) == [1, 2, 3])

    run(main)
    assert alice.holds() == bob.holds()


@pytest.mark.parametrize("origin", [None, PAGE])
def test_pages_never_bring_entries(pair: tuple[Party, Party], origin: str | None) -> None:
    """A page that offers to exchange is taken for a reader, also where programs may bring entries."""
    alice, _ = pair
    offered = "culm-intervals-exchange, culm-intervals"

    async def main() -> bytes:
        async with listening(alice, replace(PROGRAMS, origins=frozenset({PAGE}))) as (_, url):
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(asking(Origin=origin, Sec_WebSocket_Protocol=offered))
            head = await head_of(reader)
            writer.close()
            return head.lower()

    chosen = b"culm-intervals" if origin else b"culm-intervals-exchange"
    assert b"sec-websocket-protocol: " + chosen + b"\r\n" in run(main)


@pytest.mark.slow
def test_a_contact_follows_live(pair: tuple[Party, Party]) -> None:
    """A node that keeps contact gets what is published later, and calls again after the connection was lost."""
    alice, bob = pair

    async def main() -> None:
        async with listening(alice, WebAccess()) as (there, url), listening(bob, WebAccess()) as (here, _):
            here.contact(url, {log_of(alice): None})
            await until(lambda: bob.holds().get(log_of(alice)) == [1, 2, 3])
            await there.append(alice.identity, 5, [b"four"])
            await until(lambda: bob.holds()[log_of(alice)] == [1, 2, 3, 4])
            for session in there.sessions:
                session.driver._writer.transport.abort()
            await there.append(alice.identity, 5, [b"five"])
            await until(lambda: bob.holds()[log_of(alice)] == [1, 2, 3, 4, 5])

    run(main)


def test_tokens(pair: tuple[Party, Party], tmp_path: Path) -> None:
    """The token in the peer's file is shown; without one, or with another, the reason says what to set.

    The file is read for each call, and has to be one that others cannot read.
    """
    alice, bob = pair
    file = tmp_path / "token"
    file.touch(mode=0o600)

    async def main() -> None:
        async with listening(alice, WebAccess(tokens=(TOKEN,))) as (_, url):
            with pytest.raises(PeerRefused, match="token_file"):
                await exchanged(bob, url, log_of(alice))
            config = replace(CONFIG, peers=(PeerSettings(url, "alice", token_file=file),))
            file.write_text("another-token-of-alice")
            with pytest.raises(PeerRefused, match="status 401"):
                await exchanged(bob, url, log_of(alice), config=config)
            file.write_text(TOKEN + "\n")
            assert (await exchanged(bob, url, log_of(alice), config=config)).entries_received == 3
            file.chmod(0o644)
            with pytest.raises(ConfigError, match="other users can read"):
                await exchanged(bob, url, log_of(alice), config=config)

    run(main)


@pytest.mark.slow
def test_large_payloads_have_no_rate(pair: tuple[Party, Party]) -> None:
    """Frames have a rate, and a large payload comes in few of them: it is not slowed down."""
    alice, bob = pair
    alice.store.append(alice.identity, 6, [bytes(8 * 1024 * 1024)])

    async def main() -> float:
        async with listening(alice, WebAccess()) as (_, url):
            began = asyncio.get_running_loop().time()
            await exchanged(bob, url, (alice.identity.public, 6))
            return asyncio.get_running_loop().time() - began

    assert run(main) < 1.0


# -- what answers otherwise --------------------------------------------------------------------------------------------


@asynccontextmanager
async def served(handle: Callable[[Any, Any], Coroutine[Any, Any, None]]) -> AsyncIterator[int]:
    """Something that is no node; its port. All its connections are over in the end."""
    tasks: set[Any] = set()

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with suppress(OSError):  # The caller hangs up.
            await handle(reader, writer)
        writer.close()

    server = await asyncio.start_server(taken, HERE, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[tuple[PeerUrl, list[bytes]]]:
    """Something that answers every request with these bytes; the requests."""
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        if answer:
            writer.write_eof()
        await reader.read()

    async with served(handle) as port:
        yield PeerUrl("ws", HERE, port, path="/nodes/alice"), requests


UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "status 403: it serves no page"),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "status 400: it is no node"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nabc", "status 502, and not as a node"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "status 200, and not as a node"),
        (UPGRADE + b"\r\n", "does not answer as"),
        (UPGRADE + b"Sec-WebSocket-Accept: " + ACCEPT + b"\r\n\r\n", "does not answer as"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "does not answer as"),
        (b"HTTP/1.1 \xff\xff\r\n\r\n", "does not answer as"),
        (b"HTTP/1.1 101 x\r\nCookie: " + b"c" * 20_000 + b"\r\n\r\n", "more than 16384 bytes"),
        (b"HTTP/1.1 101 x\r\nCookie: " + b"c" * 200_000, "more than 16384 bytes"),
        (b"HTTP/1.1 101", "hung up during"),
        (b"", "did not answer within 10 s"),
    ],
)
def test_answers_of_something_else(answer: bytes, reason: str) -> None:
    """What answers as no node does is one error of the network that says so, whatever its size or speed."""

    async def main() -> None:
        async with answering(answer) as (url, requests):
            with pytest.raises(NetworkError, match=reason):
                await connect(url)
            (request,) = requests
            assert request.startswith(b"GET /nodes/alice HTTP/1.1\r\n")
            assert b"origin" not in request.lower()

    run(main)


# -- TLS, and proxies --------------------------------------------------------------------------------------------------


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WebAccess:
    """Access by a certificate that this process trusts. The environment names no proxy."""
    certificate, secret = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return WebAccess(certificate=certificate, key=secret)


@pytest.fixture
def party(tmp_path: Path) -> Iterator[Party]:
    """Somebody with a store."""
    party = Party(tmp_path, 3)
    yield party
    party.close()


def over_tls(party: Party, access: WebAccess, host: str = "localhost") -> bool:
    """Whether a node is reached by TLS at a name of this machine. Real TLS needs real sockets."""

    async def main() -> bool:
        async with listening(party, access, "wss") as (_, url):
            _, writer = await connect(replace(url, host=host))
            writer.close()
            return True

    return bool(run_really(main))


def test_tls(party: Party, trusted: WebAccess) -> None:
    """By ``wss://`` the host's certificate is checked against the authorities that this machine trusts."""
    assert over_tls(party, trusted)


def test_another_host(party: Party, trusted: WebAccess) -> None:
    """A certificate of another name, or of a name where an address is called, is refused."""
    with pytest.raises(PeerRefused, match=r"not trusted: IP address mismatch"):
        over_tls(party, trusted, HERE)


def test_an_unknown_authority(party: Party, trusted: WebAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that nobody has signed is refused."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    with pytest.raises(PeerRefused, match=r"not trusted: self.signed"):
        over_tls(party, trusted)


@asynccontextmanager
async def proxying(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[bytes]]:
    """A proxy in the environment: its answer to each request, then it connects; the heads of the requests."""
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        if b" 200 " in answer:
            place = requests[-1].split(b" ")[1].decode()
            there = await asyncio.open_connection(*place.rsplit(":", 1))
            await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))

    async with served(handle) as port:
        monkeypatch.setenv("https_proxy", f"http://bob:pass%20word@{HERE}:{port}")
        yield requests


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until the end."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


def through(tmp_path: Path, trusted: WebAccess, answer: bytes, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Fetch a log through a proxy that gives this answer; what the proxy was asked."""
    alice, bob = Party(tmp_path, 1), Party(tmp_path, 2)
    alice.store.append_each([draft(alice)])

    async def main() -> list[bytes]:
        async with proxying(answer, monkeypatch) as requests, listening(alice, trusted, "wss") as (_, place):
            url = replace(place, host="localhost")
            async with asyncio.timeout(PATIENCE):
                assert (await exchanged(bob, url, log_of(alice))).entries_received == 3
            assert requests[0].startswith(f"CONNECT localhost:{url.port} HTTP/1.1\r\n".encode())
            return requests

    try:
        return run_really(main)
    finally:
        alice.close()
        bob.close()


@pytest.mark.slow
def test_through_a_proxy(tmp_path: Path, trusted: WebAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node behind an HTTP proxy asks it for a connection, with the name and password of the environment."""
    asked = through(tmp_path, trusted, b"HTTP/1.1 200 Connection established\r\n\r\n", monkeypatch)
    assert b"Proxy-Authorization: Basic " + b64encode(b"bob:pass word") + b"\r\n" in asked[0]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "does not connect to .* status 407"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "no HTTP"),
        (b"\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1\r\n\r\n", "no HTTP"),
        (b"", "hung up"),
    ],
)
def test_proxies_that_refuse(
    tmp_path: Path, trusted: WebAccess, answer: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that refuses, or is none, is an error that names it, and not the node."""
    with pytest.raises(NetworkError, match=rf"the proxy 127\.0\.0\.1:\d+ .*{reason}"):
        through(tmp_path, trusted, answer, monkeypatch)


def test_hosts_without_the_proxy(party: Party, trusted: WebAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that ``no_proxy`` names are called directly; a proxy of another kind is refused before anything is sent."""
    monkeypatch.setenv("https_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(ConfigError, match="of the form http://HOST:PORT"):
        over_tls(party, trusted)
    monkeypatch.setenv("no_proxy", "localhost")
    assert over_tls(party, trusted)


# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path"),
    [("wss://node.example:443", ""), ("wss://node.example:443/", ""), ("wss://[::1]:443/culm/alice", "/culm/alice")],
)
def test_addresses(text: str, path: str) -> None:
    """An address has a path if a proxy has other things besides the node; written, it is read as the same."""
    url = PeerUrl.parse(text)
    assert (url.path, url.protocol) == (path, "intervals")
    assert PeerUrl.parse(str(url)) == url


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ws://node.example:80", "this machine only"),
        ("ws://10.0.0.1:80", "this machine only"),
        ("wss://node.example", "is not an address"),
        ("wss://node.example:443/a?b", "is not an address"),
        ("wss://node.example:443/a#b", "is not an address"),
        ("wss://node.example:443/a b", "is not an address"),
        ("wss://node.example:443/a\r\nHost: x", "is not an address"),
        ("wss://alice:secret@node.example:443", "is not an address"),
        ("wss://alice@node.example:443", "only a culm:// address"),
        ("intervals://node.example:443/a", "is not an address"),
    ],
)
def test_addresses_that_are_none(text: str, reason: str) -> None:
    """Nothing is called without encryption on another machine; a token has no place in an address."""
    with pytest.raises(ConfigError, match=reason):
        PeerUrl.parse(text)
    with pytest.raises(ConfigError, match="is not an address"):
        PeerUrl.parse("wss://0.0.0.0:443/path", schemes=LISTENER_SCHEMES, may_be_zero=True)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without wsproto the message says what to install."""
    monkeypatch.setitem(sys.modules, "wsproto", None)
    with pytest.raises(ConfigError, match=r"culm\[web\]"):
        run(lambda: connect(PeerUrl("ws", HERE, 9)))
