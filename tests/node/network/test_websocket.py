"""Logs over a WebSocket, with frames made by hand (RFC 6455; docs/specs/intervals.md, "Over a WebSocket")."""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from culm.errors import ConfigError
from culm.node.network.urls import LISTENER_SCHEMES, PeerUrl
from culm.node.network.webaccess import WebAccess
from culm.node.service import NodeService
from culm.testing.builders import LogBuilder
from tests.certificates import certified
from tests.node.links import CONFIG, HERE, QUICK, Party, run, run_really
from tests.node.peers import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from culm.node.config import NodeLimits

PAGE = "https://pages.example"
TOKEN = "0123456789abcdef-token"
ACCESS = WebAccess(frozenset({PAGE}))
# The example of RFC 6455, section 1.3.
HANDSHAKE = {
    "Host": "node.example",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "culm-intervals",
}
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
MASK = bytes.fromhex("37fa213d")  # that of section 5.7
OPEN = "HTTP/1.1 101 "


def asking(**headers: str | None) -> bytes:
    """The request of a page; None leaves a header out."""
    lines = {**HANDSHAKE, "Origin": PAGE, **{name.replace("_", "-"): value for name, value in headers.items()}}
    told = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return f"GET /anywhere HTTP/1.1\r\n{told}\r\n".encode()


def frame(first: int, content: bytes, *, claimed: int | None = None) -> bytes:
    """A frame as clients send it: masked. ``claimed``: the length that it says."""
    size = len(content) if claimed is None else claimed
    if size < 126:
        head = bytes((first, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((first, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + MASK + bytes(byte ^ MASK[at % 4] for at, byte in enumerate(content))


async def unframed(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The first byte of the next frame of the node, and its content."""
    first, size = await reader.readexactly(2)
    assert size < 128  # servers do not mask
    if size == 126:
        size = int.from_bytes(await reader.readexactly(2), "big")
    elif size == 127:
        size = int.from_bytes(await reader.readexactly(8), "big")
    return first, await reader.readexactly(size)


async def head_of(reader: asyncio.StreamReader) -> bytes:
    """The node's answer to a handshake."""
    return await reader.readuntil(b"\r\n\r\n")


def request_of(log: LogBuilder, number: int = 0) -> bytes:
    """A request for entries 1 to 3 with their payloads, and credit for them: bytes by hand."""
    author = log.identity.public
    return b"\xc0\xf9\xff\xff" + bytes((0x02, 0x00, number)) + author + bytes((log.log_id, 1, 0, 3, 0))


@pytest.fixture
def party(tmp_path: Path) -> Any:
    """Somebody with a store."""
    party = Party(tmp_path, 1)
    yield party
    party.close()


@pytest.fixture
def log(party: Party) -> LogBuilder:
    """A log of three entries."""
    log = LogBuilder(party.identity, 5)
    for text in (b"one", b"two", b"three"):
        log.append(text)
    party.store.add(log.items())
    return log


@asynccontextmanager
async def listening(
    party: Party, access: WebAccess = ACCESS, scheme: str = "ws", limits: NodeLimits = QUICK
) -> AsyncIterator[tuple[NodeService, PeerUrl]]:
    """A node with a listener for pages, and its address."""
    node = NodeService(party.identity, replace(CONFIG, clump=b"", web=access, limits=limits), party.store)
    stop, places = asyncio.Event(), asyncio.Queue[PeerUrl]()
    running = asyncio.create_task(node.run([PeerUrl(scheme, HERE, 0)], [], stop=stop, listening=places.put_nowait))
    first = asyncio.create_task(places.get())
    await asyncio.wait([running, first], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    try:
        yield node, first.result()
    finally:
        stop.set()
        await running


def told(party: Party, talk: Callable[[Any, Any], Coroutine[Any, Any, Any]], **settings: Any) -> Any:
    """What comes of a talk with a node over a TCP connection."""

    async def main() -> Any:
        async with listening(party, **settings) as (_, url):
            reader, writer = await asyncio.open_connection(url.host, url.port)
            try:
                return await talk(reader, writer)
            finally:
                writer.close()

    return run(main)


async def opened(reader: Any, writer: Any, **headers: str | None) -> bytes:
    """Do the handshake; the node's answer."""
    writer.write(asking(**headers))
    return await head_of(reader)


async def items_of(reader: asyncio.StreamReader, size: int) -> bytes:
    """So many bytes of what the node says, without grants of credit: whole messages in the frames of the node."""
    found = b""
    while len(found) < size:
        first, content = await unframed(reader)
        assert first == 0x82  # binary, and whole
        found += content
    return found


def expected_of(log: LogBuilder) -> bytes:
    """The three items and the message around them: no link is sent in ascending order from entry 1 on."""
    texts = (b"one", b"two", b"three")
    items = b"".join(
        b"\x00" + bytes((entry.size,)) + entry.payload_hash + entry.signature + text
        for entry, text in zip(log.entries, texts, strict=True)
    )
    return b"\x80\xf9" + len(items).to_bytes(2, "big") + items


def test_a_page_reads_a_log(party: Party, log: LogBuilder) -> None:
    """A page gets credit and the entries that it asks for; the answer to the handshake is that of the RFC."""

    async def talk(reader: Any, writer: Any) -> tuple[bytes, bytes]:
        head = await opened(reader, writer)
        writer.write(frame(0x82, request_of(log)))
        # Credit for 1,024 requests and for 512 KiB, with which a session begins; one request is given back.
        granted, expected = b"\xb0\xf9\x04\x00\xc0\xfa\x08\x00\x00", expected_of(log)
        return head, await items_of(reader, len(granted + expected))

    head, answer = told(party, talk)
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"sec-websocket-accept: " + ACCEPT in head.lower().replace(ACCEPT.lower(), ACCEPT)
    assert b"sec-websocket-protocol: culm-intervals" in head.lower()
    assert b"sec-websocket-extensions" not in head.lower()
    assert expected_of(log) in answer


def test_frames_mean_nothing(party: Party, log: LogBuilder) -> None:
    """A request may be cut into fragments anywhere, with a ping in between that is answered."""

    async def talk(reader: Any, writer: Any) -> bytes:
        asked = request_of(log)
        writer.write(
            asking()
            + frame(0x02, asked[:5])
            + frame(0x89, b"there?")
            + frame(0x00, asked[5:6])
            + frame(0x80, asked[6:])
        )
        await head_of(reader)
        found = b""
        while expected_of(log) not in found:
            first, content = await unframed(reader)
            found += b"pong" + content if first == 0x8A else content
        return found

    assert b"pongthere?" in told(party, talk)


def test_news_come_while_the_request_is_open(party: Party, log: LogBuilder) -> None:
    """An open request brings an entry that is published later."""

    async def main() -> bool:
        async with listening(party) as (node, url):
            reader, writer = await asyncio.open_connection(url.host, url.port)
            await opened(reader, writer)
            author = log.identity.public
            writer.write(frame(0x82, b"\xc0\xf9\xff\xff\x02\x05\x00" + author + bytes((log.log_id, 4, 0, 0))))
            await asyncio.sleep(1)
            entry = await node.append(party.identity, log.log_id, [b"four"], continue_here=True)
            found = b""
            while b"four" not in found:
                found += (await unframed(reader))[1]
            writer.close()
            return entry.signature + b"four" in found

    assert run(main)


def test_a_page_is_asked_for_nothing(party: Party, log: LogBuilder) -> None:
    """A node asks a caller by intervals for the log that the caller asks for; a page it does not ask."""

    async def talk(reader: Any, writer: Any) -> bytes:
        await opened(reader, writer)
        # Credit for requests, and a request for a log that the node does not have.
        writer.write(frame(0x82, b"\xb0\x64" + request_of(log, 1).replace(log.identity.public, bytes(range(32)))))
        found = b""
        for _ in range(4):  # Keep-alive messages come each second.
            found += (await unframed(reader))[1]
        return found

    assert bytes(range(32)) not in told(party, talk)


@pytest.mark.parametrize(
    ("headers", "access", "status"),
    [
        ({"Origin": "https://evil.example"}, ACCESS, 403),
        ({"Origin": "https://pages.example.evil.example"}, ACCESS, 403),
        ({"Origin": "http://pages.example"}, ACCESS, 403),
        ({"Origin": "null"}, ACCESS, 403),
        ({"Origin": ""}, ACCESS, 403),
        ({}, WebAccess(), 403),
        ({"Sec_WebSocket_Protocol": None}, ACCESS, 400),
        ({"Sec_WebSocket_Protocol": "chat"}, ACCESS, 400),
        ({}, replace(ACCESS, tokens=(TOKEN,)), 401),
        ({"Sec_WebSocket_Protocol": f"culm-intervals, culm-token.{TOKEN}x"}, replace(ACCESS, tokens=(TOKEN,)), 401),
        ({"Sec_WebSocket_Protocol": "culm-intervals, culm-token."}, replace(ACCESS, tokens=(TOKEN,)), 401),
        ({"Origin": None}, replace(ACCESS, tokens=(TOKEN,)), 401),
    ],
)
def test_who_is_refused(party: Party, headers: dict[str, str | None], access: WebAccess, status: int) -> None:
    """A wrong origin, protocol or token is refused with the status that says which, and the connection ends."""

    async def talk(reader: Any, writer: Any) -> bytes:
        writer.write(asking(**headers))
        answer: bytes = await reader.read()
        return answer

    assert told(party, talk, access=access).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize(
    ("headers", "access"),
    [
        ({"Origin": None}, WebAccess()),  # no page, but a program
        ({}, ACCESS),
        ({"Origin": "https://anywhere.example:8443"}, WebAccess(frozenset({"*"}))),
        ({"Sec_WebSocket_Protocol": f"culm-token.{TOKEN}, culm-intervals"}, replace(ACCESS, tokens=("x" * 16, TOKEN))),
    ],
)
def test_who_is_let_in(party: Party, headers: dict[str, str | None], access: WebAccess) -> None:
    """Programs, pages of a listed origin, and readers with a token."""
    assert told(party, lambda *streams: opened(*streams, **headers), access=access).startswith(OPEN.encode())


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: node.example\r\n\r\n",  # a browser at the wrong port
        asking(Sec_WebSocket_Version="8"),
        asking(Sec_WebSocket_Key=None),
        asking(Upgrade="h2c"),
        asking().replace(b"GET", b"POST", 1),
        asking(Host="\xff"),
        asking(Sec_WebSocket_Protocol="\xff"),
        asking(Cookie="c" * 17_000),
        asking(Cookie="c" * 200_000),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS, where none is spoken
        b"\x00" * 1000 + b"\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_bad_handshakes(party: Party, sent: bytes) -> None:
    """What asks for no WebSocket ends the connection at once, with no answer that could be taken for one."""

    async def talk(reader: Any, writer: Any) -> bytes:
        writer.write(sent)
        answer: bytes = await reader.read()
        return answer

    assert told(party, talk) == b""


def test_a_slow_handshake(party: Party, caplog: pytest.LogCaptureFixture) -> None:
    """A caller that sends its request a byte a second is cut off when the time for it is over."""

    async def talk(reader: Any, writer: Any) -> bool:
        ended = asyncio.create_task(reader.read())
        for at in range(60):
            writer.write(asking()[at : at + 1])
            await asyncio.wait([ended], timeout=1)
            if ended.done():
                return at < 10
        return False

    assert told(party, talk)
    assert "did not finish the WebSocket handshake within 5 s" in caplog.text


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (frame(0x81, b"hello"), "text"),
        (frame(0x81, b"\xff\xff"), "rules of WebSocket"),
        (frame(0x82 | 0x40, b"\xb0\x01"), "rules of WebSocket"),  # compressed, which was not agreed
        (frame(0x83, b"\xb0\x01"), "rules of WebSocket"),  # no such frame
        (frame(0x80, b"\xb0\x01"), "rules of WebSocket"),  # goes on with nothing
        (frame(0x02, b"\xb0\x01") + frame(0x82, b"\xb0\x01"), "rules of WebSocket"),  # begins in the middle
        (frame(0x09, b"ping"), "rules of WebSocket"),  # a ping in fragments
        (frame(0x89, b"p" * 126), "rules of WebSocket"),  # or a long one
        (b"\x82\x02\xb0\x01", "rules of WebSocket"),  # not masked
        (frame(0x82, b"\x81"), "format"),  # a message that does not exist
        (frame(0x82, b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff", claimed=1 << 62), "is not open|with credit for"),
    ],
)
def test_bad_frames(party: Party, sent: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """Frames that break the rules end the connection, and the log says which rules."""

    async def talk(reader: Any, writer: Any) -> None:
        await opened(reader, writer)
        writer.write(sent)
        with suppress(OSError):
            await reader.read()

    told(party, talk)
    assert re.search(reason, caplog.text)


@pytest.mark.slow
def test_a_huge_frame_needs_no_memory(party: Party) -> None:
    """The content of a frame that claims 4 EiB is taken as it comes: messages in it are heard, and nothing is kept."""

    async def main() -> bool:
        async with listening(party) as (node, url):
            reader, writer = await asyncio.open_connection(url.host, url.port)
            await opened(reader, writer)
            writer.write(frame(0x82, b"", claimed=1 << 62))
            grants = bytes(byte ^ MASK[at % 4] for at, byte in enumerate(b"\xc0\x00" * 2048))
            for _ in range(500):
                writer.write(grants)
                await writer.drain()
            await until(lambda: any(session.stats.bytes_received == 500 * 4096 for session in node.sessions))
            (session,) = node.sessions
            held: Any = session.driver._reader
            writer.close()
            return len(held._content) <= 4096

    assert run(main)


def test_many_tiny_frames(party: Party, log: LogBuilder) -> None:
    """Beyond a first thousand, frames are taken at 500 a second: each costs far more than its bytes."""

    async def talk(reader: Any, writer: Any) -> float:
        await opened(reader, writer)
        began = asyncio.get_running_loop().time()
        writer.write(frame(0x82, b"") * 2000 + frame(0x82, request_of(log)))
        found = b""
        while expected_of(log) not in found:
            found += (await unframed(reader))[1]
        return asyncio.get_running_loop().time() - began

    assert 1.5 < told(party, talk) < 3


def test_pings_that_are_not_read(party: Party) -> None:
    """A caller that pings without end and reads nothing is not read from, and then dropped as every silent peer."""

    async def main() -> int:
        async with listening(party) as (node, url):
            reader, writer = await asyncio.open_connection(url.host, url.port, limit=1024)
            await opened(reader, writer)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            some = frame(0x89, b"p" * 125) * 200
            most = 0
            for _ in range(100):
                writer.write(some)
                await asyncio.sleep(0.2)
                for session in node.sessions:
                    most = max(most, session.driver._writer.transport.get_write_buffer_size())
            assert not node.sessions
            writer.close()
            return most

    assert run(main) < 512 * 1024


def test_one_page_does_not_lock_out_others(party: Party) -> None:
    """Behind a proxy all callers have its address: one that breaks the rules is cut off, and the others are served."""

    async def main() -> bytes:
        async with listening(party) as (_, url):
            for _ in range(3):
                reader, writer = await asyncio.open_connection(url.host, url.port)
                await opened(reader, writer)
                writer.write(frame(0x82, b"\x81"))
                await reader.read()
                writer.close()
            reader, writer = await asyncio.open_connection(url.host, url.port)
            head = await opened(reader, writer)
            writer.close()
            return head

    assert run(main).startswith(OPEN.encode())


def test_an_orderly_end(party: Party) -> None:
    """A caller that ends the WebSocket gets that back, and then the connection ends."""

    async def talk(reader: Any, writer: Any) -> tuple[int, bytes]:
        await opened(reader, writer)
        writer.write(frame(0x88, b"\x03\xe8"))
        while (answer := await unframed(reader))[0] == 0x82:
            pass
        assert await reader.read() == b""
        return answer

    assert told(party, talk) == (0x88, b"\x03\xe8")


def test_where_a_node_listens(party: Party) -> None:
    """Without TLS on the loopback only; with TLS only where there is a certificate. Pipes carry no WebSockets."""

    async def listen(url: PeerUrl) -> None:
        node = NodeService(party.identity, replace(CONFIG, web=ACCESS), party.store)
        await node.run([url], [], stop=asyncio.Event())

    with pytest.raises(ConfigError, match="ws:// is not encrypted"):
        run(lambda: listen(PeerUrl("ws", "0.0.0.0", 0)))
    with pytest.raises(ConfigError, match="web_certificate_file"):
        run(lambda: listen(PeerUrl("wss", HERE, 0)))
    with pytest.raises(ConfigError, match="not with ws"):
        PeerUrl.parse("ws+unix:/tmp/socket", schemes=LISTENER_SCHEMES, may_be_zero=True)


def test_without_the_library(party: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without wsproto the message says what to install."""
    monkeypatch.setitem(sys.modules, "wsproto", None)

    async def listen() -> None:
        node = NodeService(party.identity, CONFIG, party.store)
        await node.run([PeerUrl("ws", HERE, 0)], [], stop=asyncio.Event())

    with pytest.raises(ConfigError, match=r"culm\[web\]"):
        run(listen)


def with_certificate(folder: Path, *, password: bytes | None = None) -> WebAccess:
    """Access by a certificate that signs itself."""
    certificate, secret = certified(folder, password=password)
    return replace(ACCESS, certificate=certificate, key=secret)


def test_with_tls(tmp_path: Path) -> None:
    """At ``wss://`` the handshake is inside TLS, with the configured certificate. Real TLS needs real sockets."""
    party = Party(tmp_path, 1)
    access = with_certificate(tmp_path)

    async def main() -> bytes:
        async with listening(party, access, "wss") as (_, url):
            context = ssl.create_default_context(cafile=str(access.certificate))
            context.check_hostname = False
            reader, writer = await asyncio.open_connection(url.host, url.port, ssl=context)
            head = await opened(reader, writer)
            writer.write(frame(0x88, b"\x03\xe8"))
            await reader.read()
            writer.close()
            return head

    assert run_really(main).startswith(OPEN.encode())
    party.close()


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    """A missing file, a file of something else, and a key with a password are told; nobody is asked at a terminal."""
    access = with_certificate(tmp_path, password=b"secret")
    with pytest.raises(ConfigError, match="cannot use"):
        access.tls()
    with pytest.raises(ConfigError, match="No such file"):
        replace(access, key=tmp_path / "missing").tls()
    with pytest.raises(ConfigError, match="cannot use"):
        replace(access, certificate=tmp_path / "key.pem").tls()


def test_a_refusal_is_a_line(party: Party, caplog: pytest.LogCaptureFixture) -> None:
    """The log says why a caller was refused, and not which token it showed."""
    told(
        party,
        lambda *streams: opened(*streams, Sec_WebSocket_Protocol="culm-intervals, culm-token.guessed-guessed-guessed"),
        access=replace(ACCESS, tokens=(TOKEN,)),
    )
    assert "it shows none of the tokens" in caplog.text
    assert "guessed" not in caplog.text


# -- files that change -------------------------------------------------------------------------------------------------


def reads(party: Party, tokens: list[str], change: Callable[[], None], access: WebAccess) -> list[bool]:
    """Whether a reader with each of these tokens is let in, before and after a change."""

    async def shows(url: PeerUrl, token: str) -> bool:
        reader, writer = await asyncio.open_connection(url.host, url.port)
        head = await opened(reader, writer, Sec_WebSocket_Protocol=f"culm-intervals, culm-token.{token}")
        writer.close()
        return head.startswith(OPEN.encode())

    async def main() -> list[bool]:
        async with listening(party, access) as (_, url):
            before = [await shows(url, token) for token in tokens]
            change()
            return before + [await shows(url, token) for token in tokens]

    found: list[bool] = run(main)
    return found


def private(file: Path, text: str) -> Path:
    """A file that only its owner can read."""
    file.touch(mode=0o600)
    file.write_text(text)
    return file


def test_tokens_that_change(party: Party, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A token that is taken out of the file, or put in, counts from the next caller on; no token is in the log."""
    file = private(tmp_path / "tokens", "the-first-token-of-two\n")
    access = WebAccess.of((PAGE,), str(file), None, None)
    tokens = ["the-first-token-of-two", "the-second-token-of-two"]

    def change() -> None:
        private(file, tokens[1])

    assert reads(party, tokens, change, access) == [True, False, False, True]
    assert "token-of-two" not in caplog.text


@pytest.mark.parametrize("wrong", ["missing", "empty", "short", "open"])
def test_tokens_that_cannot_be_used(party: Party, tmp_path: Path, wrong: str, caplog: pytest.LogCaptureFixture) -> None:
    """A file that is missing or wrong opens nothing: the tokens that were there before count, and the log says why."""
    file = private(tmp_path / "tokens", TOKEN)
    access = WebAccess.of((PAGE,), str(file), None, None)

    def change() -> None:
        match wrong:
            case "missing":
                file.unlink()
            case "empty":
                file.write_text("\n")
            case "short":
                file.write_text("short")
            case _:
                file.write_text(TOKEN + "\n")
                file.chmod(0o644)

    assert reads(party, [TOKEN, ""], change, access) == [True, False, True, False]
    assert len(re.findall("goes on with what it read before", caplog.text)) == 1


def shown_by(party: Party, access: WebAccess, *changes: Callable[[], None]) -> list[bytes]:
    """The certificate that a ``wss://`` listener shows, at first and after each change."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def shown(url: PeerUrl) -> bytes:
        _, writer = await asyncio.open_connection(url.host, url.port, ssl=context)
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found

    async def main() -> list[bytes]:
        async with listening(party, access, "wss") as (_, url):
            found = [await shown(url)]
            for change in changes:
                change()
                found.append(await shown(url))
            return found

    found: list[bytes] = run_really(main)
    return found


@pytest.mark.slow
def test_a_renewed_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A certificate that was renewed is shown to the next caller.

    Between the two files of the pair the old one is: a certificate without its key, or a file that is written in
    pieces, stops nothing. Links to other files, as certbot has them, are followed.
    """
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        certified(folder)
    certificate, secret = tmp_path / "fullchain.pem", tmp_path / "privkey.pem"
    certificate.symlink_to(old / "certificate.pem")
    secret.symlink_to(old / "key.pem")

    def replace_by(link: Path, file: Path) -> None:
        link.unlink()
        link.symlink_to(file)

    def cut_off() -> None:
        (old / "key.pem").write_bytes((old / "key.pem").read_bytes()[:50])

    party = Party(tmp_path, 1)
    found = shown_by(
        party,
        replace(ACCESS, certificate=certificate, key=secret),
        cut_off,
        lambda: replace_by(certificate, new / "certificate.pem"),
        lambda: replace_by(secret, new / "key.pem"),
    )
    party.close()
    first, last = (ssl.PEM_cert_to_DER_cert((folder / "certificate.pem").read_text()) for folder in (old, new))
    assert found == [first, first, first, last]
    assert len(re.findall("goes on with what it read before", caplog.text)) == 2
